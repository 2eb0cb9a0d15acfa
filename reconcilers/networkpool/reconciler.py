"""One pass over one NetworkPool.

gone?            nothing to do
being deleted?   departure.py
no finalizer?    add it: without it the pool could vanish under its allocations
no memory?       fence.py
otherwise        read, decide, write the pool, write the allocations
"""

from allocator import InvalidPool, Layout
from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.errors import Conflict, NotFound
from controller.events import Recorder
from controller.finalizers import add_finalizer, has_finalizer
from controller.meta import Key
from controller.outcome import SETTLED, Again, Blocked, Outcome
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.metrics import IpamMetrics
from reconcilers.networkpool import departure, status
from reconcilers.networkpool.alarms import Alarms
from reconcilers.networkpool.courier import RETRY, Courier, identity
from reconcilers.networkpool.fence import raise_fence
from reconcilers.networkpool.foreign import Intruder, intruder
from reconcilers.networkpool.neighbours import neighbours
from reconcilers.networkpool.protocol import Decision, decide, memory, settle
from reconcilers.networkpool.report import Reporter
from reconcilers.networkpool.view import Behind, Reader, Unreadable, View
from reconcilers.networkpool.writes import AllocationWriter, Fate, Promised, Written, news
from reconcilers.settings import PoolSettings

ATTEMPTS = 5


