"""IPAddressClaims as requests of a pool, of whichever kind: found, served, voided and fenced."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from typing_extensions import override

from allocator import AddressRange
from controller.meta import Object
from controller.resource import Resource
from reconcilers.integrations.clusterapi.addresses import PoolSpace
from reconcilers.integrations.clusterapi.api import JOURNALS, IPAddressClaim
from reconcilers.integrations.clusterapi.caches import ClaimCaches
from reconcilers.integrations.clusterapi.granting import Granting
from reconcilers.integrations.clusterapi.reading import Reader, has_read
from reconcilers.integrations.core.rules import View
from reconcilers.promises.journal import Journal, Promise
from reconcilers.promises.keeping import Granted, Kept
from reconcilers.promises.passes import Fenced, RequestKind
from reconcilers.promises.reading import highest_revision
from reconcilers.promises.results import WriteResult
from reconcilers.promises.shares import Limits

PoolT_contra = TypeVar("PoolT_contra", bound=Object, contravariant=True)


@dataclass(frozen=True, slots=True)
class ClaimReading:
    """What a pass read of a pool.

    Args:
        space: what the pool may hand out.
        view: its claims and IPAddresses.
        also_held: the blocks that others than claims and IPAddresses hold.
    """

    space: PoolSpace
    view: View[IPAddressClaim]
    also_held: Sequence[AddressRange] = ()


class ClaimKind(RequestKind[PoolT_contra, IPAddressClaim, ClaimReading]):
    """IPAddressClaims that are served from pools of one kind.

    Args:
        pools: the kind of the pools.
        caches: the caches.
        reader: reads claims and IPAddresses.
        granting: writes claims.
    """

    def __init__(
        self, pools: Resource[Any], caches: ClaimCaches, reader: Reader, granting: Granting
    ) -> None:
        self._pools = pools
        self._caches = caches
        self._reader = reader
        self._granting = granting

    @property
    @override
    def request_resource(self) -> Resource[IPAddressClaim]:
        return self._caches.claim_kind

    @override
    def needs_fence(
        self, pool: PoolT_contra, journal: Journal, reading: ClaimReading, limits: Limits
    ) -> bool:
        # If a LIST has not got there, a revision is of another cluster, or of a lost history.
        return not JOURNALS.has_memory(journal) or not has_read(reading.view, journal)

    @override
    async def void_earlier(
        self, pool: PoolT_contra, reading: ClaimReading
    ) -> Fenced[ClaimReading]:
        """Void every promise to claims that was made before the pool was read.

        What kept promises left of claims that are gone by now, the LIST of IPAddresses shows.
        """
        key, reader = pool.metadata.key, self._reader
        listed = await reader.claims(self._pools, key)
        claims = await self._granting.fence.void_earlier(listed)
        addresses = await reader.addresses(self._pools, key)  # after the claims that they were for
        return Fenced(
            {
                JOURNALS.kind: highest_revision(claims),
                JOURNALS.effects: highest_revision(addresses),
            }
        )

    @override
    def find_request(self, reading: ClaimReading, promise: Promise) -> IPAddressClaim | None:
        return reading.view.at_version(promise)

    @override
    async def keep(
        self, pool: PoolT_contra, reading: ClaimReading, granted: Sequence[Granted[IPAddressClaim]]
    ) -> list[Kept[IPAddressClaim]]:
        kept = await self._granting.keep(granted, pool, self._pools, reading.space)
        promises = [entry.promise for entry in kept]
        self._reader.note_kept(self._pools, pool.metadata.key, promises)
        return kept

    @override
    async def void_refused(
        self, pool: PoolT_contra, refused: Sequence[Kept[IPAddressClaim]]
    ) -> Sequence[WriteResult]:
        return await self._granting.void_refused(refused, pool=pool, pool_kind=self._pools)
