"""Leader election with a Lease, by client-go's rules.

    acquire ─→ hold ─→ LeaderLost        the caller's work is cancelled with it
                 └──── release           after the caller's work has ended

Whether the lease has expired is measured from the moment at which **this process** saw the record
change last, never with the times in the record. So clocks that differ do no harm (clocks that run
at different speeds might).

The renew deadline counts from the moment at which the last successful renewal was *sent*. The
others see the renewal later than that. So when the deadline has passed, there are at least
`lease_duration - renew_deadline` seconds left in which no other can lead. client-go counts from
the response and gives each round a new deadline, which is up to `retry_period` later. If the
record has another holder, leading ends at once.

This separates leaders as long as processes run. A process that is frozen and continues after its
lease has expired may still send a request: writes need preconditions in any case.
"""

import math
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.client import Client
from controller.clock import Clock
from controller.conditions import rfc3339_micro
from controller.errors import Conflict, ControllerError, Forbidden, NotFound
from controller.health import Check, Failing
from controller.loggers import get_logger
from controller.meta import Key, ObjectMeta, Version
from controller.resource import Resource
from controller.supervisor import call_guarded

MARGIN = 1.2
"""The renew deadline is longer than so many retry periods; the value is client-go's."""
SOONEST, SPREAD = 0.4, 0.4
"""A candidate tries again after this share of the retry period, and up to that much later.

So a lease that is released is held again within the period. client-go's candidates wait for one to
2.2 periods, while no replica works; one small request in a second is not worth that.
"""
RELEASED_SECONDS = 1
"""The lease duration in the record of a released lease."""
OVERDUE_SECONDS = 20.0
"""A leader that works so long after its lease has expired is stuck; the value is client-go's."""
MOST_QUIET_FAILURES = 4
"""After so many failed attempts in a row, the next failure is an error."""
ERROR_SECONDS = 60.0
"""How often the error of attempts that go on failing is logged again."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseSpec:
    """The record; times are RFC 3339 with six decimals, as the server requires."""

    holderIdentity: str | None = None
    leaseDurationSeconds: int | None = None
    acquireTime: str | None = None
    renewTime: str | None = None
    leaseTransitions: int | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease of coordination.k8s.io/v1."""

    metadata: ObjectMeta
    spec: LeaseSpec = field(default_factory=LeaseSpec)


LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases", Lease)


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """The lease, the identity, and the times of an election.

    Args:
        key: the Lease's namespace and name.
        identity: the name of this process in the record; unique.
        lease_duration: seconds after which others may take a lease that was not renewed.
        renew_deadline: seconds after which a holder that cannot renew stops leading.
        retry_period: seconds between attempts.
        labels: what the Lease is labelled with when it is written.

    Raises:
        ValueError: the identity is empty, or the times contradict each other.
    """

    key: Key
    identity: str
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.identity:
            raise ValueError("leader election needs an identity")
        if not self.lease_duration > self.renew_deadline > MARGIN * self.retry_period > 0:
            raise ValueError(
                "leader election needs lease duration > renew deadline > 1.2 x retry period > 0,"
                f" not {self.lease_duration} > {self.renew_deadline} > 1.2 x {self.retry_period}"
            )

    @property
    def request_seconds(self) -> float:
        """The timeout of one request, so that one that hangs does not cost the lease."""
        return max(1.0, self.renew_deadline / 2)

    @property
    def ending_seconds(self) -> float:
        """How long after the loss of the lease work may take to end before others can lead."""
        return 0.8 * (self.lease_duration - self.renew_deadline)


class LeaderLost(ControllerError):
    """The lease was not renewed in time, or has another holder: the process must exit."""


class FailedAttempts:
    """The failed attempts at a lease since the last one that the server answered as expected.

    A few are normal while a server restarts, and are logged at info. Attempts that go on failing
    never lead to a lease, and nothing is reconciled, although the process looks like a standby. So
    they are logged as errors, with what to do, once in ERROR_SECONDS.
    """

    def __init__(
        self,
        clock: Clock,
        lease: Key,
        count: Callable[[], None],
        verbs: str = "get, create and update",
    ) -> None:
        self._clock = clock
        self._lease = lease
        self._count = count
        self._verbs = verbs
        self._in_a_row = 0
        self._error_at = -math.inf
        self.problem = ""
        """Why the last attempt failed; empty if it did not."""

    def note_success(self) -> None:
        """Forget the failures."""
        if self._in_a_row > MOST_QUIET_FAILURES:
            log.info("Leader election requests succeed again", lease=str(self._lease))
        self._in_a_row = 0
        self._error_at = -math.inf
        self.problem = ""

    def note_failure(self, problem: str, error: Exception | None) -> None:
        """Count a failed attempt and log it.

        Args:
            problem: why it failed.
            error: what was raised; None if the request timed out.
        """
        self._in_a_row += 1
        self._count()
        self.problem = problem
        if self._in_a_row <= MOST_QUIET_FAILURES:
            log.info("Leader election request failed", lease=str(self._lease), error=problem)
        elif self._clock.monotonic() - self._error_at >= ERROR_SECONDS:
            self._error_at = self._clock.monotonic()
            log.error(
                "Leader election does not work, this process reconciles nothing without a lease",
                lease=str(self._lease),
                attempts=self._in_a_row,
                error=problem,
                advice=self._advise(error),
            )

    def _advise(self, error: Exception | None) -> str:
        """Return the advice for an error of a lease's requests."""
        namespace = self._lease.namespace
        if isinstance(error, Forbidden):
            return (
                f"grant this process {self._verbs} on leases of coordination.k8s.io in namespace"
                f" {namespace}"
            )
        if isinstance(error, NotFound):
            return f"create the namespace {namespace}, or configure another one for the lease"
        return "see that the API server can be reached and that it accepts the lease"


