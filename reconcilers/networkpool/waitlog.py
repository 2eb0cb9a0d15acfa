"""Log lines about pools that have waited for long for what a pass has to know first.

A pass that cannot know yet what is held of a pool is retried after a moment, which is usual at the
start and after a change. A pool that still waits after ten seconds is reported, once a minute.
"""

import structlog

from controller.clock import Clock
from controller.meta import Key

PATIENCE_SECONDS = 10.0
REPEAT_SECONDS = 60.0

log = structlog.get_logger(__name__)


class WaitLog:
    """Reports pools that hand out nothing because a pass has to wait.

    Args:
        kind: of the pools.
        clock: the time.
    """

    def __init__(self, kind: str, clock: Clock) -> None:
        self._kind = kind
        self._clock = clock
        self._waiting: dict[Key, tuple[float, float | None]] = {}
        """By pool: monotonic seconds since when it waits, and of the last line about it."""

    def note_wait(self, key: Key, reason: str) -> bool:
        """Note that a pass over a pool waits, and log a warning if it has for long.

        Args:
            key: of the pool.
            reason: what the pass waits for.

        Returns:
            Whether it has waited for long.
        """
        now = self._clock.monotonic()
        since, logged = self._waiting.setdefault(key, (now, None))
        waited = now - since
        if waited < PATIENCE_SECONDS or (logged is not None and now - logged < REPEAT_SECONDS):
            return waited >= PATIENCE_SECONDS
        self._waiting[key] = since, now
        log.warning(
            "A pool hands out nothing yet",
            kind=self._kind,
            namespace=key.namespace,
            name=key.name,
            reason=reason,
            seconds=round(waited),
        )
        return True

    def note_pass(self, key: Key) -> None:
        """Note that a pass over a pool did not have to wait; say so if a wait was reported."""
        _, logged = self._waiting.pop(key, (0.0, None))
        if logged is not None:
            log.info(
                "A pool no longer waits", kind=self._kind, namespace=key.namespace, name=key.name
            )

    def forget(self, key: Key) -> None:
        """Forget a pool that is gone, or that another replica works on from now on."""
        self._waiting.pop(key, None)
