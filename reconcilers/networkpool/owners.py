"""The owner of an allocation, as the caches show it and as a live read does.

The owner's uid is noted on the allocation when it is made, or once the owner is first seen. The
caches only show which owners may be gone; a live read decides. Without a noted uid nobody can tell
an owner that is gone from one that is still to come, for which a range was pinned in advance: such
an allocation is kept, with a condition.
"""

from dataclasses import dataclass, field
from enum import Enum, auto

from controller.cache import Cache
from controller.client import Client
from controller.errors import NotFound
from controller.meta import Key
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster


class OwnerState(Enum):
    """What the caches show of an allocation's owner."""

    PRESENT = auto()
    """It exists, or cannot be judged now: the allocation is left alone."""
    MAYBE_GONE = auto()
    """The cluster with the noted uid is not in the cache."""
    NOT_NOTED = auto()
    """It exists, but its uid is not noted on the allocation."""
    NEVER_SEEN = auto()
    """There is no cluster of that name, and no uid is noted."""


def noted_uid(allocation: IPAllocation) -> str:
    """Return the uid of the owner that is noted on the allocation; empty if none is."""
    return allocation.metadata.annotations.get(names.ANNOTATION_TENANT_UID, "")


def owner_state(allocation: IPAllocation, clusters: Cache[TenantCluster]) -> OwnerState:
    """Return what the cache of clusters shows of the allocation's owner."""
    key = allocation.spec.tenantClusterRef.key
    if allocation.metadata.terminating or key in clusters.unreadable:
        return OwnerState.PRESENT
    owner, noted = clusters.get(key), noted_uid(allocation)
    if noted:
        gone = owner is None or owner.metadata.uid != noted
        return OwnerState.MAYBE_GONE if gone else OwnerState.PRESENT
    if owner is None:
        return OwnerState.NEVER_SEEN
    return OwnerState.PRESENT if owner.metadata.terminating else OwnerState.NOT_NOTED


@dataclass(slots=True)
class LiveOwners:
    """Reads TenantClusters live, each once; made for one sweep.

    Args:
        client: for the reads.
    """

    client: Client
    _found: dict[Key, TenantCluster | None] = field(default_factory=dict)
    _served: bool | None = None

    async def get(self, key: Key) -> TenantCluster | None:
        """Return the TenantCluster; None if the server says that there is none.

        Raises:
            ControllerError: the server did not say. That includes a "not found" that is about the
                kind and not about the object: without the CRD no allocation counts as orphaned.
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
        try:
            return await self.client.get(TENANT_CLUSTER, key)
        except NotFound as missing:
            if missing.reason != "NotFound" or not await self._kind_is_served():
                raise
            return None

    async def _kind_is_served(self) -> bool:
        if self._served is None:
            self._served = await self.client.served(TENANT_CLUSTER)
        return self._served
