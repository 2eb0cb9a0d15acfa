"""Which open promises of a pool a replica writes to their requests now.

A replica writes its own promises at once. It writes a promise of another replica only after it saw
that promise unchanged for a while, so that two live replicas do not double every write. If the
write of a promise is rejected for good, by an admission webhook for example, the replica retries
once per resync, as long as the promise is open.
"""

from collections.abc import Iterable, Sequence

from reconcilers.promises.journal import Identity, Promise

RETRY = 1.0
"""Seconds until a promise is tried again that was due and could not be written.

The view had not read as far as the promised version.
"""


class DuePromises:
    """What one replica remembers of the promises of one pool; losing it only delays writes.

    Args:
        patience: seconds until a promise of another replica is due.
        resync: seconds until a rejected promise is due again.
        now: monotonic seconds.
    """

    def __init__(self, patience: float, resync: float, now: float) -> None:
        self._patience = patience
        self._resync = resync
        self.promised_at = now
        """Monotonic seconds of the last promise that this replica made."""
        self._own: set[Identity] = set()
        self._first_seen: dict[Identity, float] = {}
        self._rejected: dict[Identity, float] = {}

    def add_own(self, promises: Iterable[Promise], now: float) -> None:
        """Note the promises with which the journal is about to be written."""
        self._own.update(promise.identity for promise in promises)
        self.promised_at = now

    def due(self, promises: Sequence[Promise], now: float) -> list[Promise]:
        """Return the promises that are due, and forget promises that are not in the journal.

        Args:
            promises: all promises of the journal.
            now: monotonic seconds.
        """
        known = {promise.identity for promise in promises}
        self._own &= known
        self._first_seen = {identity: self._first_seen.get(identity, now) for identity in known}
        self._rejected = {
            identity: since for identity, since in self._rejected.items() if identity in known
        }
        return [promise for promise in promises if self._wait(promise, now) <= 0]

    def note_rejected(self, identity: Identity, now: float) -> None:
        """Note that the write of a promise was rejected for good."""
        self._rejected[identity] = now

    def next_in(self, promises: Sequence[Promise], now: float) -> float | None:
        """Return in how many seconds the next of these promises is due; None without promises."""
        waits = [self._wait(promise, now) for promise in promises]
        return min((wait if wait > 0 else RETRY for wait in waits), default=None)

    def _wait(self, promise: Promise, now: float) -> float:
        """Return in how many seconds a promise is due; 0 or less for now."""
        identity = promise.identity
        if identity in self._rejected:
            return self._rejected[identity] + self._resync - now
        if identity in self._own:
            return 0.0
        return self._first_seen.get(identity, now) + self._patience - now
