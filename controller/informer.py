"""One kind, watched once, for everybody in the process who wants to know about it."""

import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import anyio
import structlog

from controller.cache import Cache, Change
from controller.clock import Clock
from controller.errors import ControllerError
from controller.indexes import IndexFunction
from controller.meta import Object, Version
from controller.pauses import LONGEST_SECONDS
from controller.reflector import SILENCE_SECONDS, Reflector
from controller.resource import Resource
from controller.sources import CacheLagging, Scope
from controller.transport import Transport
from controller.watchview import WatchObserver

T = TypeVar("T", bound=Object)
Handler = Callable[[Change[T]], None]

LAG_SECONDS = 30.0
"""How long a watch may take to tell of a write of ours; it is usually milliseconds."""
RESTART_SECONDS = 5.0
"""How long to wait after an error in our own code before the loop is started again."""

log = structlog.get_logger(__name__)


class Registration:
    """A handler's place in an informer; closing it ends the deliveries.

    Args:
        close: ends the deliveries.
    """

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close

    def close(self) -> None:
        """Deliver no more changes; a second time does nothing."""
        self._close()


class Informer(Generic[T]):
    """Keeps a cache of one kind current and tells handlers what changed.

    Args:
        resource: the kind.
        transport: the server.
        clock: for pauses and deadlines.
        namespace: empty for all.
        labels: a label selector.
        fields: a field selector.
        indexes: by name, a pure function from an object to its values there.
        deadline_seconds: how long the watch may be silent before it counts as dead.
        longest_pause: seconds at which pauses after failures stop growing.
        randomness: for jitter.
        streams: ask for lists as beginnings of watches, until the server shows that it cannot.
        observer: told how it goes, for metrics.
    """

    def __init__(  # noqa: PLR0913 - what to watch, where, and how to find it again
        self,
        resource: Resource[T],
        transport: Transport,
        clock: Clock,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        deadline_seconds: float = SILENCE_SECONDS,
        longest_pause: float = LONGEST_SECONDS,
        randomness: random.Random | None = None,
        streams: bool = False,
        observer: WatchObserver | None = None,
    ) -> None:
        self.resource = resource
        self._clock = clock
        self._scope = Scope(namespace, labels, fields)
        self.cache = Cache(resource, indexes=indexes, admits=self._admits)
        """The objects."""
        self._reflector = Reflector(
            transport,
            clock,
            self.cache,
            self._scope,
            silence_seconds=deadline_seconds,
            longest_pause=longest_pause,
            randomness=randomness,
            streams=streams,
            observer=observer,
            listed=self._listed,
        )
        self._pending: deque[tuple[int, float]] = deque()
        self._synced = anyio.Event()
        self._failure: ControllerError | None = None

    @property
    def last_error(self) -> ControllerError | None:
        """Why the kind cannot be seen as it is, naming verb and kind; None while it can."""
        lagging = CacheLagging(self.resource.full_name, self.lag_seconds)
        return (
            self._failure
            or self._reflector.last_error
            or (lagging if lagging.seconds > LAG_SECONDS else None)
        )

    @property
    def lag_seconds(self) -> float:
        """For how long a write of ours has not come back; 0 if all have."""
        pending, position = self._pending, self.cache.position
        while pending and pending[0][0] <= position:
            pending.popleft()
        return self._clock.monotonic() - pending[0][1] if pending else 0.0

    def check_lag(self, limit_seconds: float = LAG_SECONDS) -> None:
        """Refuse to go on with what may be too old, in a pass that cannot afford it.

        Args:
            limit_seconds: how long a write may be on its way back.

        Raises:
            CacheLagging: a write of ours has not come back for longer than that.
        """
        seconds = self.lag_seconds
        if seconds > limit_seconds:
            raise CacheLagging(self.resource.full_name, seconds)

    def own(self, obj: T) -> None:
        """Show the server's answer to a write of ours, until the watch tells of it.

        Args:
            obj: as the server answered with it.
        """
        if self.cache.own(obj):
            self._pending.append((obj.metadata.revision, self._clock.monotonic()))

    def gone(self, at: Version) -> None:
        """Show no more what the server told us it has deleted.

        Args:
            at: the object, at the version that was deleted.
        """
        scope = self._scope
        if scope.namespace and at.namespace != scope.namespace:
            return
        if not scope.query or at.key in self.cache:
            self.cache.gone(at)

    @property
    def failing_since(self) -> float | None:
        """Since when (monotonic seconds) the kind cannot be seen; None while it can."""
        return self._reflector.failing_since

    @property
    def silent_seconds(self) -> float:
        """How long ago a list, an event or a bookmark came last, or the informer was made."""
        return self._clock.monotonic() - self._reflector.last_heard

    def moved(self) -> None:
        """Believe nothing of the history any more: the transport leads to another cluster now.

        What is known stays until the next list has come, which the next failure of the running
        watch brings about.
        """
        self._reflector.moved()

    def add_handler(self, handler: Handler[T]) -> Registration:
        """Tell `handler` of every change from now on, and at once of every object there is.

        Those come as `initial`, before this returns; nothing can happen in between. The handler
        is synchronous. If it raises, that is logged and the next change is delivered as usual.
        """

        def deliver(change: Change[T]) -> None:
            try:
                handler(change)
            except Exception:
                log.exception("a handler failed", resource=self.resource.full_name)

        for obj in tuple(self.cache):
            deliver(Change(None, obj, initial=True))
        self.cache.subscribe(deliver)
        return Registration(lambda: self.cache.unsubscribe(deliver))

    async def wait_synced(self) -> None:
        """Return once the first list has been delivered to the handlers."""
        await self._synced.wait()

    async def run(self) -> None:
        """Keep the cache current until cancelled, whatever goes wrong."""
        while True:
            try:
                await self._reflector.run()
            except Exception as error:
                self._failure = ControllerError(f"watch {self.resource.full_name}: {error!r}")
                log.exception("the watch loop failed", resource=self.resource.full_name)
            self._reflector.restart()
            await self._clock.sleep(RESTART_SECONDS)

    def _listed(self) -> None:
        self._failure = None
        self._synced.set()

    def _admits(self, obj: T) -> bool:
        """Whether an own answer belongs here, as far as we can tell without the server.

        Selectors are the server's to evaluate: what it has shown once stays until it says so.
        """
        scope = self._scope
        if scope.namespace and obj.metadata.namespace != scope.namespace:
            return False
        return not scope.query or obj.metadata.key in self.cache
