"""Keeps a cache equal to the server: list once, then watch, and recover from every failure.

The position is the resourceVersion up to which the cache has all changes; a watch continues from
it. The history is the sequence of the server's resourceVersions. A server that is restored from a
backup begins another history, in which the old position means nothing.

The loop is a set of named states. The table has the next state for each way a request ends:

    Empty      nothing is known            → Streaming at "", or Listing at "0"
    Streaming  read everything, as the initial events of a watch
                 complete                  → Watching; the same watch goes on
                 no connection, 429        → Streaming again, after a delay
                 cut twice in a row        → Listing, after a delay
                 410, "too large"          → Expired, after a delay
                 not complete in time, or
                 the feature is refused    → Listing at once, and never Streaming again
                 any other failure         → Listing at once
    Listing    read everything with a LIST → Watching
                 410, 5xx, no connection   → Expired, after a delay
                 any other failure         → Listing again, after a delay
    Watching   watch from the position     → Watching when the server ends the watch normally
                 cut, silence, 429         → Watching at the same position, after a delay
                 no connection, 5xx, 410   → Expired, after a delay
                 ended at once and empty,
                 any other failure         → Streaming or Listing at the position, after a delay
    Expired    the position is not in the server's history → Streaming or Listing at ""

This is client-go's reflector (tools/cache/reflector.go) with four differences. After a 410
client-go lists at its old position ("not older than"); this reflector lists the newest state,
because a list without resourceVersion also shows that the history was replaced by a restored
backup. It does the same after the server could not be reached, because a watch from a position of
the old history would never deliver the changes below it. HTTP/1.1 has no ping, so a dead
connection is found by its silence. And initial events that are not complete in time are given up.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from controller import errors, lists
from controller.backoff import WATCH_MAX_SECONDS, WatchBackoff
from controller.cache import Cache
from controller.clock import Clock
from controller.codec import (
    Bookmark,
    ErrorEvent,
    Page,
    UnknownEvent,
    Unreadable,
    WatchEvent,
    decode_event,
)
from controller.errors import ControllerError
from controller.lists import STREAM_SECONDS, InitialEvents
from controller.loggers import get_logger
from controller.meta import Key, Object
from controller.resource import Scope
from controller.slices import SLICE, run_in_slices, split_into_batches
from controller.transport import Transport
from controller.watch import ENDED, SHORT, ReadLimit, WatchObserver, classify_end, read_lines

T = TypeVar("T", bound=Object)

SILENCE_SECONDS = 90.0
"""A watch that sends nothing for so long is dead: servers send a bookmark about every minute."""
SHORT_WATCH_SECONDS = 1.0
"""A watch that ended earlier without an event was ended at once."""
RESET_WATCH_SECONDS = 5.0
"""A watch that lasted so long resets the backoff. It is short so that the next attempt comes while
a server that is being restored from a backup cannot be reached yet."""
WATCH_SECONDS = (300, 600)
"""Range of the random `timeoutSeconds` of a watch."""
CUT_STREAMS = 2
"""After so many cut streams in a row the objects are read with a LIST."""

EVERYTHING = Scope()

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Empty:
    """Nothing is known yet."""


@dataclass(frozen=True, slots=True)
class Streaming:
    """Reading everything as the initial events of a watch.

    Args:
        revision: a resourceVersion for a state that is not older; empty for the newest state.
    """

    revision: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Reading everything with a LIST.

    Args:
        revision: a resourceVersion for a state that is not older; empty for the newest state, `0`
            for any state in the server's watch cache.
    """

    revision: str


@dataclass(frozen=True, slots=True)
class Watching:
    """Watching from the cache's position."""


@dataclass(frozen=True, slots=True)
class PositionExpired:
    """The cache's position is not, or no longer, in the server's history."""


State = Empty | Streaming | Listing | Watching | PositionExpired


