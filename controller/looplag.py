"""Watches the event loop of a process: how late it turns, and what blocks it.

Code that computes or waits without `await` stops everything else in the process: the lease is not
renewed, probes are not answered. The loop itself cannot say so while it is blocked. So a thread
looks whether the loop still turns, and if it does not, logs the stack of what runs in it.
"""

import sys
import threading
import time
import traceback

import anyio
import structlog
from prometheus_client import Histogram

BEAT_SECONDS = 0.25
BLOCKED_SECONDS = 1.0
"""The loop counts as blocked when it has not turned for so long; a leader has ten seconds."""

log = structlog.get_logger(__name__)


class LoopWatch:
    """Measures how late the running event loop turns, and says what blocks it.

    Args:
        lag: is told how late the loop turns.
        blocked_seconds: a warning is logged when the loop has not turned for so long, and again
            each time that this has doubled.
    """

    def __init__(self, lag: Histogram, *, blocked_seconds: float = BLOCKED_SECONDS) -> None:
        self._lag = lag
        self._blocked_seconds = blocked_seconds
        self._turned = 0.0
        self._thread = 0

    async def run(self) -> None:
        """Watch the running event loop until cancelled."""
        ended = threading.Event()
        self._turned, self._thread = time.monotonic(), threading.get_ident()
        threading.Thread(
            target=self._watch, args=(ended,), name="event loop watch", daemon=True
        ).start()
        try:
            while True:
                due = time.monotonic() + BEAT_SECONDS
                # Real time, whatever the clock of the manager is: the loop is a real one.
                await anyio.sleep(BEAT_SECONDS)
                self._turned = time.monotonic()
                self._lag.observe(max(0.0, self._turned - due))
        finally:
            ended.set()

    def _watch(self, ended: threading.Event) -> None:
        warned_at, limit = self._turned, self._blocked_seconds
        while not ended.wait(BEAT_SECONDS):
            turned = self._turned
            if turned != warned_at:
                warned_at, limit = turned, self._blocked_seconds
            seconds = time.monotonic() - turned - BEAT_SECONDS
            if seconds < limit:
                continue
            limit *= 2
            log.warning(
                "The event loop is blocked", seconds=round(seconds, 1), stack=self._stack()
            )

    def _stack(self) -> str:
        """Return what the thread of the event loop is doing."""
        frame = sys._current_frames().get(self._thread)  # noqa: SLF001 - documented, no other way
        return "".join(traceback.format_stack(frame)) if frame is not None else ""
