"""Delivers changes on which a handler raised to it again, so that no key is lost by a bug.

A handler or a mapping that raises must not end the watch, and an object that changes rarely would
never be delivered to it again. So the object is delivered once more half a minute later, as it is
then, and so on until the handler returns.
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
from controller.slices import batches, run_in_slices
from controller.watch import WatchObserver

T = TypeVar("T", bound=Object)
Handler = Callable[[Change[T]], None]
KeyHandler = Callable[[Key], None]

REDELIVER_SECONDS = 30.0
"""Delay after which changes on which a handler raised are delivered to it again."""
LAST_DELIVERIES = 10
"""How often a handler is called again after the informer has ended: for five minutes."""
UNREADY_SECONDS = 60.0
"""The check fails when a handler or an index function has raised for so long."""

log = get_logger(__name__)


class Undelivered(Generic[T]):
    """The changes of one cache on which handlers raised.

    Args:
        cache: has the objects as they are now.
        clock: for the delays.
        observer: called for each change that is kept, for metrics.
    """

    def __init__(self, cache: Cache[T], clock: Clock, observer: WatchObserver) -> None:
        self._cache = cache
        self._clock = clock
        self._observer = observer
        self._kind = cache.resource.full_name
        # By handler and key, the object as it was before the first change that was not delivered.
        self._left: dict[Handler[T], dict[Key, T | None]] = {}
        self._left_keys: dict[KeyHandler, set[Key]] = {}
        self._kept = anyio.Event()
        self._since: float | None = None

    def __len__(self) -> int:
        """Return how many deliveries are left."""
        return sum(map(len, (*self._left.values(), *self._left_keys.values())))

    def keep(self, handler: Handler[T], change: Change[T], error: Exception) -> None:
        """Log that `handler` raised on `change`, and deliver the object to it again later."""
        key = _key_of(change)
        log.error("event handler raised", resource=self._kind, object=str(key), exc_info=error)
        self._add(handler, key, change.old)

    def keep_key(self, handler: KeyHandler, key: Key, error: Exception) -> None:
        """Log that `handler` raised on an unreadable object, and call it again later."""
        log.error("event handler raised", resource=self._kind, object=str(key), exc_info=error)
        self._left_keys.setdefault(handler, set()).add(key)
        self._observer.note_undelivered()
        self._kept.set()

    def forget_keys(self, handler: KeyHandler) -> None:
        """Deliver no more keys to `handler`."""
        self._left_keys.pop(handler, None)

    def forget(self, handler: Handler[T]) -> None:
        """Deliver nothing more to `handler`."""
        self._left.pop(handler, None)

    async def run(self) -> None:
        """Deliver what was kept, until cancelled."""
        while True:
            await self._kept.wait()
            self._kept = anyio.Event()
            await self._deliver_later()

    async def finish(self) -> None:
        """Deliver what was kept until nothing is left, or handlers have raised ten times more.

        A handler that always raises would otherwise keep a cache that nothing fills any more.
        """
        for _ in range(LAST_DELIVERIES):
            if not len(self):
                return
            await self._deliver_later()
        self._log_missed()

    async def finish_now(self) -> None:
        """Deliver what was kept once more without a delay, and log if handlers raise again."""
        await self._deliver_all()
        self._log_missed()

    def _log_missed(self) -> None:
        if len(self):
            log.error("event handlers missed deletions", resource=self._kind, deliveries=len(self))

    async def _deliver_later(self) -> None:
        """Call the handlers that raised once more, after the delay."""
        await self._clock.sleep(REDELIVER_SECONDS)
        await self._deliver_all()

    async def _deliver_all(self) -> None:
        for handler in list(self._left):
            await run_in_slices(self._deliver(handler))
        for key_handler in list(self._left_keys):
            await run_in_slices(self._deliver_keys(key_handler))

    def check(self) -> Failing | None:
        """Return a failure when handlers or index functions have raised for some time."""
        message = ""
        if self._left or self._left_keys:
            message = f"a handler or mapping raises for {len(self)} {self._kind}"
        if self._cache.unindexed:
            message = f"an index function raises for {self._cache.unindexed} {self._kind}"
        now = self._clock.monotonic()
        if not message:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= UNREADY_SECONDS:
            return Failing(message, "the log has the reason")
        return None

    def _deliver(self, handler: Handler[T]) -> Iterator[None]:
        """Call a handler again with objects on which it raised; keep those that fail again."""
        last: Exception | None = None
        for batch in batches(list(self._left.get(handler, {}))):
            for key in batch:
                kept = self._left.get(handler, {})
                if key not in kept:
                    continue  # the handler was forgotten between two steps
                old, new = kept.pop(key), self._cache.get(key)
                if old is None and new is None:
                    continue
                try:
                    call_plain(handler, Change(old, new))
                except Exception as error:  # noqa: BLE001 - the last one is logged below
                    last = error
                    self._add(handler, key, old)
            yield
        kept = self._left.get(handler, {})
        if not kept:
            self._left.pop(handler, None)
        elif last is not None:
            log.error(
                "event handler still raises",
                resource=self._kind,
                objects=len(kept),
                exc_info=last,
            )

    def _deliver_keys(self, handler: KeyHandler) -> Iterator[None]:
        """Call a handler of unreadable objects again with keys on which it raised."""
        for batch in batches(sorted(self._left_keys.get(handler, set()))):
            for key in batch:
                kept = self._left_keys.get(handler, set())
                if key not in kept:
                    continue  # the handler was forgotten between two steps
                kept.discard(key)
                try:
                    call_plain(handler, key)
                except Exception as error:  # noqa: BLE001 - logged there, and kept
                    self.keep_key(handler, key, error)
            yield
        if not self._left_keys.get(handler):
            self._left_keys.pop(handler, None)

    def _add(self, handler: Handler[T], key: Key, old: T | None) -> None:
        self._left.setdefault(handler, {}).setdefault(key, old)
        self._observer.note_undelivered()
        self._kept.set()


def _key_of(change: Change[Any]) -> Key:
    obj: Object | None = change.old if change.new is None else change.new
    assert obj is not None  # a change has one state at least
    return obj.metadata.key
