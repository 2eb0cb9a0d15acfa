"""Claims of one kind as requests of pools of one kind."""

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
    ClaimHistory,
    ClaimSource,
    ClaimsReading,
    PoolLayouts,
    holder_of_claim,
    lacks_memory,
)
from reconcilers.integrations.core.claimwrites import ClaimStatuses, ClaimWrites
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.promises.choosing import (
    AskerRefusal,
    Choice,
    ServedAskers,
    choose,
    exclude_ranges,
)
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
        name_pool: returns the name by which readers know a pool.
        source: the claims and their IPAddresses.
        reader: reads them; its spaces may tell less than the spaces of the pools.
        statuses: what the claims show.
        writes: writes them.
        is_served: returns whether anything may be done about a claim now.
    """

    def __init__(  # noqa: PLR0913 - what is read and written, and what the kind adds
        self,
        pools: Resource[PoolT],
        name_pool: Callable[[PoolT], PoolNameT],
        source: ClaimSource[PoolNameT, SpaceT, ClaimT, AddressT],
        reader: ClaimHistory[PoolNameT],
        *,
        statuses: ClaimStatuses[ClaimT, AddressT],
        writes: ClaimWrites[ClaimT, AddressT, PoolT, SpaceT],
        is_served: Callable[[ClaimT], bool],
    ) -> None:
        self._pools = pools
        self._name_pool = name_pool
        self._source = source
        self._reader = reader
        self._statuses = statuses
        self._is_served = is_served
        self.writes = writes
        """Writes the claims."""
        self.served_requests = ServedRequests(self)
        """The claims, for the passes over pools."""

    @property
    @override
    def request_resource(self) -> Resource[ClaimT]:
        return self._statuses.claims

    @override
    def needs_fence(
        self, pool: PoolT, journal: Journal, reading: ClaimsReading[SpaceT], limits: Limits
    ) -> bool:
        return lacks_memory(self._source, reading.view_of(self._source.fields), journal)

    @override
    async def void_earlier(self, pool: PoolT, reading: ClaimsReading[SpaceT]) -> Fenced:
        return await self.void_all(pool)

    async def void_all(self, pool: PoolT) -> Fenced:
        """Void every promise to claims that was made before the pool was read."""
        name, fence = self._name_pool(pool), self.writes.fence
        return await self._reader.void_earlier(self._source, name, fence)

    @override
    def find_request(self, reading: ClaimsReading[SpaceT], promise: Promise) -> ClaimT | None:
        return reading.view_of(self._source.fields).at_version(promise)

    @override
    async def keep(
        self,
        pool: PoolT,
        reading: ClaimsReading[SpaceT],
        granted: Sequence[Granted[ClaimT]],
    ) -> list[Kept[ClaimT]]:
        kept = await self.writes.keep(granted, pool, reading.space)
        self._reader.note_kept(self._name_pool(pool), [entry.promise for entry in kept])
        return kept

    @override
    async def void_refused(
        self, pool: PoolT, refused: Sequence[Kept[ClaimT]]
    ) -> Sequence[WriteResult]:
        return await self.writes.void_refused(refused, pool)

    async def refuse_waiting(self, pool: PoolT, why: str) -> float | None:
        """Write on each claim that waits for a pool why the pool serves no claim.

        Returns:
            In how many seconds to write the claims whose write was refused; None without such.
        """
        return await self.writes.refuse(self.refusals_of_waiting(pool, why), pool)

    def refusals_of_waiting(self, pool: PoolT, why: str) -> list[AskerRefusal[ClaimT]]:
        """Return the refusals of all claims that wait for a pool which serves no claim."""
        message = describe_not_ready(self._pools.kind, pool.metadata.name, why)
        problem = ClaimProblem(POOL_NOT_READY, message)
        return [
            AskerRefusal(
                holder_of_claim(self._source, claim),
                claim,
                reason=problem.reason,
                message=problem.message,
                is_shown=self._statuses.shows(claim, problem),
            )
            for claim in self._source.claims.by_index(SPACE_INDEX, str(self._name_pool(pool)))
            if self._statuses.waits(claim) and self._is_served(claim)
        ]

    async def blockers(self, pool: PoolT, journal: Journal) -> int:
        """Return how many holders of addresses the deletion of a pool has to wait for.

        The caches may show that there are some; only live LISTs may show that there are none. If
        none, what the pool may have promised to claims of this kind is void when this returns.

        Raises:
            UnreadableHolders: objects that may hold its addresses cannot be decoded.
            ControllerError: a request failed.
        """
        name, reader = self._name_pool(pool), self._reader
        reader.check_cached(name)
        if count := reader.count(name):
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
    """Return the allotment of one pass over a pool that serves claims alone.

    Args:
        settled: the journal of the pool, without the promises that are over.
        askers: the claims of each kind.
        promised: the ranges of open promises, in the spaces that the pool has now.
        room: the most to promise.
        limits: which claims may get a promise.
    """
    with exclude_ranges(reading.holdings, promised):
        choice = choose(reading.holdings, askers, settled.promises, room, limits=limits)
    granted = [(grant.promise_to(grant.asker), grant.asker) for grant in choice.grants]
    return Allotment(settled, granted, more=choice.more, detail=choice)
