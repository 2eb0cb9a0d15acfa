"""Looking into a work queue: what an observer is told, and what a snapshot holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


class QueueObserver(Protocol):
    """Told what happens to keys; metrics are one."""

    def added(self, priority: int) -> None:
        """One key became ready."""
        ...

    def moved(self, before: int, after: int) -> None:
        """One ready key rose to a higher priority."""
        ...

    def taken(self, priority: int, waited: float) -> None:
        """One key was handed out, `waited` seconds after it became ready."""
        ...

    def done(self, worked: float) -> None:
        """The work on one key ended after `worked` seconds."""
        ...

    def retried(self) -> None:
        """One key was put off for later."""
        ...

    def dropped(self, depths: Mapping[int, int]) -> None:
        """A shut-down threw ready keys away: how many by priority."""
        ...


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """A snapshot.

    Args:
        ready: keys that the next `get` can have, by priority.
        delayed: keys that wait for their instant.
        in_work: keys handed out and not done.
        failing: keys with failures on record.
        workers_waiting: tasks waiting in `get`.
        oldest_ready_seconds: how long the longest waiting head of a priority has been ready.
        unfinished_seconds: time spent so far on the keys in work, added up.
        longest_running_seconds: time spent so far on the key that is longest in work.
    """

    ready: Mapping[int, int]
    delayed: int
    in_work: int
    failing: int
    workers_waiting: int
    oldest_ready_seconds: float
    unfinished_seconds: float
    longest_running_seconds: float
