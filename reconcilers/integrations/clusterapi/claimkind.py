"""IPAddressClaims as requests of a pool, of whichever kind.

They are found, served, refused, voided and fenced, and their IPAddresses are looked after. What a
kind of pools adds is what it may hand out, and what its status reports.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from typing_extensions import override

from allocator import AddressRange
from controller.client import Client
from controller.clock import Clock
from controller.meta import Key, Object
from controller.resource import Resource
from reconcilers.configuration.settings import PoolSettings
from reconcilers.integrations.clusterapi.addresses import PoolSpace
from reconcilers.integrations.clusterapi.answers import ready_of_refused
from reconcilers.integrations.clusterapi.api import (
    CLAIM_KIND,
    POOL_NOT_READY,
    IPAddressClaim,
    is_paused,
)
from reconcilers.integrations.clusterapi.caches import (
    ClaimCaches,
    ClaimPool,
    Standing,
    holder_of,
    space_name,
)
from reconcilers.integrations.clusterapi.claimtaking import ClaimTaker
from reconcilers.integrations.clusterapi.granting import Granting
from reconcilers.integrations.clusterapi.leftovers import Leftovers
from reconcilers.integrations.clusterapi.reading import Reader, source_of
from reconcilers.integrations.clusterapi.restoredclaims import RestoredClaims
from reconcilers.integrations.clusterapi.statuses import shows, waits
from reconcilers.integrations.core.claimreading import lacks_memory
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.rules import View
from reconcilers.promises.choosing import Refusal
from reconcilers.promises.journal import Journal, Promise
from reconcilers.promises.keeping import Granted, Kept
from reconcilers.promises.passes import Fenced, RequestKind
from reconcilers.promises.results import WriteResult
from reconcilers.promises.shares import Limits

PoolT_contra = TypeVar("PoolT_contra", bound=Object, contravariant=True)


@dataclass(frozen=True, slots=True)
class ClaimParts:
    """What claims of pools of all kinds share.

    Args:
        client: for the requests.
        reader: reads claims and IPAddresses.
        granting: writes claims.
        leftovers: takes away IPAddresses that no promise and no claim names.
        restored: the claims that may still get an IPAddress from a restore.
        clock: the time.
        settings: intervals, and how much is done at once.
    """

    client: Client
    caches: ClaimCaches
    reader: Reader
    granting: Granting
    leftovers: Leftovers
    restored: RestoredClaims
    clock: Clock
    settings: PoolSettings


@dataclass(frozen=True, slots=True)
class ClaimReading:
    """What a pass read of a pool.

    Args:
        space: what the pool may hand out.
        view: its claims and IPAddresses.
    """

    space: PoolSpace
    view: View[IPAddressClaim]


class ClaimKind(RequestKind[PoolT_contra, IPAddressClaim, ClaimReading]):
    """IPAddressClaims that are served from pools of one kind.

    Args:
        pools: the kind of the pools.
        parts: what claims of pools of all kinds share.
    """

    def __init__(self, pools: Resource[Any], parts: ClaimParts) -> None:
        self._pools = pools
        self._caches = parts.caches
        self._source = source_of(parts.caches)
        self._reader = parts.reader
        self._granting = parts.granting
        self._leftovers = parts.leftovers
        self._restored = parts.restored

    @property
    @override
    def request_resource(self) -> Resource[IPAddressClaim]:
        return self._caches.claim_kind

    def forget(self, pool: Key) -> None:
        """Drop what is remembered of a pool."""
        self._reader.forget(self._pool(pool))

    async def read(self, pool: Key, space: PoolSpace, journal: Journal) -> ClaimReading:
        """Read claims and IPAddresses as far as a journal says, or all that there is now.

        Raises:
            Behind: a cache may still get there.
            UnreadableHolders: objects that may hold addresses of the pool cannot be decoded.
            ControllerError: a LIST failed.
        """
        reading = await self._reader.at_least(self._pool(pool), space, journal)
        return ClaimReading(space, reading.views[CLAIM_KIND])

    @override
    def needs_fence(
        self, pool: PoolT_contra, journal: Journal, reading: ClaimReading, limits: Limits
    ) -> bool:
        return self.lacks_memory(journal, reading.view)

    def lacks_memory(self, journal: Journal, view: View[IPAddressClaim]) -> bool:
        """Return whether a journal does not record all promises to claims."""
        return lacks_memory(self._source, view, journal)

    @override
    async def void_earlier(self, pool: PoolT_contra, reading: ClaimReading) -> Fenced:
        return await self.void_earlier_of(pool)

    async def void_earlier_of(self, pool: PoolT_contra) -> Fenced:
        """Void every promise to claims that was made before the pool was read."""
        key, fence = self._pool(pool.metadata.key), self._granting.fence
        return await self._reader.void_earlier(self._source, key, fence)

    def make_taker(
        self,
        pool: PoolT_contra,
        settled: Journal,
        reading: ClaimReading,
        *,
        closed: str = "",
        observed: Sequence[AddressRange] = (),
    ) -> ClaimTaker:
        """Return the taker of addresses of a pool for claims.

        Args:
            pool: as it was read.
            settled: its journal, without the promises that are over.
            reading: of the pool.
            closed: why the pool hands out no further address; empty if it does.
            observed: ranges that another allocator gave, and that no request holds.
        """
        return ClaimTaker(
            self._caches,
            self._pools,
            pool,
            settled,
            reading.space,
            reading.view,
            observed=observed,
            restored=self._restored,
            closed=closed,
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
        self._reader.note_kept(self._pool(pool.metadata.key), promises)
        return kept

    @override
    async def void_refused(
        self, pool: PoolT_contra, refused: Sequence[Kept[IPAddressClaim]]
    ) -> Sequence[WriteResult]:
        return await self._granting.void_refused(refused, pool=pool, pool_kind=self._pools)

    async def refuse(
        self, pool: PoolT_contra, refusals: Sequence[Refusal[IPAddressClaim]]
    ) -> float | None:
        """Write refusals on claims that show something else.

        Returns:
            In how many seconds to write the claims whose write was refused; None without such.
        """
        return await self._granting.refuse(refusals, pool, self._pools)

    async def refuse_waiting(self, pool: PoolT_contra, why: str) -> float | None:
        """Write on each claim that waits for a pool why the pool serves no claim.

        Returns:
            In how many seconds to write the claims whose write was refused; None without such.
        """
        return await self.refuse(pool, self.refusals_of_waiting(pool, why))

    def refusals_of_waiting(self, pool: PoolT_contra, why: str) -> list[Refusal[IPAddressClaim]]:
        """Return the refusals of all claims that wait for a pool which serves no claim."""
        meta = pool.metadata
        if is_paused(meta.annotations):
            return []
        message = describe_not_ready(self._pools, pool, why)
        claims = self._caches.claims.by_index(SPACE_INDEX, space_name(self._pools, meta.key))
        refusals = []
        for claim in claims:
            if waits(claim) and self._caches.standing(claim) is Standing.SERVE:
                finding = ready_of_refused(claim, self._caches, POOL_NOT_READY, message)
                is_shown = shows(claim, finding)
                holder = holder_of(claim)
                refusals.append(Refusal(holder, claim, POOL_NOT_READY, message, is_shown))
        return refusals

    def due_refusals(
        self, refusals: Iterable[Refusal[IPAddressClaim]]
    ) -> Sequence[Refusal[IPAddressClaim]]:
        """Return the refusals that are to be written now: see Granting."""
        return self._granting.due_refusals(refusals)

    async def finish(
        self,
        pool: PoolT_contra,
        view: View[IPAddressClaim],
        *,
        promises: Iterable[Promise],
        refusals: Sequence[Refusal[IPAddressClaim]],
        due: Sequence[Refusal[IPAddressClaim]],
    ) -> float | None:
        """Write refusals, and delete IPAddresses that stand in the way of claims.

        Args:
            pool: as it was written last.
            promises: the open promises of the pool.
            due: those of `refusals` that are to be written.

        Returns:
            In how many seconds another pass is due; None for no such time.
        """
        await self.refuse(pool, due)
        waits_for = (
            self._granting.seconds_until_due(refusals),
            await self.collect_leftovers(view, refusals, promises),
            self.seconds_until_restored(pool.metadata.key),
        )
        return min((seconds for seconds in waits_for if seconds is not None), default=None)

    async def collect_leftovers(
        self,
        view: View[IPAddressClaim],
        refusals: Iterable[Refusal[IPAddressClaim]],
        promises: Iterable[Promise],
    ) -> float | None:
        """Delete IPAddresses that stand in the way of claims for longer than the grace period.

        Returns:
            In how many seconds to look again; None if nothing is in the way.
        """
        return await self._leftovers.collect(self._pools, view, refusals, promises)

    def seconds_until_restored(self, pool: Key) -> float | None:
        """Return in how many seconds a claim waits no longer for an IPAddress from a restore."""
        return self._restored.seconds_until_next(space_name(self._pools, pool))

    async def blockers(self, pool: PoolT_contra, journal: Journal) -> int:
        """Return how many addresses of claims the deletion of a pool has to wait for.

        If none, what the pool may have promised is void when this returns.

        Args:
            pool: as it was read.
            journal: of the pool.

        Raises:
            UnreadableHolders: objects that may hold its addresses cannot be decoded.
        """
        key, reader = self._pool(pool.metadata.key), self._reader
        reader.check_cached(key)
        if count := reader.count(key):
            return count
        return await reader.count_blockers(self._source, key, journal, self._granting.fence)

    def _pool(self, key: Key) -> ClaimPool:
        """Return a pool of this kind, as readers name it."""
        return ClaimPool(self._pools, key)


def describe_not_ready(kind: Resource[Any], pool: Any, why: str) -> str:
    """Return the message of claims that wait for a pool which serves no claim."""
    return f"{kind.kind} {pool.metadata.name} is not ready: {why}"
