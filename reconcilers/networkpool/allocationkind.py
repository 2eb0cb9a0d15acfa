"""IPAllocations as requests of a NetworkPool: found, served, refused, voided and fenced.

If their pool hands out nothing, they are told why.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from typing_extensions import override

from controller.client import Client
from controller.clock import Clock
from controller.meta import Key, Object
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.configuration.settings import PoolSettings
from reconcilers.networkpool.blockreports import BlockReports
from reconcilers.networkpool.claims import PoolClaims
from reconcilers.networkpool.facts import KIND, tenant_of
from reconcilers.networkpool.pending_promises import (
    AllocationWriter,
    Written,
    new_refusals,
    note_refused,
)
from reconcilers.networkpool.reading import PoolReader
from reconcilers.networkpool.statuswriter import PoolStatusWriter
from reconcilers.networkpool.view import AllocationsView, NetworkPoolReading
from reconcilers.promises.choosing import AskerRefusal
from reconcilers.promises.identities import Holder, Tenant
from reconcilers.promises.journal import Journal, Promise
from reconcilers.promises.keeping import Granted, Kept
from reconcilers.promises.reading import highest_revision
from reconcilers.promises.refusedwrites import RefusedWrites
from reconcilers.promises.requestkinds import Fenced, RequestKind, ServedRequests
from reconcilers.promises.results import WriteResult
from reconcilers.promises.shares import Limits, TenantOf


@dataclass(frozen=True, slots=True)
class KeptAllocation(Kept[IPAllocation]):
    """A promise to an allocation, and what became of it.

    Args:
        written: the write that was to keep it. Its result stays, whatever became of a void.
    """

    written: Written | None = None


class AllocationKind(RequestKind[NetworkPool, IPAllocation, NetworkPoolReading]):
    """IPAllocations that are served from NetworkPools.

    Args:
        client: for the requests.
        clock: the time.
        settings: how much is written at once, and when a refused write is tried again.
        statuses: checks the version of a pool before its allocations are told of a block.
        reader: reads them.
    """

    request_resource = IP_ALLOCATION

    def __init__(
        self,
        client: Client,
        clock: Clock,
        settings: PoolSettings,
        statuses: PoolStatusWriter,
        reader: PoolReader,
    ) -> None:
        self._clock = clock
        self._reader = reader
        self._writer = AllocationWriter(client, settings.width)
        self._reports = BlockReports(statuses, self._writer, clock=clock, settings=settings)
        self._refused = RefusedWrites(clock, settings.resync)
        self.served_requests = ServedRequests(self)
        """The allocations, for the passes over pools."""

    @property
    def history_confirmed(self) -> bool:
        """Whether the caches are known to be of the history that the server has."""
        return self._reader.history_confirmed

    def forget_lists(self) -> None:
        """Forget LISTs that are kept: the server may have another history than they show."""
        self._reader.forget_lists()

    def forget(self, pool: Key) -> None:
        """Drop what is remembered of a pool."""
        self._reader.forget(pool)

    def read_cached(self, pool: Key) -> AllocationsView:
        """Return the requests of a pool as the caches show them, however old these are."""
        return self._reader.read_cached(pool)

    async def read_shared(self, pool: NetworkPool) -> AllocationsView:
        """Return the allocations of a pool by a LIST that began after the pool was read.

        Raises:
            ListUnderWay: the pool shares a LIST that begins later.
            UnreadableAllocations: some of what it lists cannot be decoded.
            ControllerError: the list failed.
        """
        return await self._reader.read_shared(pool)

    async def read(
        self, pool: NetworkPool, journal: Journal, seen: AllocationsView | None = None
    ) -> AllocationsView:
        """Read the requests of all kinds as far as a journal says.

        Args:
            pool: as it was read.
            journal: of the pool.
            seen: the allocations as a fence of this pass has seen them; None to read them.

        Raises:
            Behind: a cache may still get there.
            Unreadable: some that may be the pool's cannot be decoded.
            ControllerError: a LIST failed.
        """
        return await self._reader.read_up_to(pool, journal, seen)

    @override
    def needs_fence(
        self, pool: NetworkPool, journal: Journal, reading: NetworkPoolReading, limits: Limits
    ) -> bool:
        return not has_memory(journal, reading.view)

    @override
    async def void_earlier(self, pool: NetworkPool, reading: NetworkPoolReading) -> Fenced:
        """Void every promise to allocations that was made before the pool was read.

        No other promise is made before the pool is written, so what is returned as seen shows
        every range that allocations hold.

        Args:
            pool: as it was read.
            reading: of a LIST that began after `pool` was read: a pool without memory is not read
                from the cache, and neither is one whose revision the cache has not reached.
        """
        view = reading.view
        current = await self._writer.fence(self._clock.now()).void_earlier(view.of_pool)
        of_pool = [
            allocation for allocation in current if allocation.pool_key == pool.metadata.key
        ]
        seen = AllocationsView.from_allocations(view.position, of_pool)
        return Fenced({KIND: highest_revision(current)}, seen)

    @override
    def find_request(self, reading: NetworkPoolReading, promise: Promise) -> IPAllocation | None:
        return reading.view.at_version(promise)

    @override
    async def keep(
        self,
        pool: NetworkPool,
        reading: NetworkPoolReading,
        granted: Sequence[Granted[IPAllocation]],
    ) -> list[Kept[IPAllocation]]:
        return await self.write_promised(pool, granted)

    async def write_promised(
        self, pool: NetworkPool, granted: Sequence[Granted[IPAllocation]]
    ) -> list[Kept[IPAllocation]]:
        """Write promises to their allocations, each at the promised version."""
        written = await self._writer.grant(pool, granted, self._clock.now())
        return [
            KeptAllocation(
                promise, allocation, result=write.result, why=str(write.error or ""), written=write
            )
            for (promise, allocation), write in zip(granted, written, strict=True)
        ]

    @override
    async def void_refused(
        self, pool: NetworkPool, refused: Sequence[Kept[IPAllocation]]
    ) -> Sequence[WriteResult]:
        written = await self._writer.void_refused(refused, self._clock.now())
        return [write.result for write in written]

    def due_refusals(
        self, refusals: Iterable[AskerRefusal[IPAllocation]]
    ) -> tuple[AskerRefusal[IPAllocation], ...]:
        """Return the refusals to write: not those whose write was refused within a resync."""
        return tuple(
            refusal
            for refusal in new_refusals(refusals)
            if self._refused.wait_of(refusal.asker.metadata) is None
        )

    async def refuse(self, refusals: Sequence[AskerRefusal[IPAllocation]]) -> list[Written]:
        """Write refusals that a write of the pool in the same pass backs; return the results."""
        written = await self._writer.refuse(refusals, self._clock.now())
        note_refused(self._refused, written)
        return written

    async def report_block(
        self, pool: NetworkPool, view: AllocationsView, promises: Collection[Promise] = ()
    ) -> float | None:
        """Write to a batch of allocations why their pool hands out nothing; see BlockReports."""
        return await self._reports.report(pool, view, promises)


def has_memory(journal: Journal, view: AllocationsView) -> bool:
    """Return whether a journal records all promises to allocations, in the history of now.

    A LIST that has not got as far as the journal says is of another history: of another cluster,
    or of one that was restored from a backup.
    """
    revision = journal.revisions.get(KIND)
    return revision is not None and view.position >= revision


def tenants_in(view: AllocationsView, pool: Key, claims: PoolClaims | None) -> TenantOf:
    """Return a function that finds the tenant of a request.

    Of an allocation it is the namespace of its TenantCluster, of a claim its Cluster.
    """

    def tenant_of_holder(holder: Holder) -> Tenant | None:
        if holder.kind != KIND:
            return None if claims is None else claims.find_tenant(pool, holder)
        allocation = view.find(holder)
        return None if allocation is None else tenant_of(allocation)

    return tenant_of_holder


def writes_of(kept: Iterable[Kept[Object]]) -> list[Written]:
    """Return the writes that were to keep promises to allocations, in order."""
    return [
        entry.written
        for entry in kept
        if isinstance(entry, KeptAllocation) and entry.written is not None
    ]
