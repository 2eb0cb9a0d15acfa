"""One pass over one pool of the in-cluster provider, from which claims are served.

no longer exists   forget it
being deleted      remove the finalizer once no IPAddress names it and no promise is open
no finalizer       add it
spec invalid       report that on the pool and on the claims that wait for it
paused             hand out nothing
no journal         fence it: void promises that the lost journal may have had
otherwise          read, choose, write the journal, write the claims, then the pool's status

A promise is an address that the pool's journal reserves for a claim. The journal is an annotation,
so journal and status are two writes, and only the journal reserves addresses. The status is
written last, from the caches, because nothing depends on it.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from typing_extensions import override

from allocator import InvalidPool
from controller.cache import Cache
from controller.errors import ApiError
from controller.finalizers import add_finalizer, has_finalizer, remove_finalizer
from controller.meta import Key
from controller.outcome import SETTLED, Blocked, Outcome
from reconcilers.integrations.clusterapi.addresses import (
    INVALID_POOL_SPACES,
    ClaimSpace,
    PoolSpace,
    to_blocks,
)
from reconcilers.integrations.clusterapi.api import (
    JOURNALS,
    POOL_FINALIZER,
    IPAddressClaim,
    Pool,
    is_paused,
)
from reconcilers.integrations.clusterapi.caches import CONTRACT_FIELDS, ClaimPool, parse_geometry
from reconcilers.integrations.clusterapi.claimkind import (
    ClaimParts,
    ContractClaims,
    ContractReading,
)
from reconcilers.integrations.clusterapi.poolstatus import PoolStatuses
from reconcilers.integrations.core.claimkind import choose_claims
from reconcilers.integrations.core.claimreading import ClaimsReading
from reconcilers.promises.annotationwrites import ANNOTATION_WRITES
from reconcilers.promises.choosing import Choice
from reconcilers.promises.journal import Journal, PromisedRange
from reconcilers.promises.keeping import Kept
from reconcilers.promises.passes import (
    NO_FENCED_REQUESTS,
    Allotment,
    PassWork,
    PoolKind,
    next_after_quiet_period,
    raise_if_pool_write_refused,
)
from reconcilers.promises.requestkinds import ServedRequests
from reconcilers.promises.shares import (
    Limits,
    Shares,
    TenantOf,
    get_namespace_as_tenant,
    no_tenant,
)
from reconcilers.promises.unreadable import (
    HOLDERS_UNKNOWN,
    UnreadableHoldings,
    build_holders_unknown_message,
)
from reconcilers.reporting.conditions import READY, ConditionFinding
from reconcilers.reporting.wording import count_noun

PoolT = TypeVar("PoolT", bound=Pool)
ClaimChoice = Allotment[IPAddressClaim, Choice[IPAddressClaim]]
"""The promises that one pass makes to claims, and its refusals."""


class InClusterPoolKind(PoolKind[PoolT, IPAddressClaim, ContractReading, Choice[IPAddressClaim]]):
    """Pools of one of the in-cluster provider's kinds, which serve claims alone.

    Args:
        pools: all pools of the kind.
        parts: the objects that passes over pools of all kinds use for claims.
        statuses: writes the pools' statuses.
    """

    journals = JOURNALS
    journal_writes = ANNOTATION_WRITES

    def __init__(self, pools: Cache[PoolT], parts: ClaimParts, statuses: PoolStatuses) -> None:
        self.kind = pools.resource
        """The kind of the pools."""
        self._pools = pools
        self._parts = parts
        self._statuses = statuses
        self._claims = ContractClaims(pools.resource, parts)

    @property
    @override
    def pools(self) -> Cache[PoolT]:
        return self._pools

    @property
    @override
    def is_history_confirmed(self) -> bool:
        return self._parts.caches.is_history_confirmed

    @override
    def forget_lists(self) -> None:
        """Forget nothing: no LIST is kept from one pass to the next."""

    @override
    def is_left_alone(self, pool: PoolT) -> bool:
        """Return False: each pool gets passes."""
        return False

    @override
    def forget(self, pool: Key) -> None:
        self._parts.reader.forget(ClaimPool(self.kind, pool))

    @override
    async def prepare(self, pool: PoolT) -> tuple[PoolT, Outcome | None]:
        """Prepare a pass: add the finalizer, report an invalid spec, or handle the deletion.

        Returns:
            The pool as it was written last, and the outcome of the pass; the outcome is None if
            the pass goes on. It ends for a deleted, invalid or paused pool.
        """
        if pool.metadata.is_terminating:
            return pool, await self._reconcile_deleted(pool)
        with raise_if_pool_write_refused():
            pool = await add_finalizer(self._parts.client, self.kind, pool, POOL_FINALIZER)
        try:
            parse_geometry(pool)
        except InvalidPool as invalid:
            why = "; ".join(invalid.messages)
            await self._write_ready(
                pool, ConditionFinding(READY, False, reason="ValidationFailed", message=why)
            )
            return pool, Blocked("ValidationFailed", await self._refuse_waiting(pool, why))
        if is_paused(pool.metadata.annotations):
            # Nothing is handed out, so a fence waits for the end of the pause.
            await self._write_status(pool, parse_geometry(pool))
            return pool, SETTLED
        return pool, None

    @override
    def request_kinds(
        self, pool: PoolT
    ) -> Sequence[ServedRequests[PoolT, IPAddressClaim, ContractReading]]:
        return (self._claims.requests.served_requests,)

    @override
    def tenants(self, reading: ContractReading) -> TenantOf:
        # The tenant of a claim is its namespace. All claims of a namespaced pool are in one
        # namespace, so its pool has no tenants to tell apart.
        return no_tenant if self.kind.namespaced else get_namespace_as_tenant

    @override
    async def read(
        self,
        pool: PoolT,
        journal: Journal,
        fenced_requests: Mapping[str, object] = NO_FENCED_REQUESTS,
    ) -> ContractReading:
        """Read the claims and IPAddresses of a pool at least as far as its journal says."""
        space = parse_geometry(pool)
        reading = await self._parts.reader.read_up_to_journal(
            self._claims.make_pool_name(pool), space, journal
        )
        return ClaimsReading(space, reading.holdings, reading.views)

    @override
    def choose(
        self, pool: PoolT, journal: Journal, reading: ContractReading, limits: Limits
    ) -> ClaimChoice:
        """Choose which claims get which blocks, and which claims are refused."""
        settled = reading.settle(journal)
        room = min(self._parts.settings.batch, JOURNALS.count_room(settled))
        promised = (
            PromisedRange(to_blocks(reading.space, part.range))
            for promise in settled.promises
            for part in promise.ranges
        )
        askers = self._claims.serve_askers(pool, settled, reading)
        return choose_claims(
            settled, reading, [askers], promised=promised, room=room, limits=limits
        )

    @override
    async def confirm(
        self,
        pool: PoolT,
        journal: Journal,
        reading: ContractReading,
        choice: ClaimChoice,
        limits: Limits,
    ) -> tuple[ContractReading, ClaimChoice]:
        """Return the reading and the choice unchanged: no live read is needed."""
        return reading, choice

    @override
    async def finish(
        self,
        pool: PoolT,
        reading: ContractReading,
        choice: ClaimChoice,
        kept: Sequence[Kept[IPAddressClaim]],
        shares: Shares,
    ) -> float | None:
        """Write refusals, delete leftover IPAddresses, and write the status of the pool.

        Returns:
            Seconds until another pass is due; None if no pass is due.
        """
        refusals = choice.detail.refusals
        seconds_until_next = await self._claims.finish(
            pool,
            reading.view_of(CONTRACT_FIELDS),
            promises=choice.settled.promises,
            refusals=refusals,
            due=self._claims.requests.writes.list_due_refusals(refusals),
        )
        await self._write_status(pool, reading.space)
        return seconds_until_next

    @override
    def next_pass(self, work: PassWork[PoolT, IPAddressClaim, Choice[IPAddressClaim]]) -> Outcome:
        """Return when the next pass is due for the promises or for `finish`."""
        return next_after_quiet_period(work)

    @override
    async def report_unreadable(self, pool: PoolT, unreadable: UnreadableHoldings) -> float | None:
        """Report undecodable holders on the pool and on each waiting claim.

        Returns:
            None: no next pass is planned, because a change of these objects leads to it.
        """
        why = str(unreadable)
        await self._write_ready(
            pool,
            ConditionFinding(
                READY, False, reason=HOLDERS_UNKNOWN, message=describe_unknown_holders(pool, why)
            ),
        )
        await self._refuse_waiting(pool, why)
        return None

    @override
    async def report_pool_refused(self, pool: PoolT, error: ApiError) -> None:
        """Report on each waiting claim that the API server rejects writes of the pool."""
        await self._refuse_waiting(pool, f"it cannot be written: {error}")

    async def _refuse_waiting(self, pool: PoolT, why: str) -> float | None:
        """Write to each claim that waits for a pool why the pool serves no claim.

        Returns:
            Seconds until writes that the API server rejected are retried; None if there are none.
        """
        try:
            space: ClaimSpace = parse_geometry(pool)
        except InvalidPool:
            space = INVALID_POOL_SPACES
        name = self._claims.make_pool_name(pool)
        holdings = self._parts.reader.read_cached(name, space).holdings
        return await self._claims.refuse_waiting(pool, holdings, why)

    async def _write_ready(self, pool: PoolT, ready: ConditionFinding) -> None:
        """Write a pool's Ready condition, which says why it does not serve."""
        with raise_if_pool_write_refused():
            await self._statuses.write(self.kind, pool, counts=None, ready=ready)

    async def _write_status(
        self, pool: PoolT, space: PoolSpace, ready: ConditionFinding | None = None
    ) -> None:
        """Write a pool's counts, from the caches, and its conditions.

        Args:
            space: what the pool may hand out.
            ready: its condition Ready; None for the usual one of a pool with a valid spec.
        """
        name = self._claims.make_pool_name(pool)
        holdings = self._parts.reader.read_cached(name, space).holdings
        with raise_if_pool_write_refused():
            await self._statuses.write_figures(
                self.kind, pool, space=space, holdings=holdings, ready=ready
            )

    async def _reconcile_deleted(self, pool: PoolT) -> Outcome:
        """Remove the finalizer once no IPAddress names the pool and no promise is open.

        An IPAddress in the cache suffices to keep the pool. Before the finalizer is removed, a
        live LIST shows that no IPAddress exists. Open promises are voided before that LIST, so
        that no replica can still create an IPAddress for them.
        """
        # Our finalizer is removed already; a finalizer of another program keeps the pool.
        if not has_finalizer(pool, POOL_FINALIZER):
            return SETTLED
        count = await self._claims.requests.count_blockers(pool, self.journals.read(pool))
        if not count:
            with raise_if_pool_write_refused():
                await remove_finalizer(self._parts.client, self.kind, pool, POOL_FINALIZER)
            return SETTLED
        message = f"{count_noun(count, 'IPAddress is', 'IPAddresses are')} in use"
        waiting = ConditionFinding(READY, False, reason="Deleting", message=message)
        try:
            await self._write_status(pool, parse_geometry(pool), waiting)
        except InvalidPool:
            # Without a valid spec there are no counts to write.
            await self._write_ready(pool, waiting)
        return Blocked("Deleting", self._parts.settings.requeue_deleting)


def describe_unknown_holders(pool: Pool, why: str) -> str:
    """Return the message of a pool while objects that may hold its addresses are unreadable."""
    effect = "it is not deleted" if pool.metadata.is_terminating else "nothing is handed out"
    return build_holders_unknown_message(why, effect)
