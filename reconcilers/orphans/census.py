"""What the caches say of an allocation's owner. They only nominate: a live read decides.

The owner's uid is stamped on the allocation when it is made, or adopted once when the owner is
first seen. Without a stamp nobody can tell an owner that is gone from one that is still to come,
for which somebody pinned a range in advance: so it is told, and kept.
"""

from collections.abc import Iterable
from enum import Enum, auto

from controller.cache import Cache
from controller.meta import Key
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.tenantcluster import TenantCluster


class Standing(Enum):
    """How an allocation stands with its owner."""

    OWNED = auto()
    """Its owner is there, or cannot be judged now: leave it alone."""
    NOMINATED = auto()
    """It was its owner's who seems to be gone."""
    ADOPTABLE = auto()
    """Its owner is there, and not noted on it yet."""
    EXPECTING = auto()
    """Its owner was never seen."""


def stamp(allocation: IPAllocation) -> str:
    """Return the uid of the owner that the allocation is known to have; empty if none is."""
    return allocation.metadata.annotations.get(names.ANNOTATION_TENANT_UID, "")


def standing(allocation: IPAllocation, clusters: Cache[TenantCluster]) -> Standing:
    """Return how the allocation stands, as far as the cache knows."""
    where = allocation.spec.tenantClusterRef.key
    if allocation.metadata.terminating or where in clusters.unreadable:
        return Standing.OWNED
    owner, noted = clusters.get(where), stamp(allocation)
    if noted:
        gone = owner is None or owner.metadata.uid != noted
        return Standing.NOMINATED if gone else Standing.OWNED
    if owner is None:
        return Standing.EXPECTING
    return Standing.OWNED if owner.metadata.terminating else Standing.ADOPTABLE


def by_pool(allocations: Iterable[IPAllocation]) -> dict[Key, list[IPAllocation]]:
    """Return the allocations of each pool, those of pools that do not exist too, all sorted."""
    found: dict[Key, list[IPAllocation]] = {}
    for allocation in sorted(allocations, key=lambda a: a.metadata.key):
        found.setdefault(allocation.pool_key, []).append(allocation)
    return dict(sorted(found.items()))


def at_rest(allocation: IPAllocation, pool: NetworkPool | None) -> bool:
    """Return whether a write now gets in nobody's way.

    It makes a new version, which voids a promise of a range to the present one.
    """
    meta = allocation.metadata
    if allocation.status.phase is None or meta.terminating:
        return False
    promises = pool.status.assignments if pool is not None else ()
    return (meta.uid, meta.resourceVersion) not in {(p.uid, p.resourceVersion) for p in promises}
