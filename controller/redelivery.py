"""Delivers a change again to a handler that raised on it, so that no key is lost by a bug.

A handler or a mapping that raises must not end the watch. An object that changes rarely would not
be delivered to the handler again. So the handler is called again half a minute later, and so on
until it returns. It gets the state that the object then has.
"""

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import anyio

from controller.cache import Cache, Change
from controller.callbacks import call_plain
from controller.clock import Clock
from controller.health import Failing
from controller.loggers import get_logger
from controller.meta import Key, Object
from controller.slices import run_in_slices, split_into_batches
from controller.watch import WatchObserver

T = TypeVar("T", bound=Object)
Handler = Callable[[Change[T]], None]
KeyHandler = Callable[[Key], None]

REDELIVER_SECONDS = 30.0
"""Delay after which changes on which a handler raised are delivered to it again."""
LAST_DELIVERIES = 10
"""How often a handler is called again after the informer has ended, which takes five minutes."""
UNREADY_SECONDS = 60.0
"""The check fails when a handler or an index function has raised for so long."""

log = get_logger(__name__)


class Undelivered(Generic[T]):
    """The changes of one cache on which handlers raised.

    Args:
        cache: has the present state of the objects.
        clock: for the delays.
        observer: called for each change on which a handler raises, for metrics.
    """

    def __init__(self, cache: Cache[T], clock: Clock, observer: WatchObserver) -> None:
        self._cache = cache
        self._clock = clock
        self._observer = observer
        self._kind = cache.resource.full_name
        # By handler and key, the state of the object before the first undelivered change.
        self._undelivered: dict[Handler[T], dict[Key, T | None]] = {}
        self._undelivered_keys: dict[KeyHandler, set[Key]] = {}
        self._change_kept = anyio.Event()
        self._failing_since: float | None = None

    def __len__(self) -> int:
        """Return the number of deliveries to make."""
        return sum(map(len, (*self._undelivered.values(), *self._undelivered_keys.values())))

    def keep(self, handler: Handler[T], change: Change[T], error: Exception) -> None:
        """Log that `handler` raised on `change`; deliver the object to the handler again later."""
        key = _get_key(change)
        log.error("event handler raised", resource=self._kind, object=str(key), exc_info=error)
        self._keep_change(handler, key, change.old)

    def keep_key(self, handler: KeyHandler, key: Key, error: Exception) -> None:
        """Log that `handler` raised on an unreadable object; call the handler again later."""
        log.error("event handler raised", resource=self._kind, object=str(key), exc_info=error)
        self._undelivered_keys.setdefault(handler, set()).add(key)
        self._observer.note_undelivered()
        self._change_kept.set()

    def forget_keys(self, handler: KeyHandler) -> None:
        """Deliver no more keys to `handler`."""
        self._undelivered_keys.pop(handler, None)

    def forget(self, handler: Handler[T]) -> None:
        """Deliver no more objects to `handler`."""
        self._undelivered.pop(handler, None)

    async def run(self) -> None:
        """Deliver the kept changes again, until cancelled."""
        while True:
            await self._change_kept.wait()
            self._change_kept = anyio.Event()
            await self._deliver_later()

    async def finish(self) -> None:
        """Deliver the kept changes until none is left, or for LAST_DELIVERIES times at most.

        The informer has ended. A handler that always raises would keep its cache in memory.
        """
        for _ in range(LAST_DELIVERIES):
            if not len(self):
                return  # all are delivered
            await self._deliver_later()
        self._log_given_up()

    async def finish_now(self) -> None:
        """Deliver the kept changes once more without a delay, and log if handlers raise again."""
        await self._deliver_all()
        self._log_given_up()

    def _log_given_up(self) -> None:
        """Log how many changes are not delivered: deletions, because the informer has ended."""
        if len(self):
            log.error("event handlers missed deletions", resource=self._kind, deliveries=len(self))

    async def _deliver_later(self) -> None:
        """Call the handlers that raised once more, after the delay."""
        await self._clock.sleep(REDELIVER_SECONDS)
        await self._deliver_all()

    async def _deliver_all(self) -> None:
        """Call the handlers that raised once more."""
        for handler in list(self._undelivered):
            await run_in_slices(self._deliver(handler))
        for key_handler in list(self._undelivered_keys):
            await run_in_slices(self._deliver_keys(key_handler))

    def find_failure(self) -> Failing | None:
        """Return a failure if handlers or index functions have raised for UNREADY_SECONDS.

        None otherwise. The time counts from the first call of this method that found them raising.
        """
        message = ""
        if self._undelivered or self._undelivered_keys:
            message = f"a handler or mapping raises for {len(self)} {self._kind}"
        if self._cache.unindexed:  # if both raise, the check names only the index function
            message = f"an index function raises for {self._cache.unindexed} {self._kind}"
        now = self._clock.monotonic()
        if not message:
            self._failing_since = None
        elif self._failing_since is None:
            self._failing_since = now
        elif now - self._failing_since >= UNREADY_SECONDS:
            return Failing(message, "the log has the reason")
        return None

    def _deliver(self, handler: Handler[T]) -> Iterator[None]:
        """Call a handler again with the objects on which it raised, some at each step.

        An object on which it raises again is kept for the next delivery.
        """
        last_error: Exception | None = None
        for batch in split_into_batches(list(self._undelivered.get(handler, {}))):
            for key in batch:
                old_objects = self._undelivered.get(handler, {})
                if key not in old_objects:
                    continue  # the handler was forgotten between two steps
                old, new = old_objects.pop(key), self._cache.get(key)
                if old is None and new is None:
                    continue  # the object came and went since: there is no change to deliver
                try:
                    call_plain(handler, Change(old, new))
                except Exception as error:  # noqa: BLE001 - the last one is logged below
                    last_error = error
                    self._keep_change(handler, key, old)
            yield
        old_objects = self._undelivered.get(handler, {})
        if not old_objects:
            self._undelivered.pop(handler, None)
        elif last_error is not None:  # otherwise all that is left came meanwhile, and was logged
            log.error(
                "event handler still raises",
                resource=self._kind,
                objects=len(old_objects),
                exc_info=last_error,
            )

    def _deliver_keys(self, handler: KeyHandler) -> Iterator[None]:
        """Call a handler of unreadable objects again with the keys on which it raised.

        A key on which it raises again is kept for the next delivery.
        """
        for batch in split_into_batches(sorted(self._undelivered_keys.get(handler, set()))):
            for key in batch:
                keys = self._undelivered_keys.get(handler, set())
                if key not in keys:
                    continue  # the handler was forgotten between two steps
                keys.discard(key)
                try:
                    call_plain(handler, key)
                except Exception as error:  # noqa: BLE001 - logged there, and kept
                    self.keep_key(handler, key, error)
            yield
        if not self._undelivered_keys.get(handler):
            self._undelivered_keys.pop(handler, None)

    def _keep_change(self, handler: Handler[T], key: Key, old: T | None) -> None:
        """Keep an object to deliver to a handler again.

        Args:
            old: the state before the change. If the object is kept already, its earlier state
                stays, because the handler has not got any change since.
        """
        self._undelivered.setdefault(handler, {}).setdefault(key, old)
        self._observer.note_undelivered()
        self._change_kept.set()


def _get_key(change: Change[Any]) -> Key:
    """Return the key of the object that changed."""
    obj: Object | None = change.old if change.new is None else change.new
    assert obj is not None  # a change has one state at least
    return obj.metadata.key
