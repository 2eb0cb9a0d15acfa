"""Promises become IPAddresses and statuses of claims; refusals become errors.

The IPAddress comes first, because clients that see its name in the claim read it. The claim is
written with exactly the resourceVersion that the promise names. A promise is voided by an
annotation of the claim: an errorMessage makes its reader give up, and a status that does not
change is no new version.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from controller.client import Client
from controller.clock import Clock
from controller.errors import ControllerError
from controller.eventkind import shorten
from controller.events import EventType, Recorder
from controller.meta import Version
from reconcilers.api import names
from reconcilers.configuration.settings import PoolSettings
from reconcilers.integrations.clusterapi.api import ADDRESS_ALLOCATED
from reconcilers.integrations.metal3.addresswrites import AddressWrites, NameTaken
from reconcilers.integrations.metal3.api import NOT_CREATED, POOLS, Metal3Pool
from reconcilers.integrations.metal3.caches import SideCaches
from reconcilers.integrations.metal3.entries import EntrySpace
from reconcilers.integrations.metal3.sides import (
    ALLOCATION_FAILED,
    Address,
    Claim,
    ClaimProblem,
)
from reconcilers.promises.choosing import Refusal
from reconcilers.promises.concurrency import run_concurrently
from reconcilers.promises.due import RETRY
from reconcilers.promises.fence import Fence
from reconcilers.promises.journal import Promise
from reconcilers.promises.keeping import Granted, Kept, refused_message
from reconcilers.promises.refusedwrites import RefusedWrites, result_beside_promise
from reconcilers.promises.results import WriteResult

ACTION = "Allocating"
MOST_SINGLE = 8
"""Up to so many claims of one pass get an event each."""


class ClaimWrites:
    """Writes what passes over pools decide about claims of one kind.

    Args:
        client: for the writes.
        side: the kind.
        addresses: writes IPAddresses.
        recorder: takes the events.
        clock: the time.
        settings: writes in flight at once, and when a refused write is tried again.
    """

    def __init__(
        self,
        client: Client,
        side: SideCaches,
        addresses: AddressWrites,
        recorder: Recorder,
        *,
        clock: Clock,
        settings: PoolSettings,
    ) -> None:
        self._client = client
        self._caches = side
        self._side = side.side
        self._addresses = addresses
        self._recorder = recorder
        self._clock = clock
        self._width = settings.width
        self._refused = RefusedWrites(clock, settings.resync)
        self.fence: Fence[Any] = Fence(
            client, side.side.claims, side.side.waits, self._void, settings.width
        )
        """Voids promises that a pool made before it was read."""

    async def keep(
        self, granted: Sequence[Granted[Claim]], pool: Metal3Pool, space: EntrySpace
    ) -> list[Kept[Claim]]:
        """Keep promises, several at once; return what became of each.

        Args:
            granted: promises to claims of this kind, with the claims.
            pool: whose promises they are.
            space: what it may hand out.
        """
        addresses: list[tuple[Claim, Address]] = []

        async def keep_promise(promise: Promise, claim: Claim) -> Kept[Claim]:
            kept = partial(Kept, promise, claim)
            [part] = promise.ranges
            try:
                address = await self._addresses.ensure(
                    self._caches, claim, pool, space, part.range
                )
            except NameTaken as error:
                # The next choice sees the IPAddress that is in the way.
                return kept(WriteResult.REFUSED, str(error), retry_after=RETRY)
            except ControllerError as error:
                return kept(result_beside_promise(error), str(error))
            status = self._side.status_of_grant(claim, address, self._clock.now())
            try:
                written = await self._client.patch_status(self._side.claims, claim, status)
            except ControllerError as error:
                return kept(WriteResult.of_error(error), str(error))
            addresses.append((written, address))
            return kept(WriteResult.WRITTEN)

        work = [partial(keep_promise, promise, claim) for promise, claim in granted]
        results = await run_concurrently(work, self._width)
        texts = [(claim, f"Allocated {address.spec.address}") for claim, address in addresses]
        self._record(pool, texts, "Normal", ADDRESS_ALLOCATED)
        return results

    async def void_refused(
        self, refused: Sequence[Kept[Claim]], pool: Metal3Pool
    ) -> list[WriteResult]:
        """Void promises whose write was refused for good; return the results, in order.

        A claim whose IPAddress the API server refuses shows the server's sentence. If an IPAddress
        of another claim was in the way, the claim gets another address, and shows nothing.
        """

        async def void_promise(entry: Kept[Claim]) -> WriteResult:
            try:
                if entry.retry_after is not None:
                    await self._void(entry.request)
                else:
                    now = self._clock.now()
                    message = f"{NOT_CREATED}. {refused_message(entry.why, now)}"
                    problem = ClaimProblem(ALLOCATION_FAILED, message)
                    status = self._side.status_of_problem(entry.request, problem, now)
                    await self._client.patch_status(self._side.claims, entry.request, status)
            except ControllerError as error:
                return WriteResult.of_error(error)
            return WriteResult.WRITTEN

        work = [partial(void_promise, entry) for entry in refused]
        results = await run_concurrently(work, self._width)
        texts = [
            (entry.request, f"{NOT_CREATED}: {entry.why}")
            for entry in refused
            if entry.retry_after is None
        ]
        self._record(pool, texts, "Warning", ALLOCATION_FAILED)
        return results

    async def refuse(self, refusals: Sequence[Refusal[Claim]], pool: Metal3Pool) -> float | None:
        """Write on each claim why it gets nothing, where that differs.

        Returns:
            In how many seconds to write the claims whose write was refused; None without such.
        """
        texts: dict[str, list[tuple[Claim, str]]] = {}

        async def refuse_claim(refusal: Refusal[Claim]) -> None:
            claim, problem = refusal.asker, ClaimProblem(refusal.reason, refusal.message)
            status = self._side.status_of_problem(claim, problem, self._clock.now())
            written = await self._refused.attempt(
                claim.metadata,
                partial(self._client.patch_status, self._side.claims, claim, status),
            )
            if written is not None:
                texts.setdefault(refusal.reason, []).append((written, refusal.message))

        due = [
            refusal
            for refusal in refusals
            if not refusal.is_shown and self._refused.wait_of(refusal.asker.metadata) is None
        ]
        await run_concurrently([partial(refuse_claim, refusal) for refusal in due], self._width)
        for reason, claims in texts.items():
            self._record(pool, claims, "Warning", reason)
        return self.seconds_until_due(refusals)

    def seconds_until_due(self, refusals: Iterable[Refusal[Claim]]) -> float | None:
        """Return in how many seconds to write claims whose write was refused; None without."""
        return self._refused.next_in(refusal.asker.metadata for refusal in refusals)

    async def _void(self, claim: Claim) -> Claim:
        """Write a claim once, so that no promise to its present version can be kept."""
        annotation = {names.ANNOTATION_PROMISES_VOID: self._clock.now().isoformat()}
        at, patch = Version.from_object(claim), {"metadata": {"annotations": annotation}}
        return await self._client.patch(self._side.claims, at, patch)

    def _record(
        self,
        pool: Metal3Pool,
        claims: Sequence[tuple[Claim, str]],
        type_: EventType,
        reason: str,
    ) -> None:
        """Record an event for each of a few claims, or one for all claims of a pass."""
        if not claims:
            return
        if len(claims) <= MOST_SINGLE:
            for claim, message in claims:
                self._recorder.record(
                    self._side.claims, claim, type_, reason, message, action=ACTION
                )
            return
        texts = "; ".join(f"{claim.metadata.key}: {message}" for claim, message in claims)
        note = f"{len(claims)} {self._side.claims.kind}s: {texts}"
        self._recorder.record(POOLS, pool, type_, reason, shorten(note), action=ACTION)
