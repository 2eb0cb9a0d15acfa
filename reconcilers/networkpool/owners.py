"""The owner of an allocation, as the caches show it and as a live read does.

The *owner* is the TenantCluster that the allocation names. Its uid is noted on the allocation when
the allocation is created, or when the owner is first seen. The caches only show which owners may
be gone; a live read decides. Without a noted uid, the owner may not exist yet, and the range may
be pinned for it in advance. Such an allocation is kept, with a condition.
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from controller.cache import Cache, Change
from controller.conditions import find_condition
from controller.errors import NotFound
from controller.meta import Key
from reconcilers.api import names
from reconcilers.api.ipallocation import TENANT_INDEX, IPAllocation
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.reporting import allocationlabels

if TYPE_CHECKING:
    from controller.client import Client


class OwnerState(Enum):
    """What the caches show of an allocation's owner."""

    PRESENT = auto()
    """It exists, or cannot be evaluated now: the allocation is left alone."""
    MAYBE_GONE = auto()
    """The cluster with the noted uid is not in the cache."""
    NOT_NOTED = auto()
    """It exists, but its uid is not noted on the allocation."""
    NEVER_SEEN = auto()
    """There is no cluster of that name, and no uid is noted."""


def read_noted_uid(allocation: IPAllocation) -> str:
    """Return the uid of the owner that is noted on the allocation; empty if none is."""
    return allocation.metadata.annotations.get(names.ANNOTATION_TENANT_UID, "")


def find_owner_state(allocation: IPAllocation, clusters: Cache[TenantCluster]) -> OwnerState:
    """Return the state of the allocation's owner, by the cache of clusters."""
    key = allocation.spec.tenantClusterRef.key
    if allocation.metadata.is_terminating or key in clusters.unreadable:
        return OwnerState.PRESENT
    owner, uid = clusters.get(key), read_noted_uid(allocation)
    if uid:
        # Another uid: the owner was deleted, and its name belongs to a new cluster.
        is_gone = owner is None or owner.metadata.uid != uid
        return OwnerState.MAYBE_GONE if is_gone else OwnerState.PRESENT
    if owner is None:
        return OwnerState.NEVER_SEEN
    # The uid of an owner that is being deleted is not noted any more.
    return OwnerState.PRESENT if owner.metadata.is_terminating else OwnerState.NOT_NOTED


OWNER_FOUND = "OwnerFound"
"""The condition of an allocation whose owner was not found at some time."""


def is_settled(allocation: IPAllocation, clusters: Cache[TenantCluster]) -> bool:
    """Return whether a sweep has nothing to do about an allocation until something changes.

    A change of the allocation, or an owner that is created, deleted or recreated, ends that. An
    owner that cannot be decoded may be deleted without an event, so its allocations are not
    settled.
    """
    if allocation.metadata.is_terminating:
        return True
    key, uid = allocation.spec.tenantClusterRef.key, read_noted_uid(allocation)
    if key in clusters.unreadable or allocationlabels.find_label_repairs(allocation):
        return False
    owner, condition = clusters.get(key), find_condition(allocation.status.conditions, OWNER_FOUND)
    if owner is None:
        # Never seen, and the condition says so. With a noted uid it may be an orphan.
        return not uid and condition is not None and condition.status == "False"
    return owner.metadata.uid == uid and (condition is None or condition.status == "True")


class UnsettledAllocations:
    """The allocations that a sweep has to check, kept from change to change.

    At first these are all allocations. A settled allocation is checked again once it or its owner
    changes. So settled allocations cost a sweep nothing, however many there are.

    Args:
        allocations: all allocations, indexed by TenantCluster.
        clusters: all TenantClusters.
    """

    def __init__(self, allocations: Cache[IPAllocation], clusters: Cache[TenantCluster]) -> None:
        self._allocations = allocations
        self._clusters = clusters
        self._keys: set[Key] = set()
        self.add_all()
        allocations.subscribe(self._note_allocation)
        clusters.subscribe(self._note_cluster)

    def add_all(self) -> None:
        """Check every allocation again."""
        self._keys.update(allocation.metadata.key for allocation in self._allocations)

    def list_by_pool(self) -> dict[Key, list[IPAllocation]]:
        """Return the allocations that are not settled, by pool; those of a pool sorted by name.

        Settled and deleted allocations are dropped: only a change makes them unsettled again.

        An allocation that cannot be decoded is left out until it can be: the API server would
        reject a write from the older version in the cache.
        """
        by_pool: dict[Key, list[IPAllocation]] = {}
        for key in sorted(self._keys):
            allocation = self._allocations.get(key)
            if allocation is None or is_settled(allocation, self._clusters):
                self._keys.discard(key)
            elif key not in self._allocations.unreadable:
                by_pool.setdefault(allocation.pool_key, []).append(allocation)
        return by_pool

    def _note_allocation(self, change: Change[IPAllocation]) -> None:
        """Check a new version of an allocation again; drop a deleted allocation."""
        if change.new is not None:
            self._keys.add(change.new.metadata.key)
        elif change.old is not None:
            self._keys.discard(change.old.metadata.key)

    def _note_cluster(self, change: Change[TenantCluster]) -> None:
        """Check allocations again whose TenantCluster was created, deleted or recreated."""
        old, new = change.old, change.new
        if old is not None and new is not None and old.metadata.uid == new.metadata.uid:
            return
        for cluster in (old, new):
            if cluster is not None:
                owned = self._allocations.list_by_index(TENANT_INDEX, str(cluster.metadata.key))
                self._keys.update(allocation.metadata.key for allocation in owned)


@dataclass(slots=True)
class LiveOwners:
    """Reads TenantClusters live, each once; made for one sweep.

    Args:
        client: for the reads.
    """

    client: "Client"
    _found: dict[Key, TenantCluster | None] = field(default_factory=dict)
    _served: bool | None = None

    async def get(self, key: Key) -> TenantCluster | None:
        """Return the TenantCluster; None if the server says that there is none.

        Raises:
            ControllerError: the server did not say. NotFound is raised as well, if the server does
                not serve the kind: without the CRD no allocation counts as orphaned.
        """
        if key not in self._found:
            self._found[key] = await self._read(key)
        return self._found[key]

    async def is_gone(self, key: Key, uid: str) -> bool:
        """Return whether the TenantCluster with this uid does not exist any more.

        Raises:
            ControllerError: the server did not say.
        """
        owner = await self.get(key)
        return owner is None or owner.metadata.uid != uid

    async def _read(self, key: Key) -> TenantCluster | None:
        """Read a TenantCluster live; None only if its kind is served and it does not exist."""
        try:
            return await self.client.get(TENANT_CLUSTER, key)
        except NotFound as missing:
            # A 404 with another reason is no answer about this object, but about its path.
            if missing.reason != "NotFound" or not await self._is_kind_served():
                raise
            return None

    async def _is_kind_served(self) -> bool:
        """Return whether the server serves TenantClusters; asked once for each sweep."""
        if self._served is None:
            self._served = await self.client.is_served(TENANT_CLUSTER)
        return self._served
