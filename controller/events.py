"""Events of events.k8s.io/v1: what `kubectl describe` shows under an object.

`record` only puts the event into a bounded queue, so a reconciler never waits for it and never
fails by it; when the queue is full the event is dropped and counted. One task writes.

The same thing happening again does not make another event but a series (client-go's
tools/events): the second time adds the count to the first event, further times are only counted,
and the count is written every half hour and when it has been quiet for six minutes. The note is
not part of what makes events the same; the first one stands. What has to be read each time
therefore names the other object that it concerns, `related`, which is part of it.

What is no repetition is limited by object (`eventlimits`), so that one that flaps cannot fill the
API server with its story; what goes beyond is dropped and counted.

Left out on purpose: client-go's eight writers at once. One keeps the order and cannot crowd out
the work that the events are about.
"""

import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar

import anyio
import structlog
from prometheus_client import Counter

from controller.client import Client
from controller.clock import Clock
from controller.errors import (
    AlreadyExists,
    ControllerError,
    MalformedAnswer,
    NoAnswer,
    NotFound,
    ServerFailure,
    TooManyRequests,
)
from controller.eventkind import (
    EVENTS,
    Event,
    Reference,
    Reporter,
    SeriesKey,
    event_body,
    series_patch,
)
from controller.eventlimits import SpamFilter
from controller.meta import Object, Version
from controller.resource import Resource

T = TypeVar("T", bound=Object)
R = TypeVar("R", bound=Object)
EventType = Literal["Normal", "Warning"]

QUEUE_LENGTH = 1000
TRIES = 12
RETRY_SECONDS = 10.0
QUIET_SECONDS = 360.0
REFRESH_SECONDS = 1800.0
FLUSH_SECONDS = 2.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Happening:
    """One call of `record`; the stamp makes the event's name, the same at every try."""

    key: SeriesKey
    note: str
    at: datetime
    stamp: int


@dataclass(slots=True)
class _Series:
    """An event that the server has, and what has happened since: times are monotonic seconds."""

    event: Event
    count: int
    last: datetime
    last_seen: float
    written: int
    written_at: float


