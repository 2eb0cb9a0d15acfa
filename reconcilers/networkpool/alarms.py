"""Events about how full a pool is: one when a tier is entered, one when it is left.

They follow the conditions' transitions, so a restart neither repeats nor loses one: whoever writes
a status compares it with the one it replaces. At most one event of each kind for each tier and
pool in ten minutes: one that comes too soon is owed, and told when the time is over if it is still
true then. A pool at rest says nothing, however full it is: the condition tells since when.

What was told before this process began it cannot know. Nothing of the kind can have been told
after the transition before the present one, so that long ago counts as the last time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from controller.clock import Clock
from controller.conditions import Condition, find, is_true
from controller.events import EventType, Recorder
from controller.meta import Key
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.networkpool.status import NO_CAPACITY, TIERS

THRESHOLDS = dict(TIERS)


@dataclass(frozen=True, slots=True)
class Alarm:
    """That a tier was entered or left."""

    tier: str
    entered: bool

    @property
    def type(self) -> EventType:
        """Warning when entered."""
        return "Warning" if self.entered else "Normal"

    @property
    def reason(self) -> str:
        """The event's reason."""
        return f"Pool{self.tier}" if self.entered else "PoolCapacityRecovered"

    @property
    def action(self) -> str:
        """The event's action; it tells the tiers apart that one write leaves at once."""
        return f"{'Enter' if self.entered else 'Leave'}{self.tier}"

    def note(self, pool: NetworkPool) -> str:
        """The event's note."""
        what = "is over {}% utilized" if self.entered else "utilization recovered below {}%"
        used = f"({pool.status.allocatedIPs}/{pool.status.totalIPs} IPs allocated)"
        return f"NetworkPool {what.format(THRESHOLDS[self.tier])} {used}"

    def holds(self, pool: NetworkPool) -> bool:
        """Whether it still says what is so."""
        found = find(pool.status.conditions, self.tier)
        return found is not None and _is_news(self, found)


def _is_news(alarm: Alarm, found: Condition) -> bool:
    return (found.status == "True") == alarm.entered and found.reason != NO_CAPACITY


def crossed(before: Sequence[Condition], after: Sequence[Condition]) -> list[Alarm]:
    """Return what a write tells: every tier left, and of those entered only the highest.

    A tier that was entered on the way to a higher one is not told; its condition is True.
    """
    left = [
        Alarm(tier, entered=False)
        for tier in THRESHOLDS
        if is_true(before, tier)
        and (found := find(after, tier)) is not None
        and _is_news(Alarm(tier, entered=False), found)
    ]
    reached = [tier for tier in THRESHOLDS if is_true(after, tier)]
    entered = [Alarm(tier, entered=True) for tier in reached[-1:] if not is_true(before, tier)]
    return left + entered


class Alarms:
    """Tells of crossed tiers, each not more often than it may.

    Args:
        recorder: takes the events.
        clock: for the time.
        interval: seconds between two of the same kind, tier and pool.
    """

    def __init__(self, recorder: Recorder, clock: Clock, interval: float) -> None:
        self._recorder = recorder
        self._clock = clock
        self._interval = timedelta(seconds=interval)
        self._known_since = clock.now()
        self._told: dict[tuple[str, Alarm], datetime] = {}
        self._owed: dict[Key, dict[Alarm, datetime]] = {}
        self._whole: dict[Key, str] = {}
        """The uids of pools all of whose history this process has seen."""

    def wrote(self, before: NetworkPool, after: NetworkPool) -> None:
        """Tell what a write of the pool's status changed: now, or later if that is too soon."""
        now, key = self._clock.now(), after.metadata.key
        if not any(find(before.status.conditions, tier) for tier in THRESHOLDS):
            self._whole[key] = before.metadata.uid
        for alarm in crossed(before.status.conditions, after.status.conditions):
            last = self._last(before, alarm)
            due = now if last is None else last + self._interval
            self._owed.setdefault(key, {})[alarm] = max(due, now)
        self.catch_up(after)

    def catch_up(self, pool: NetworkPool) -> float | None:
        """Tell what is due; return in how many seconds something else is, None if nothing is."""
        now, key = self._clock.now(), pool.metadata.key
        owed = self._owed.pop(key, {})
        owed = {alarm: due for alarm, due in owed.items() if alarm.holds(pool)}
        for alarm, due in list(owed.items()):
            if due <= now:
                del owed[alarm]
                self._tell(pool, alarm, now)
        if not owed:
            return None
        self._owed[key] = owed
        return (min(owed.values()) - now).total_seconds()

    def forget(self, key: Key) -> None:
        """Forget a pool that is gone, and what was told too long ago to matter."""
        self._owed.pop(key, None)
        self._whole.pop(key, None)
        horizon = self._clock.now() - self._interval
        self._told = {told: at for told, at in self._told.items() if at > horizon}

    def _tell(self, pool: NetworkPool, alarm: Alarm, now: datetime) -> None:
        self._told[pool.metadata.uid, alarm] = now
        self._recorder.record(
            NETWORK_POOL, pool, alarm.type, alarm.reason, alarm.note(pool), action=alarm.action
        )

    def _last(self, before: NetworkPool, alarm: Alarm) -> datetime | None:
        """Return when the same may last have been told; None if it never was."""
        told = self._told.get((before.metadata.uid, alarm))
        if told is not None:
            return told
        earlier = find(before.status.conditions, alarm.tier)
        seen_whole = self._whole.get(before.metadata.key) == before.metadata.uid
        if seen_whole or earlier is None or earlier.lastTransitionTime is None:
            return None
        return min(earlier.lastTransitionTime, self._known_since)
