"""Which open promises one replica is to write now.

Its own at once. Those of others only after it saw them unchanged for a while, so that two live
replicas do not double every write. One whose write was refused for good, by an admission webhook
say, is tried again once per resync.
"""

from collections.abc import Iterable, Sequence

from reconcilers.integrations.core.journal import Promise

RETRY = 1.0
"""Seconds until an open promise that was due and could not be written is tried again."""

Identity = tuple[str, str]


class DuePromises:
    """What one replica remembers of the promises of one journal; losing it only delays writes.

    Args:
        patience: seconds that a promise of others is left alone.
        resync: seconds until one that was refused is tried again.
        now: monotonic seconds.
    """

    def __init__(self, patience: float, resync: float, now: float) -> None:
        self._patience = patience
        self._resync = resync
        self.promised_at = now
        """Monotonic seconds of the last promise that this replica made."""
        self._own: set[Identity] = set()
        self._seen: dict[Identity, float] = {}
        self._refused: dict[Identity, float] = {}

    def add_own(self, promises: Iterable[Promise], now: float) -> None:
        """Note the promises with which the journal is about to be written."""
        self._own.update(promise.identity for promise in promises)
        self.promised_at = now

    def due(self, promises: Sequence[Promise], now: float) -> list[Promise]:
        """Return which of the promises in the journal are to be written now."""
        known = {promise.identity for promise in promises}
        self._own &= known
        self._seen = {one: self._seen.get(one, now) for one in known}
        self._refused = {one: at for one, at in self._refused.items() if one in known}
        return [promise for promise in promises if self._wait(promise, now) <= 0]

    def note_refused(self, promise: Promise, now: float) -> None:
        """Note that the write of a promise was refused for good."""
        self._refused[promise.identity] = now

    def next_in(self, promises: Sequence[Promise], now: float) -> float | None:
        """Return in how many seconds the next of these is to be tried; None if there are none."""
        waits = [self._wait(promise, now) for promise in promises]
        return min((wait if wait > 0 else RETRY for wait in waits), default=None)

    def _wait(self, promise: Promise, now: float) -> float:
        one = promise.identity
        if one in self._refused:
            return self._refused[one] + self._resync - now
        if one in self._own:
            return 0.0
        return self._seen.get(one, now) + self._patience - now
