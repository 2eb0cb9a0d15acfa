"""Leader election with a Lease, by client-go's rules.

The spec of the Lease is called the record. It names the holder and has the time of the last
renewal. A candidate is a process that tries to take the lease. An attempt is one try to take or
renew it, by a read, a write or both.

    acquire ─→ hold ─→ LeaderLost        the caller's work is cancelled with it
                 └──── release           after the caller's work has ended

Whether the lease has expired is measured from the moment at which **this process** saw the record
change last, never with the times in the record. So clocks that differ do no harm (clocks that run
at different speeds might).

The renew deadline counts from the moment at which the last successful renewal was *sent*. Other
processes see the renewal later than that. So when the deadline has passed, there are at least
`lease_duration - renew_deadline` seconds left in which no other process can lead. client-go counts
from the response and gives each round a new deadline, which is up to `retry_period` later. If the
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
from controller.conditions import format_rfc3339_micro
from controller.errors import Conflict, ControllerError, Forbidden, NotFound
from controller.health import Check, Failing
from controller.loggers import get_logger
from controller.meta import Key, ObjectMeta, Version
from controller.resource import Resource
from controller.supervisor import call_guarded

DEADLINE_RETRY_PERIODS = 1.2
"""The renew deadline is longer than so many retry periods; the value is client-go's."""
LEAST_RETRY_SHARE, RETRY_SPREAD_SHARE = 0.4, 0.4
"""A candidate tries again after a share of the retry period: at least the first share, plus up to
the second.

So a lease that is released is held again within the period. client-go's candidates wait for one to
2.2 periods, while no replica works; one small request in a second is not worth that.
"""
RELEASED_SECONDS = 1
"""The lease duration in the record of a released lease."""
OVERDUE_SECONDS = 20.0
"""A leader that still works so long after its lease expired is stuck; the value is client-go's."""
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
        if (
            not self.lease_duration
            > self.renew_deadline
            > DEADLINE_RETRY_PERIODS * self.retry_period
            > 0
        ):
            raise ValueError(
                "leader election needs lease duration > renew deadline > 1.2 x retry period > 0,"
                f" not {self.lease_duration} > {self.renew_deadline} > 1.2 x {self.retry_period}"
            )

    @property
    def request_seconds(self) -> float:
        """The timeout of one request, in seconds; at least 1.

        It is half the deadline, so that there is time for a retry.
        """
        return max(1.0, self.renew_deadline / 2)

    @property
    def ending_seconds(self) -> float:
        """How long work may take to end after the lease is lost.

        0.8 of the time until another process can lead, so that work ends before.
        """
        return 0.8 * (self.lease_duration - self.renew_deadline)


class LeaderLost(ControllerError):
    """The lease was not renewed in time, or has another holder: the process must exit."""


