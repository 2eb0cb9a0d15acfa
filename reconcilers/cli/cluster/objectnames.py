"""TenantClusters and IPAllocations as people name them: `NAME`, `NAMESPACE/NAME`, with `KIND/`."""

from controller.meta import Key
from reconcilers.addressmap.objects import Objects
from reconcilers.api.resources import IP_ALLOCATION, TENANT_CLUSTER
from reconcilers.cli.problems import Problem

KINDS = (TENANT_CLUSTER.kind, IP_ALLOCATION.kind)


def select_object(name: str, objects: Objects, namespace: str) -> tuple[str, Key]:
    """Return the kind and the key of the object that a name selects, readable or not.

    Args:
        name: what the user typed.
        objects: the objects of the cluster.
        namespace: select only from it; empty for all.

    Raises:
        Problem: no object has the name, or several have.
    """
    keys = [
        *((TENANT_CLUSTER.kind, key) for key in objects.clusters),
        *((IP_ALLOCATION.kind, key) for key in objects.allocations),
        *(full_name for full_name in objects.unreadable if full_name[0] in KINDS),
    ]
    matching = [
        (kind, key)
        for kind, key in keys
        if (not namespace or key.namespace == namespace) and _has_name(kind, key, name)
    ]
    if not matching:
        raise Problem(
            f"there is no TenantCluster and no IPAllocation {name!r}; `butler-ipam tenants` and"
            " `kubectl get ipallocations -A` list them"
        )
    if len(matching) > 1:
        candidates = ", ".join(f"{kind}/{key}" for kind, key in matching)
        raise Problem(f"{name!r} is ambiguous; name one of: {candidates}")
    return matching[0]


def _has_name(kind: str, key: Key, name: str) -> bool:
    names = {key.name, str(key)}
    prefix, _, rest = name.partition("/")
    return name in names or (prefix.lower() == kind.lower() and rest in names)