class Recorder:
    """Records events of one component.

    Args:
        client: for the requests.
        clock: for times and pauses.
        component: who reports, a qualified name such as `butler-controller/ipam`.
        dropped: counts what is not recorded, by the label `reason`: full, limited, refused.
        jitter: numbers in [0, 1) that spread the retries.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        component: str,
        *,
        dropped: Counter | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._clock = clock
        self._reporter = Reporter.here(component)
        self._counter = dropped
        self._jitter = jitter
        self._queue: deque[_Happening] = deque()
        self._arrived = anyio.Event()
        self._series: dict[SeriesKey, _Series] = {}
        self._limits: SpamFilter[tuple[Reference, Reference | None]] = SpamFilter(clock)
        self._stamp = 0

    def record(  # noqa: PLR0913 - the fields of an Event
        self,
        resource: Resource[T],
        obj: T,
        type: EventType,  # noqa: A002 - the API's word
        reason: str,
        message: str,
        *,
        action: str,
        related: tuple[Resource[R], R] | None = None,
    ) -> None:
        """Record that something happened to `obj`; returns at once and never raises.

        Args:
            resource: the kind of `obj`.
            obj: what it happened to.
            type: `Normal` or `Warning`.
            reason: why, one CamelCase word.
            message: a sentence for people; cut to 1024 bytes.
            action: what was done or tried, one CamelCase word.
            related: the kind and the object that it concerns besides; the same happening with
                another one is another event, with a note of its own.
        """
        if len(self._queue) >= QUEUE_LENGTH:
            self._drop("full")
            return
        besides = Reference.to(*related) if related is not None else None
        key = SeriesKey(Reference.to(resource, obj), type, reason, action, besides)
        now = self._clock.now()
        # Unique within this process; the time alone could meet itself in a burst.
        self._stamp = max(self._stamp + 1, int(now.timestamp() * 1e9))
        self._queue.append(_Happening(key, message, now, self._stamp))
        self._arrived.set()

    async def run(self) -> None:
        """Write what is recorded until cancelled, and then, for two seconds, what is left.

        That includes the counts, which nobody else will write.
        """
        try:
            while True:
                await self._wait()
                self._arrived = anyio.Event()
                await self._write_queued()
                await self._write_counts(self._due)
        finally:
            with anyio.CancelScope(shield=True), self._clock.move_on_after(FLUSH_SECONDS):
                await self._write_queued()
                await self._write_counts(lambda _: -math.inf)

    async def _wait(self) -> None:
        """Wait for something to be recorded, or for a series to become due."""
        due = min((self._due(series) for series in self._series.values()), default=None)
        if due is None:
            await self._arrived.wait()
            return
        with self._clock.move_on_after(due - self._clock.monotonic()):
            await self._arrived.wait()

    def _due(self, series: _Series) -> float:
        quiet = series.last_seen + QUIET_SECONDS
        if series.count == series.written:
            return quiet
        return min(quiet, series.written_at + REFRESH_SECONDS)

    async def _write_queued(self) -> None:
        while self._queue:
            happening = self._queue[0]
            await self._write(happening)
            self._queue.popleft()

    async def _write(self, happening: _Happening) -> None:
        series = self._series.get(happening.key)
        now = self._clock.monotonic()
        if series is None:
            await self._begin(happening)
            return
        series.count += 1
        series.last, series.last_seen = happening.at, now
        if series.count == 2:
            await self._write_count(happening.key, series)

    async def _begin(self, happening: _Happening) -> None:
        key = happening.key
        if not self._limits.admits((key.regarding, key.related)):
            self._drop("limited")
            return
        body = event_body(key, happening.note, self._reporter, happening.at, happening.stamp)
        event = await self._tried(
            lambda: self._client.create(EVENTS, key.regarding.event_namespace, body)
        )
        if event is not None:
            now = self._clock.monotonic()
            self._series[key] = _Series(event, 1, happening.at, now, 1, now)

    async def _write_counts(self, due: Callable[[_Series], float]) -> None:
        """Write the counts that are due, and forget the series that have gone quiet."""
        now = self._clock.monotonic()
        for key, series in list(self._series.items()):
            if due(series) > now:
                continue
            if series.count > series.written:
                await self._write_count(key, series)
            if series.last_seen + QUIET_SECONDS <= now:
                self._series.pop(key, None)

    async def _write_count(self, key: SeriesKey, series: _Series) -> None:
        patch = series_patch(series.count, series.last)
        at = Version.of(series.event)
        event = await self._tried(lambda: self._client.patch(EVENTS, at, patch))
        if event is None:
            # Gone (events live for an hour), or changed by somebody: the next one begins anew.
            self._series.pop(key, None)
            return
        series.event = event
        series.written, series.written_at = series.count, self._clock.monotonic()

    async def _tried(self, request: Callable[[], Any]) -> Event | None:
        """Return the answer, after several tries if need be; None if there was none."""
        for attempt in range(TRIES):
            try:
                event: Event = await request()
                return event
            except (NoAnswer, ServerFailure, TooManyRequests, MalformedAnswer) as error:
                log.debug("Event not recorded yet", error=str(error))
                # The first retry comes at a random moment: all replicas may have failed at once.
                share = self._jitter() if attempt == 0 else 1 + 0.25 * self._jitter()
                await self._clock.sleep(RETRY_SECONDS * share)
            except (NotFound, AlreadyExists) as error:
                log.debug("Event not recorded", error=str(error))
                return None
            except ControllerError as error:
                log.warning("Event not recorded", error=str(error))
                self._drop("refused")
                return None
        log.warning("Event not recorded", tries=TRIES)
        self._drop("refused")
        return None

    def _drop(self, reason: str) -> None:
        if self._counter is not None:
            self._counter.labels(reason).inc()
