"""Recording events of events.k8s.io/v1, which `kubectl describe` shows under an object.

`record` puts the event into a bounded queue, so a reconciler neither waits for it nor fails by it.
When the queue is full the event is dropped and counted. One task writes the events.

An event that happens again becomes a series instead of another event (client-go's tools/events).
The second time the count is added to the first event. Further times are only counted, and the
count is written every half hour and after six minutes without the event. The note is not compared:
the first note stays. So whatever must be shown each time names another object, `related`, which is
compared.

New events are limited per object (client-go's spam filter, tools/record), so that an object that
flaps cannot fill the API server. Each object has a bucket of 25 events, refilled by one every five
minutes; for events with a `related` object there is one bucket per pair. Series are not limited,
as they cost two writes however long they are. Events beyond the limit are dropped and counted.

Rejected: client-go's eight concurrent writers. One keeps the order, and leaves the requests to the
work that the events are about.
"""

import math
import random
import re
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import anyio

from controller.arguments import OBJECT, check_argument, check_resource
from controller.argumenttypes import describe_value
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
from controller.loggers import get_logger
from controller.meta import Object, Version
from controller.plaintext import escape_text
from controller.resource import Resource

if TYPE_CHECKING:  # who only names the types of events does not need to load metrics
    from prometheus_client import Counter

K = TypeVar("K")
T = TypeVar("T", bound=Object)
R = TypeVar("R", bound=Object)
EventType = Literal["Normal", "Warning"]

QUEUE_LENGTH = 1000
TRIES = 12
RETRY_SECONDS = 10.0
QUIET_SECONDS = 360.0
REFRESH_SECONDS = 1800.0
FLUSH_SECONDS = 2.0
BURST = 25
REFILL_SECONDS = 300.0
MAX_BUCKETS = 4096
"""Number of objects whose buckets are kept; the one without events for longest is removed."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _QueuedEvent:
    """One call of `record`; the stamp makes the event's name, equal in all attempts."""

    key: SeriesKey
    note: str
    at: datetime
    stamp: int


@dataclass(slots=True)
class _Series:
    """An event on the server and how often it happened; times are monotonic seconds."""

    event: Event
    count: int
    last: datetime
    last_seen: float
    written: int
    written_at: float


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class SpamFilter(Generic[K]):
    """A token bucket per key, for a limited number of keys.

    Args:
        clock: refills the buckets.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: OrderedDict[K, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def allow(self, key: K) -> bool:
        """Take a token of `key`; return whether there was one."""
        now = self._clock.monotonic()
        bucket = self._buckets.pop(key, None) or _Bucket(BURST, now)
        refilled = bucket.tokens + (now - bucket.filled_at) / REFILL_SECONDS
        bucket.tokens, bucket.filled_at = min(float(BURST), refilled), now
        self._buckets[key] = bucket
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True


QUALIFIED_NAME = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
"""The form that the API server asks of an event's reportingController."""


