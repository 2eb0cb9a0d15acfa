"""One pass over one pool that claims are served from.

gone?              forget it
being deleted?     hand out nothing; go when no IPAddress names it and nothing is promised
no finalizer?      add it
paused?            hand out nothing
no memory?         fence it: void whatever was promised before
otherwise          read, choose, write the journal, write the claims, then the pool's status

The journal is an annotation, so it and the status are two writes; only the journal is promised on.
The status is written last, from what the caches show then.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

from typing_extensions import override

from allocator import AddressRange, InvalidPool
from controller.cache import Cache
from controller.errors import ApiError
from controller.finalizers import add_finalizer, has_finalizer, remove_finalizer
from controller.meta import Key, Object
from controller.outcome import SETTLED, Blocked, Outcome
from controller.resource import Resource
from reconcilers.integrations.clusterapi.addresses import PoolSpace
from reconcilers.integrations.clusterapi.api import (
    CLAIM_KIND,
    JOURNALS,
    POOL_FINALIZER,
    IPAddressClaim,
    Pool,
    is_paused,
)
from reconcilers.integrations.clusterapi.caches import (
    geometry_of,
)
from reconcilers.integrations.clusterapi.claimkind import ClaimKind, ClaimParts, ClaimReading
from reconcilers.integrations.clusterapi.claimtaking import ClaimChoice
from reconcilers.integrations.clusterapi.poolstatus import PoolStatuses
from reconcilers.promises.annotatedpools import AnnotatedPools
from reconcilers.promises.choosing import Choice
from reconcilers.promises.journal import Journal
from reconcilers.promises.keeping import Kept
from reconcilers.promises.passes import (
    Allotment,
    PassWork,
    next_after_quiet_period,
    writing_pool,
)
from reconcilers.promises.settling import settle
from reconcilers.promises.shares import (
    Limits,
    Shares,
    TenantOf,
    no_tenant,
    tenant_of_namespace,
)
from reconcilers.promises.unreadable import (
    HOLDERS_UNKNOWN,
    Unreadable,
    holders_unknown_message,
)
from reconcilers.reporting.conditions import READY, Finding
from reconcilers.reporting.wording import count_noun

PoolT = TypeVar("PoolT", bound=Object)
InClusterT = TypeVar("InClusterT", bound=Pool)


class ClaimPools(AnnotatedPools[PoolT, IPAddressClaim, ClaimReading, Choice[IPAddressClaim]]):
    """Pools of one kind that claims are served from, and nothing else, by passes over them.

    Args:
        pools: the cache of the pools.
        parts: what claims of pools of all kinds share.
    """

    journals = JOURNALS

    def __init__(self, pools: Cache[PoolT], parts: ClaimParts) -> None:
        self.kind = pools.resource
        """The kind of the pools."""
        self._pools = pools
        self._parts = parts
        self._claims = ClaimKind[PoolT](pools.resource, parts)

    @property
    @override
    def pools(self) -> Cache[PoolT]:
        return self._pools

    @property
    @override
    def history_confirmed(self) -> bool:
        return self._parts.caches.history_confirmed

    @override
    def is_left_alone(self, pool: PoolT) -> bool:
        return False

    @override
    def forget(self, pool: Key) -> None:
        self._claims.forget(pool)

    @abstractmethod
    def geometry(self, pool: PoolT) -> PoolSpace:
        """Return the addresses that a pool may hand out.

        Raises:
            InvalidPool: its spec cannot be parsed.
        """

    @abstractmethod
    def why_closed(self, pool: PoolT) -> str:
        """Return why a pool hands out no further address; empty if it does."""

    @abstractmethod
    async def also_held(self, pool: PoolT, space: PoolSpace) -> Sequence[AddressRange]:
        """Return the blocks that others than claims and IPAddresses hold; raises Behind."""

    @abstractmethod
    async def _write_ready(self, pool: PoolT, ready: Finding) -> None:
        """Write a pool's Ready condition, which says why it does not serve."""

    @abstractmethod
    async def _write_status(
        self, pool: PoolT, space: PoolSpace, ready: Finding | None = None
    ) -> None:
        """Write a pool's figures and conditions.

        Args:
            pool: the pool.
            space: what it may hand out.
            ready: its condition Ready; None for the one of a pool that serves.
        """

    @override
    async def prepare(self, pool: PoolT) -> tuple[PoolT, Outcome | None]:
        try:
            self.geometry(pool)
        except InvalidPool as invalid:
            why = "; ".join(invalid.messages)
            await self._write_ready(pool, Finding(READY, False, "ValidationFailed", why))
            later = await self._claims.refuse_waiting(pool, why)
            return pool, Blocked("ValidationFailed", later)
        return pool, None

    @override
    def request_kinds(self, pool: PoolT) -> Sequence[ClaimKind[PoolT]]:
        return (self._claims,)

    @override
    def tenants(self, reading: ClaimReading) -> TenantOf:
        # All requests of a pool with a namespace are in it: there are no tenants to tell apart.
        return no_tenant if self.kind.namespaced else tenant_of_namespace

    @override
    async def read(self, pool: PoolT, journal: Journal) -> ClaimReading:
        return await self._claims.read(pool.metadata.key, self.geometry(pool), journal)

    @override
    async def complete(self, pool: PoolT, reading: ClaimReading) -> ClaimReading | Outcome:
        also_held = await self.also_held(pool, reading.space)
        return self._claims.renewed(pool.metadata.key, reading, also_held)

    @override
    def choose(
        self, pool: PoolT, journal: Journal, reading: ClaimReading, limits: Limits
    ) -> ClaimChoice:
        settled = settle(journal, CLAIM_KIND, reading.view, reading.view.effects)
        taker = self._claims.taker(pool, settled, reading, self.why_closed(pool))
        choice = taker.choose(self._parts.settings.batch, limits)
        granted = [(grant.promise_to(grant.asker), grant.asker) for grant in choice.grants]
        return Allotment(settled, granted, choice.more, choice)

    @override
    async def confirm(
        self,
        pool: PoolT,
        journal: Journal,
        reading: ClaimReading,
        choice: ClaimChoice,
        limits: Limits,
    ) -> tuple[ClaimReading, ClaimChoice]:
        return reading, choice

    @override
    async def finish(
        self,
        pool: PoolT,
        reading: ClaimReading,
        choice: ClaimChoice,
        kept: Sequence[Kept[IPAddressClaim]],
        shares: Shares,
    ) -> float | None:
        unwritten = await self._claims.refuse(pool, choice.detail.refusals)
        leftover = await self._claims.collect_leftovers(reading, choice)
        await self._write_status(pool, reading.space)
        restore = self._claims.seconds_until_restored(pool.metadata.key)
        waits = (unwritten, leftover, restore)
        return min((wait for wait in waits if wait is not None), default=None)

    @override
    def next_pass(self, work: PassWork[PoolT, IPAddressClaim, Choice[IPAddressClaim]]) -> Outcome:
        return next_after_quiet_period(work, self._parts.settings.quiet_period)

    @override
    async def report_unreadable(self, pool: PoolT, unreadable: Unreadable) -> float | None:
        why = str(unreadable)
        await self._write_ready(pool, Finding(READY, False, HOLDERS_UNKNOWN, unknown(pool, why)))
        await self._claims.refuse_waiting(pool, why)
        return None

    @override
    async def report_pool_refused(self, pool: PoolT, error: ApiError) -> None:
        await self._claims.refuse_waiting(pool, f"it cannot be written: {error}")


