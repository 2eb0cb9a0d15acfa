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
    create_event_body,
    create_series_patch,
)
from controller.loggers import get_logger
from controller.meta import Object, Version
from controller.plaintext import escape_text
from controller.queueorder import Delays
from controller.resource import Resource

if TYPE_CHECKING:  # who only names the types of events does not need to load metrics
    from prometheus_client import Counter

K = TypeVar("K")
T = TypeVar("T", bound=Object)
R = TypeVar("R", bound=Object)
EventType = Literal["Normal", "Warning"]

QUEUE_LENGTH = 1000
"""How many events wait to be written; further ones are dropped."""
TRIES = 12
"""How often a request is sent before its event is dropped."""
RETRY_SECONDS = 10.0
"""The delay between two tries, before jitter."""
QUIET_SECONDS = 360.0
"""A series ends after so long without its event."""
REFRESH_SECONDS = 1800.0
"""How often the count of a series that goes on is written."""
FLUSH_SECONDS = 2.0
"""How long events are still written when the process ends."""
BURST = 25
"""Tokens in a full bucket: events about one object in quick succession."""
REFILL_SECONDS = 300.0
"""How long it takes until a bucket has one token more."""
MAX_BUCKETS = 4096
"""Number of objects whose buckets are kept; the one without events for longest is removed."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _QueuedEvent:
    """One call of `record`.

    The stamp is part of the event's name, so all attempts create the same event.
    """

    key: SeriesKey
    note: str
    happened_at: datetime
    stamp: int


@dataclass(slots=True)
class _Series:
    """An event on the server, and how often it happened since.

    Args:
        event: the Event as the server has it.
        count: how often it happened.
        last_time: when it happened last, in wall-clock time.
        counted_at: when it happened last, in monotonic seconds.
        written_count: the count that the server has.
        written_at: when that count was written, in monotonic seconds.
    """

    event: Event
    count: int
    last_time: datetime
    counted_at: float
    written_count: int
    written_at: float

    @property
    def next_check_at(self) -> float:
        """When to check the series again, in monotonic seconds.

        If the server has the count, the series ends then. Otherwise the count is to be written.
        """
        quiet = self.counted_at + QUIET_SECONDS
        if self.count == self.written_count:
            return quiet
        return min(quiet, self.written_at + REFRESH_SECONDS)


@dataclass(slots=True)
class _Bucket:
    """A token bucket; `filled_at` is when (monotonic seconds) its tokens were computed."""

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
        """Return the number of keys that have a bucket."""
        return len(self._buckets)

    def take_token(self, key: K) -> bool:
        """Take a token from the bucket of `key`; return False if the bucket has none.

        The first call for a key creates a full bucket.
        """
        now = self._clock.monotonic()
        # Taken out and put in again at the end: the first entry is the one unused for longest.
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
        ValueError: the component is no qualified name, so the server would reject each event.
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
        self._work_added = anyio.Event()  # set when an event is queued
        self._series: dict[SeriesKey, _Series] = {}
        self._series_checks: Delays[SeriesKey] = Delays()
        """When to check whether a series is due. A repetition or a write only postpones that time,
        because QUIET_SECONDS is at most REFRESH_SECONDS: a check may be too early, never too late.
        """
        self._limits: SpamFilter[tuple[Reference, Reference | None]] = SpamFilter(clock)
        self._stamp = 0  # the last stamp

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
            self._count_dropped("full")
            return
        key = SeriesKey(
            Reference.from_object(resource, obj),
            type,
            reason=reason,
            action=action,
            related=Reference.from_object(*related) if related is not None else None,
        )
        now = self._clock.now()
        # The time in nanoseconds, at least 1 above the last stamp: two events of a burst may have
        # the same time, and the stamp has to be unique.
        self._stamp = max(self._stamp + 1, int(now.timestamp() * 1e9))
        self._queue.append(
            _QueuedEvent(key, escape_text(message), happened_at=now, stamp=self._stamp)
        )
        self._work_added.set()

    async def run(self) -> None:
        """Write recorded events until cancelled, then the rest of them for two seconds at most."""
        try:
            while True:
                await self._wait_for_work()
                # A new event before writing: an event that is recorded meanwhile sets it.
                self._work_added = anyio.Event()
                await self._write_queued_events()
                await self._write_due_counts()
        finally:
            with anyio.CancelScope(shield=True), self._clock.move_on_after(FLUSH_SECONDS):
                await self._write_queued_events()
                for key, series in list(self._series.items()):
                    await self._write_count(key, series)

    async def _wait_for_work(self) -> None:
        """Wait until an event is recorded, or until it is time to check a series again."""
        due = self._series_checks.earliest
        if due is None:  # there is no series
            await self._work_added.wait()
            return
        with self._clock.move_on_after(due - self._clock.monotonic()):
            await self._work_added.wait()

    async def _write_queued_events(self) -> None:
        """Write all queued events; drop an event whose writing raises, so that others follow.

        An event stays in the queue until it is written, so a cancelled write is made at the end.
        """
        while self._queue:
            try:
                await self._write_event(self._queue[0])
            except Exception:
                log.exception("Event dropped: writing it raised")
                self._count_dropped("refused")
            self._queue.popleft()

    async def _write_event(self, queued: _QueuedEvent) -> None:
        """Create the event, or count it in its series if it repeats.

        Only the first repetition is written at once; `_write_due_counts` writes later counts.
        """
        series = self._series.get(queued.key)
        if series is None:
            await self._create_event(queued)
            return
        series.count += 1
        series.last_time = queued.happened_at
        series.counted_at = self._clock.monotonic()
        # The first repetition makes the event a series; readers see that soon.
        if series.count == 2:
            await self._write_count(queued.key, series)

    async def _create_event(self, queued: _QueuedEvent) -> None:
        """Create a new event and start its series; drop it if its object has had too many."""
        key = queued.key
        if not self._limits.take_token((key.regarding, key.related)):
            self._count_dropped("limited")
            return
        body = create_event_body(
            key,
            queued.note,
            reporter=self._reporter,
            happened_at=queued.happened_at,
            stamp=queued.stamp,
        )
        event = await self._send(
            lambda: self._client.create(EVENTS, key.regarding.event_namespace, body)
        )
        if event is not None:
            now = self._clock.monotonic()
            series = _Series(
                event,
                1,
                last_time=queued.happened_at,
                counted_at=now,
                written_count=1,
                written_at=now,
            )
            self._series[key] = series
            self._series_checks.put(key, series.next_check_at, priority=0)

    async def _write_due_counts(self) -> None:
        """Write the counts that are due, and remove the series that have ended."""
        now = self._clock.monotonic()
        while (due_check := self._series_checks.pop_due(now)) is not None:
            key, _, _ = due_check
            series = self._series[key]
            try:
                if series.next_check_at <= now:
                    await self._write_count(key, series)  # removes the series if that fails
                if series.counted_at + QUIET_SECONDS <= now:
                    self._series.pop(key, None)
            finally:
                # Also if the write raises: nothing else writes or ends a series without a check.
                if key in self._series:
                    self._series_checks.put(key, series.next_check_at, priority=0)

    async def _write_count(self, key: SeriesKey, series: _Series) -> None:
        """Write how often an event happened into its series, unless the server has that count.

        If that fails, the series is removed.
        """
        if series.count == series.written_count:
            return
        patch = create_series_patch(series.count, series.last_time)
        version = Version.from_object(series.event)
        event = await self._send(lambda: self._client.patch(EVENTS, version, patch))
        if event is None:
            # The Event object was deleted (the server keeps it for an hour) or changed, or the
            # server did not answer. If the event happens again, it becomes a new object.
            del self._series[key]
            self._series_checks.discard(key)
            return
        series.event = event
        series.written_count, series.written_at = series.count, self._clock.monotonic()

    async def _send(self, request: Callable[[], Any]) -> Event | None:
        """Send a request, up to TRIES times; return the event, or None if it was not written.

        Only failures that may pass by themselves are retried. Other failures count as dropped,
        except those that are no fault.
        """
        for attempt in range(TRIES):
            try:
                event: Event = await request()
                return event
            except (NoAnswer, ServerFailure, TooManyRequests, MalformedAnswer) as error:
                log.debug("Event not recorded yet", error=str(error))
                # The first retry comes at a random time, because all replicas may have failed at
                # once. Later delays are up to a quarter longer than RETRY_SECONDS.
                delay_factor = self._jitter() if attempt == 0 else 1 + 0.25 * self._jitter()
                await self._clock.sleep(RETRY_SECONDS * delay_factor)
            except (NotFound, AlreadyExists) as error:
                # No fault, so not counted as dropped: the namespace or event was deleted, or an
                # earlier try has created the event.
                log.debug("Event not recorded", error=str(error))
                return None
            except ControllerError as error:
                log.warning("Event not recorded", error=str(error))
                self._count_dropped("refused")
                return None
        log.warning("Event not recorded", tries=TRIES)
        self._count_dropped("refused")
        return None

    def _count_dropped(self, reason: str) -> None:
        """Count a dropped event: `full`, `limited` or `refused`."""
        if self._counter is not None:
            self._counter.labels(reason).inc()
