"""TenantClusters and IPAllocations as people name them: `NAME`, `NAMESPACE/NAME`, with `KIND/`.

KIND may be written as kubectl takes and prints it: `TenantCluster`, `tenantclusters`, `tc`, or
`tenantcluster.butler.butlerlabs.dev`.
"""

from typing import Any, NamedTuple

from controller.meta import Key
from controller.resource import Resource
from reconcilers.addressmap.objects import Objects
from reconcilers.api.resources import IP_ALLOCATION, TENANT_CLUSTER
from reconcilers.cli.cluster.kindwords import list_kind_words
from reconcilers.cli.problems import CommandProblem

KINDS: tuple[Resource[Any], ...] = (TENANT_CLUSTER, IP_ALLOCATION)


class ObjectName(NamedTuple):
    """One meaning of a name that a user wrote. A part that the user left out is empty."""

    kind: str
    namespace: str
    name: str

    def selects(self, kind: str, key: Key) -> bool:
        """Return whether the name means an object; an empty part means any kind or namespace."""
        return (
            self.name == key.name
            and self.kind in {"", kind}
            and self.namespace in {"", key.namespace}
        )


def parse_name(written_name: str) -> list[ObjectName]:
    """Return the possible meanings of a name; empty if it has too many parts.

    `A/B` has two meanings if A is a kind, because a namespace may have that name, too.
    """
    match written_name.split("/"):
        case [name]:
            return [ObjectName("", "", name)]
        case [head, name]:
            kinds = [ObjectName(kind, "", name) for kind in _find_kinds(head)]
            return [*kinds, ObjectName("", head, name)]
        case [head, namespace, name]:
            return [ObjectName(kind, namespace, name) for kind in _find_kinds(head)]
        case _:
            return []


def find_namespace(name: str) -> str:
    """Return the namespace in a name; empty if it has none, or may have a kind in its place."""
    # The meaning with a kind comes first.
    first = next(iter(parse_name(name)), None)
    return first.namespace if first is not None else ""


def select_object(name: str, objects: Objects, namespace: str) -> tuple[str, Key]:
    """Return the kind and the key of the object that a name selects, readable or not.

    Args:
        name: the argument of the user.
        objects: the objects of the cluster.
        namespace: select only from this namespace; empty for all.

    Raises:
        CommandProblem: no object has the name, or several have.
    """
    kinds = [resource.kind for resource in KINDS]
    keys = [
        *((TENANT_CLUSTER.kind, key) for key in objects.clusters),
        *((IP_ALLOCATION.kind, key) for key in objects.allocations),
        *(full_name for full_name in objects.unreadable if full_name[0] in kinds),
    ]
    meanings = parse_name(name)
    named_keys = [
        (kind, key)
        for kind, key in keys
        if any(meaning.selects(kind, key) for meaning in meanings)
    ]
    matching = [(kind, key) for kind, key in named_keys if namespace in {"", key.namespace}]
    if not matching and named_keys:
        elsewhere = ", ".join(f"{kind}/{key}" for kind, key in named_keys)
        raise CommandProblem(
            f"namespace {namespace} has no {name!r}; elsewhere there is: {elsewhere}"
        )
    if not matching:
        raise CommandProblem(_describe_unknown(name, objects, namespace))
    if len(matching) > 1:
        candidates = ", ".join(f"{kind}/{key}" for kind, key in matching)
        raise CommandProblem(f"{name!r} is ambiguous; name one of: {candidates}")
    return matching[0]


def _describe_unknown(name: str, objects: Objects, namespace: str) -> str:
    """Return why a name selects nothing, and where to look."""
    where = f" in namespace {namespace}" if namespace else ""
    unknown = f"there is no TenantCluster and no IPAllocation {name!r}{where}"
    searched = namespace or find_namespace(name)
    limits = [str(limit) for kind in KINDS for limit in objects.find_unread_lists(kind, searched)]
    if limits:
        return f"{unknown} that you may read; you may not read {', '.join(limits)}"
    pool = next((key for key in objects.pools if name in {key.name, str(key)}), None)
    if pool is not None:
        return f"{unknown}; {name!r} is a NetworkPool: `butler-ipam map {pool}` draws it"
    scope = f"-n {namespace}" if namespace else "-A"
    return (
        f"{unknown}; `butler-ipam tenants {scope}` and `kubectl get ipallocations {scope}` list"
        " them"
    )


def _find_kinds(word: str) -> list[str]:
    """Return the kinds of KINDS that a word names, as kubectl takes it; empty for another word."""
    return [resource.kind for resource in KINDS if word.lower() in list_kind_words(resource)]