class InClusterPools(ClaimPools[InClusterT]):
    """Pools of one of the in-cluster provider's kinds.

    Args:
        resource: the kind of the pools.
        parts: what claims of pools of all kinds share.
        statuses: writes the pools' statuses.
    """

    def __init__(
        self, resource: Resource[InClusterT], parts: ClaimParts, statuses: PoolStatuses
    ) -> None:
        super().__init__(parts.caches.pools[resource.kind], parts)
        self._statuses = statuses

    @override
    def geometry(self, pool: InClusterT) -> PoolSpace:
        return geometry_of(pool)

    @override
    def why_closed(self, pool: InClusterT) -> str:
        return ""

    @override
    async def also_held(self, pool: InClusterT, space: PoolSpace) -> Sequence[AddressRange]:
        return ()

    @override
    async def prepare(self, pool: InClusterT) -> tuple[InClusterT, Outcome | None]:
        if pool.metadata.terminating:
            return pool, await self._reconcile_deleted(pool)
        with writing_pool():
            pool = await add_finalizer(self._parts.client, self.kind, pool, POOL_FINALIZER)
        pool, outcome = await super().prepare(pool)
        if outcome is None and is_paused(pool.metadata.annotations):
            # Nothing is handed out, so a fence waits for the end of the pause.
            await self._write_status(pool, self.geometry(pool))
            return pool, SETTLED
        return pool, outcome

    @override
    async def _write_ready(self, pool: InClusterT, ready: Finding) -> None:
        with writing_pool():
            await self._statuses.write(self.kind, pool, None, ready)

    @override
    async def _write_status(
        self, pool: InClusterT, space: PoolSpace, ready: Finding | None = None
    ) -> None:
        holdings = self._parts.reader.cached(self.kind, pool.metadata.key, space).holdings
        with writing_pool():
            await self._statuses.write_figures(self.kind, pool, space, holdings, ready)

    async def _reconcile_deleted(self, pool: InClusterT) -> Outcome:
        """Take the finalizer off when no IPAddress names the pool and nothing is promised.

        The cache may show that there are some; only a live LIST may show that there are none. What
        may still be promised is voided before, so that no late write can come after.
        """
        if not has_finalizer(pool, POOL_FINALIZER):
            return SETTLED
        count = await self._claims.blockers(pool, self.journals.read(pool))
        if not count:
            with writing_pool():
                await remove_finalizer(self._parts.client, self.kind, pool, POOL_FINALIZER)
            return SETTLED
        message = f"{count_noun(count, 'IPAddress is', 'IPAddresses are')} in use"
        waiting = Finding(READY, False, "Deleting", message)
        try:
            await self._write_status(pool, self.geometry(pool), waiting)
        except InvalidPool:
            await self._write_ready(pool, waiting)
        return Blocked("Deleting", self._parts.settings.requeue_deleting)


def unknown(pool: Any, why: str) -> str:
    """Return the message of a pool while objects that may hold its addresses are unreadable."""
    effect = "it is not deleted" if pool.metadata.terminating else "nothing is handed out"
    return holders_unknown_message(why, effect)
