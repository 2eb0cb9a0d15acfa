"""One kind of claims as a request kind of IPPools."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from typing_extensions import override

from controller.client import Client
from controller.clock import Clock
from controller.resource import Resource
from reconcilers.configuration.settings import PoolSettings
from reconcilers.integrations.core.claimreading import ClaimsReading, holder_of_claim, lacks_memory
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.restoredrequests import RestoredRequests
from reconcilers.integrations.metal3.api import POOL, Metal3Pool
from reconcilers.integrations.metal3.caches import Metal3Caches, Metal3Reader, SideCaches
from reconcilers.integrations.metal3.entries import EntrySpace
from reconcilers.integrations.metal3.granting import ClaimWrites
from reconcilers.integrations.metal3.sides import POOL_NOT_READY, Claim, ClaimProblem
from reconcilers.integrations.metal3.taking import EntryTaker, TakenAddresses
from reconcilers.promises.choosing import Refusal
from reconcilers.promises.journal import Journal, Promise
from reconcilers.promises.keeping import Granted, Kept
from reconcilers.promises.passes import Fenced, RequestKind
from reconcilers.promises.results import WriteResult
from reconcilers.promises.shares import Limits


@dataclass(frozen=True, slots=True)
class Metal3Parts:
    """What passes over pools and claims share.

    Args:
        client: for the requests.
        reader: reads claims and IPAddresses.
        clock: the time.
        settings: intervals, and how much is done at once.
        generator: of random numbers, for pools with a random strategy.
    """

    client: Client
    caches: Metal3Caches
    reader: Metal3Reader
    clock: Clock
    settings: PoolSettings
    generator: Random


class Metal3ClaimKind(RequestKind[Metal3Pool, Any, ClaimsReading[EntrySpace]]):
    """Claims of one kind that IPPools serve.

    Args:
        parts: what passes share.
        side: the kind.
        restored: the claims that may still get an IPAddress from a restore.
    """

    def __init__(
        self,
        parts: Metal3Parts,
        side: SideCaches,
        writes: ClaimWrites,
        restored: RestoredRequests[Any],
    ) -> None:
        self._parts = parts
        self._caches = side
        self._side = side.side
        self._writes = writes
        self._restored = restored

    @property
    @override
    def request_resource(self) -> Resource[Any]:
        return self._side.claims

    @override
    def needs_fence(
        self,
        pool: Metal3Pool,
        journal: Journal,
        reading: ClaimsReading[EntrySpace],
        limits: Limits,
    ) -> bool:
        return lacks_memory(self._caches, reading.views[self._side.claim_kind], journal)

    @override
    async def void_earlier(self, pool: Metal3Pool, reading: ClaimsReading[EntrySpace]) -> Fenced:
        key, fence = pool.metadata.key, self._writes.fence
        return await self._parts.reader.void_earlier(self._caches, key, fence)

    @override
    def find_request(self, reading: ClaimsReading[EntrySpace], promise: Promise) -> Claim | None:
        return reading.views[self._side.claim_kind].at_version(promise)

    @override
    async def keep(
        self, pool: Metal3Pool, reading: ClaimsReading[EntrySpace], granted: Sequence[Granted[Any]]
    ) -> list[Kept[Any]]:
        kept = await self._writes.keep(granted, pool, reading.space)
        self._parts.reader.note_kept(pool.metadata.key, (entry.promise for entry in kept))
        return kept

    @override
    async def void_refused(
        self, pool: Metal3Pool, refused: Sequence[Kept[Any]]
    ) -> Sequence[WriteResult]:
        return await self._writes.void_refused(refused, pool)

    def make_taker(
        self, pool: Metal3Pool, reading: ClaimsReading[EntrySpace], unavailable: TakenAddresses
    ) -> EntryTaker:
        """Return the taker of addresses of a pool for claims of this kind.

        Args:
            pool: as it was read.
            reading: of the pool.
            unavailable: the addresses that are promised, or chosen in this pass.
        """
        return EntryTaker(
            self._parts.caches,
            self._side,
            pool,
            reading.space,
            reading.views[self._side.claim_kind],
            unavailable,
            restores=self._restored.seconds_left,
            generator=self._parts.generator,
        )

    async def finish(
        self, pool: Metal3Pool, refusals: Iterable[Refusal[Any]]
    ) -> Iterable[float | None]:
        """Write refusals of claims of this kind.

        Returns:
            In how many seconds another pass is due; None for no such time.
        """
        ours = [refusal for refusal in refusals if refusal.holder.kind == self._side.claim_kind]
        later = await self._writes.refuse(ours, pool)
        return later, self._restored.seconds_until_next(str(pool.metadata.key))

    async def refuse_waiting(self, pool: Metal3Pool, why: str) -> float | None:
        """Write on each claim that waits for a pool why the pool serves nobody.

        Returns:
            In how many seconds to write the claims whose write was refused; None without such.
        """
        problem = ClaimProblem(POOL_NOT_READY, describe_not_ready(pool.metadata.name, why))
        claims = self._caches.claims.by_index(SPACE_INDEX, str(pool.metadata.key))
        refusals = [
            Refusal(
                holder_of_claim(self._caches, claim),
                claim,
                problem.reason,
                problem.message,
                self._side.shows(claim, problem),
            )
            for claim in claims
            if self._side.waits(claim) and not self._parts.caches.why_claim_stops(claim)
        ]
        return await self._writes.refuse(refusals, pool)

    async def blockers(self, pool: Metal3Pool, journal: Journal) -> int:
        """Return how many claims and IPAddresses the deletion of a pool has to wait for.

        If none, what the pool may have promised to claims of this kind is void when this returns.

        Raises:
            UnreadableHolders: objects that may hold its addresses cannot be decoded.
        """
        key, fence = pool.metadata.key, self._writes.fence
        return await self._parts.reader.count_blockers(self._caches, key, journal, fence)


def describe_not_ready(pool: str, why: str) -> str:
    """Return the message of claims that wait for a pool which serves nobody."""
    return f"{POOL} {pool} is not ready: {why}"
