"""Claims of one kind as requests of pools of one kind.

A pass over a pool asks these objects to find claims, to keep promises to them, and to refuse them.
To *keep* a promise is to write the promised address to its claim. To *refuse* a claim is to write
to it why it gets no address. A *fence* voids all promises that an earlier, lost journal of the
pool may have contained.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from typing_extensions import override

from controller.meta import Object
from controller.resource import Resource
from reconcilers.integrations.core.claimproblems import (
    POOL_NOT_READY,
    ClaimProblem,
    describe_not_ready,
)
from reconcilers.integrations.core.claimreading import (
    ClaimSource,
    ClaimsReading,
    PoolLayouts,
    SpaceAgnosticReader,
    make_claim_holder,
    may_lack_promises,
)
from reconcilers.integrations.core.claimwrites import ClaimStatuses, ClaimWrites
from reconcilers.promises.choosing import (
    AskerRefusal,
    Choice,
    ServedAskers,
    choose,
    exclude_ranges,
)
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.identities import find_by_key
from reconcilers.promises.journal import Journal, Promise, PromisedRange
from reconcilers.promises.keeping import Granted, Kept
from reconcilers.promises.passes import Allotment
from reconcilers.promises.requestkinds import Fenced, RequestKind, ServedRequests
from reconcilers.promises.results import WriteResult
from reconcilers.promises.shares import Limits

PoolT = TypeVar("PoolT", bound=Object)
ClaimT = TypeVar("ClaimT", bound=Object)
AddressT = TypeVar("AddressT", bound=Object)
PoolNameT = TypeVar("PoolNameT", bound=Hashable)
SpaceT = TypeVar("SpaceT", bound=PoolLayouts)


class ClaimKind(
    RequestKind[PoolT, ClaimT, ClaimsReading[SpaceT]],
    Generic[PoolT, ClaimT, AddressT, PoolNameT, SpaceT],
):
    """Claims of one kind that pools of one kind serve.

    Args:
        pools: the kind of the pools.
        name_pool: returns the identity of a pool that the reader and its indexes use.
        source: the caches of claims and their IPAddresses.
        reader: reads the claims. Its space type can be more general than that of the pools.
        statuses: makes the statuses of claims.
        writes: writes claims and their IPAddresses.
        is_stopped: returns whether nothing may be written to a claim now: it or its Cluster is
            paused, for example.
    """

    def __init__(  # noqa: PLR0913 - what is read and written, and what the kind adds
        self,
        pools: Resource[PoolT],
        name_pool: Callable[[PoolT], PoolNameT],
        source: ClaimSource[PoolNameT, SpaceT, ClaimT, AddressT],
        reader: SpaceAgnosticReader[PoolNameT],
        *,
        statuses: ClaimStatuses[ClaimT, AddressT],
        writes: ClaimWrites[ClaimT, AddressT, PoolT, SpaceT],
        is_stopped: Callable[[ClaimT], bool],
    ) -> None:
        self._pools = pools
        self._name_pool = name_pool
        self._source = source
        self._reader = reader
        self._statuses = statuses
        self._is_stopped = is_stopped
        self.writes = writes
        """Writes the claims."""
        self.served_requests = ServedRequests(self)
        """The claims, for the passes over pools."""

    @property
    @override
    def request_resource(self) -> Resource[ClaimT]:
        """The kind of the claims."""
        return self._statuses.claims

    @override
    def needs_fence(
        self, pool: PoolT, journal: Journal, reading: ClaimsReading[SpaceT], limits: Limits
    ) -> bool:
        """Return whether the journal may lack promises to claims, so that these must be voided."""
        return may_lack_promises(self._source, reading.view_of(self._source.fields), journal)

    @override
    async def void_earlier(self, pool: PoolT, reading: ClaimsReading[SpaceT]) -> Fenced:
        """Void every promise to claims; the fence sends LISTs, so it does not use `reading`."""
        return await self.void_all(pool)

    async def void_all(self, pool: PoolT) -> Fenced:
        """Void every promise to claims that was made before the pool was read.

        Returns:
            The revisions of claims and IPAddresses for the pool's new journal.
        """
        name, fence = self._name_pool(pool), self.writes.fence
        return await self._reader.void_earlier(self._source, name, fence)

    @override
    def find_request(self, reading: ClaimsReading[SpaceT], promise: Promise) -> ClaimT | None:
        """Return the claim of a promise; None if the claim has another version by now."""
        return reading.view_of(self._source.fields).find_promised_request(promise)

    @override
    def is_request_paused(self, pool: PoolT, request: ClaimT) -> bool:
        """Return whether nothing is written to a claim now."""
        return self._is_stopped(request)

    @override
    async def keep(
        self,
        pool: PoolT,
        reading: ClaimsReading[SpaceT],
        granted: Sequence[Granted[ClaimT]],
    ) -> list[Kept[ClaimT]]:
        """Write the IPAddresses and statuses of promises; return the result for each."""
        kept = await self.writes.keep(granted, pool, reading.space)
        # An IPAddress may be deleted before a later pass settles its promise.
        self._reader.note_kept(self._name_pool(pool), [entry.promise for entry in kept])
        return kept

    @override
    async def void_refused(
        self, pool: PoolT, refused: Sequence[Kept[ClaimT]]
    ) -> Sequence[WriteResult]:
        """Void promises whose write was refused for good; return the results, in order."""
        return await self.writes.void_refused(refused, pool)

    async def refuse_waiting(self, pool: PoolT, holdings: Holdings, why: str) -> float | None:
        """Write to each claim that waits for a pool why the pool serves no claim.

        Args:
            holdings: of the pool, as the caches show them.
            why: why the pool serves no claim, for the message.

        Returns:
            Seconds until refused writes are retried; None if no write was refused.
        """
        return await self.writes.refuse(self.list_refusals_of_waiting(pool, holdings, why), pool)

    def list_refusals_of_waiting(
        self, pool: PoolT, holdings: Holdings, why: str
    ) -> list[AskerRefusal[ClaimT]]:
        """Return the refusals of claims that wait for a pool which serves no claim.

        Two sorts of claims are left out: claims that show their refusal already, and claims that
        have no place in the queue, such as paused claims, to which nothing is written.

        Args:
            holdings: of the pool, as the caches show them.
            why: why the pool serves no claim, for the message.
        """
        message = describe_not_ready(self._pools.kind, pool.metadata.name, why)
        problem = ClaimProblem(POOL_NOT_READY, message)
        source = self._source
        uninformed = holdings.find_uninformed(
            source.claim_kind,
            find_by_key(source.claim_kind, source.claims.get),
            lambda claim: self._statuses.is_problem_shown(claim, problem),
        )
        return [
            AskerRefusal(
                make_claim_holder(source, claim),
                claim,
                reason=problem.reason,
                message=problem.message,
            )
            for claim in uninformed
        ]

    async def count_blockers(self, pool: PoolT, journal: Journal) -> int:
        """Return how many holders of addresses the deletion of a pool has to wait for.

        A count above 0 may come from the caches. A count of 0 comes only from LISTs, after open
        promises were voided: no promise to a claim of this kind can take effect any more.

        Raises:
            UnreadableHolders: objects that may hold its addresses cannot be decoded.
            ControllerError: a request failed.
        """
        name, reader = self._name_pool(pool), self._reader
        reader.check_cached(name)
        if count := reader.count_addresses(name):  # the deletion waits anyway, so no LIST is sent
            return count
        return await reader.count_blockers(
            self._source, name, journal=journal, fence=self.writes.fence
        )


def choose_claims(
    settled: Journal,
    reading: ClaimsReading[SpaceT],
    askers: Sequence[ServedAskers[ClaimT]],
    *,
    promised: Iterable[PromisedRange],
    room: int,
    limits: Limits,
) -> Allotment[ClaimT, Choice[ClaimT]]:
    """Choose the addresses that one pass over a pool promises to claims.

    This is for pools that serve only claims.

    Args:
        settled: the journal of the pool, without the promises that are over.
        reading: what the pass read of the pool.
        askers: the waiting claims of each kind, with the taker that chooses their addresses.
        promised: the ranges of open promises, which are not chosen again.
        room: the highest number of new promises.
        limits: which tenants may get a promise in this pass.

    Returns:
        The new promises of the pass, and the claims that it refuses.
    """
    with exclude_ranges(reading.holdings, promised):
        choice = choose(reading.holdings, askers, settled.promises, room, limits=limits)
    granted = [(grant.build_promise(grant.asker), grant.asker) for grant in choice.grants]
    return Allotment(settled, granted, more=choice.more, detail=choice)
