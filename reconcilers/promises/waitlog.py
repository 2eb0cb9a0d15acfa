"""Reports pools that allocate nothing for long, mostly because a pass has to wait for a cache.

A pass that cannot know yet what is held of a pool is retried after a moment, which is usual at the
start and after a change. A pool that still waits after ten seconds is reported, once a minute.

The pool's status reports the wait, too. One replica may wait for another thing than a second one,
or not wait at all. So a replica does not overwrite a report that another replica wrote since the
wait began. Otherwise two replicas would overwrite each other without end. A replica overwrites its
own latest report. Its first report in a wait also overwrites a report from before the wait, which
may be out of date.
"""

from dataclasses import dataclass

from controller.clock import Clock
from controller.loggers import get_logger
from controller.meta import Key

PATIENCE_SECONDS = 10.0
"""Seconds that a pool waits before the wait is reported."""
REPEAT_SECONDS = 60.0
"""Seconds between two log lines about the wait of one pool."""

log = get_logger(__name__)


@dataclass(slots=True)
class _Wait:
    """The wait of one pool.

    Args:
        since: the begin of the wait, in monotonic seconds.
        logged_at: the time of the last log line about the wait, in monotonic seconds; None if
            there was none.
        shown_before: what the pool's status reported when the wait began; empty for nothing.
        reported: what this replica wrote last into the pool's status; empty for nothing.
        is_long: whether the wait had reached PATIENCE_SECONDS when it was noted last.
    """

    since: float
    logged_at: float | None = None
    shown_before: str = ""
    reported: str = ""
    is_long: bool = False


class WaitLog:
    """Reports pools that hand out nothing because a pass has to wait.

    Args:
        kind: of the pools.
        clock: the time.
    """

    def __init__(self, kind: str, clock: Clock) -> None:
        self._kind = kind
        self._clock = clock
        self._waits: dict[Key, _Wait] = {}

    def note_wait(self, key: Key, reason: str, shown_reason: str = "") -> None:
        """Note that a pass over a pool waits; after a long wait, log a warning once a minute.

        Args:
            key: the key of the pool.
            reason: what the pass waits for.
            shown_reason: what the pool's status reports of a wait; empty if it reports none.
        """
        now = self._clock.monotonic()
        wait = self._waits.setdefault(key, _Wait(now, shown_before=shown_reason))
        waited = now - wait.since
        wait.is_long = waited >= PATIENCE_SECONDS
        if wait.is_long and (wait.logged_at is None or now - wait.logged_at >= REPEAT_SECONDS):
            wait.logged_at = now
            log.warning(
                "A pool hands out nothing yet",
                kind=self._kind,
                namespace=key.namespace,
                name=key.name,
                reason=reason,
                seconds=round(waited),
            )

    def has_waited_long(self, key: Key) -> bool:
        """Return whether the wait of a pool was long when `note_wait` was last called."""
        return key in self._waits and self._waits[key].is_long

    def should_report(self, key: Key, shown_reason: str, message: str) -> bool:
        """Return whether this replica should write what a pool waits for into its status.

        If the status shows `message` already, it is recorded as the report of this replica.

        Args:
            key: the key of the pool; `note_wait` was called for it before.
            shown_reason: what the pool's status reports of a wait; empty if it reports none.
            message: what this replica would report.
        """
        wait = self._waits[key]
        # The status shows the message already. As our own report, it may be overwritten once this
        # replica waits for something else.
        if shown_reason == message:
            wait.reported = message
            return False
        # If our report has vanished, another replica served the pool. A new report would vanish,
        # too.
        if not shown_reason:
            return not wait.reported
        # After our first report only our latest one may be overwritten. Before it, the report from
        # before the wait may be overwritten. The same words could later be a new report of a
        # replica that restarted, so they are not compared any more.
        return shown_reason == (wait.reported or wait.shown_before)

    def note_reported(self, key: Key, message: str) -> None:
        """Note that this replica has written what a pool waits for into its status."""
        if key in self._waits:  # the pool may have been forgotten during the write
            self._waits[key].reported = message

    def note_pass(self, key: Key) -> None:
        """Note that a pass over a pool did not have to wait; log that if a wait was logged."""
        wait = self._waits.pop(key, None)
        if wait is not None and wait.logged_at is not None:
            log.info(
                "A pool no longer waits", kind=self._kind, namespace=key.namespace, name=key.name
            )

    def forget(self, key: Key) -> None:
        """Forget a pool that is gone, or that another replica works on from now on."""
        self._waits.pop(key, None)