class Recorder:
    """Records events of one component.

    Args:
        client: for the requests.
        clock: for times and delays.
        component: the reporting controller, a qualified name such as `example.com/widgets`.
        dropped: counts dropped events by the label `reason`: full, limited, refused.
        jitter: returns numbers in [0, 1) that spread the retries.

    Raises:
        ValueError: the server would refuse each event, as the component is no qualified name.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        component: str,
        *,
        dropped: "Counter | None" = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if QUALIFIED_NAME.fullmatch(component) is None:
            raise ValueError(
                f"a recorder needs a qualified name as component, for example"
                f" example.com/widgets, not {component!r}"
            )
        self._client = client
        self._clock = clock
        self._reporter = Reporter.on_this_host(component)
        self._counter = dropped
        self._jitter = jitter
        self._queue: deque[_QueuedEvent] = deque()
        self._recorded = anyio.Event()
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
        """Record an event about `obj`; returns at once and raises for wrong arguments only.

        Args:
            resource: the kind of `obj`.
            obj: the object that the event is about.
            type: `Normal` or `Warning`.
            reason: why it happened, one CamelCase word.
            message: a sentence for people; control characters are escaped, and it is cut to
                1024 bytes.
            action: what was done or tried, one CamelCase word.
            related: the kind and object that it also concerns. The same event with another
                related object is a new event with its own note.

        Raises:
            TypeError: `resource` is no Resource, or `obj` no object.
            ValueError: `type` is neither `Normal` nor `Warning`.
        """
        check_resource(resource, "Recorder.record")
        check_argument(resource, obj, verb="record", expected=OBJECT)
        if type not in {"Normal", "Warning"}:
            raise ValueError(
                f"Recorder.record of {resource.full_name}: type must be Normal or Warning, not"
                f" {describe_value(type)}; the reason and the message follow it"
            )
        if len(self._queue) >= QUEUE_LENGTH:
            self._drop("full")
            return
        other = Reference.to(*related) if related is not None else None
        key = SeriesKey(
            Reference.to(resource, obj), type, reason=reason, action=action, related=other
        )
        now = self._clock.now()
        # Unique within this process; two events of a burst may have the same time.
        self._stamp = max(self._stamp + 1, int(now.timestamp() * 1e9))
        self._queue.append(_QueuedEvent(key, escape_text(message), at=now, stamp=self._stamp))
        self._recorded.set()

    async def run(self) -> None:
        """Write recorded events until cancelled, then what is left, for at most two seconds."""
        try:
            while True:
                await self._wait_for_work()
                self._recorded = anyio.Event()
                await self._write_queued()
                await self._write_counts(self._due)
        finally:
            with anyio.CancelScope(shield=True), self._clock.move_on_after(FLUSH_SECONDS):
                await self._write_queued()
                await self._write_counts(lambda _: -math.inf)

    async def _wait_for_work(self) -> None:
        """Wait until an event is recorded or the count of a series has to be written."""
        due = min((self._due(series) for series in self._series.values()), default=None)
        if due is None:
            await self._recorded.wait()
            return
        with self._clock.move_on_after(due - self._clock.monotonic()):
            await self._recorded.wait()

    def _due(self, series: _Series) -> float:
        quiet = series.last_seen + QUIET_SECONDS
        if series.count == series.written:
            return quiet
        return min(quiet, series.written_at + REFRESH_SECONDS)

    async def _write_queued(self) -> None:
        while self._queue:
            try:
                await self._write(self._queue[0])
            except Exception:
                log.exception("Event dropped: writing it raised")
                self._drop("refused")
            self._queue.popleft()

    async def _write(self, queued: _QueuedEvent) -> None:
        """Create the event, or count one that repeats; the first repetition is written at once."""
        series = self._series.get(queued.key)
        now = self._clock.monotonic()
        if series is None:
            await self._create(queued)
            return
        series.count += 1
        series.last, series.last_seen = queued.at, now
        if series.count == 2:
            await self._write_count(queued.key, series)

    async def _create(self, queued: _QueuedEvent) -> None:
        """Create a new event and start its series, unless its object has had too many."""
        key = queued.key
        if not self._limits.allow((key.regarding, key.related)):
            self._drop("limited")
            return
        body = event_body(
            key, queued.note, reporter=self._reporter, at=queued.at, stamp=queued.stamp
        )
        event = await self._send(
            lambda: self._client.create(EVENTS, key.regarding.event_namespace, body)
        )
        if event is not None:
            now = self._clock.monotonic()
            self._series[key] = _Series(
                event, 1, last=queued.at, last_seen=now, written=1, written_at=now
            )

    async def _write_counts(self, due: Callable[[_Series], float]) -> None:
        """Write the counts that are due, and remove the series that have ended."""
        now = self._clock.monotonic()
        for key, series in list(self._series.items()):
            if due(series) > now:
                continue
            if series.count > series.written:
                await self._write_count(key, series)
            if series.last_seen + QUIET_SECONDS <= now:
                self._series.pop(key, None)

    async def _write_count(self, key: SeriesKey, series: _Series) -> None:
        """Write how often an event occurred into its series."""
        patch = series_patch(series.count, series.last)
        at = Version.from_object(series.event)
        event = await self._send(lambda: self._client.patch(EVENTS, at, patch))
        if event is None:
            # Deleted (events expire after an hour) or changed: the next one is a new event.
            self._series.pop(key, None)
            return
        series.event = event
        series.written, series.written_at = series.count, self._clock.monotonic()

    async def _send(self, request: Callable[[], Any]) -> Event | None:
        """Send a request, up to TRIES times; return the event, or None if it was not written."""
        for attempt in range(TRIES):
            try:
                event: Event = await request()
                return event
            except (NoAnswer, ServerFailure, TooManyRequests, MalformedAnswer) as error:
                log.debug("Event not recorded yet", error=str(error))
                # The first retry comes at a random time: all replicas may have failed at once.
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