class NetworkPoolReconciler:
    """Hands out the ranges of pools, and says in their status what they hold."""

    def __init__(  # noqa: PLR0913 - what it reads and whom it tells; the wiring is the one caller
        self,
        client: Client,
        pools: Cache[NetworkPool],
        allocations: Cache[IPAllocation],
        recorder: Recorder,
        clock: Clock,
        settings: PoolSettings,
        *,
        metrics: IpamMetrics | None = None,
    ) -> None:
        self._client = client
        self._pools = pools
        self._clock = clock
        self._settings = settings
        self._reader = Reader(allocations, client, clock, settings.cache_patience)
        self._writer = AllocationWriter(client, settings.width)
        self._metrics = metrics or IpamMetrics()
        self._reporter = Reporter(recorder, clock, self._metrics)
        self._alarms = Alarms(recorder, clock, settings.event_interval)
        self._couriers: dict[Key, Courier] = {}

    async def reconcile(self, key: Key) -> Outcome:
        """Bring one pool, and the allocations that wait for it, up to date."""
        pool = self._pools.get(key)
        for _ in range(ATTEMPTS):
            if pool is None:
                self._couriers.pop(key, None)
                self._reader.forget(key)
                self._alarms.forget(key)
                self._metrics.forget(key)
                return SETTLED
            try:
                return await self._pass(pool)
            except Behind as behind:
                return Again(behind.after)
            except (Conflict, NotFound):
                # Somebody else wrote or deleted it: forget the choice, read live, begin again.
                pool = await self._live(key)
        return Again(RETRY)

    async def _live(self, key: Key) -> NetworkPool | None:
        try:
            return await self._client.get(NETWORK_POOL, key)
        except NotFound:
            return None

    async def _pass(self, pool: NetworkPool) -> Outcome:
        try:
            return await self._sighted(pool)
        except Unreadable as unreadable:
            return await self._blind(pool, unreadable)

    async def _sighted(self, pool: NetworkPool) -> Outcome:
        if pool.metadata.terminating:
            return await self._depart(pool)
        pool = await self._adopt(pool)
        try:
            geometry = ranges.layout(pool.spec, self._settings.max_addresses)
        except InvalidPool as invalid:
            return await self._refuse(pool, invalid.messages)
        other = self._intruder(pool)
        if other is not None:
            return await self._step_back(pool, other)
        pool, view = await self._remembered(pool)
        return await self._serve(pool, view, geometry)

    def _intruder(self, pool: NetworkPool) -> Intruder | None:
        """Return the other controller that writes the pool's statuses, if there is one."""
        seen = self._reader.cached(pool.metadata.key).of_pool
        silence = self._settings.foreign_silence
        return intruder(pool, seen, self._client.field_manager, self._clock.now(), silence)

    async def _step_back(self, pool: NetworkPool, other: Intruder) -> Outcome:
        """Hand out nothing until the other controller has been silent for a while; say so."""
        now = self._clock.now()
        wanted = status.intruded(pool, other, now)
        if status.differs(pool.status, wanted):
            written = await self._client.patch_status(NETWORK_POOL, pool, wanted)
            self._reporter.intruded(pool, written)
        return Blocked("ForeignManager", other.silent_in(now, self._settings.foreign_silence))

    async def _adopt(self, pool: NetworkPool) -> NetworkPool:
        return await add_finalizer(self._client, NETWORK_POOL, pool, names.FINALIZER_POOL)

    async def _remembered(self, pool: NetworkPool) -> tuple[NetworkPool, View]:
        """Return the pool with a memory, and a view that has read as far as that."""
        revision = memory(pool)
        if revision is not None:
            view = await self._reader.at_least(pool, revision)
            if view.position >= revision:
                return pool, view
            # A LIST that has not got there: the number is another cluster's, or a lost future's.
        pool = await raise_fence(self._client, self._writer, self._reader, pool, self._clock.now())
        return pool, await self._reader.live(pool.metadata.key)

    async def _serve(self, pool: NetworkPool, view: View, geometry: Layout) -> Outcome:
        decision = decide(pool, view, geometry, self._settings.batch)
        pool = await self._write_pool(pool, view, decision)
        written = await self._keep_promises(pool, view, decision)
        refusals = news(decision.choice.refusals)
        refused = await self._writer.refuse(refusals, self._clock.now())
        self._reporter.served(pool, written, refusals, refused)
        return self._next(pool, decision, [*written, *refused])

    async def _write_pool(self, pool: NetworkPool, view: View, decision: Decision) -> NetworkPool:
        """Write the pool's status if there is anything to promise, to tell, or to prove.

        To prove: a refusal is written only after a write of the pool succeeded in the same pass,
        so that a replica with an old view of the pool cannot refuse what another one granted. An
        unchanged status makes no new version, but its precondition is checked all the same.
        """
        others = neighbours(pool, self._pools, self._settings.max_addresses)
        wanted = status.served(pool, view, decision, self._clock.now(), others)
        if not (
            decision.choice.grants
            or news(decision.choice.refusals)
            or status.differs(pool.status, wanted)
            or self._tidy(pool, decision)
        ):
            return pool
        if decision.choice.grants:
            promises = [grant.promise for grant in decision.choice.grants]
            self._courier(pool).makes(promises, self._clock.monotonic())
        written = await self._client.patch_status(NETWORK_POOL, pool, wanted)
        self._alarms.wrote(pool, written)
        self._reporter.intruded(pool, written)
        return written

    def _courier(self, pool: NetworkPool) -> Courier:
        return self._couriers.setdefault(
            pool.metadata.key, Courier(self._settings, self._clock.monotonic())
        )

    def _tidy(self, pool: NetworkPool, decision: Decision) -> bool:
        """Whether settled promises have lain around for a quiet while."""
        settled = len(pool.status.assignments) - len(decision.settlement.open)
        quiet_since = self._clock.monotonic() - self._courier(pool).busy_at
        return settled > 0 and quiet_since >= self._settings.quiet_period

    async def _keep_promises(
        self, pool: NetworkPool, view: View, decision: Decision
    ) -> list[Written]:
        """Write the new promises, and of the earlier ones those whose time has come."""
        courier = self._courier(pool)
        fresh = [Promised(grant.promise, grant.allocation) for grant in decision.choice.grants]
        new = {identity(one.promise) for one in fresh}
        still_open = {identity(promise) for promise in decision.settlement.open}
        due = [
            one
            for one in courier.due(pool, view, self._clock.monotonic())
            if identity(one.promise) in still_open - new
        ]
        written = await self._writer.grant([*due, *fresh], self._clock.now())
        courier.note(written, self._clock.monotonic())
        return written

    def _next(self, pool: NetworkPool, decision: Decision, written: list[Written]) -> Outcome:
        """Say when to look again."""
        kept = {
            (one.allocation.metadata.uid, one.allocation.metadata.resourceVersion)
            for one in written
            if one.fate in {Fate.WRITTEN, Fate.SETTLED}
        }
        if decision.choice.unheard and kept:
            return Again(0)
        if any(one.fate is Fate.UNKNOWN for one in written):
            return Again(RETRY)
        left = [promise for promise in decision.promises if identity(promise) not in kept]
        settings = self._settings
        rest = settings.requeue_after_work if decision.choice.grants else settings.resync
        pause = self._courier(pool).pause(left, self._clock.monotonic())
        alarm = self._alarms.catch_up(pool)
        return Again(min(wait for wait in (rest, pause, alarm) if wait is not None))

    async def _refuse(self, pool: NetworkPool, problems: tuple[str, ...]) -> Outcome:
        wanted = status.invalid(pool, problems, self._clock.now())
        if status.differs(pool.status, wanted):
            await self._client.patch_status(NETWORK_POOL, pool, wanted)
        return Blocked("ValidationFailed")

    async def _blind(self, pool: NetworkPool, unreadable: Unreadable) -> Outcome:
        """Hand out nothing while nobody knows what some allocations hold; say so."""
        if not pool.metadata.terminating:
            wanted = status.blind(pool, str(unreadable), self._clock.now())
            if status.differs(pool.status, wanted):
                pool = await self._client.patch_status(NETWORK_POOL, pool, wanted)
                self._reporter.unreadable(pool, unreadable)
        return Blocked("UnreadableAllocation", self._settings.resync)

    async def _depart(self, pool: NetworkPool) -> Outcome:
        if not has_finalizer(pool, names.FINALIZER_POOL):
            return SETTLED
        count, view = await departure.remaining(pool, self._reader)
        if count == 0 and not _remembers(pool, view):
            # What it promised before it lost its memory may still be written.
            pool = await raise_fence(
                self._client, self._writer, self._reader, pool, self._clock.now()
            )
            count, view = await departure.remaining(pool, self._reader)
        if count == 0:
            await departure.release(self._client, pool)
            return SETTLED
        wanted = status.deleting(pool, count, self._clock.now())
        if status.differs(pool.status, wanted):
            pool = await self._client.patch_status(NETWORK_POOL, pool, wanted)
        still_open = {identity(promise) for promise in settle(pool, view).open}
        due = self._courier(pool).due(pool, view, self._clock.monotonic())
        await self._writer.grant(
            [one for one in due if identity(one.promise) in still_open], self._clock.now()
        )
        return Blocked("Deleting", self._settings.requeue_deleting)


def _remembers(pool: NetworkPool, listed: View) -> bool:
    """Return whether a pool knows its promises: it has a memory, and that of this history."""
    revision = memory(pool)
    return revision is not None and listed.position >= revision
