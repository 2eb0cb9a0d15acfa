"""One leader at a time, by a Lease, with client-go's rules.

    acquire ─→ hold ─→ LeaderLost        the caller's work is cancelled with it
                 └──── release           only after the caller's work has ended

Who holds the lease is judged by the time **we** saw the record change last, never by the times
written in it, so clocks that disagree do no harm (clocks that run at different speeds might).

Our own time to stop counts from the moment a successful renewal was *sent*. Others see it later
than that, so when `renew_deadline` has passed there are still at least `lease_duration -
renew_deadline` seconds in which nobody else can lead. client-go counts from the answer and
gives each round a fresh deadline: up to `retry_period` later than this. Seeing somebody else's
name in the record ends it at once.

This keeps leaders apart as long as processes run. One that is frozen and wakes after its lease is
gone may still send what it was about to send: writes need preconditions all the same.
"""

import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import structlog

from controller.client import Client
from controller.clock import Clock
from controller.conditions import rfc3339_micro
from controller.errors import Conflict, ControllerError, NotFound
from controller.leasekind import JITTER, LEASES, Lease, LeaseSettings, LeaseSpec
from controller.meta import Version

__all__ = ["LEASES", "Elector", "LeaderLost", "Lease", "LeaseSettings"]

RELEASED_SECONDS = 1

log = structlog.get_logger(__name__)


class LeaderLost(ControllerError):
    """The lease could not be renewed in time, or somebody else holds it: stop, and exit."""


@dataclass(frozen=True, slots=True)
class _Observed:
    """The record as last read or written, and when (monotonic seconds) it was seen to change."""

    lease: Lease
    since: float


