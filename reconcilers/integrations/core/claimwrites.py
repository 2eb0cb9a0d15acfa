"""Promises become IPAddresses and statuses of claims; refusals become messages on claims.

The IPAddress comes first, because clients read it once the status of a claim names it. The claim
is written with exactly the resourceVersion that the promise names: on a conflict it has moved on,
and the promise is settled. Then the IPAddress that was created for it is adopted by the next
promise, which is of the same address, or it is deleted with the claim.

A kind of claims adds what its claims show (`ClaimStatuses`), how the IPAddress of a promise comes
about, and how a claim is written so that promises to earlier versions are void.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from controller.client import Client
from controller.clock import Clock
from controller.errors import ControllerError
from controller.events import Recorder
from controller.meta import Object
from controller.resource import Resource
from reconcilers.configuration.settings import PoolSettings
from reconcilers.integrations.core.claimevents import ClaimEvents, Reported
from reconcilers.integrations.core.claimproblems import (
    ADDRESS_ALLOCATED,
    ALLOCATION_FAILED,
    ClaimProblem,
)
from reconcilers.promises.choosing import AskerRefusal
from reconcilers.promises.concurrency import run_concurrently
from reconcilers.promises.due import RETRY
from reconcilers.promises.fence import Fence
from reconcilers.promises.journal import Promise
from reconcilers.promises.keeping import Granted, Kept, refused_message, void_each
from reconcilers.promises.refusedwrites import RefusedWrites, result_beside_promise
from reconcilers.promises.results import WriteResult
from reconcilers.reporting.conditions import READY, ConditionFinding

ClaimT = TypeVar("ClaimT", bound=Object)
AddressT = TypeVar("AddressT", bound=Object)
AddressT_contra = TypeVar("AddressT_contra", bound=Object, contravariant=True)
PoolT = TypeVar("PoolT", bound=Object)
SpaceT = TypeVar("SpaceT")


class AddressInTheWay(Exception):
    """An IPAddress exists that is not the one of a promise; the message says which."""


class ClaimStatuses(Protocol[ClaimT, AddressT_contra]):
    """What claims of one kind show in their statuses."""

    failure: str
    """What a claim shows in front of the reason why its promise could not be kept."""
    shows_obstacles: bool
    """Whether a claim shows that an IPAddress is in the way, although the next pass chooses
    another address."""

    @property
    def claims(self) -> Resource[ClaimT]:
        """The kind of claims."""
        ...

    def waits(self, claim: ClaimT) -> bool:
        """Return whether a claim waits for an address."""
        ...

    def shows(self, claim: ClaimT, problem: ClaimProblem) -> bool:
        """Return whether nothing has to be written for a claim to show a problem."""
        ...

    def status_of_problem(
        self, claim: ClaimT, problem: ClaimProblem, now: datetime
    ) -> Mapping[str, Any]:
        """Return the patch of the status of a claim that gets no address."""
        ...

    def status_of_grant(
        self, claim: ClaimT, address: AddressT_contra, now: datetime
    ) -> Mapping[str, Any]:
        """Return the patch of the status of a claim that gets an IPAddress."""
        ...

    def describe_grant(self, claim: ClaimT, address: AddressT_contra) -> str:
        """Return the sentence of the event about a claim that gets an IPAddress."""
        ...


EnsureAddress = Callable[[ClaimT, Promise, PoolT, SpaceT], Awaitable[AddressT]]
"""Returns the IPAddress of a promise to a claim: created, or adopted and repaired.

