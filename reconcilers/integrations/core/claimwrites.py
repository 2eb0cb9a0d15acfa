"""Promises become IPAddresses and statuses of claims; refusals become messages on claims.

The IPAddress comes first, because clients read it once the status of a claim names it. The claim
is written with exactly the resourceVersion that the promise names. A conflict means that the claim
has another version, and the promise is over (*settled*). The IPAddress that was created for it
then serves the next promise, which is of the same address, or is deleted with the claim.

A promise is *kept* once the claim's status is written, and *void* once it can never be kept.

A kind of claims adds three things: what its claims show (`ClaimStatuses`), how the IPAddress of a
promise is created, and how a claim is written to void promises to its earlier versions.
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
from reconcilers.integrations.core.claimevents import ClaimEvents, ClaimReport
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
from reconcilers.promises.keeping import Granted, Kept, build_refused_message, void_each
from reconcilers.promises.refusedwrites import RefusedWrites, result_beside_promise
from reconcilers.promises.results import WriteResult
from reconcilers.reporting.conditions import READY, ConditionFinding

ClaimT = TypeVar("ClaimT", bound=Object)
AddressT = TypeVar("AddressT", bound=Object)
AddressT_contra = TypeVar("AddressT_contra", bound=Object, contravariant=True)
PoolT = TypeVar("PoolT", bound=Object)
SpaceT = TypeVar("SpaceT")


class AddressInTheWay(Exception):
    """An existing IPAddress keeps the IPAddress of a promise from being created.

    The message names the existing IPAddress, and says why it cannot be used for the claim.
    """


class ClaimStatuses(Protocol[ClaimT, AddressT_contra]):
    """Reads and renders the statuses of claims of one kind."""

    failure: str
    """The beginning of the message of a claim whose promise could not be kept."""
    shows_obstacles: bool
    """Whether the status of a claim reports `AddressInTheWay`. False for a kind whose next pass
    chooses another address, so that the claim need not report it."""

    @property
    def claims(self) -> Resource[ClaimT]:
        """The kind of claims."""
        ...

    def is_waiting(self, claim: ClaimT) -> bool:
        """Return whether a claim waits for an address."""
        ...

    def is_problem_shown(self, claim: ClaimT, problem: ClaimProblem) -> bool:
        """Return whether a claim shows a problem already, so that it need not be written."""
        ...

    def render_problem_status(
        self, claim: ClaimT, problem: ClaimProblem, now: datetime
    ) -> Mapping[str, Any]:
        """Return the patch of the status of a claim that gets no address."""
        ...

    def render_grant_status(
        self, claim: ClaimT, address: AddressT_contra, now: datetime
    ) -> Mapping[str, Any]:
        """Return the patch of the status of a claim that gets an IPAddress."""
        ...

    def describe_grant(self, claim: ClaimT, address: AddressT_contra) -> str:
        """Return the sentence of the event about a claim that gets an IPAddress."""
        ...


EnsureAddress = Callable[[ClaimT, Promise, PoolT, SpaceT], Awaitable[AddressT]]
"""Returns the IPAddress of a promise to a claim. It is created, or an existing one is adopted.

