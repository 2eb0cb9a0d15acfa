"""The RBAC rules that a manager needs, read from what was registered with it.

The manager's informers show which kinds it reads. Only the reconcilers know which kinds they
write, so the operator declares these (`Writes`). Leases, events, reviews and certificates follow
from options.

A role is created for each namespace in which a kind is watched, or one for the cluster
(ClusterRole). A kind that no informer watches has no namespaces of its own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from controller.informers import AnyInformer
from controller.manager import Manager
from controller.namespaces import NamespacesInformer
from controller.resource import Resource

Json = dict[str, Any]
READS = ("get", "list", "watch")
_ALL = frozenset({""})
"""All namespaces, as the namespace of a permission: empty."""


@dataclass(frozen=True, slots=True)
class Writes:
    """The verbs that the reconcilers need to write objects of one kind.

    Args:
        resource: the kind.
        verbs: the verbs on the objects: `create`, `patch`, `update`, `delete`. `ensure` needs
            `get`, `create` and `patch`; finalizers need `patch`.
        status: whether `patch_status` is used.
        owner: whether objects of this kind own others with `block_deletion`; clusters with the
            admission plugin OwnerReferencesPermissionEnforcement ask for that.
    """

    resource: Resource[Any]
    verbs: tuple[str, ...] = ()
    status: bool = False
    owner: bool = False

    @classmethod
    def for_children(cls, resource: Resource[Any]) -> "Writes":
        """Return the verbs for children: objects that `ensure` writes and the pass may delete.

        Args:
            resource: the kind of the children.
        """
        return cls(resource, ("get", "create", "patch", "delete"))


class _Permission(NamedTuple):
    """Verbs on one resource in one namespace; an empty namespace means all namespaces.

    `names` are the objects that the permission is limited to; empty for all objects.
    """

    namespace: str
    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


def create_roles(
    manager: Manager,
    name: str,
    namespace: str,
    writes: Iterable[Writes] = (),
    *,
    watched: Iterable[str] = (),
) -> list[Json]:
    """Return a ServiceAccount with the roles and bindings that a manager needs.

    A kind that is watched in single namespaces gets roles in these only. Events, and namespaced
    kinds that are written and not watched, get roles in the namespaces of all watched kinds. If
    one kind is watched everywhere, or no namespaced kind is watched, they get a ClusterRole.

    Args:
        manager: with all informers, controllers and recorders added; it need not run.
        name: the name of all objects.
        namespace: the namespace in which the operator runs.
        writes: the kinds that the reconcilers write.
        watched: namespaces that a NamespacesInformer will watch later, besides those that it
            watches now.
    """
    meta = {"name": name, "namespace": namespace}
    account: Json = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}
    watched_namespaces = _WatchedNamespaces(manager, tuple(watched))
    permissions = [
        *_list_read_permissions(manager, watched_namespaces),
        *_list_write_permissions(watched_namespaces, writes),
        *_list_own_permissions(manager, namespace, watched_namespaces),
    ]
    objects: list[Json] = [account]
    for role_namespace in sorted({permission.namespace for permission in permissions}):
        rules = _create_rules(
            permission for permission in permissions if permission.namespace == role_namespace
        )
        objects += _create_role_and_binding(
            name, role_namespace, account_namespace=namespace, rules=rules
        )
    return objects


def list_unwatched_kinds(manager: Manager, watched: Iterable[str] = ()) -> list[str]:
    """Return the full names of the kinds that are in no role, because their NamespaceSet is empty.

    Args:
        manager: as for `create_roles`.
        watched: namespaces that a NamespacesInformer will watch later, as for `create_roles`.
    """
    watched_namespaces = _WatchedNamespaces(manager, tuple(watched))
    names = {informer.resource.full_name for informer in manager.informers}
    return sorted(name for name in names if not watched_namespaces.find_for_kind(name))


class _WatchedNamespaces:
    """The namespaces in which kinds are watched; an empty name means all namespaces.

    Args:
        manager: with all informers added.
        watched: namespaces that a NamespacesInformer will watch later.
    """

    def __init__(self, manager: Manager, watched: tuple[str, ...]) -> None:
        self._manager = manager
        self._watched = watched

    def find_for_informer(self, informer: AnyInformer) -> frozenset[str]:
        """Return the namespaces that an informer watches, and those that its set will get."""
        # Only an informer of a NamespaceSet can get further namespaces.
        later = self._watched if isinstance(informer, NamespacesInformer) else ()
        return frozenset((*informer.namespace_names, *later))

    def find_for_kind(self, full_name: str) -> frozenset[str]:
        """Return the namespaces in which a kind is watched; empty if it is not watched."""
        namespaces: frozenset[str] = frozenset().union(
            *(
                self.find_for_informer(informer)
                for informer in self._manager.informers
                if informer.resource.full_name == full_name
            )
        )
        return _ALL if "" in namespaces else namespaces

    def find_for_unwatched_kind(self, *, namespaced: bool) -> frozenset[str]:
        """Return the namespaces in which objects of a kind without an informer may be written.

        No informer says where these objects are. Children and events are written where the
        operator works, so the namespaces of all its informers are returned. If one informer
        watches all namespaces, or none watches a namespaced kind, all namespaces are returned.

        Args:
            namespaced: whether the kind is; a cluster-scoped kind needs a role in the cluster.
        """
        informers = [
            informer for informer in self._manager.informers if informer.resource.namespaced
        ]
        if not namespaced or not informers:
            return _ALL
        namespaces: frozenset[str] = frozenset().union(*map(self.find_for_informer, informers))
        return _ALL if "" in namespaces else namespaces

    def is_watched(self, full_name: str) -> bool:
        """Return whether there is an informer of a kind."""
        return any(
            informer.resource.full_name == full_name for informer in self._manager.informers
        )


def _list_read_permissions(
    manager: Manager, watched_namespaces: _WatchedNamespaces
) -> Iterator[_Permission]:
    """Yield the permissions to read the kinds of the informers, in the watched namespaces."""
    for informer in manager.informers:
        kind = informer.resource
        for namespace in watched_namespaces.find_for_informer(informer):
            yield _Permission(namespace, kind.group, resource=kind.plural, verbs=READS)


def _list_write_permissions(
    watched_namespaces: _WatchedNamespaces, writes: Iterable[Writes]
) -> Iterator[_Permission]:
    """Yield the permissions for declared writes, in the namespaces where the kind is watched.

    `find_for_unwatched_kind` returns the namespaces of a kind that is not watched.
    """
    for write in writes:
        kind = write.resource
        is_watched = watched_namespaces.is_watched(kind.full_name)
        write_namespaces = (
            watched_namespaces.find_for_kind(kind.full_name)
            if is_watched
            else watched_namespaces.find_for_unwatched_kind(namespaced=kind.namespaced)
        )
        for namespace in write_namespaces:
            if write.verbs:
                yield _Permission(namespace, kind.group, resource=kind.plural, verbs=write.verbs)
            if write.status:
                yield _Permission(
                    namespace, kind.group, resource=f"{kind.plural}/status", verbs=("patch",)
                )
            if write.owner:
                yield _Permission(
                    namespace, kind.group, resource=f"{kind.plural}/finalizers", verbs=("update",)
                )


def _list_own_permissions(
    manager: Manager, namespace: str, watched_namespaces: _WatchedNamespaces
) -> Iterator[_Permission]:
    """Yield the permissions of the manager itself: for events, leases, reviews, certificates.

    Args:
        manager: the manager, whose options say which of these it uses.
        namespace: the namespace in which the operator runs.
        watched_namespaces: the namespaces in which events are written.
    """
    options = manager.options
    if manager.has_recorders:
        for event_namespace in watched_namespaces.find_for_unwatched_kind(namespaced=True):
            yield _Permission(
                event_namespace, "events.k8s.io", resource="events", verbs=("create", "patch")
            )
    if options.leader_elect:
        lease_namespace = options.lease_namespace or namespace
        verbs = ("get", "create", "update", *(("list", "delete") if options.shards else ()))
        yield _Permission(lease_namespace, "coordination.k8s.io", resource="leases", verbs=verbs)
    if options.metrics_secure:
        yield _Permission("", "authentication.k8s.io", resource="tokenreviews", verbs=("create",))
        yield _Permission(
            "", "authorization.k8s.io", resource="subjectaccessreviews", verbs=("create",)
        )
    signed = options.webhook_self_signed
    if signed is not None:
        # RBAC cannot limit a create to a name, which may not be known when it is authorized.
        yield _Permission(signed.namespace, "", resource="secrets", verbs=("create",))
        verbs, admission = ("list", "watch", "patch"), "admissionregistration.k8s.io"
        yield _Permission(
            signed.namespace, "", resource="secrets", verbs=verbs, names=(signed.secret,)
        )
        for names, group, plural in (
            (signed.validating, admission, "validatingwebhookconfigurations"),
            (signed.mutating, admission, "mutatingwebhookconfigurations"),
            (signed.converting, "apiextensions.k8s.io", "customresourcedefinitions"),
        ):
            if names:
                yield _Permission("", group, resource=plural, verbs=verbs, names=tuple(names))


def _create_rules(permissions: Iterable[_Permission]) -> list[Json]:
    """Return the rules of a role: one for each resource and its names, with all their verbs.

    The verbs keep their order, so that the printed manifest is always the same.
    """
    verbs: dict[tuple[str, str, tuple[str, ...]], dict[str, None]] = {}
    for permission in permissions:
        subject = (permission.group, permission.resource, permission.names)
        verbs.setdefault(subject, {}).update(dict.fromkeys(permission.verbs))
    return [
        {"apiGroups": [group], "resources": [resource]}
        | ({"resourceNames": list(names)} if names else {})
        | {"verbs": list(allowed)}
        for (group, resource, names), allowed in sorted(verbs.items())
    ]


def _create_role_and_binding(
    name: str, role_namespace: str, account_namespace: str, rules: list[Json]
) -> Iterator[Json]:
    """Yield a Role and its RoleBinding, or a ClusterRole and its ClusterRoleBinding.

    Args:
        name: the name of the role, of the binding and of the ServiceAccount.
        role_namespace: the namespace of role and binding; empty for a ClusterRole.
        account_namespace: the namespace of the ServiceAccount.
        rules: the rules of the role.
    """
    prefix = "" if role_namespace else "Cluster"
    group = "rbac.authorization.k8s.io"
    meta = {"name": name} | ({"namespace": role_namespace} if role_namespace else {})
    version = {"apiVersion": f"{group}/v1"}
    yield version | {"kind": f"{prefix}Role", "metadata": meta, "rules": rules}
    yield version | {
        "kind": f"{prefix}RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": group, "kind": f"{prefix}Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": account_namespace}],
    }