class Elector:
    """Takes part in the election for one lease.

    Args:
        client: for the requests.
        clock: for waits, deadlines and the times in the record.
        settings: which lease, as whom, and how fast.
        jitter: numbers in [0, 1) that spread the attempts of those who wait.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        settings: LeaseSettings,
        *,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._clock = clock
        self._settings = settings
        self._jitter = jitter
        self._observed: _Observed | None = None
        self._renewed = 0.0
        self._claimed = False
        self._at_work = False
        self.leading = False
        """Whether the lease is ours."""

    async def acquire(self) -> None:
        """Wait until the lease is ours; failing requests are logged and tried again."""
        period = self._settings.retry_period
        log.info("Attempting to acquire leader lease", lease=str(self._settings.key))
        while not await self._attempt():
            await self._clock.sleep(period * (1 + JITTER * self._jitter()))
        self.leading = self._at_work = True
        log.info("Acquired lease", lease=str(self._settings.key))

    async def hold(self) -> None:
        """Renew the lease until cancelled.

        Raises:
            LeaderLost: it was not renewed in time, or is somebody else's.
        """
        while True:
            remaining = self._renewed + self._settings.renew_deadline - self._clock.monotonic()
            with self._clock.move_on_after(remaining) as scope:
                await self._renew()
            if scope.cancelled_caught:
                raise self._lost(f"not renewed within {self._settings.renew_deadline:g} s")

    @property
    def overdue_seconds(self) -> float:
        """How long ago the lease has passed while the work that it protects had not ended.

        Zero as it should be, and before the lease was ever ours. Work that a lost lease does not
        end (a deadlock, a task that ignores being cancelled) is what a liveness probe is for.
        """
        if not self._at_work:
            return 0.0
        passed = self._renewed + self._settings.lease_duration
        return max(0.0, self._clock.monotonic() - passed)

    async def release(self) -> None:
        """Give the lease back, so that the next leader need not wait for it to pass.

        To be called when the work has ended. Takes no longer than one request may; if it does
        not succeed that is logged, and the lease passes by itself.
        """
        self._at_work = False
        if not self._claimed:
            return
        self.leading = self._claimed = False
        if await self._bounded(self._release):
            log.info("Released lease", lease=str(self._settings.key))

    async def _renew(self) -> None:
        await self._clock.sleep(self._settings.retry_period)
        while not await self._attempt():
            if self._somebody_else_holds():
                raise self._lost("it is held by somebody else")
            await self._clock.sleep(self._settings.retry_period)

    def _lost(self, why: str) -> LeaderLost:
        self.leading = self._claimed = False
        return LeaderLost(f"leader election lost: lease {self._settings.key}: {why}")

    def _somebody_else_holds(self) -> bool:
        holder = self._observed.lease.spec.holderIdentity if self._observed else None
        return bool(holder) and holder != self._settings.identity

    async def _attempt(self) -> bool:
        """Take or renew the lease once; False if it is another's or the server did not help."""
        sent = self._clock.monotonic()
        if self.leading and await self._bounded(self._write_over_observed):
            self._renewed = sent
            return True
        # The long way: what we remember may be outdated.
        if not await self._bounded(self._observe):
            return False
        if self._somebody_else_holds() and self._valid():
            return False
        sent = self._clock.monotonic()
        if not await self._bounded(self._write_over_observed):
            return False
        self._renewed = sent
        return True

    def _valid(self) -> bool:
        assert self._observed is not None
        seconds = self._observed.lease.spec.leaseDurationSeconds or 0
        return self._observed.since + seconds > self._clock.monotonic()

    async def _bounded(self, request: Callable[[], Awaitable[None]]) -> bool:
        """Whether the request succeeded within its time."""
        try:
            with self._clock.move_on_after(self._settings.request_seconds) as scope:
                await request()
        except ControllerError as error:
            log.info("Leader election request failed", error=str(error))
            return False
        if scope.cancelled_caught:
            log.warning("Leader election request timed out", lease=str(self._settings.key))
        return not scope.cancelled_caught

    async def _observe(self) -> None:
        try:
            lease = await self._client.get(LEASES, self._settings.key)
        except NotFound:
            self._observed = None
            return
        self._remember(lease)

    def _remember(self, lease: Lease) -> None:
        known = self._observed
        same = known is not None and known.lease.spec == lease.spec
        since = known.since if known is not None and same else self._clock.monotonic()
        self._observed = _Observed(lease, since)

    async def _write_over_observed(self) -> None:
        """Write our record where none is, or in the place of the one that was observed."""
        # Before the answer: a write whose answer never came may have made the lease ours.
        self._claimed = True
        if self._observed is None:
            key = self._settings.key
            body = {"metadata": {"name": key.name}, "spec": self._record(LeaseSpec())}
            self._remember(await self._client.create(LEASES, key.namespace, body))
        else:
            lease = self._observed.lease
            self._remember(await self._replace(lease, self._record(lease.spec)))

    def _record(self, old: LeaseSpec) -> dict[str, Any]:
        now = rfc3339_micro(self._clock.now())
        ours = old.holderIdentity == self._settings.identity
        fresh = old == LeaseSpec()
        transitions = old.leaseTransitions or 0
        return {
            "holderIdentity": self._settings.identity,
            "leaseDurationSeconds": math.ceil(self._settings.lease_duration),
            "acquireTime": old.acquireTime if ours and old.acquireTime else now,
            "renewTime": now,
            "leaseTransitions": transitions if ours or fresh else transitions + 1,
        }

    async def _release(self) -> None:
        while True:
            lease = await self._client.get(LEASES, self._settings.key)
            if lease.spec.holderIdentity != self._settings.identity:
                return
            now = rfc3339_micro(self._clock.now())
            record = {
                "holderIdentity": "",
                "leaseDurationSeconds": RELEASED_SECONDS,
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": lease.spec.leaseTransitions or 0,
            }
            try:
                await self._replace(lease, record)
            except Conflict:
                continue  # somebody labelled it, say: still ours to give back
            return

    async def _replace(self, lease: Lease, record: dict[str, Any]) -> Lease:
        meta = lease.metadata
        metadata = {"labels": dict(meta.labels), "annotations": dict(meta.annotations)}
        body = {"metadata": metadata, "spec": record}
        return await self._client.replace(LEASES, Version.of(lease), body)