class Reflector(Generic[T]):
    """Feeds one cache from one server.

    Args:
        transport: the server.
        clock: for delays and the deadline on silence.
        cache: the cache to keep equal to the server.
        scope: the objects to read.
        silence_seconds: how long a watch may send nothing, not even a bookmark.
        longest_pause: seconds at which delays after failures stop growing; jitter comes on top.
        randomness: for jitter; tests give a seeded one.
        streams: read lists as initial events of watches, until the server shows that it cannot.
        begins_newest: read the newest state first, not a state of the server's watch cache.
        max_list_bytes: the most bytes of a list, and of all events until the next list; None for
            no limit.
        observer: called when lists and watches end, for metrics.
        on_listed: called when a list has been put into the cache.
        on_failed: called when a list or watch has failed, before the delay.
    """

    def __init__(  # noqa: PLR0913 - what to watch, where, and the limits
        self,
        transport: Transport,
        clock: Clock,
        cache: Cache[T],
        scope: Scope = EVERYTHING,
        *,
        silence_seconds: float = SILENCE_SECONDS,
        longest_pause: float = WATCH_MAX_SECONDS,
        randomness: random.Random | None = None,
        streams: bool = False,
        begins_newest: bool = False,
        max_list_bytes: int | None = None,
        observer: WatchObserver | None = None,
        on_listed: Callable[[], None] = lambda: None,
        on_failed: Callable[[], None] = lambda: None,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._cache = cache
        self._scope = scope
        self._silence_seconds = silence_seconds
        self._random = randomness or random.SystemRandom()
        self._backoff = WatchBackoff(clock, self._random, maximum=longest_pause)
        # Whether the server has sent a bookmark: it does so for most kinds, not for Events.
        self._has_bookmarks = False
        # How many accepted watches in a row, with the running one, have delivered nothing.
        self._empty_watches = 0
        self._cluster_changed = False
        self._pause: anyio.CancelScope | None = None
        """The pause after a failure, while it lasts."""
        self._streams = streams
        self._first_listing = Listing("" if begins_newest else "0")
        self._limit = ReadLimit(max_list_bytes)
        self._cut_streams = 0
        self._is_accepted = False
        """Whether the server has accepted the watch of the present step; a list never has one."""
        self._highest_revision = 0
        self._initial_events: InitialEvents[T] | None = None
        self._observer = observer or WatchObserver()
        self._on_listed = on_listed
        self._on_failed = on_failed
        self._kind = cache.resource.full_name
        self._log_fields = {"namespace": scope.namespace} if scope.namespace else {}
        self.state: State = Empty()
        """The state of the loop."""
        self.last_error: errors.SourceError | None = None
        """Why list or watch fails; None while they succeed."""
        self.refusal: errors.SourceError | None = None
        """The last rejection (401, 403) of list or watch; None once one of them has succeeded.

        Other failures after the rejection do not clear it: the cache still shows the past.
        """
        self._logged_failures: dict[str, str] = {}
        """The failure that was logged last, by verb, until the verb works again."""
        self.failing_since: float | None = None
        """Since when (monotonic seconds) list or watch fails; None while they succeed."""
        self.last_received = clock.monotonic()
        """When (monotonic seconds) a list, event or bookmark came last; at first the start."""

    async def run(self) -> None:
        """Keep the cache equal to the server until cancelled."""
        while True:
            await self.step()

    async def step(self) -> None:
        """Make the request of the present state, and go to the next state."""
        if self._cluster_changed:
            # The position is from the old cluster: read the newest state of the new one.
            self._cluster_changed = False
            self.restart()
        match self.state:
            case Empty():
                self.state = Streaming("") if self._streams else self._first_listing
            case PositionExpired():
                self.state = self._create_full_read("")
            case Streaming(revision):
                # Taken before the request: if the newest state is lower, it has another history.
                self._highest_revision = self._cache.highest_revision
                deadline = self._clock.monotonic() + STREAM_SECONDS
                self._initial_events = InitialEvents(revision, deadline)
                self.state = await self._watch()
            case Listing(revision):
                self.state = await self._list(revision)
            case Watching():
                self._initial_events = None  # a stream that was cut, before a LIST, leaves its own
                self.state = await self._watch()

    def restart(self) -> None:
        """Begin with a list again, after an exception that this loop does not handle.

        After the first list, the next list has to be of the newest state.
        """
        self.state = PositionExpired() if self._cache.is_synced else Empty()

    def retry_now(self) -> None:
        """Retry a failed list or watch without further delay; the server has changed."""
        self._backoff.reset()
        if self._pause is not None:
            self._pause.cancel()

    def on_cluster_changed(self) -> None:
        """List the newest state at the next step: the transport leads to another cluster."""
        self._cluster_changed = True

    def _create_full_read(self, revision: str) -> State:
        """Return the state that reads everything: as initial events, or with a LIST."""
        return Streaming(revision) if self._streams else Listing(revision)

    async def _list(self, revision: str) -> State:
        """Read everything with a LIST; return the next state."""
        # Taken before the request: if the newest state is lower, it has another history.
        self._highest_revision = self._cache.highest_revision
        self._is_accepted = False  # a failed list is no cut watch (see `_may_follow_restore`)
        try:
            page = await lists.list_all(
                self._transport,
                self._cache.resource,
                namespace=self._scope.namespace,
                query=self._scope.query | lists.create_list_query(revision),
                limit=self._limit,
            )
            self._check_not_older(page, revision)
        except ControllerError as error:
            await self._wait_after("list", error)
            needs_newest = errors.is_expired(error) or self._may_follow_restore(error)
            return PositionExpired() if needs_newest else Listing(revision)
        await self._replace_objects(page, revision)
        return Watching()

    def _check_not_older(self, page: Page[T], revision: str) -> None:
        """Refuse a list that is older than the position, unless the newest state was requested.

        A newest state below the position is from another history, and replaces the cache.

        Args:
            page: the list.
            revision: the resourceVersion of the request; empty for the newest state.

        Raises:
            Expired: the server is behind the position.
        """
        if revision and page.revision < self._cache.position:
            raise errors.Expired(
                410, "", f"the list at {page.revision} is older than what was asked for"
            )

    async def _replace_objects(self, page: Page[T], revision: str) -> None:
        """Put a complete list into the cache; `revision` is the resourceVersion of the request."""
        self.last_received = self._clock.monotonic()
        self._observer.note_listed()
        # The newest state is at least as new as all responses before the request for it. A lower
        # revision is from another history.
        is_other_history = not revision and page.revision < self._highest_revision
        if is_other_history:
            log.warning("listed revision went back", resource=self._kind, revision=page.revision)
        self._limit.reset()
        await run_in_slices(
            self._cache.replace_in_slices(
                page.items, page.revision, page.unreadable, replaced=is_other_history
            )
        )
        await run_in_slices(self._log_all_unreadable(page.unreadable))
        # Only now: between the slices, other tasks still read the objects from before the list.
        self._note_success()
        self._log_recovery("list")
        self._on_listed()

    async def _watch(self) -> State:
        """Read one watch until it ends; return the next state.

        The code has the ends of a watch in this order: an error; a normal end; more events than
        the limit; an end at once, without an event.
        """
        begun_at = self._clock.monotonic()
        self._is_accepted = False
        try:
            has_events = await self._read_watch()
            if self._initial_events is not None:
                raise errors.NoAnswer("the watch ended before its initial events were complete")
        except ControllerError as error:
            self._observer.note_restart(classify_end(error))
            if self._initial_events is not None:
                return await self._choose_state_after_stream(self._initial_events, error)
            if isinstance(error, errors.SilentWatch) and not self._has_bookmarks:
                return Watching()  # a kind without bookmarks (Event, for example) may be quiet
            if self._clock.monotonic() - begun_at >= RESET_WATCH_SECONDS:
                self._backoff.reset()  # the watch has worked
            await self._wait_after("watch", error)
            return self._choose_state_after_watch(error)
        if has_events or self._clock.monotonic() - begun_at >= SHORT_WATCH_SECONDS:
            self._observer.note_restart(ENDED)
            if not self._limit.is_exceeded:
                return Watching()
            # Events beyond the limit: a new list shows how many bytes the objects take in all.
            if self._clock.monotonic() - begun_at < RESET_WATCH_SECONDS:
                await self._wait_after("watch", errors.MalformedAnswer("too many events at once"))
            return self._create_full_read(str(self._cache.position))
        # Some servers and proxies end the watch at once instead of answering 410.
        self._observer.note_restart(SHORT)
        await self._wait_after(
            "watch", errors.NoAnswer("the watch ended at once, without an event")
        )
        return self._create_full_read(str(self._cache.position))

    def _may_follow_restore(self, error: ControllerError) -> bool:
        """Return whether an error means that the server may have been restored from a backup.

        It means so if the server could not be reached or failed. A cut connection does not count
        if the server had accepted the watch. Before the first list there is no history to lose.
        """
        # A 504 may also say that the position is in the future: then the server was reached.
        is_away = isinstance(
            error, errors.NoAnswer | errors.NotReached | errors.ServerFailure
        ) and not errors.is_expired(error)
        return is_away and not self._is_accepted and self._cache.is_synced

    def _choose_state_after_watch(self, error: ControllerError) -> State:
        """Return the state after a failed watch; the module's docstring has the table."""
        if self._may_follow_restore(error):
            return PositionExpired()
        if isinstance(error, errors.NoAnswer | errors.TooManyRequests):
            # After a backup was restored, our position may be in the server's future, and watches
            # deliver nothing. If the kind has bookmarks, two empty watches in a row show this.
            may_be_ahead = self._has_bookmarks and self._empty_watches >= 2
            return PositionExpired() if may_be_ahead else Watching()
        if errors.is_expired(error):
            return PositionExpired()
        return self._create_full_read(str(self._cache.position))

    async def _choose_state_after_stream(
        self, initial: InitialEvents[T], error: ControllerError
    ) -> State:
        """Return the state after a stream that ended before all objects were listed.

        If the server lacks the feature, objects are read with a LIST from now on. After a failure
        that passes, another stream follows; after CUT_STREAMS cut streams in a row, a LIST.

        Args:
            initial: the events that the stream delivered.
            error: the error that ended the stream.
        """
        # A stream at "" wants the newest state. Before the first list, its LIST may read what the
        # first LIST would without streams; later it has to read the newest state, too.
        fallback = "" if self._cache.is_synced else self._first_listing.revision
        listing = Listing(initial.revision or fallback)
        if isinstance(error, errors.SilentWatch | errors.BadRequest | errors.Invalid):
            # The server lacks the feature, or a proxy drops the bookmark: neither will change.
            self._streams = False
            log.warning(
                "initial events not available, using LIST", resource=self._kind, error=str(error)
            )
            return listing
        is_transient = isinstance(error, errors.NoAnswer | errors.TooManyRequests)
        if not is_transient and not errors.is_expired(error):
            return listing  # no delay yet: the LIST succeeds if only watches fail
        await self._wait_after("watch", error)
        if errors.is_expired(error) or self._may_follow_restore(error):
            return PositionExpired()
        if initial.is_accepted:  # only a stream that the server has accepted can be cut
            self._cut_streams += 1
        return listing if self._cut_streams >= CUT_STREAMS else Streaming(initial.revision)

    async def _read_watch(self) -> bool:
        """Process the events of one watch; return whether any event came.

        The watch is read until the server ends it, or until its events exceed the limit. If they
        exceed the limit, the caller lists again.
        """
        resource, query = self._cache.resource, self._create_watch_query()
        path = resource.build_collection_path(self._scope.namespace)
        has_events = False
        async with self._transport.stream(path, query=query, accept=resource.accept) as chunks:
            self._note_accepted()
            async with aclosing(
                read_lines(chunks, self._clock, self._compute_max_silence)
            ) as line_lists:
                async for lines in line_lists:
                    has_events = True
                    await self._process_lines(lines)
                    if self._limit.is_exceeded:
                        break
        return has_events

    def _create_watch_query(self) -> dict[str, str]:
        """Return the query of a watch from the position, or with all objects as initial events."""
        query = self._scope.query | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._random.randint(*WATCH_SECONDS)),
        }
        if self._initial_events is not None:
            query |= lists.create_stream_query(self._initial_events.revision)
        # The query for initial events has its own resourceVersion, which may be empty.
        query.setdefault("resourceVersion", str(self._cache.position))
        return query

    def _note_accepted(self) -> None:
        """Note that the server has accepted the watch.

        Only accepted watches count as empty. A server that accepts no watch, because it restarts
        or is overloaded, says nothing about the position, and lists would add to its load.
        """
        self._empty_watches += 1
        self._is_accepted = True
        if self._initial_events is not None:
            self._initial_events.is_accepted = True
        else:
            self._note_success()  # the cache is current; with initial events it is not yet

    async def _process_lines(self, lines: Sequence[bytes]) -> None:
        """Process the events that arrived together; let other tasks run between slices."""
        self._empty_watches = 0
        self._log_recovery("watch")
        self.last_received = self._clock.monotonic()
        for number, line in enumerate(lines, start=1):
            self._limit.add(len(line), objects=1)
            await self._process_event(decode_event(self._cache.resource, line))
            if number % SLICE == 0:
                await checkpoint()

    def _compute_max_silence(self) -> float:
        """Return the seconds within which the next chunk of the watch must come.

        While initial events come, these are the seconds until all of them must have come.
        """
        if self._initial_events is None:
            return self._silence_seconds
        return max(0.0, self._initial_events.deadline - self._clock.monotonic())

    async def _process_event(self, event: WatchEvent[T]) -> None:
        """Put one event into the cache, or the whole list once its initial events are complete.

        Raises:
            ApiError: the server ended the watch with an error.
            Expired: the server, or its list, is behind the cache's position.
        """
        match event:
            case ErrorEvent(error):
                raise error
            case UnknownEvent(reason):
                log.warning("watch event skipped", resource=self._kind, reason=reason)
            case _ if self._initial_events is not None:
                page = self._initial_events.add(event)
                if page is not None:
                    revision = self._initial_events.revision
                    self._check_not_older(page, revision)
                    self._initial_events, self._cut_streams = None, 0
                    await self._replace_objects(page, revision)
            case Bookmark(revision):
                self._has_bookmarks = True
                if revision < self._cache.position:
                    raise errors.Expired(
                        410, "", f"the server is at {revision}, before our position"
                    )
                self._cache.apply_bookmark(revision)
            case _:
                if isinstance(event, Unreadable):
                    self._log_unreadable(event.key, event.reason)
                self._cache.apply(event)

    def _log_all_unreadable(self, reasons: Mapping[Key, str]) -> Iterator[None]:
        """Log the unreadable objects of a list, a batch at each step."""
        for batch in split_into_batches(reasons.items()):
            for key, reason in batch:
                self._log_unreadable(key, reason)
            yield

    def _log_unreadable(self, key: Key, reason: str) -> None:
        """Log that an object cannot be decoded."""
        log.warning("cannot decode object", resource=self._kind, object=str(key), reason=reason)

    def _note_success(self) -> None:
        """Note that list or watch has succeeded."""
        self.last_error = self.failing_since = self.refusal = None

    def _log_failure(self, verb: str, error: str, seconds: float) -> None:
        """Log why list or watch fails, as a warning if that is new, otherwise at debug.

        A server that is silent for hours has one line, not one for each retry.

        Args:
            verb: `list` or `watch`.
            error: the reason.
            seconds: the delay until the retry.
        """
        is_new = self._logged_failures.get(verb) != error
        self._logged_failures[verb] = error
        log_line = log.warning if is_new else log.debug
        log_line(
            "list/watch failed, retrying",
            error=error,
            retry_seconds=round(seconds, 1),
            **self._log_fields,
        )

    def _log_recovery(self, verb: str) -> None:
        """Log that a verb works again, if its failure was logged.

        A watch works again once it delivers an event. That the server accepted it is not enough:
        the server may end each watch at once.
        """
        error = self._logged_failures.pop(verb, None)
        if error is not None:
            log.info("list/watch works again", error=error, **self._log_fields)

    async def _wait_after(self, verb: str, error: ControllerError) -> None:
        """Record a failed list or watch, and wait for the longer of the backoff and retry-after.

        `retry_now` ends the wait.
        """
        if self._may_follow_restore(error):
            self._cache.unconfirm_history()
        self.last_error = errors.SourceError(verb, self._kind, error)
        if isinstance(error, errors.Forbidden | errors.Unauthorized):
            self.refusal = self.last_error
        if self.failing_since is None:
            self.failing_since = self._clock.monotonic()
        self._on_failed()
        seconds = self._backoff.note_failure()
        if isinstance(error, errors.ApiError) and error.retry_after is not None:
            seconds = max(seconds, error.retry_after)
        self._log_failure(verb, str(self.last_error), seconds)
        with anyio.CancelScope() as self._pause:
            await self._clock.sleep(seconds)
        self._pause = None
