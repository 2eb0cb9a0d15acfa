"""Which open promises of a pool a replica writes to their requests now: the *due* promises.

A replica writes its own promises at once. It writes a promise of another replica only after it saw
that promise in the journal for a while, so that two live replicas do not double every write. If
the API server rejects the write of a promise for good, by an admission webhook for example, the
replica retries once per resync, as long as the promise is open. A resync is the interval at which
each pool gets a pass although nothing changed.
"""

from collections.abc import Iterable, Sequence

from reconcilers.promises.journal import Identity, Promise

RETRY = 1.0
"""Seconds until a due promise is tried again that a pass could not write.

A pass cannot write it while its reading has not reached the promised version of the request.
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
        """The promises that this replica made."""
        self._first_seen: dict[Identity, float] = {}
        """When (monotonic seconds) this replica first saw each promise in the journal."""
        self._rejected: dict[Identity, float] = {}
        """When (monotonic seconds) the last write of a promise was rejected for good."""

    def add_own(self, promises: Iterable[Promise], now: float) -> None:
        """Note promises that this replica is about to write to the journal."""
        self._own.update(promise.identity for promise in promises)
        self.promised_at = now

    def list_due(self, promises: Sequence[Promise], now: float) -> list[Promise]:
        """Return the promises that are due, and forget promises that are not in the journal.

        Args:
            promises: all promises of the journal.
            now: monotonic seconds.
        """
        journal_identities = {promise.identity for promise in promises}
        self._own &= journal_identities
        self._first_seen = {
            identity: self._first_seen.get(identity, now) for identity in journal_identities
        }
        self._rejected = {
            identity: rejected_at
            for identity, rejected_at in self._rejected.items()
            if identity in journal_identities
        }
        return [promise for promise in promises if self._seconds_until_due(promise, now) <= 0]

    def note_rejected(self, identity: Identity, now: float) -> None:
        """Note that the write of a promise was rejected for good."""
        self._rejected[identity] = now

    def next_in(self, promises: Sequence[Promise], now: float) -> float | None:
        """Return after how many seconds a pass should write one of the promises; None for none.

        The caller has just written all due promises that it could write. So a promise that is
        still due could not be written, and is tried again after RETRY.

        Args:
            promises: open promises of the journal.
            now: monotonic seconds.
        """
        waits = [self._seconds_until_due(promise, now) for promise in promises]
        return min((wait if wait > 0 else RETRY for wait in waits), default=None)

    def _seconds_until_due(self, promise: Promise, now: float) -> float:
        """Return in how many seconds a promise is due; 0 or less if it is due now."""
        identity = promise.identity
        # A rejection comes first: our own promise waits for a resync as well if it is rejected.
        if identity in self._rejected:
            return self._rejected[identity] + self._resync - now
        if identity in self._own:
            return 0.0
        # The replica that made the promise gets time to write it. A promise that no call of `due`
        # has seen yet counts as first seen now.
        return self._first_seen.get(identity, now) + self._patience - now