@dataclass(frozen=True, slots=True)
class _Observed:
    """The record as last read or written, and when (monotonic seconds) it was seen to change."""

    lease: Lease
    since: float

    def is_before(self, other: Lease) -> bool:
        """Return whether another record of the same lease was written later."""
        return other.metadata.revision > self.lease.metadata.revision


class Elector:
    """Takes part in the election for one lease.

    Args:
        client: for the requests.
        clock: for delays, deadlines and the times in the record.
        settings: the lease, the identity, and the times.
        jitter: returns numbers in [0, 1) that spread the attempts of candidates.
        count_failure: called at each failed attempt, for a metric.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        settings: LeaseSettings,
        *,
        jitter: Callable[[], float] = random.random,
        count_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._settings = settings
        self._jitter = jitter
        self._observed: _Observed | None = None
        self._renewed_at = 0.0
        self._claimed = False
        self._working = False
        self._failed = FailedAttempts(clock, settings.key, count_failure)
        self._failures: list[tuple[str, Exception | None]] = []
        self._holder_known_at: float | None = None
        self.leading = False
        """Whether this process holds the lease."""

    async def acquire(self) -> None:
        """Wait until this process holds the lease; failed requests are logged and repeated."""
        period = self._settings.retry_period
        log.info("Attempting to acquire leader lease", lease=str(self._settings.key))
        self._holder_known_at = self._clock.monotonic()
        try:
            while not await self._attempt():
                await self._clock.sleep(period * (SOONEST + SPREAD * self._jitter()))
        finally:
            self._holder_known_at = None
        self.leading = self._working = True
        log.info("Acquired lease", lease=str(self._settings.key))

    def note(self, lease: Lease) -> None:
        """Take in the record as another task has read it; an older one than known is ignored.

        A candidate that begins to look late has to wait for a whole lease duration, as it cannot
        tell when the record was written. One that was told of it all along does not.
        """
        known = self._observed
        if not self.leading and (known is None or known.is_before(lease)):
            self._remember(lease)

    async def hold(self) -> None:
        """Renew the lease until cancelled.

        Raises:
            LeaderLost: it was not renewed in time, or has another holder.
        """
        while True:
            remaining = self._renewed_at + self._settings.renew_deadline - self._clock.monotonic()
            with self._clock.move_on_after(remaining) as scope:
                await self._renew()
            if scope.cancelled_caught:
                raise self._lost(f"not renewed within {self._settings.renew_deadline:g} s")

    async def release(self) -> None:
        """Release the lease, so that the next leader does not wait until it expires.

        Call this when the work has ended. It takes at most one request's timeout; a failure is
        logged, and the lease then expires by itself.
        """
        self._working = False
        if not self._claimed:
            return
        self.leading = self._claimed = False
        self._failures.clear()
        if await self._with_timeout(self._release):
            log.info("Released lease", lease=str(self._settings.key))
        elif self._failures:
            log.info(
                "The lease could not be released and expires by itself",
                lease=str(self._settings.key),
                error=self._failures[-1][0],
            )

    @property
    def overdue_seconds(self) -> float:
        """Seconds since the lease expired while the leader's work had not ended; normally 0.

        Work that does not end although the lease is lost (because of a deadlock, or because it
        ignores cancellation) has to be ended by a liveness probe.
        """
        if not self._working:
            return 0.0
        expired_at = self._renewed_at + self._settings.lease_duration
        return max(0.0, self._clock.monotonic() - expired_at)

    @property
    def without_holder(self) -> Failing | None:
        """The failure of readiness while neither this process nor another one holds the lease.

        A lease that expires is taken within a retry period. One that has no holder for the lease's
        duration, while this process tries, is a lease that nothing can hold.
        """
        if self._holder_known_at is None:
            return None
        seconds = self._clock.monotonic() - self._holder_known_at
        if seconds <= self._settings.lease_duration:
            return None
        why = self._failed.problem or "it has expired"
        return Failing(
            "no process holds the lease", f"{self._settings.key} for {seconds:.0f} s: {why}"
        )

    def check_holder(self) -> Check:
        """Return a readiness check that fails while no process can hold the lease."""
        return Check("leader-election", lambda: self.without_holder)

    def check(self) -> Check:
        """Return a liveness check that fails when the work continues after the lease expired."""

        def run() -> Failing | None:
            overdue = self.overdue_seconds
            if overdue <= OVERDUE_SECONDS:
                return None
            return Failing("work continues after the lease expired", f"for {overdue:.0f} s")

        return Check("leader-election", run)

    async def _renew(self) -> None:
        await self._clock.sleep(self._settings.retry_period)
        while not await self._attempt():
            if self._held_by_other():
                raise self._lost("it is held by another process")
            await self._clock.sleep(self._settings.retry_period)

    def _lost(self, why: str) -> LeaderLost:
        self.leading = self._claimed = False
        return LeaderLost(f"leader election lost: lease {self._settings.key}: {why}")

    def _held_by_other(self) -> bool:
        holder = self._observed.lease.spec.holderIdentity if self._observed else None
        return bool(holder) and holder != self._settings.identity

    async def _attempt(self) -> bool:
        """Take or renew the lease once; return False if another holds it or a request failed."""
        self._failures.clear()
        is_leader = await self._take_or_renew()
        if is_leader or not self._failures:
            self._failed.note_success()
        else:
            self._failed.note_failure(*self._failures[-1])
        return is_leader

    async def _take_or_renew(self) -> bool:
        """Make the requests of an attempt; the failed ones are in `_failures` afterwards."""
        sent = self._clock.monotonic()
        if self.leading and await self._with_timeout(self._write_record):
            self._renewed_at = sent
            return True
        # The record that we know may be outdated, so read it before the next write.
        if not await self._with_timeout(self._observe):
            return False
        if self._held_by_other() and not self._has_expired():
            if self._holder_known_at is not None:
                self._holder_known_at = self._clock.monotonic()
            return False
        sent = self._clock.monotonic()
        if not await self._with_timeout(self._write_record):
            return False
        self._renewed_at = sent
        return True

    def _has_expired(self) -> bool:
        assert self._observed is not None
        seconds = self._observed.lease.spec.leaseDurationSeconds or 0
        return self._observed.since + seconds <= self._clock.monotonic()

    async def _with_timeout(self, request: Callable[[], Awaitable[None]]) -> bool:
        """Make a request; return whether it succeeded in time."""
        try:
            with self._clock.move_on_after(self._settings.request_seconds) as scope:
                await call_guarded(request)
        except Conflict as error:
            # Another process has written the lease in between: what it says is read next.
            log.info("Leader election request failed", error=str(error))
            return False
        except ControllerError as error:
            self._failures.append((str(error), error))
            return False
        except Exception as error:
            # A bug, ours or the transport's: the deadline decides whether leading ends by it.
            log.exception("Leader election request failed")
            self._failures.append((repr(error), error))
            return False
        if scope.cancelled_caught:
            self._failures.append((f"no answer within {self._settings.request_seconds:g} s", None))
        return not scope.cancelled_caught

    async def _observe(self) -> None:
        """Read the lease, and note since when its record has not changed."""
        try:
            lease = await self._client.get(LEASES, self._settings.key)
        except NotFound:
            # Deleted under its holder, who works until it has noticed, and writes it again.
            if not self._held_by_other() or self._has_expired():
                self._observed = None
            return
        self._remember(lease)

    def _remember(self, lease: Lease) -> None:
        """Note a lease; an unchanged record keeps the time at which it was first observed."""
        known = self._observed
        unchanged = known is not None and known.lease.spec == lease.spec
        since = known.since if known is not None and unchanged else self._clock.monotonic()
        self._observed = _Observed(lease, since)

    async def _write_record(self) -> None:
        """Create the lease with our record, or replace the record that was observed."""
        # Set before the response: if that is lost, the lease may be ours all the same.
        self._claimed = True
        if self._observed is None:
            key = self._settings.key
            metadata = {"name": key.name, "labels": dict(self._settings.labels)}
            body = {"metadata": metadata, "spec": self._record(LeaseSpec())}
            self._remember(await self._client.create(LEASES, key.namespace, body))
        else:
            lease = self._observed.lease
            self._remember(await self._replace(lease, self._record(lease.spec)))

    def _record(self, old: LeaseSpec) -> dict[str, Any]:
        """Return the spec of the lease with us as holder, renewed now."""
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
        """Give the lease back if it is still held, so that another replica need not wait."""
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
                continue  # a label was changed, for example: the lease is still ours
            return

    async def _replace(self, lease: Lease, record: dict[str, Any]) -> Lease:
        meta = lease.metadata
        labels = {**meta.labels, **self._settings.labels}
        metadata = {"labels": labels, "annotations": dict(meta.annotations)}
        body = {"metadata": metadata, "spec": record}
        return await self._client.replace(LEASES, Version.from_object(lease), body)