class FailedAttempts:
    """The failed attempts at a lease since the last attempt that the server answered as expected.

    A few failures are normal while a server restarts, and are logged at info. Attempts that go on
    failing never lead to a lease, and nothing is reconciled, although the process looks like a
    standby. So they are logged as errors, with advice, once in ERROR_SECONDS.

    Args:
        clock: for the time between two errors.
        lease: namespace and name of the lease.
        count: called at each failed attempt, for a metric.
        verbs: the verbs that a role has to grant, for the advice.
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
        self._consecutive = 0
        self._error_at = -math.inf
        self.problem = ""
        """Why the last attempt failed; empty if it succeeded."""

    def note_success(self) -> None:
        """Forget the failures."""
        if self._consecutive > MOST_QUIET_FAILURES:
            log.info("Leader election requests succeed again", lease=str(self._lease))
        self._consecutive = 0
        self._error_at = -math.inf
        self.problem = ""

    def note_failure(self, problem: str, error: Exception | None) -> None:
        """Count a failed attempt; log it at info, or as an error after several failures in a row.

        Args:
            problem: why the attempt failed.
            error: the error of the request; None if the request timed out.
        """
        self._consecutive += 1
        self._count()
        self.problem = problem
        if self._consecutive <= MOST_QUIET_FAILURES:
            log.info("Leader election request failed", lease=str(self._lease), error=problem)
        elif self._clock.monotonic() - self._error_at >= ERROR_SECONDS:
            self._error_at = self._clock.monotonic()
            log.error(
                "Leader election does not work, this process reconciles nothing without a lease",
                lease=str(self._lease),
                attempts=self._consecutive,
                error=problem,
                advice=self._advise(error),
            )

    def _advise(self, error: Exception | None) -> str:
        """Return advice for a person about the error of a request; None stands for a timeout."""
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
    """The lease as last read or written.

    Args:
        since: when (monotonic seconds) this process first saw its present record.
    """

    lease: Lease
    since: float

    def is_older_than(self, lease: Lease) -> bool:
        """Return whether `lease` is a later version than the observed one."""
        return lease.metadata.revision > self.lease.metadata.revision


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
        # When (monotonic seconds) the last successful renewal was sent.
        self._renewed_at = 0.0
        # Whether the lease may be ours: a request that writes our record was sent.
        self._claimed = False
        # From the acquisition to `release`, which is called when the leader's work has ended.
        self._working = False
        self._failed_attempts = FailedAttempts(clock, settings.key, count_failure)
        # The failures of the present attempt: a sentence, and the error; None after a timeout.
        self._request_failures: list[tuple[str, Exception | None]] = []
        # While candidate: when (monotonic seconds) a process held the lease last; else None.
        self._holder_known_at: float | None = None
        self.is_leading = False
        """Whether this process holds the lease."""

    async def acquire(self) -> None:
        """Wait until this process holds the lease; failed requests are logged and repeated."""
        period = self._settings.retry_period
        log.info("Attempting to acquire leader lease", lease=str(self._settings.key))
        self._holder_known_at = self._clock.monotonic()
        try:
            while not await self._attempt():
                await self._clock.sleep(
                    period * (LEAST_RETRY_SHARE + RETRY_SPREAD_SHARE * self._jitter())
                )
        finally:
            self._holder_known_at = None
        self.is_leading = self._working = True
        log.info("Acquired lease", lease=str(self._settings.key))

    def note_record(self, lease: Lease) -> None:
        """Note the lease as another task has read it; an older version is ignored.

        A candidate cannot tell when a record was written. So it waits for a lease duration from
        the moment at which it first saw the record. An elector that gets each record before it
        becomes a candidate waits less. The leader ignores the call: it knows its own record.
        """
        observed = self._observed
        if not self.is_leading and (observed is None or observed.is_older_than(lease)):
            self._remember(lease)

    async def hold(self) -> None:
        """Renew the lease until cancelled.

        Raises:
            LeaderLost: the lease was not renewed in time, or has another holder.
        """
        while True:
            # The deadline counts from the last renewal, so it moves only when `_renew` succeeds.
            remaining = self._renewed_at + self._settings.renew_deadline - self._clock.monotonic()
            with self._clock.move_on_after(remaining) as scope:
                await self._renew()
            if scope.cancelled_caught:
                raise self._stop_leading(f"not renewed within {self._settings.renew_deadline:g} s")

    async def release(self) -> None:
        """Release the lease, so that the next leader does not wait until it expires.

        Call this when the work has ended. It takes at most one request's timeout; a failure is
        logged, and the lease then expires by itself.
        """
        self._working = False
        if not self._claimed:
            return  # our record was never written, or the lease is lost
        self.is_leading = self._claimed = False
        self._request_failures.clear()
        if await self._try_request(self._remove_holder):
            log.info("Released lease", lease=str(self._settings.key))
        elif self._request_failures:
            log.info(
                "The lease could not be released and expires by itself",
                lease=str(self._settings.key),
                error=self._request_failures[-1][0],
            )

    @property
    def overdue_seconds(self) -> float:
        """Seconds since the lease expired, if the leader's work has not ended; else 0.

        Work that does not end although the lease is lost (because of a deadlock, or because it
        ignores cancellation) has to be ended by a liveness probe.
        """
        if not self._working:
            return 0.0
        expired_at = self._renewed_at + self._settings.lease_duration
        return max(0.0, self._clock.monotonic() - expired_at)

    @property
    def holder_failure(self) -> Failing | None:
        """The failure of readiness if no process seems able to hold the lease; None otherwise.

        A candidate takes an expired lease within a retry period. So if the lease has no holder for
        a whole lease duration, while this process tries to take it, something prevents that.
        """
        if self._holder_known_at is None:
            return None  # this process holds the lease, or is no candidate
        seconds = self._clock.monotonic() - self._holder_known_at
        if seconds <= self._settings.lease_duration:
            return None  # the lease may still be taken
        why = self._failed_attempts.problem or "it has expired"
        return Failing(
            "no process holds the lease", f"{self._settings.key} for {seconds:.0f} s: {why}"
        )

    def create_holder_check(self) -> Check:
        """Return a readiness check that fails while no process can hold the lease."""
        return Check("leader-election", lambda: self.holder_failure)

    def create_check(self) -> Check:
        """Return a liveness check that fails when the work continues after the lease expired."""

        def find_failure() -> Failing | None:
            """Return a failure if the work goes on for too long after the lease expired."""
            overdue = self.overdue_seconds
            if overdue <= OVERDUE_SECONDS:
                return None
            return Failing("work continues after the lease expired", f"for {overdue:.0f} s")

        return Check("leader-election", find_failure)

    async def _renew(self) -> None:
        """Renew the lease after a retry period; repeat failed attempts until cancelled.

        Raises:
            LeaderLost: another process holds the lease.
        """
        await self._clock.sleep(self._settings.retry_period)
        while not await self._attempt():
            if self._is_held_by_other():
                raise self._stop_leading("it is held by another process")
            await self._clock.sleep(self._settings.retry_period)

    def _stop_leading(self, why: str) -> LeaderLost:
        """Note that the lease is lost; return the error for the caller to raise."""
        self.is_leading = self._claimed = False
        return LeaderLost(f"leader election lost: lease {self._settings.key}: {why}")

    def _is_held_by_other(self) -> bool:
        """Return whether the observed record names another process as holder, expired or not."""
        holder = self._observed.lease.spec.holderIdentity if self._observed else None
        return bool(holder) and holder != self._settings.identity

    async def _attempt(self) -> bool:
        """Take or renew the lease once; return whether this process holds it now.

        An attempt that finds another holder has not failed, because the server answered.
        """
        self._request_failures.clear()
        is_leader = await self._take_or_renew()
        if is_leader or not self._request_failures:
            self._failed_attempts.note_success()
        else:
            self._failed_attempts.note_failure(*self._request_failures[-1])
        return is_leader

    async def _take_or_renew(self) -> bool:
        """Make the requests of an attempt; return whether this process holds the lease now.

        Failures are added to `_request_failures`.
        """
        sent_at = self._clock.monotonic()
        # The leader knows its own record, so it writes without reading first.
        if self.is_leading and await self._try_request(self._write_record):
            self._renewed_at = sent_at
            return True
        # The record that we know may be outdated, so read it before the next write.
        if not await self._try_request(self._read_record):
            return False
        if self._is_held_by_other() and not self._has_expired():
            if self._holder_known_at is not None:  # this process is a candidate
                self._holder_known_at = self._clock.monotonic()
            return False
        sent_at = self._clock.monotonic()
        if not await self._try_request(self._write_record):
            return False
        self._renewed_at = sent_at
        return True

    def _has_expired(self) -> bool:
        """Return whether the observed record has been unchanged for its own lease duration."""
        assert self._observed is not None
        seconds = self._observed.lease.spec.leaseDurationSeconds or 0
        return self._observed.since + seconds <= self._clock.monotonic()

    async def _try_request(self, request: Callable[[], Awaitable[None]]) -> bool:
        """Make a request; return whether it succeeded in time.

        Errors are noted in `_request_failures` and not raised: the attempt is repeated.
        """
        try:
            with self._clock.move_on_after(self._settings.request_seconds) as scope:
                await call_guarded(request)
        except Conflict as error:
            # No failure: another process wrote the lease in between. The next attempt reads it.
            log.info("Leader election request failed", error=str(error))
            return False
        except ControllerError as error:
            self._request_failures.append((str(error), error))
            return False
        except Exception as error:
            # A bug, ours or the transport's: the deadline decides whether leading ends by it.
            log.exception("Leader election request failed")
            self._request_failures.append((repr(error), error))
            return False
        if scope.cancelled_caught:
            self._request_failures.append(
                (f"no answer within {self._settings.request_seconds:g} s", None)
            )
        return not scope.cancelled_caught

    async def _read_record(self) -> None:
        """Read the lease, and note its record; a missing lease has no record."""
        try:
            lease = await self._client.get(LEASES, self._settings.key)
        except NotFound:
            # A holder whose lease was deleted works on until it notices, and then creates the
            # lease again. So its record counts until it expires.
            if not self._is_held_by_other() or self._has_expired():
                self._observed = None
            return
        self._remember(lease)

    def _remember(self, lease: Lease) -> None:
        """Note a lease as observed now; while its record is the same, keep the time `since`."""
        observed = self._observed
        if observed is not None and observed.lease.spec == lease.spec:
            since = observed.since
        else:
            since = self._clock.monotonic()
        self._observed = _Observed(lease, since)

    async def _write_record(self) -> None:
        """Create the lease with our record, or replace the record that was observed."""
        # Set before the request: if the response is lost, the lease may be ours all the same.
        self._claimed = True
        if self._observed is None:
            key = self._settings.key
            metadata = {"name": key.name, "labels": dict(self._settings.labels)}
            body = {"metadata": metadata, "spec": self._build_record(LeaseSpec())}
            self._remember(await self._client.create(LEASES, key.namespace, body))
        else:
            lease = self._observed.lease
            self._remember(await self._replace(lease, self._build_record(lease.spec)))

    def _build_record(self, old: LeaseSpec) -> dict[str, Any]:
        """Return the spec of the lease with this process as holder, renewed now.

        A new holder sets acquireTime, and counts a transition unless the lease is new.
        """
        now = format_rfc3339_micro(self._clock.now())
        is_renewal = old.holderIdentity == self._settings.identity
        is_first = old == LeaseSpec()
        transitions = old.leaseTransitions or 0
        return {
            "holderIdentity": self._settings.identity,
            "leaseDurationSeconds": math.ceil(self._settings.lease_duration),
            "acquireTime": old.acquireTime if is_renewal and old.acquireTime else now,
            "renewTime": now,
            "leaseTransitions": transitions if is_renewal or is_first else transitions + 1,
        }

    async def _remove_holder(self) -> None:
        """Remove the holder from the record if this process is still the holder."""
        while True:
            lease = await self._client.get(LEASES, self._settings.key)
            if lease.spec.holderIdentity != self._settings.identity:
                return  # it expired and another process took it, or our write never arrived
            now = format_rfc3339_micro(self._clock.now())
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
        """Replace the record of a lease; keep labels and annotations of others."""
        meta = lease.metadata
        labels = {**meta.labels, **self._settings.labels}
        metadata = {"labels": labels, "annotations": dict(meta.annotations)}
        body = {"metadata": metadata, "spec": record}
        return await self._client.replace(LEASES, Version.from_object(lease), body)