It raises AddressInTheWay if the existing IPAddress cannot be adopted, and ControllerError if a
request failed.
"""


class ClaimWrites(Generic[ClaimT, AddressT, PoolT, SpaceT]):
    """Writes what passes over pools of one kind decide about claims of one kind.

    The API server may refuse a write for good, by a quota or an admission webhook.

    Args:
        pools: the kind of the pools.
        statuses: makes the statuses of claims.
        ensure_address: creates or adopts the IPAddress of a promise.
        void: writes a claim once, so that no promise to an earlier version of it can be kept.
        recorder: records events.
        settings: how many writes run at once, and when a refused write is retried.
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
            may_have_promise=statuses.is_waiting,
            void=void,
            width=settings.width,
        )
        """Voids promises that a pool made before it was read."""

    async def keep(
        self, granted: Sequence[Granted[ClaimT]], pool: PoolT, space: SpaceT
    ) -> list[Kept[ClaimT]]:
        """Keep promises, several at once; return the result for each, and record events.

        A failed request is a result, not an exception: the other promises are kept all the same.

        Args:
            granted: promises to claims of this kind, with the claims.
            pool: the pool that made the promises.
            space: what the pool may hand out.
        """
        reports: list[ClaimReport[ClaimT]] = []

        async def keep_promise(promise: Promise, claim: ClaimT) -> Kept[ClaimT]:
            """Write the IPAddress, then the claim, unless the first of these writes fails."""
            make_kept = partial(Kept, promise, claim)
            try:
                address = await self._ensure_address(claim, promise, pool, space)
            except AddressInTheWay as error:
                # The promise is voided soon. The next choice takes the IPAddress into account.
                return make_kept(WriteResult.REFUSED, str(error), retry_after=RETRY)
            except ControllerError as error:
                return make_kept(result_beside_promise(error), str(error))
            status = self._statuses.render_grant_status(claim, address, self._clock.now())
            try:
                written = await self._client.patch_status(self._claims, claim, status)
            except ControllerError as error:
                return make_kept(WriteResult.from_error(error), str(error))
            sentence = self._statuses.describe_grant(claim, address)
            reports.append(
                ClaimReport(
                    written,
                    ConditionFinding(READY, True, reason=ADDRESS_ALLOCATED, message=sentence),
                )
            )
            return make_kept(WriteResult.WRITTEN)

        tasks = [partial(keep_promise, promise, claim) for promise, claim in granted]
        results = await run_concurrently(tasks, self._width)
        self._events.record(self._pools, pool, reports)
        return results

    async def void_refused(
        self, refused: Sequence[Kept[ClaimT]], pool: PoolT
    ) -> list[WriteResult]:
        """Void promises whose write was refused for good; show the reason on the claims.

        Args:
            refused: the promises, with their claims.
            pool: the pool that made the promises.

        Returns:
            The result of each voiding write, in the order of `refused`.
        """
        reports: list[ClaimReport[ClaimT]] = []

        async def void_promise(entry: Kept[ClaimT]) -> None:
            """Write the reason to the claim, or write the claim without a visible change."""
            # Only AddressInTheWay sets `retry_after` (see `keep`).
            is_obstacle = entry.retry_after is not None
            if is_obstacle and not self._statuses.shows_obstacles:
                await self._void(entry.request)
            else:
                reports.append(await self._show_failure(entry))

        results = await void_each(refused, void_promise, self._width)
        self._events.record(self._pools, pool, reports)
        return results

    async def _show_failure(self, entry: Kept[ClaimT]) -> ClaimReport[ClaimT]:
        """Write to a claim why its promise could not be kept; return the report for its event.

        The time in the message makes each such write a change, so that it voids the promise. The
        message of the event has no time, so that repeated events are equal.
        """
        now, failure = self._clock.now(), self._statuses.failure
        problem = ClaimProblem(ALLOCATION_FAILED, failure + build_refused_message(entry.why, now))
        status = self._statuses.render_problem_status(entry.request, problem, now)
        written = await self._client.patch_status(self._claims, entry.request, status)
        finding = ConditionFinding(
            READY, False, reason=ALLOCATION_FAILED, message=failure + entry.why
        )
        return ClaimReport(written, finding)

    async def refuse(self, refusals: Sequence[AskerRefusal[ClaimT]], pool: PoolT) -> float | None:
        """Write to each claim why it gets no address, unless the claim shows that already.

        A claim that has changed meanwhile is left to the next pass. If the API server rejects a
        write, the write is retried later. It does not end the pass, because other claims wait for
        the pool.

        Returns:
            Seconds until rejected writes are retried; None if no write was rejected.
        """
        reports: list[ClaimReport[ClaimT]] = []

        async def refuse_claim(refusal: AskerRefusal[ClaimT]) -> None:
            """Write one refusal, and note the event about it."""
            claim, problem = refusal.asker, ClaimProblem(refusal.reason, refusal.message)
            status = self._statuses.render_problem_status(claim, problem, self._clock.now())
            written = await self._refused.attempt(
                claim.metadata, partial(self._client.patch_status, self._claims, claim, status)
            )
            # Without a write the claim shows the same as before, and needs no event.
            if written is not None:
                reports.append(ClaimReport(written, problem.make_ready_finding()))

        due = self.list_due_refusals(refusals)
        await run_concurrently([partial(refuse_claim, refusal) for refusal in due], self._width)
        self._events.record(self._pools, pool, reports)
        return self.seconds_until_due(refusals)

    def list_due_refusals(
        self, refusals: Iterable[AskerRefusal[ClaimT]]
    ) -> list[AskerRefusal[ClaimT]]:
        """Return the refusals to write now.

        These are refusals that their claims do not show yet. A claim is left out for one resync
        period after the API server rejected a write of it.
        """
        return [
            refusal
            for refusal in refusals
            if not refusal.is_shown and self._refused.wait_of(refusal.asker.metadata) is None
        ]

    def seconds_until_due(self, refusals: Iterable[AskerRefusal[ClaimT]]) -> float | None:
        """Return the seconds until rejected writes of these claims are retried.

        None if no write of these claims was rejected.
        """
        return self._refused.next_in(refusal.asker.metadata for refusal in refusals)
