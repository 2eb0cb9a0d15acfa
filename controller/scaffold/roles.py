"""The RBAC rules that a manager needs, read from what was registered with it.

Reads are known: they are the manager's informers. Writes are known only to the reconcilers, so the
operator declares them (`Writes`). Leases, events, reviews and certificates follow from options.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from controller.manager import Manager
from controller.resource import Resource

Json = dict[str, Any]
READS = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class Writes:
    """What the reconcilers write of one kind.

    Args:
        resource: the kind.
        verbs: of the objects: `create`, `patch`, `update`, `delete`. `ensure` needs `get`,
            `create` and `patch`; finalizers need `patch`.
        status: whether `patch_status` is used.
        owner: whether objects of this kind own others with `block_deletion`; clusters with the
            admission plugin OwnerReferencesPermissionEnforcement ask for that.
    """

    resource: Resource[Any]
    verbs: tuple[str, ...] = ()
    status: bool = False
    owner: bool = False

    @classmethod
    def children(cls, resource: Resource[Any]) -> "Writes":
        """Return the writes of a kind whose objects `ensure` keeps and the pass may delete.

        Args:
            resource: the kind of the children.
        """
        return cls(resource, ("get", "create", "patch", "delete"))


class _Permission(NamedTuple):
    """Verbs on one resource, in one namespace or in all."""

    namespace: str
    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


def grant(
    manager: Manager, name: str, namespace: str, writes: Iterable[Writes] = ()
) -> list[Json]:
    """Return a ServiceAccount with the roles and bindings that a manager needs.

    A kind that is watched in single namespaces gets roles in these only.

    Args:
        manager: with all informers, controllers and recorders added; it need not run.
        name: of the objects.
        namespace: where the operator runs.
        writes: what the reconcilers write.
    """
    meta = {"name": name, "namespace": namespace}
    account: Json = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}
    permissions = [
        *_reads(manager),
        *_writes(manager, writes),
        *_parts(manager, namespace),
    ]
    objects: list[Json] = [account]
    for where in sorted({permission.namespace for permission in permissions}):
        rules = _merge(permission for permission in permissions if permission.namespace == where)
        objects += _bind(name, where, namespace, rules)
    return objects


def _reads(manager: Manager) -> Iterator[_Permission]:
    for informer in manager.informers:
        kind = informer.resource
        yield _Permission(informer.scope.namespace, kind.group, kind.plural, READS)


def _writes(manager: Manager, writes: Iterable[Writes]) -> Iterator[_Permission]:
    """Yield the permissions for writes, in the namespaces where the kind is watched."""
    for write in writes:
        kind = write.resource
        spaces = {
            informer.scope.namespace
            for informer in manager.informers
            if informer.resource.full_name == kind.full_name
        } or {""}
        for space in {""} if "" in spaces else spaces:
            if write.verbs:
                yield _Permission(space, kind.group, kind.plural, write.verbs)
            if write.status:
                yield _Permission(space, kind.group, f"{kind.plural}/status", ("patch",))
            if write.owner:
                yield _Permission(space, kind.group, f"{kind.plural}/finalizers", ("update",))


def _parts(manager: Manager, namespace: str) -> Iterator[_Permission]:
    """Yield the permissions for what the manager itself does."""
    options = manager.options
    if manager.has_recorders:
        yield _Permission("", "events.k8s.io", "events", ("create", "patch"))
    if options.leader_elect:
        space = options.lease_namespace or namespace
        verbs = ("get", "create", "update", *(("list", "delete") if options.shards else ()))
        yield _Permission(space, "coordination.k8s.io", "leases", verbs)
    if options.metrics_secure:
        yield _Permission("", "authentication.k8s.io", "tokenreviews", ("create",))
        yield _Permission("", "authorization.k8s.io", "subjectaccessreviews", ("create",))
    signed = options.webhook_self_signed
    if signed is not None:
        yield _Permission(signed.namespace, "", "secrets", ("create",))
        verbs, admission = ("list", "watch", "patch"), "admissionregistration.k8s.io"
        yield _Permission(signed.namespace, "", "secrets", verbs, (signed.secret,))
        for names, group, plural in (
            (signed.validating, admission, "validatingwebhookconfigurations"),
            (signed.mutating, admission, "mutatingwebhookconfigurations"),
            (signed.converting, "apiextensions.k8s.io", "customresourcedefinitions"),
        ):
            if names:
                yield _Permission("", group, plural, verbs, tuple(names))


def _merge(permissions: Iterable[_Permission]) -> list[Json]:
    """Return the rules of a role: one for each resource, its verbs in the order they came."""
    verbs: dict[tuple[str, str, tuple[str, ...]], dict[str, None]] = {}
    for permission in permissions:
        place = (permission.group, permission.resource, permission.names)
        verbs.setdefault(place, {}).update(dict.fromkeys(permission.verbs))
    return [
        {"apiGroups": [group], "resources": [resource]}
        | ({"resourceNames": list(names)} if names else {})
        | {"verbs": list(allowed)}
        for (group, resource, names), allowed in sorted(verbs.items())
    ]


def _bind(name: str, where: str, home: str, rules: list[Json]) -> Iterator[Json]:
    """Yield a role and its binding, for the whole cluster where `where` is empty."""
    prefix = "" if where else "Cluster"
    group = "rbac.authorization.k8s.io"
    meta = {"name": name} | ({"namespace": where} if where else {})
    version = {"apiVersion": f"{group}/v1"}
    yield version | {"kind": f"{prefix}Role", "metadata": meta, "rules": rules}
    yield version | {
        "kind": f"{prefix}RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": group, "kind": f"{prefix}Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": home}],
    }
