"""Keeps a cache equal to the server: list once, then watch, for ever, whatever happens.

The loop is a set of named states, and each says where it goes when its work fails:

    Empty      nothing is known            → Streaming at "", or Listing at "0"
    Streaming  ask for everything, as the beginning of a watch
                                           → Watching; the same watch goes on
                 the server is not there   → Streaming again, after a pause
                 it was cut midway, twice  → Listing, after a pause
                 410, "too large"          → Expired, after a pause
                 no end came in time, or
                 the feature is refused    → Listing at once, and never Streaming again
                 any other failure         → Listing at once
    Listing    ask for everything          → Watching
                 410, "too large"          → Expired, after a pause
                 any other failure         → Listing again, after a pause
    Watching   follow from the position    → Watching when the server ends it in good order
                 no answer, silence, 429   → Watching at the same position, after a pause
                 410, HTTP or in-stream    → Expired, after a pause
                 over at once, nothing said,
                 any other failure         → Streaming or Listing at the position, after a pause
    Expired    the history there is not the one of our position → Streaming or Listing at ""

The semantics are those of client-go's reflector (tools/cache/reflector.go) with three differences.
After a 410 it lists at its old position ("not older than"), we ask for the newest: a list without
resourceVersion is also the one that shows when the history itself was replaced, by a
restored backup. HTTP/1.1 has no ping: a dead connection is noticed by its silence. And a streamed
list whose end never comes is given up.
"""

import random
from collections.abc import Callable
from contextlib import aclosing
from typing import Generic, TypeVar

import structlog

from controller import errors
from controller.cache import Cache
from controller.clock import Clock
from controller.codec import (
    Added,
    Bookmark,
    Deleted,
    Failure,
    Modified,
    Page,
    Unknown,
    Unreadable,
    WatchEvent,
    decode_event,
)
from controller.errors import (
    ApiError,
    BadRequest,
    ControllerError,
    Invalid,
    NoAnswer,
    TooManyRequests,
)
from controller.meta import Key, Object
from controller.pages import list_whole
from controller.pauses import LONGEST_SECONDS, Pauses
from controller.sources import Scope, SourceError
from controller.states import (
    Empty,
    Expired,
    Listing,
    State,
    Streaming,
    Watching,
    list_query,
    stream_query,
)
from controller.streamed import STREAM_SECONDS, InitialEvents
from controller.transport import Transport
from controller.watch import read_lines
from controller.watchview import ENDED, SHORT, SilentWatch, WatchObserver, reason_of

T = TypeVar("T", bound=Object)

SILENCE_SECONDS = 90.0
"""Servers send a bookmark about every minute."""
SHORT_WATCH_SECONDS = 1.0
STEADY_WATCH_SECONDS = 60.0
"""A watch that held for so long is no failure in a row, however it ends."""
WATCH_SECONDS = (300, 600)

CUT_STREAMS = 2
"""So many streamed lists that were cut in a row, and it is asked for in the other way."""

EVERYTHING = Scope()

log = structlog.get_logger(__name__)


