"""Keeps a cache equal to the server: list once, then watch, for ever, whatever happens.

The loop is a set of named states, and each says where it goes when its work fails:

    Empty      nothing is known            → Listing at "0"
    Listing    ask for everything          → Watching
                 410, "too large"          → Expired, after a pause
                 any other failure         → Listing again, after a pause
    Watching   follow from the position    → Watching when the server ends it in good order
                 no answer, silence, 429   → Watching at the same position, after a pause
                 410, HTTP or in-stream    → Expired, after a pause
                 over at once, nothing said,
                 any other failure         → Listing at the position, after a pause
    Expired    the history there is not the one of our position → Listing at ""

The semantics are those of client-go's reflector (tools/cache/reflector.go) with two differences.
After a 410 it lists at its old position ("not older than"), we ask for the newest: a list without
resourceVersion is also the one that shows when the history itself was replaced, by a
restored backup. And HTTP/1.1 has no ping: a dead connection is noticed by its silence.

A streamed list (sendInitialEvents) would be a fifth state between Empty and Watching.
"""

import random
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from controller import errors
from controller.cache import Cache
from controller.clock import Clock
from controller.codec import Bookmark, Failure, Page, Unknown, Unreadable, WatchEvent, decode_event
from controller.errors import ApiError, ControllerError, NoAnswer, TooManyRequests
from controller.meta import Key, Object
from controller.pages import PAGE_SIZE, list_whole
from controller.pauses import LONGEST_SECONDS, Pauses
from controller.sources import Scope, SourceError
from controller.transport import Transport
from controller.watch import read_lines

T = TypeVar("T", bound=Object)

SILENCE_SECONDS = 90.0
"""Servers send a bookmark about every minute."""
SHORT_WATCH_SECONDS = 1.0
STEADY_WATCH_SECONDS = 60.0
"""A watch that held for so long is no failure in a row, however it ends."""
WATCH_SECONDS = (300, 600)

EVERYTHING = Scope()

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Empty:
    """Nothing is known yet."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Asking for everything.

    Args:
        revision: `0` for whatever the server has at hand; a number for a state not older than
            that; empty for the newest.
    """

    revision: str


@dataclass(frozen=True, slots=True)
class Watching:
    """Following the changes from the cache's position on."""


@dataclass(frozen=True, slots=True)
class Expired:
    """The server's history no longer contains, or never contained, the cache's position."""


State = Empty | Listing | Watching | Expired


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
        self._kind = cache.resource.full_name
        self.state: State = Empty()
        """Where the loop is."""
        self.last_error: SourceError | None = None
        """Why the world cannot be seen; None while it can."""
        self.failing_since: float | None = None
        """Since when (monotonic seconds) it cannot; None while it can."""

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
                self.state = Listing("0")
            case Expired():
                self.state = Listing("")
            case Listing(revision):
                self.state = await self._list(revision)
            case Watching():
                self.state = await self._watch()

    def restart(self) -> None:
        """Begin with a list again, after an error that this loop does not know."""
        self.state = Expired() if self._cache.synced else Empty()

    def moved(self) -> None:
        """Begin with a list of the newest again: another cluster answers now."""
        self._moved = True

    async def _list(self, revision: str) -> State:
        try:
            page = await list_whole(
                self._transport,
                self._cache.resource,
                self._scope.namespace,
                self._scope.query | _list_query(revision),
            )
            self._check_promise(page, revision)
        except ControllerError as error:
            await self._pause("list", error)
            return Expired() if _lapsed(error) else Listing(revision)
        for key, reason in page.unreadable.items():
            self._unreadable(key, reason)
        self._well()
        self._cache.replace(page.items, page.revision, page.unreadable)
        return Watching()

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
        except (NoAnswer, TooManyRequests) as error:
            if self._clock.monotonic() - begun >= STEADY_WATCH_SECONDS:
                self._pauses.reset()
            await self._pause("watch", error)
            return self._after_no_answer()
        except ControllerError as error:
            await self._pause("watch", error)
            return Expired() if _lapsed(error) else Listing(str(self._cache.position))
        if heard or self._clock.monotonic() - begun >= SHORT_WATCH_SECONDS:
            return Watching()
        # Some servers and proxies close at once where they should say 410.
        await self._pause("watch", NoAnswer("the watch ended at once, without a word"))
        return Listing(str(self._cache.position))

    async def _follow(self) -> bool:
        """Take what one watch tells until the server ends it; returns whether it said anything."""
        query = self._scope.query | {
            "watch": "1",
            "resourceVersion": str(self._cache.position),
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._random.randint(*WATCH_SECONDS)),
        }
        resource = self._cache.resource
        path = resource.collection(self._scope.namespace)
        heard = False
        async with self._transport.stream(path, query=query) as chunks:
            # Counted from here: a server that takes no watch at all, while it restarts or is
            # overloaded, says nothing about the position, and lists would only add to its load.
            self._unheard += 1
            self._well()
            async with aclosing(read_lines(chunks, self._clock, self._silence)) as batches:
                async for lines in batches:
                    heard, self._unheard = True, 0
                    for line in lines:
                        self._take(decode_event(resource, line))
        return heard

    def _take(self, event: WatchEvent[T]) -> None:
        match event:
            case Failure(error):
                raise error
            case Bookmark(revision):
                self._bookmarks = True
                if revision < self._cache.position:
                    raise errors.Expired(
                        410, "", f"the server is at {revision}, behind what we have seen"
                    )
                self._cache.bookmark(revision)
            case Unknown(reason):
                log.warning("a watch event is skipped", resource=self._kind, reason=reason)
            case _:
                if isinstance(event, Unreadable):
                    self._unreadable(event.key, event.reason)
                self._cache.apply(event)

    def _unreadable(self, key: Key, reason: str) -> None:
        log.warning("cannot read", resource=self._kind, object=str(key), reason=reason)

    def _after_no_answer(self) -> State:
        """Return to the watch; but not for ever to one that never says a word.

        A position that lies in the future of a restored backup gives such watches. Where
        bookmarks are known to come, two watches without any are enough to ask anew.
        """
        return Expired() if self._bookmarks and self._unheard >= 2 else Watching()

    def _well(self) -> None:
        self.last_error = self.failing_since = None

    async def _pause(self, verb: str, error: ControllerError) -> None:
        self.last_error = SourceError(verb, self._kind, error)
        if self.failing_since is None:
            self.failing_since = self._clock.monotonic()
        seconds = self._pauses.next()
        if isinstance(error, ApiError) and error.retry_after is not None:
            seconds = max(seconds, error.retry_after)
        log.warning("cannot see", error=str(self.last_error), retry_seconds=round(seconds, 1))
        await self._clock.sleep(seconds)


def _list_query(revision: str) -> dict[str, str]:
    """Return the parameters of a list; parts only where the server would not use its cache."""
    return {"resourceVersion": revision} if revision else {"limit": str(PAGE_SIZE)}


def _lapsed(error: ControllerError) -> bool:
    """Whether the position is in the server's past (410), or in its future (504 with a cause)."""
    return isinstance(error, errors.Expired) or (
        isinstance(error, ApiError)
        and any(cause.reason == "ResourceVersionTooLarge" for cause in error.causes)
    )