It raises AddressInTheWay if another IPAddress has its name, ControllerError if a request failed.
"""


class ClaimWrites(Generic[ClaimT, AddressT, PoolT, SpaceT]):
    """Writes what passes over pools of one kind decide about claims of one kind.

    Args:
        client: for the writes.
        pools: the kind of the pools.
        statuses: what the claims show.
        ensure_address: returns the IPAddress of a promise.
        void: writes a claim once, so that no promise to an earlier version can be kept.
        recorder: takes the events.
        clock: the time.
        settings: writes in flight at once, and when a refused write is tried again.
    """

    def __init__(  # noqa: PLR0913 - what writes need, and what the kind adds
        self,
        client: Client,
        pools: Resource[PoolT],
        statuses: ClaimStatuses[ClaimT, AddressT],
        ensure_address: EnsureAddress[ClaimT, PoolT, SpaceT, AddressT],
        void: Callable[[ClaimT], Awaitable[ClaimT]],
        *,
        recorder: Recorder,
        clock: Clock,
        settings: PoolSettings,
    ) -> None:
        self._client = client
        self._pools = pools
        self._claims = statuses.claims
        self._statuses = statuses
        self._ensure_address = ensure_address
        self._void = void
        self._events = ClaimEvents(recorder, clock, statuses.claims)
        self._clock = clock
        self._width = settings.width
        self._refused = RefusedWrites(clock, settings.resync)
        self.fence = Fence(
            client,
            statuses.claims,
            may_have_promise=statuses.waits,
            void=void,
            width=settings.width,
        )
        """Voids promises that a pool made before it was read."""

    async def keep(
        self, granted: Sequence[Granted[ClaimT]], pool: PoolT, space: SpaceT
    ) -> list[Kept[ClaimT]]:
        """Keep promises, several at once; return what became of each.

        Args:
            granted: promises to claims of this kind, with the claims.
            pool: whose promises they are.
            space: what it may hand out.
        """
        reports: list[Reported[ClaimT]] = []

        async def keep_promise(promise: Promise, claim: ClaimT) -> Kept[ClaimT]:
            kept = partial(Kept, promise, claim)
            try:
                address = await self._ensure_address(claim, promise, pool, space)
            except AddressInTheWay as error:
                # The next choice sees the IPAddress.
                return kept(WriteResult.REFUSED, str(error), retry_after=RETRY)
            except ControllerError as error:
                return kept(result_beside_promise(error), str(error))
            status = self._statuses.status_of_grant(claim, address, self._clock.now())
            try:
                written = await self._client.patch_status(self._claims, claim, status)
            except ControllerError as error:
                return kept(WriteResult.of_error(error), str(error))
            sentence = self._statuses.describe_grant(claim, address)
            reports.append(
                (
                    written,
                    ConditionFinding(READY, True, reason=ADDRESS_ALLOCATED, message=sentence),
                )
            )
            return kept(WriteResult.WRITTEN)

        work = [partial(keep_promise, promise, claim) for promise, claim in granted]
        results = await run_concurrently(work, self._width)
        self._events.record(self._pools, pool, reports)
        return results

    async def void_refused(
        self, refused: Sequence[Kept[ClaimT]], pool: PoolT
    ) -> list[WriteResult]:
        """Void promises whose write was refused for good; show on the claims why.

        Args:
            refused: the promises, with their claims.
            pool: whose promises they are.

        Returns:
            What became of each voiding write, in order.
        """
        reports: list[Reported[ClaimT]] = []

        async def void_promise(entry: Kept[ClaimT]) -> None:
            is_obstacle = entry.retry_after is not None
            if is_obstacle and not self._statuses.shows_obstacles:
                await self._void(entry.request)
            else:
                reports.append(await self._show_failure(entry))

        results = await void_each(refused, void_promise, self._width)
        self._events.record(self._pools, pool, reports)
        return results

    async def _show_failure(self, entry: Kept[ClaimT]) -> Reported[ClaimT]:
        """Write on a claim why its promise could not be kept; return what its event says.

        The time in the message makes the write a change, so it voids the promise. The event goes
        without the time.
        """
        now, failure = self._clock.now(), self._statuses.failure
        problem = ClaimProblem(ALLOCATION_FAILED, failure + refused_message(entry.why, now))
        status = self._statuses.status_of_problem(entry.request, problem, now)
        written = await self._client.patch_status(self._claims, entry.request, status)
        return written, ConditionFinding(
            READY, False, reason=ALLOCATION_FAILED, message=failure + entry.why
        )

    async def refuse(self, refusals: Sequence[AskerRefusal[ClaimT]], pool: PoolT) -> float | None:
        """Write on each claim why it gets nothing, where that differs.

        A claim that has changed meanwhile is left to the next pass. So is a claim whose write is
        refused: other claims wait for the same pool.

        Returns:
            In how many seconds to write the claims whose write was refused; None without such.
        """
        reports: list[Reported[ClaimT]] = []

        async def refuse_claim(refusal: AskerRefusal[ClaimT]) -> None:
            claim, problem = refusal.asker, ClaimProblem(refusal.reason, refusal.message)
            status = self._statuses.status_of_problem(claim, problem, self._clock.now())
            written = await self._refused.attempt(
                claim.metadata, partial(self._client.patch_status, self._claims, claim, status)
            )
            if written is not None:
                reports.append(
                    (
                        written,
                        ConditionFinding(
                            READY, False, reason=problem.reason, message=problem.message
                        ),
                    )
                )

        due = self.due_refusals(refusals)
        await run_concurrently([partial(refuse_claim, refusal) for refusal in due], self._width)
        self._events.record(self._pools, pool, reports)
        return self.seconds_until_due(refusals)

    def due_refusals(self, refusals: Iterable[AskerRefusal[ClaimT]]) -> list[AskerRefusal[ClaimT]]:
        """Return the refusals to write: not shown yet, and not refused within a resync."""
        return [
            refusal
            for refusal in refusals
            if not refusal.is_shown and self._refused.wait_of(refusal.asker.metadata) is None
        ]

    def seconds_until_due(self, refusals: Iterable[AskerRefusal[ClaimT]]) -> float | None:
        """Return in how many seconds to write claims whose write was refused; None without."""
        return self._refused.next_in(refusal.asker.metadata for refusal in refusals)
