"""IPAllocations as requests of a NetworkPool: found, served, refused, voided and fenced.

To *refuse* an allocation is to write to its status why its pool cannot serve it. To *void* a
promise is to write its allocation so that it gets another resourceVersion: the promise names the
old one and can no longer be written. A *fence* does so for each allocation that a promise may name
which the pool's journal does not record. A *block* is a reason why a pool hands out nothing; it is
written to the statuses of the allocations that wait.
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
from reconcilers.networkpool.facts import KIND, get_tenant
from reconcilers.networkpool.pending_promises import (
    AllocationWriter,
    Written,
    list_unshown_refusals,
    note_rejected_writes,
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
    """A promise to an allocation, and the result of writing it.

    Args:
        written: the write of the promised range. Events are made from it. If the promise is voided
            afterwards, `result` may change, and `written` stays as it is.
    """

    written: Written | None = None


class AllocationKind(RequestKind[NetworkPool, IPAllocation, NetworkPoolReading]):
    """IPAllocations that are served from NetworkPools.

    Args:
        client: for the requests.
        clock: the time.
        settings: how much is written at once, and when a refused write is tried again.
        statuses: checks the version of a pool before a block is written to its allocations.
        reader: reads the requests of pools.
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
        self._rejected_writes = RefusedWrites(clock, settings.resync)
        self.served_requests = ServedRequests(self)
        """The allocations, for the passes over pools."""

    @property
    def is_history_confirmed(self) -> bool:
        """Whether the caches were relisted since the API server was last out of reach.

        Until then the server may have been restored from a backup, and may have another history.
        """
        return self._reader.is_history_confirmed

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
        self,
        pool: NetworkPool,
        journal: Journal,
        fenced_allocations: AllocationsView | None = None,
    ) -> AllocationsView:
        """Read the requests of all kinds as far as a journal says.

        Args:
            pool: as it was read.
            journal: of the pool.
            fenced_allocations: the allocations as a fence of this pass left them; None to read
                them.

        Raises:
            Behind: a cache may still get there.
            UnreadableHoldings: requests that may be the pool's cannot be decoded.
            ControllerError: a LIST failed.
        """
        return await self._reader.read_up_to(pool, journal, fenced_allocations)

    @override
    def needs_fence(
        self, pool: NetworkPool, journal: Journal, reading: NetworkPoolReading, limits: Limits
    ) -> bool:
        """Return whether the journal may lack promises to allocations.

        The fence is not put off while no allocation waits: if a pool is fenced when it is created,
        it need not void a whole burst of allocations later.
        """
        return not has_memory(journal, reading.view)

    @override
    async def void_earlier(self, pool: NetworkPool, reading: NetworkPoolReading) -> Fenced:
        """Void every promise to allocations that was made before the pool was read.

        Another promise can be made only by a write of the pool. So `Fenced.requests` shows every
        range that allocations hold until this pass writes the pool.

        Args:
            pool: as it was read.
            reading: by a LIST that began after `pool` was read. The cache is used only if the
                journal has a revision that the cache has reached, and then nothing is fenced.
        """
        view = reading.view
        current = await self._writer.make_fence(self._clock.now()).void_earlier(view.of_pool)
        # The fence may have reread an allocation that names another pool by now.
        of_pool = [
            allocation for allocation in current if allocation.pool_key == pool.metadata.key
        ]
        fenced_allocations = AllocationsView.from_allocations(view.position, of_pool)
        return Fenced({KIND: highest_revision(current)}, fenced_allocations)

    @override
    def find_request(self, reading: NetworkPoolReading, promise: Promise) -> IPAllocation | None:
        """Return the allocation of a promise; None if it is not at the promised version."""
        return reading.view.find_promised_request(promise)

    @override
    def is_request_paused(self, pool: NetworkPool, request: IPAllocation) -> bool:
        """Return False: an IPAllocation cannot be paused."""
        return False

    @override
    async def keep(
        self,
        pool: NetworkPool,
        reading: NetworkPoolReading,
        granted: Sequence[Granted[IPAllocation]],
    ) -> list[Kept[IPAllocation]]:
        """Write promises to their allocations at the promised versions; return the results."""
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
        """Void promises whose write was rejected for good; return the results, in order."""
        written = await self._writer.void_refused(refused, self._clock.now())
        return [write.result for write in written]

    def list_due_refusals(
        self, refusals: Iterable[AskerRefusal[IPAllocation]]
    ) -> tuple[AskerRefusal[IPAllocation], ...]:
        """Return the refusals to write now.

        A refusal that its allocation shows is left out. So is one whose write the API server
        rejected less than a resync ago.
        """
        return tuple(
            refusal
            for refusal in list_unshown_refusals(refusals)
            if self._rejected_writes.wait_of(refusal.asker.metadata) is None
        )

    async def write_refusals(
        self, refusals: Sequence[AskerRefusal[IPAllocation]]
    ) -> list[Written]:
        """Write to allocations why they cannot be served; return the results, in order.

        A write that the API server rejects for good is not tried again before one resync.

        Args:
            refusals: of this pass, after it wrote the pool. That write succeeds only if the pass
                read the latest version of the pool, so no grant of another replica is overwritten.
        """
        written = await self._writer.refuse(refusals, self._clock.now())
        note_rejected_writes(self._rejected_writes, written)
        return written

    async def report_block(
        self, pool: NetworkPool, view: AllocationsView, promises: Collection[Promise] = ()
    ) -> float | None:
        """Write to a batch of the allocations that wait why their pool hands out nothing.

        Args:
            pool: as it was written last; the reason follows from its conditions.
            view: the allocations of the pool.
            promises: that may still be kept; their allocations are left out, because a write would
                void the promise.

        Returns:
            In how many seconds to call again; None if all allocations show the reason.

        Raises:
            Conflict: the pool has changed since it was read, so another replica may serve it.
        """
        return await self._reports.report(pool, view, promises)


def has_memory(journal: Journal, view: AllocationsView) -> bool:
    """Return whether a journal records all promises to the allocations of a pool.

    It does not if it has no revision of allocations. Nor does it if a LIST has not reached that
    revision: then the journal was written in another cluster, or before a restore from a backup.

    Args:
        journal: of the pool.
        view: the allocations, by a LIST if the cache has not reached the revision.
    """
    revision = journal.revisions.get(KIND)
    return revision is not None and view.position >= revision


def make_tenant_finder(view: AllocationsView, pool: Key, claims: PoolClaims | None) -> TenantOf:
    """Return a function that finds the tenant of a request; it returns None if there is none.

    The tenant of an allocation is the namespace of its TenantCluster, that of a claim its Cluster.

    Args:
        view: the allocations of the pool.
        claims: finds the tenants of claims; None if claims are not served.
    """

    def find_tenant(holder: Holder) -> Tenant | None:
        """Return the tenant of an allocation or a claim; None if the request does not exist."""
        if holder.kind != KIND:  # a claim
            return None if claims is None else claims.find_tenant(pool, holder)
        allocation = view.find(holder)
        return None if allocation is None else get_tenant(allocation)

    return find_tenant


def list_allocation_writes(kept: Iterable[Kept[Object]]) -> list[Written]:
    """Return the attempted writes of promised ranges to allocations, in order.

    Args:
        kept: promises to requests of all kinds; claims are left out.
    """
    return [
        entry.written
        for entry in kept
        if isinstance(entry, KeptAllocation) and entry.written is not None
    ]
