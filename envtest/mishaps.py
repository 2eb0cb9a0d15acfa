"""Mishaps that can only happen inside a server: stale lists, forced compaction, a wrong clock.

What happens between client and server is the business of `envtest.faults`, which works in front
of any server; these need the embedded one:

    async with ControlPlane.start(force_embedded=True) as plane:
        with plane.mishaps.stale_lists(lag=5):
            ...                     # a list with resourceVersion=0 shows the state of 5 writes ago
        plane.mishaps.compact()     # watches and pages of the past are answered with 410
        with plane.mishaps.skewed_clock(timedelta(minutes=-3)):
            ...                     # what is created now is three minutes old already
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from envtest.server.clock import ServerClock
from envtest.storage import Store


class Mishaps:
    """What a test can do to one embedded server. Made by it."""

    def __init__(self, store: Store, clock: ServerClock) -> None:
        self._store = store
        self._clock = clock

    @contextmanager
    def stale_lists(self, lag: int) -> Iterator[None]:
        """Serve lists that may be stale from an older state, as a watch cache that lags does.

        These are lists with `resourceVersion=0`, and with another one as far as that allows it.
        Lists without resourceVersion, reads of single objects and watches stay consistent.

        Args:
            lag: how many writes, of whatever kind, the state lags behind; what has been compacted
                is never shown.

        Raises:
            ValueError: the lag is negative.
        """
        if lag < 0:
            raise ValueError(f"a list cannot be {-lag} writes ahead of the server; give lag >= 0")
        before, self._store.lag = self._store.lag, lag
        try:
            yield
        finally:
            self._store.lag = before

    def compact(self, revision: int | None = None) -> int:
        """Forget history, as etcd does every five minutes.

        Watches from an older revision, exact reads of one and continue tokens get 410 Expired.

        Args:
            revision: the last one to forget; the present one if not given.

        Returns:
            The revision up to which all is forgotten.

        Raises:
            ValueError: it is a revision that was never given out.
        """
        present = self._store.revision
        last = present if revision is None else revision
        if not 0 < last <= present:
            raise ValueError(f"revision {last} is not among 1 to {present}, which were given out")
        self._store.compact(last)
        return last

    @contextmanager
    def skewed_clock(self, by: timedelta) -> Iterator[None]:
        """Put the server's clock forward, or back where `by` is negative.

        It is the clock of creationTimestamp, deletionTimestamp, managedFields and of the
        conditions that the server itself writes.
        """
        before, self._clock.skew = self._clock.skew, by
        try:
            yield
        finally:
            self._clock.skew = before