class Reflector(Generic[T]):
    """Feeds one cache from one server.

    Args:
        transport: the server.
        clock: for pauses and the deadline on silence.
        cache: what is fed.
        scope: which objects.
        silence_seconds: how long a watch may say nothing, not even a bookmark.
        longest_pause: seconds at which pauses after failures stop growing; jitter comes on top.
        randomness: for jitter; tests give a seeded one.
        streams: ask for lists as beginnings of watches, until the server shows that it cannot.
        observer: told how it goes, for metrics.
        listed: called when a list has been delivered.
    """

    def __init__(  # noqa: PLR0913 - what to follow, where, and how patiently
        self,
        transport: Transport,
        clock: Clock,
        cache: Cache[T],
        scope: Scope = EVERYTHING,
        *,
        silence_seconds: float = SILENCE_SECONDS,
        longest_pause: float = LONGEST_SECONDS,
        randomness: random.Random | None = None,
        streams: bool = False,
        observer: WatchObserver | None = None,
        listed: Callable[[], None] = lambda: None,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._cache = cache
        self._scope = scope
        self._silence = silence_seconds
        self._random = randomness or random.SystemRandom()
        self._pauses = Pauses(clock, self._random, longest=longest_pause)
        self._bookmarks = False
        self._unheard = 0
        self._moved = False
        self._streams = streams
        self._cut = 0
        self._initial: InitialEvents[T] | None = None
        self._observer = observer
        self._listed = listed
        self._kind = cache.resource.full_name
        self.state: State = Empty()
        """Where the loop is."""
        self.last_error: SourceError | None = None
        """Why the world cannot be seen; None while it can."""
        self.failing_since: float | None = None
        """Since when (monotonic seconds) it cannot; None while it can."""
        self.last_heard = clock.monotonic()
        """When (monotonic seconds) a list, an event or a bookmark came last; at first: now."""

    async def run(self) -> None:
        """Keep the cache equal to the server until cancelled."""
        while True:
            await self.step()

    async def step(self) -> None:
        """Do what the present state stands for, and go to the next."""
        if self._moved:
            self._moved = False
            self.restart()
        match self.state:
            case Empty():
                self.state = Streaming("") if self._streams else Listing("0")
            case Expired():
                self.state = self._anew("")
            case Streaming(revision):
                due = self._clock.monotonic() + STREAM_SECONDS
                self._initial = InitialEvents(revision, due)
                self.state = await self._watch()
            case Listing(revision):
                self.state = await self._list(revision)
            case Watching():
                self._initial = None
                self.state = await self._watch()

    def restart(self) -> None:
        """Begin with a list again, after an error that this loop does not know."""
        self.state = Expired() if self._cache.synced else Empty()

    def moved(self) -> None:
        """Begin with a list of the newest again: another cluster answers now."""
        self._moved = True

    def _anew(self, revision: str) -> State:
        """Ask for everything again, in the way that works here."""
        return Streaming(revision) if self._streams else Listing(revision)

    async def _list(self, revision: str) -> State:
        try:
            page = await list_whole(
                self._transport,
                self._cache.resource,
                self._scope.namespace,
                self._scope.query | list_query(revision),
            )
            self._check_promise(page, revision)
        except ControllerError as error:
            await self._pause("list", error)
            return Expired() if _lapsed(error) else Listing(revision)
        self._accept(page)
        return Watching()

    def _accept(self, page: Page[T]) -> None:
        for key, reason in page.unreadable.items():
            self._unreadable(key, reason)
        self._well()
        self.last_heard = self._clock.monotonic()
        if self._observer is not None:
            self._observer.listed()
        self._cache.replace(page.items, page.revision, page.unreadable)
        self._listed()

    def _check_promise(self, page: Page[T], revision: str) -> None:
        """Refuse a list below the position, unless it is the newest and so another history."""
        if revision and page.revision < self._cache.position:
            raise errors.Expired(
                410, "", f"the list at {page.revision} is older than what was asked for"
            )

    async def _watch(self) -> State:
        begun = self._clock.monotonic()
        try:
            heard = await self._follow()
            if self._initial is not None:
                raise NoAnswer("the watch ended before the list at its beginning was whole")
        except ControllerError as error:
            self._restarted(reason_of(error, lapsed=_lapsed(error)))
            if self._initial is not None:
                return await self._after_no_list(self._initial, error)
            if self._clock.monotonic() - begun >= STEADY_WATCH_SECONDS:
                self._pauses.reset()
            await self._pause("watch", error)
            return self._after_failure(error)
        if heard or self._clock.monotonic() - begun >= SHORT_WATCH_SECONDS:
            self._restarted(ENDED)
            return Watching()
        # Some servers and proxies close at once where they should say 410.
        self._restarted(SHORT)
        await self._pause("watch", NoAnswer("the watch ended at once, without a word"))
        return self._anew(str(self._cache.position))

    def _after_failure(self, error: ControllerError) -> State:
        if isinstance(error, NoAnswer | TooManyRequests):
            # A position that lies in the future of a restored backup gives watches that never say
            # a word. Where bookmarks are known to come, two without any are enough to ask anew.
            return Expired() if self._bookmarks and self._unheard >= 2 else Watching()
        return Expired() if _lapsed(error) else self._anew(str(self._cache.position))

    async def _after_no_list(self, initial: InitialEvents[T], error: ControllerError) -> State:
        """Say where to go when a watch failed before the list at its beginning was whole."""
        late = isinstance(error, SilentWatch)
        listing = Listing(initial.revision or ("" if self._cache.synced else "0"))
        if late or isinstance(error, BadRequest | Invalid):
            # Once is enough: it is a missing feature, or a proxy that will not change.
            self._streams = False
            log.warning("cannot stream lists", resource=self._kind, error=str(error))
            return listing
        if not (_lapsed(error) or isinstance(error, NoAnswer | TooManyRequests)):
            return listing  # which will say so itself, if it is not the watch alone
        await self._pause("watch", error)
        if _lapsed(error):
            return Expired()
        self._cut += initial.opened
        return listing if self._cut >= CUT_STREAMS else Streaming(initial.revision)

    async def _follow(self) -> bool:
        """Take what one watch tells until the server ends it; returns whether it said anything."""
        initial = self._initial
        query = self._scope.query | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._random.randint(*WATCH_SECONDS)),
        }
        query |= stream_query(initial.revision) if initial else {}
        query.setdefault("resourceVersion", str(self._cache.position))
        resource = self._cache.resource
        path = resource.collection(self._scope.namespace)
        heard = False
        async with self._transport.stream(path, query=query) as chunks:
            # Counted from here: a server that takes no watch at all, while it restarts or is
            # overloaded, says nothing about the position, and lists would only add to its load.
            self._unheard += 1
            if initial is not None:
                initial.opened = True
            else:
                self._well()
            async with aclosing(read_lines(chunks, self._clock, self._patience)) as batches:
                async for lines in batches:
                    heard, self._unheard = True, 0
                    self.last_heard = self._clock.monotonic()
                    for line in lines:
                        self._take(decode_event(resource, line))
        return heard

    def _patience(self) -> float:
        """Return how many seconds from now the watch may be silent."""
        if self._initial is None:
            return self._silence
        return max(0.0, self._initial.due - self._clock.monotonic())

    def _take(self, event: WatchEvent[T]) -> None:
        match event:
            case Failure(error):
                raise error
            case Unknown(reason):
                log.warning("a watch event is skipped", resource=self._kind, reason=reason)
            case _ if self._initial is not None:
                self._collect(self._initial, event)
            case Bookmark(revision):
                self._bookmarks = True
                if revision < self._cache.position:
                    raise errors.Expired(
                        410, "", f"the server is at {revision}, behind what we have seen"
                    )
                self._cache.bookmark(revision)
            case _:
                if isinstance(event, Unreadable):
                    self._unreadable(event.key, event.reason)
                self._cache.apply(event)

    def _collect(
        self,
        initial: InitialEvents[T],
        event: Added[T] | Modified[T] | Deleted[T] | Unreadable | Bookmark,
    ) -> None:
        page = initial.take(event)
        if page is not None:
            self._check_promise(page, initial.revision)
            self._initial, self._cut = None, 0
            self._accept(page)

    def _unreadable(self, key: Key, reason: str) -> None:
        log.warning("cannot read", resource=self._kind, object=str(key), reason=reason)

    def _well(self) -> None:
        self.last_error = self.failing_since = None

    def _restarted(self, reason: str) -> None:
        if self._observer is not None:
            self._observer.restarted(reason)

    async def _pause(self, verb: str, error: ControllerError) -> None:
        self.last_error = SourceError(verb, self._kind, error)
        if self.failing_since is None:
            self.failing_since = self._clock.monotonic()
        seconds = self._pauses.next()
        if isinstance(error, ApiError) and error.retry_after is not None:
            seconds = max(seconds, error.retry_after)
        log.warning("cannot see", error=str(self.last_error), retry_seconds=round(seconds, 1))
        await self._clock.sleep(seconds)


def _lapsed(error: ControllerError) -> bool:
    """Whether the position is in the server's past (410), or in its future (504 with a cause)."""
    return isinstance(error, errors.Expired) or (
        isinstance(error, ApiError)
        and any(cause.reason == "ResourceVersionTooLarge" for cause in error.causes)
    )
