"""Promises that are not yet kept: which of them this replica writes now, and when the others.

Its own at once. Those of others only after it saw them unchanged for a while, so that two live
replicas do not double every write. One whose write was refused for good stays in the pool's status
and is tried again once in a while: what refused it, an admission webhook say, may change its mind.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from reconcilers import ranges
from reconcilers.api.networkpool import Assignment, NetworkPool
from reconcilers.networkpool.view import View
from reconcilers.networkpool.writes import Fate, Promised, Written
from reconcilers.settings import PoolSettings

RETRY = 1.0

Identity = tuple[str, str]
"""The uid and resourceVersion of a promise."""


def identity(promise: Assignment) -> Identity:
    """Return what tells a promise from all others."""
    return promise.uid, promise.resourceVersion


@dataclass(slots=True)
class Courier:
    """What one replica remembers of one pool's promises. Losing it costs a moment, no more.

    Args:
        settings: how long it waits for what.
        busy_at: when it last wrote promises; settled ones are dropped a quiet while after.
    """

    settings: PoolSettings
    busy_at: float
    _made: set[Identity] = field(default_factory=set)
    _seen: dict[Identity, float] = field(default_factory=dict)
    _refused: dict[Identity, float] = field(default_factory=dict)

    def makes(self, promises: Iterable[Assignment], now: float) -> None:
        """Note that the pool is about to be written with these new promises."""
        self._made.update(identity(promise) for promise in promises)
        self.busy_at = now

    def due(self, pool: NetworkPool, view: View, now: float) -> list[Promised]:
        """Return the promises in the pool's status that are to be kept now."""
        known = {identity(promise) for promise in pool.status.assignments}
        self._made &= known
        self._seen = {one: self._seen.get(one, now) for one in known}
        self._refused = {one: at for one, at in self._refused.items() if one in known}
        return [
            promised
            for promise in pool.status.assignments
            if self.wait(promise, now) <= 0
            for promised in at_version(promise, view)
        ]

    def wait(self, promise: Assignment, now: float) -> float:
        """Return in how many seconds the promise is to be kept; 0 or less for now."""
        one = identity(promise)
        if one in self._refused:
            return self._refused[one] + self.settings.resync - now
        if one in self._made:
            return 0.0
        return self._seen.get(one, now) + self.settings.foreign_patience - now

    def note(self, written: Iterable[Written], now: float) -> None:
        """Remember which writes were refused for good."""
        for one in written:
            if one.fate is Fate.REFUSED:
                meta = one.allocation.metadata
                self._refused[meta.uid, meta.resourceVersion] = now

    def pause(self, still_open: Sequence[Assignment], now: float) -> float | None:
        """Return in how many seconds the next open promise is to be looked at; None if none is.

        One that could not be written now, because the view had not read that far, is soon.
        """
        waits = [self.wait(promise, now) for promise in still_open]
        return min((wait if wait > 0 else RETRY for wait in waits), default=None)


def at_version(promise: Assignment, view: View) -> list[Promised]:
    """Return the promise with its allocation if the view shows it at the promised version."""
    allocation = view.current(promise.name, promise.uid)
    if (
        allocation is None
        or allocation.metadata.terminating
        or allocation.metadata.resourceVersion != promise.resourceVersion
        or ranges.promised(promise) is None
    ):
        return []
    return [Promised(promise, allocation)]
