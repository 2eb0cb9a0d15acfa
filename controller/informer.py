"""An informer watches one kind in one scope, keeps its cache current, and calls its handlers.

The informer lags while its watch has not delivered a write of this process for a long time. Its
scope is the part of the kind that it watches: a namespace, a label selector and a field selector.
"""

import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakMethod

import anyio

from controller.backoff import WATCH_MAX_SECONDS
from controller.cache import Cache, Change
from controller.callbacks import call_plain, check_plain
from controller.clock import Clock
from controller.errors import (
    BadRequest,
    CacheLagging,
    ControllerError,
    SourceError,
)
from controller.health import Check, Failing
from controller.indexes import IndexFunction
from controller.loggers import get_logger
from controller.meta import Key, Object, Version
from controller.redelivery import Undelivered
from controller.reflector import SILENCE_SECONDS, Reflector
from controller.resource import Resource, Scope
from controller.selectors import parse_label_selector
from controller.slices import exhaust, run_in_slices, split_into_batches
from controller.supervisor import wrap_in_exception
from controller.transport import Transport
from controller.watch import WatchObserver

T = TypeVar("T", bound=Object)
Handler = Callable[[Change[T]], None]

LAG_SECONDS = 30.0
"""The watch counts as lagging when it has not delivered a write of ours for so long."""
MOST_OWN_WRITES = 10_000
"""So many writes of ours are remembered for the lag while the watch delivers nothing; the oldest
decides."""
RESTART_SECONDS = 5.0
"""Delay after an unexpected exception before the list/watch loop is started again."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Registration:
    """A handler's registration at an informer.

    Args:
        close: ends the calls of the handler; calling `close` again does nothing.
        replay: returns an iterator whose steps call the handler with every object in the cache
            once more, some objects at each step.
    """

    close: Callable[[], None]
    replay: Callable[[], Iterator[None]]


class Informer(Generic[T]):
    """Keeps a cache of one kind current and calls handlers with the changes.

    Args:
        resource: the kind.
        transport: the server.
        clock: for delays and deadlines.
        namespace: empty for all.
        labels: a label selector.
        fields: a field selector.
        indexes: by index name, a pure function from an object to its values.
        deadline_seconds: how long the watch may send nothing before it counts as dead.
        longest_pause: seconds at which delays after failures stop growing.
        randomness: for jitter.
        streams: read lists as initial events of watches, until the server shows that it cannot.
        begins_newest: read the newest state first, not a state of the server's watch cache.
        max_list_bytes: of a list, and of the events before the next list; None for no limit.
        observer: called when lists and watches end, for metrics.
    """

    def __init__(  # noqa: PLR0913 - what to watch, where, and with which limits
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
        longest_pause: float = WATCH_MAX_SECONDS,
        randomness: random.Random | None = None,
        streams: bool = False,
        begins_newest: bool = False,
        max_list_bytes: int | None = None,
        observer: WatchObserver | None = None,
    ) -> None:
        self.resource = resource
        self._clock = clock
        self._scope = Scope(namespace, labels, fields)
        # Weak, so that Python frees the informer of a closed cluster at once, by reference count.
        admits = _hold_weakly(self._is_admitted)
        self.cache = Cache(resource, indexes=indexes, admits=admits)
        """The objects."""
        self._selects_labels = _create_label_predicate(labels)
        self._reflector = Reflector(
            transport,
            clock,
            cache=self.cache,
            scope=self._scope,
            silence_seconds=deadline_seconds,
            longest_pause=longest_pause,
            randomness=randomness,
            streams=streams,
            begins_newest=begins_newest,
            max_list_bytes=max_list_bytes,
            observer=observer,
            on_listed=_hold_weakly(self._note_listed),
            on_failed=_hold_weakly(self._note_failed_attempt),
        )
        # Our own writes: resourceVersion, and when (monotonic seconds) they were answered.
        self._own_writes: deque[tuple[int, float]] = deque()
        # The value of `Cache.replaced_histories` at the last list.
        self._replaced_histories = 0
        self._synced = anyio.Event()
        self._attempted = anyio.Event()
        # Why the list/watch loop had to be restarted; None after the next list.
        self._failure: ControllerError | None = None
        self._undelivered = Undelivered(self.cache, clock, observer or WatchObserver())

    @property
    def scope(self) -> Scope:
        """Which objects of the kind are watched."""
        return self._scope

    @property
    def last_error(self) -> ControllerError | None:
        """Why the cache may be out of date, with verb and kind; None if it is current.

        If several reasons apply, this is the first of: the list/watch loop was restarted, a list
        or watch failed, the informer lags.
        """
        lagging = CacheLagging(self.resource.full_name, self.lag_seconds)
        return (
            self._failure
            or self._reflector.last_error
            or (lagging if lagging.seconds > LAG_SECONDS else None)
        )

    @property
    def refusal(self) -> ControllerError | None:
        """Why the server rejects our list or watch (401, 403); None while it accepts them.

        Until a role or the credentials are put right, the cache shows the past.
        """
        return self._reflector.refusal

    @property
    def failing_since(self) -> float | None:
        """Since when (monotonic seconds) list or watch fails; None while they succeed."""
        return self._reflector.failing_since

    @property
    def silent_seconds(self) -> float:
        """Seconds since the last list, event or bookmark, or since the informer was made."""
        return self._clock.monotonic() - self._reflector.last_received

    @property
    def unlisted_count(self) -> int:
        """The number of lists that have not come yet: 1 until the first list, then 0.

        A NamespacesInformer has a list for each namespace.
        """
        return int(not self.cache.is_synced)

    @property
    def namespace_names(self) -> tuple[str, ...]:
        """The namespaces that are watched; empty text stands for all."""
        return (self._scope.namespace,)

    @property
    def lag_seconds(self) -> float:
        """Seconds since the oldest write of ours that the watch has not delivered; 0 for none."""
        self._drop_delivered()
        writes = self._own_writes
        return self._clock.monotonic() - writes[0][1] if writes else 0.0

    def create_check(self) -> Check:
        """Return a readiness check that fails until the first list, and while list/watch fails."""
        kind = self.resource.full_name

        def find_failure() -> Failing | None:
            """Return the first failure: an error, no list yet, or a handler that keeps raising."""
            error = self.last_error
            if error is not None:
                verb = error.verb if isinstance(error, SourceError) else "watch"
                return Failing(f"cannot {verb} {kind}", str(error))
            if not self.cache.is_synced:
                return Failing(f"{kind} not listed yet")
            return self._undelivered.find_failure()

        scope = self._scope
        parts = ("informer", kind, scope.namespace, scope.labels, scope.fields)
        return Check("/".join(part for part in parts if part), find_failure)

    def apply_own_write(self, obj: T) -> None:
        """Show `obj`, the response to a write of ours, until the watch delivers it."""
        if self.cache.apply_own_write(obj):
            self._drop_delivered()
            # The oldest write decides the lag, so a write beyond the limit can be left out.
            if len(self._own_writes) < MOST_OWN_WRITES:
                self._own_writes.append((obj.metadata.revision, self._clock.monotonic()))

    def _drop_delivered(self) -> None:
        """Forget the writes of ours that the watch has delivered.

        Each write calls this, too, so the list stays short where no metrics are read.
        """
        writes, position = self._own_writes, self.cache.position
        while writes and writes[0][0] <= position:
            writes.popleft()

    def mark_deleted(self, version: Version) -> None:
        """Hide an object that the server says it has deleted.

        Args:
            version: the object as it was when its deletion was requested.
        """
        scope = self._scope
        if scope.namespace and version.namespace != scope.namespace:
            return  # the cache never has this object
        # With selectors (`query`) the object may be outside of the scope. The watch would then
        # deliver no deletion, and its tombstone would stay.
        if not scope.query or version.key in self.cache:
            self.cache.mark_deleted(version)

    def retry_now(self) -> None:
        """Retry a failed list or watch without further delay: the served kinds have changed."""
        self._reflector.retry_now()

    def on_cluster_changed(self) -> None:
        """List the newest state at the next request: the transport leads to another cluster now.

        The cache stays as it is until then. The running watch fails soon, because its connection
        leads to the old server.
        """
        self._reflector.on_cluster_changed()

    def add_handler(self, handler: Handler[T], *, replayed: bool = True) -> Registration:
        """Call `handler` with every object in the cache, then with every change from now on.

        The objects in the cache come before this method returns, as changes with `initial` set.
        The handler is synchronous. If it raises, the error is logged, further changes are
        delivered, and the object is delivered again after half a minute.

        Args:
            handler: is called.
            replayed: False to leave out the objects in the cache. If there may be very many of
                them, let `run_in_slices` run the registration's `replay` afterwards.

        Raises:
            TypeError: the handler is async or cannot be called.
        """
        check_plain(handler, "the handler of an informer", "change")
        # A new object for each registration: the same handler may be registered twice.
        registered = partial(handler)

        def deliver(change: Change[T]) -> None:
            """Call the handler with a change; if it raises, keep the change for a later call."""
            try:
                call_plain(registered, change)
            except Exception as error:  # noqa: BLE001 - logged there, and the change is kept
                self._undelivered.keep(registered, change, error)

        def close() -> None:
            """End the calls of the handler, and forget changes that are kept for it."""
            self.cache.unsubscribe(deliver)
            self._undelivered.forget(registered)

        def replay() -> Iterator[None]:
            """Call the handler with the objects in the cache, some of them at each step."""
            for batch in split_into_batches(tuple(self.cache)):
                for listed_object in batch:
                    # Read again: it may have changed or gone since the first step.
                    obj = self.cache.get(listed_object.metadata.key)
                    if obj is not None:
                        deliver(Change(None, obj, initial=True))
                yield

        if replayed:
            exhaust(replay())
        self.cache.subscribe(deliver)
        return Registration(close, replay)

    def add_unreadable_handler(
        self, handler: Callable[[Key], None], *, replayed: bool = True
    ) -> Registration:
        """Call `handler` with the keys of objects that cannot be decoded or indexed.

        The keys of objects that are unreadable now come before this method returns. Later the key
        of an object comes with each version that cannot be read, and when the object is deleted or
        can be read again. The handler is synchronous. If it raises, the error is logged, and the
        key is delivered again after half a minute.

        Args:
            handler: is called with a key.
            replayed: False to leave out the keys of objects that are unreadable now.

        Raises:
            TypeError: the handler is async or cannot be called.
        """
        check_plain(handler, "the handler of unreadable objects", "key")
        # A new object for each registration: the same handler may be registered twice.
        registered = partial(handler)

        def deliver(key: Key) -> None:
            """Call the handler with a key; if it raises, keep the key for a later call."""
            try:
                call_plain(registered, key)
            except Exception as error:  # noqa: BLE001 - logged there, and the key is kept
                self._undelivered.keep_key(registered, key, error)

        def close() -> None:
            """End the calls of the handler, and forget keys that are kept for it."""
            self.cache.unsubscribe_unreadable(deliver)
            self._undelivered.forget_keys(registered)

        def replay() -> Iterator[None]:
            """Call the handler with the keys of unreadable objects, some of them at each step."""
            for batch in split_into_batches(tuple(self.cache.unreadable)):
                for key in batch:
                    deliver(key)
                yield

        if replayed:
            exhaust(replay())
        self.cache.subscribe_unreadable(deliver)
        return Registration(close, replay)

    async def wait_synced(self) -> None:
        """Return once the first list has been delivered to the handlers."""
        await self._synced.wait()

    async def wait_attempted(self) -> None:
        """Return once the first list has been delivered, or a first request has failed."""
        await self._attempted.wait()

    async def run(self) -> None:
        """Keep the cache current until cancelled, whatever fails."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._undelivered.run)
            await self._keep_current()

    async def drop_objects(self) -> None:
        """Remove all objects from the cache, and deliver them as deleted, after `run` has ended.

        The objects may still exist; they are not watched any more.
        """
        cache = self.cache
        if len(cache) or cache.unreadable:
            # At this revision an empty list is newer than own writes, so it removes these, too.
            await run_in_slices(cache.replace_in_slices((), cache.highest_revision))

    async def finish_deliveries(self) -> None:
        """Retry the handlers that raised, for some minutes at most, after `run` has ended."""
        await self._undelivered.finish()

    async def finish_deliveries_now(self) -> None:
        """Call the handlers that raised one last time, after `run` has ended."""
        await self._undelivered.finish_now()

    async def _keep_current(self) -> None:
        """Run the reflector until cancelled; restart it after a delay if it raises.

        `wrap_in_exception` raises our own cancellation again, so that ends this loop.
        """
        while True:
            self._reflector.restart()
            try:
                await self._reflector.run()
            except BaseException as raised:
                error, kind = wrap_in_exception(raised), self.resource.full_name
                self._failure = ControllerError(f"watch {kind}: {error!r}")
                log.exception("list/watch loop raised, restarting", resource=kind)
            await self._clock.sleep(RESTART_SECONDS)

    def _note_listed(self) -> None:
        """Note that a list has entered the cache, so that the informer is synced."""
        self._failure = None
        if self.cache.replaced_histories != self._replaced_histories:
            # The watch never delivers writes of a history that was replaced.
            self._replaced_histories = self.cache.replaced_histories
            self._own_writes.clear()
        self._synced.set()
        self._attempted.set()

    def _note_failed_attempt(self) -> None:
        """Note that a list or watch has failed, which ends `wait_attempted`."""
        self._attempted.set()

    def _is_admitted(self, obj: T) -> bool:
        """Return whether the response to a write of ours is about an object that is watched.

        An object in the cache counts as watched, even if the write takes it out of the selectors:
        then its event removes it. Only the server can evaluate field selectors, so with a field
        selector no other object counts.
        """
        scope = self._scope
        if scope.namespace and obj.metadata.namespace != scope.namespace:
            return False
        if not scope.query or obj.metadata.key in self.cache:  # `query` has the selectors
            return True
        return not scope.fields and self._selects_labels(obj.metadata.labels)


def _create_label_predicate(labels: str) -> Callable[[Mapping[str, str]], bool]:
    """Return a predicate: whether the label selector `labels` selects an object's labels.

    A selector that we cannot parse, but perhaps the server can, selects none: an own write then
    appears in the cache with its event.
    """
    try:
        return parse_label_selector(labels)
    except BadRequest:
        return lambda _: False


def _hold_weakly(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a method without keeping the method's object alive.

    The function does nothing and returns None once the object is gone.
    """
    reference = WeakMethod(method)

    def call(*args: Any) -> Any:
        """Call the method if its object still exists."""
        bound = reference()
        return bound(*args) if bound is not None else None

    return call
