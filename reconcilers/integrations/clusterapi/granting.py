"""Promises become IPAddresses and addressRefs, refusals become conditions.

The IPAddress comes first, as clients that see an addressRef read it. The claim is written with
exactly the resourceVersion that the promise names: on a conflict it has moved on, and the promise
is settled. Then an IPAddress that was made for it answers the next promise, which is of the same
address, or is taken away with the claim.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from controller.client import Client
from controller.clock import Clock
from controller.errors import ControllerError
from controller.events import Recorder
from controller.resource import Resource
from reconcilers.configuration.settings import PoolSettings
from reconcilers.integrations.clusterapi.addresses import PoolSpace, blocks_of
from reconcilers.integrations.clusterapi.answers import (
    Answers,
    NotOurs,
    ready_of_refused,
    spec_of,
)
from reconcilers.integrations.clusterapi.api import (
    ADDRESS_ALLOCATED,
    ALLOCATION_FAILED,
    POOL_NOT_READY,
    IPAddress,
    IPAddressClaim,
)
from reconcilers.integrations.clusterapi.caches import ClaimCaches, promised_address
from reconcilers.integrations.clusterapi.claimevents import ClaimEvents, Reported
from reconcilers.integrations.clusterapi.statuses import message_of, shows, waits, with_ready
from reconcilers.promises.choosing import Refusal
from reconcilers.promises.concurrency import run_concurrently
from reconcilers.promises.due import RETRY
from reconcilers.promises.fence import Fence
from reconcilers.promises.journal import Promise
from reconcilers.promises.keeping import Granted, Kept, refused_message
from reconcilers.promises.refusedwrites import RefusedWrites, result_beside_promise
from reconcilers.promises.results import WriteResult
from reconcilers.reporting.conditions import READY, Finding


class Granting:
    """Writes what passes over pools decide about claims.

    Args:
        client: for the writes.
        recorder: takes the events.
        clock: the time.
        settings: writes in flight at once, and when a refused write is tried again.
    """

    def __init__(
        self,
        client: Client,
        caches: ClaimCaches,
        recorder: Recorder,
        clock: Clock,
        settings: PoolSettings,
    ) -> None:
        self._client = client
        self._caches = caches
        self._answers = Answers(client, caches)
        self._events = ClaimEvents(recorder, clock, caches.claim_kind)
        self._clock = clock
        self._width = settings.width
        self._refused = RefusedWrites(clock, settings.resync)
        self.fence = Fence(client, caches.claim_kind, waits, self._void, settings.width)
        """Voids promises that a pool made before it was read."""

    async def keep(
        self,
        granted: Sequence[Granted[IPAddressClaim]],
        pool: Any,
        pool_kind: Resource[Any],
        space: PoolSpace,
    ) -> list[Kept[IPAddressClaim]]:
        """Keep these promises, several at once; return what became of each.

        Args:
            granted: what is due.
            pool: whose promises they are.
            space: what it hands out.
        """
        written: list[Reported] = []

        async def keep_one(promise: Promise, claim: IPAddressClaim) -> Kept[IPAddressClaim]:
            kept = partial(Kept, promise, claim)
            try:
                address = await self._ensure(promise, claim, pool, pool_kind, space)
            except NotOurs as error:
                # The next choice sees the IPAddress that is in the way.
                return kept(WriteResult.REFUSED, str(error), retry_after=RETRY)
            except ControllerError as error:
                return kept(result_beside_promise(error), str(error))
            try:
                written.append(await self._refer_to(address, claim))
            except ControllerError as error:
                return kept(WriteResult.of_error(error), str(error))
            return kept(WriteResult.WRITTEN)

        work = [partial(keep_one, promise, claim) for promise, claim in granted]
        results = await run_concurrently(work, self._width)
        self._events.record(pool_kind, pool, written)
        return results

    async def void_refused(
        self, refused: Sequence[Kept[IPAddressClaim]], pool: Any, pool_kind: Resource[Any]
    ) -> list[WriteResult]:
        """Void promises whose write was refused for good; show on the claims why.

        Args:
            refused: the promises, with their claims.
            pool: whose promises they are.

        Returns:
            What became of each voiding write, in order.
        """
        written: list[Reported] = []

        async def void_one(entry: Kept[IPAddressClaim]) -> WriteResult:
            # A promise names a version of its claim, so any new version voids it. The time in the
            # message makes the write a change; the event goes without it.
            kind, now = self._caches.claim_kind, self._clock.now()
            message = refused_message(entry.why, now)
            finding = ready_of_refused(entry.request, self._caches, ALLOCATION_FAILED, message)
            status = with_ready(entry.request, finding, kind.version, now)
            try:
                claim = await self._client.patch_status(kind, entry.request, status)
            except ControllerError as error:
                return WriteResult.of_error(error)
            written.append((claim, Finding(READY, False, ALLOCATION_FAILED, entry.why)))
            return WriteResult.WRITTEN

        work = [partial(void_one, entry) for entry in refused]
        results = await run_concurrently(work, self._width)
        self._events.record(pool_kind, pool, written)
        return results

    async def _ensure(
        self,
        promise: Promise,
        claim: IPAddressClaim,
        pool: Any,
        pool_kind: Resource[Any],
        space: PoolSpace,
    ) -> IPAddress:
        """Return the IPAddress of a claim, which is created or repaired if need be.

        Raises:
            NotOurs: there is one that is not as promised.
            ControllerError: a request failed.
        """
        promised = promised_address(promise)
        spec = spec_of(promised.start_text, space.prefix, space.gateway)
        address = await self._answers.ensure(claim, pool, pool_kind, spec)
        blocks = space.find_blocks(address.spec.address, address.spec.prefix)
        if blocks != blocks_of(space, promised):
            raise NotOurs(
                f"IPAddress {address.metadata.key} exists and is {address.spec.address},"
                f" not {promised.start_text}"
            )
        return address

    async def _refer_to(self, address: IPAddress, claim: IPAddressClaim) -> Reported:
        """Write into a claim that it has an IPAddress; the promise is kept by that."""
        # What an adopted one says counts, to the letter: it may have another prefix than the pool.
        message = message_of(address.spec.address, address.spec.prefix, claim.spec.poolRef)
        finding = Finding(READY, True, ADDRESS_ALLOCATED, message)
        kind = self._caches.claim_kind
        status = {
            **with_ready(claim, finding, kind.version, self._clock.now()),
            "addressRef": {"name": address.metadata.name},
        }
        return await self._client.patch_status(kind, claim, status), finding

    async def refuse(
        self, refusals: Sequence[Refusal[IPAddressClaim]], pool: Any, pool_kind: Resource[Any]
    ) -> float | None:
        """Write to each claim's Ready condition why it gets nothing, where that differs.

        A claim that another provider served stays Ready.

        Args:
            refusals: which claims, and why.
            pool: that they name.

        Returns:
            In how many seconds to write the claims whose write was refused; None without such.
        """
        written: list[Reported] = []

        async def refuse_one(refusal: Refusal[IPAddressClaim]) -> None:
            claim, reason, message = refusal.asker, refusal.reason, refusal.message
            finding = ready_of_refused(claim, self._caches, reason, message)
            answers = await self._write_finding(claim, finding)
            refused = Finding(READY, False, reason, message)  # of the event
            written.extend((answer, refused) for answer in answers)

        await run_concurrently([partial(refuse_one, refusal) for refusal in refusals], self._width)
        self._events.record(pool_kind, pool, written)
        return self.seconds_until_due(refusals)

    def due_refusals(
        self, refusals: Iterable[Refusal[IPAddressClaim]]
    ) -> list[Refusal[IPAddressClaim]]:
        """Return the refusals to write: not shown yet, and not refused within a resync."""
        return [
            refusal
            for refusal in refusals
            if not refusal.is_shown and self._refused.wait_of(refusal.asker.metadata) is None
        ]

    def seconds_until_due(self, refusals: Iterable[Refusal[IPAddressClaim]]) -> float | None:
        """Return in how many seconds to write claims whose write was refused; None without."""
        return self._refused.next_in(refusal.asker.metadata for refusal in refusals)

    async def _void(self, claim: IPAddressClaim) -> IPAddressClaim:
        """Write a claim once, so that no promise to its present version can be kept.

        The server makes no new version of an unchanged object; the time, to the microsecond, sees
        to it that this is a change.
        """
        now, kind, pool = self._clock.now(), self._caches.claim_kind, claim.spec.poolRef
        message = (
            f"{pool.kind} {pool.name} has no valid record of its promises;"
            f" promises before {now.isoformat()} are void"
        )
        finding = ready_of_refused(claim, self._caches, POOL_NOT_READY, message)
        status = with_ready(claim, finding, kind.version, now)
        return await self._client.patch_status(kind, claim, status)

    async def _write_finding(
        self, claim: IPAddressClaim, finding: Finding
    ) -> Sequence[IPAddressClaim]:
        """Write a claim's Ready condition if it differs; return the claim if it was written.

        A claim that has changed meanwhile is left to the next pass. So is a claim whose write is
        refused: other claims wait for the same pool.
        """
        if shows(claim, finding):
            return ()
        kind = self._caches.claim_kind
        status = with_ready(claim, finding, kind.version, self._clock.now())
        written = await self._refused.attempt(
            claim.metadata, partial(self._client.patch_status, kind, claim, status)
        )
        return () if written is None else [written]
