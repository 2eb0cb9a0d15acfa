"""Events and log lines about a pool: what was handed out or refused, and how full the pool is.

Allocations. If a pass served only a few allocations, each of them gets an event of its own. Many
allocations share one event, because a burst must not cost an event write for each. Clients that
create allocations one by one get passes that serve one or two allocations each. So many
allocations within a minute share one event as well. The API counts a later shared event in the
series of the first one, and keeps the note of the first one. The answer to each allocation is in
its own status, and in the log.

Capacity. A *tier* of utilization has a condition, such as CapacityWarning. If a pool enters or
leaves a tier, that is a *crossing*; each crossing is one event. Each status write is compared with
the status that it replaces, so a restart neither repeats nor loses a crossing. The same crossing
of a pool is recorded at most once in ten minutes. A crossing that comes earlier is *postponed*: it
is recorded when the ten minutes are over, if the pool's condition still shows it. API servers
delete events after an hour, so the event of the tier that a pool is in is repeated each half hour.
A process does not know the events of earlier processes, so it infers them from the times of the
conditions.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate

from controller.clock import Clock
from controller.conditions import Condition, find_condition, is_true
from controller.eventkind import NOTE_BYTES, shorten
from controller.events import EventType, Recorder
from controller.loggers import get_logger
from controller.meta import Key
from reconcilers.addressing import statusranges
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.metrics.counters import IpamMetrics
from reconcilers.networkpool.pending_promises import Written
from reconcilers.networkpool.status import NO_CAPACITY, TIERS
from reconcilers.networkpool.window import MinuteWindow
from reconcilers.promises.choosing import AskerRefusal
from reconcilers.promises.results import WriteResult
from reconcilers.promises.unreadable import UnreadableHoldings
from reconcilers.reporting.conditions import FOREIGN_MANAGER, READY
from reconcilers.reporting.wording import count_noun
from reconcilers.spaces.sharing import OVERLAPPING

_log = get_logger(__name__)

ALLOCATE = "Allocate"
MOST_SINGLE_EVENTS = 8
"""Up to so many allocations of one pass get an event each."""
MOST_SINGLE_PER_MINUTE = 32
"""Up to so many allocations of one pool get an event each within a minute."""
ITEM_BYTES = 300
"""The most that one allocation takes of a shared note: its name, and a range or a short reason."""


@dataclass(frozen=True, slots=True)
class _AllocationEvent:
    """An event about one allocation: a note of its own, and its item in a shared note."""

    allocation: IPAllocation
    note: str
    item: str


class AllocationEvents:
    """Turns the results of a pass' writes into events, log lines and metrics."""

    def __init__(self, recorder: Recorder, clock: Clock, metrics: IpamMetrics) -> None:
        self._recorder = recorder
        self._clock = clock
        self._metrics = metrics
        self._single_counts = MinuteWindow[int](clock)

    def record_served(
        self,
        pool: NetworkPool,
        granted: Sequence[Written],
        refusals: Sequence[AskerRefusal[IPAllocation]],
        refused: Sequence[Written],
    ) -> None:
        """Record what one pass handed out and refused.

        Args:
            pool: whose ranges they are.
            granted: the writes of promised ranges, with their results.
            refusals: which allocations get nothing, and why.
            refused: the status writes of these refusals, in the same order.
        """
        self._count_results(pool.metadata.key, granted, refused)
        self._record_each_or_all(
            pool,
            "Warning",
            reason="AllocationFailed",
            opening="Failed to allocate IPs for",
            events=[*_make_rejection_events(granted), *_make_refusal_events(refusals, refused)],
        )
        answers = [
            write.answer
            for write in granted
            if write.result is WriteResult.WRITTEN and write.answer is not None
        ]
        total = sum(answer.status.count for answer in answers)
        self._record_each_or_all(
            pool,
            "Normal",
            reason="IPsAllocated",
            opening=f"Allocated {count_noun(total, 'IP')} for",
            events=list(_make_grant_events(answers)),
        )

    def record_foreign_manager(self, before: NetworkPool, after: NetworkPool) -> None:
        """Record that a foreign controller was noticed, or has stopped writing."""
        condition = find_condition(after.status.conditions, FOREIGN_MANAGER)
        was_active = is_true(before.status.conditions, FOREIGN_MANAGER)
        is_active = is_true(after.status.conditions, FOREIGN_MANAGER)
        if condition is None or was_active == is_active:
            return  # the write did not change the condition
        kind: EventType = "Warning" if is_active else "Normal"
        # A condition that is False from the start does not end an earlier report.
        if is_active or find_condition(before.status.conditions, FOREIGN_MANAGER) is not None:
            self._recorder.record(
                NETWORK_POOL, after, kind, condition.reason, condition.message, action=ALLOCATE
            )
            _log.warning("foreign manager", reason=condition.reason, message=condition.message)

    def record_overlap(self, before: NetworkPool, after: NetworkPool) -> None:
        """Record an event if the write set condition Overlapping of a pool to True."""
        condition = find_condition(after.status.conditions, OVERLAPPING)
        if condition is None or condition.status != "True":
            return
        if not is_true(before.status.conditions, OVERLAPPING):
            self._recorder.record(
                NETWORK_POOL,
                after,
                "Warning",
                condition.reason,
                condition.message,
                action=ALLOCATE,
            )

    def record_unreadable(self, pool: NetworkPool, unreadable: UnreadableHoldings) -> None:
        """Record that nothing is handed out, because what some objects hold is unknown."""
        self._recorder.record(
            NETWORK_POOL,
            pool,
            "Warning",
            unreadable.reason,
            f"Nothing is handed out: {unreadable}. Repair or delete them.",
            action=ALLOCATE,
        )

    def report_wrong_contents(self, pool: Key, parts: Sequence[str]) -> None:
        """Count and log that the kept holdings of a pool differ from its requests: a bug."""
        self._metrics.start_series(pool)
        self._metrics.count_wrong_contents(pool)
        _log.error(
            "pool cache inconsistent", pool=str(pool), parts=list(parts[:MOST_SINGLE_EVENTS])
        )

    def record_outdated_definition(self, pool: NetworkPool) -> None:
        """Record that nothing is handed out, because the API server stores the journal changed.

        The CRD in force drops fields of it, or a webhook or policy changes them. The event and the
        log line repeat condition Ready.
        """
        ready = find_condition(pool.status.conditions, READY)
        assert ready is not None, "it was just written"
        self._recorder.record(
            NETWORK_POOL, pool, "Warning", ready.reason, ready.message, action=ALLOCATE
        )
        _log.error("pool hands out nothing", reason=ready.message)

    def _count_results(
        self, pool: Key, granted: Sequence[Written], refused: Sequence[Written]
    ) -> None:
        """Count what was served, failed and refused in the metrics of a pool."""
        self._metrics.start_series(pool)
        now = self._clock.now()
        for written in granted:
            # An allocation that held its range before had lost only its phase, so it did not wait.
            if (
                written.result is WriteResult.WRITTEN
                and statusranges.find_held_range(written.allocation) is None
            ):
                waited = (now - written.allocation.requested_at).total_seconds()
                self._metrics.count_served(pool, written.allocation.spec.type, waited)
        for written in refused:
            if written.result is WriteResult.WRITTEN:
                self._metrics.count_failed(pool)
        for written in (*granted, *refused):
            if written.result is WriteResult.REFUSED:
                self._metrics.count_refused_write(pool)

    def _record_each_or_all(
        self,
        pool: NetworkPool,
        kind: EventType,
        reason: str,
        opening: str,
        events: Sequence[_AllocationEvent],
    ) -> None:
        """Record one event for each allocation if there are few, or one for all together."""
        if not events:
            return
        if not self._reserve_single_events(pool.metadata.key, len(events)):
            note = _render_shared_note(opening, events)
            self._recorder.record(NETWORK_POOL, pool, kind, reason, note, action=ALLOCATE)
            return
        for event in events:
            self._recorder.record(
                NETWORK_POOL,
                pool,
                kind,
                reason,
                event.note,
                action=ALLOCATE,
                related=(IP_ALLOCATION, event.allocation),
            )

    def _reserve_single_events(self, pool: Key, count: int) -> bool:
        """Reserve an event for each of `count` allocations; return whether they may have one each.

        If one pass or the last minute has too many, nothing is reserved.
        """
        if (
            count > MOST_SINGLE_EVENTS
            or sum(self._single_counts.list_recent(pool)) + count > MOST_SINGLE_PER_MINUTE
        ):
            return False
        self._single_counts.add(pool, count)
        return True


def _make_grant_events(answers: Iterable[IPAllocation]) -> Iterator[_AllocationEvent]:
    """Yield and log an event for each allocation that got a range."""
    for answer in answers:
        status, name = answer.status, answer.metadata.name
        _log.info("allocated IPs", allocation=name, cidr=status.cidr)
        span = f"({statusranges.describe_held_ends(answer)})"
        note = f"Allocated {count_noun(status.count, 'IP')} {span} for {name}"
        yield _AllocationEvent(answer, note, f"{name} {span}")


def _make_rejection_events(granted: Iterable[Written]) -> Iterator[_AllocationEvent]:
    """Yield an event for each allocation whose promised range the API server rejected for good."""
    for written in granted:
        if written.result is WriteResult.REFUSED:
            yield _make_failure_event(written.allocation, str(written.error))


def _make_refusal_events(
    refusals: Iterable[AskerRefusal[IPAllocation]], refused: Iterable[Written]
) -> Iterator[_AllocationEvent]:
    """Yield an event for each refusal that was written, or that the API server rejected."""
    for refusal, written in zip(refusals, refused, strict=True):
        if written.result is WriteResult.WRITTEN:
            yield _make_failure_event(refusal.asker, refusal.message)
        elif written.result is WriteResult.REFUSED:
            yield _make_failure_event(refusal.asker, str(written.error))


def _make_failure_event(allocation: IPAllocation, why: str) -> _AllocationEvent:
    """Return and log the event of an allocation that gets no range."""
    name = allocation.metadata.name
    _log.warning("allocation failed", allocation=name, reason=why)
    item = f"{name} ({shorten(why, ITEM_BYTES - len(name) - len(' ()'))})"
    return _AllocationEvent(allocation, f"Failed to allocate IPs for {name}: {why}", item)


def _render_shared_note(opening: str, events: Sequence[_AllocationEvent]) -> str:
    """Return a note that names as many allocations as it has room for, and counts the rest."""
    if len(events) == 1:
        return events[0].note
    opening, items = f"{opening} {len(events)} IPAllocations: ", [event.item for event in events]
    full_note = opening + ", ".join(items)
    if len(full_note.encode()) <= NOTE_BYTES:
        return full_note
    # The room is computed with the longest ending, which counts all items.
    room = NOTE_BYTES - len(f"{opening}... and {len(items)} more".encode())
    sizes = accumulate(len(f"{item}, ".encode()) for item in items)
    named_count = sum(1 for size in sizes if size <= room)
    return opening + ", ".join([*items[:named_count], f"... and {len(items) - named_count} more"])


THRESHOLDS = dict(TIERS)
REPEAT_INTERVAL = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class Crossing:
    """A tier of utilization was entered or left."""

    tier: str
    is_entered: bool

    @property
    def type(self) -> EventType:
        """Warning when entered."""
        return "Warning" if self.is_entered else "Normal"

    @property
    def reason(self) -> str:
        """The event's reason."""
        return f"Pool{self.tier}" if self.is_entered else "PoolCapacityRecovered"

    @property
    def action(self) -> str:
        """The event's action.

        It names the tier, because one write may leave several tiers, all with the same reason.
        """
        return f"{'Enter' if self.is_entered else 'Leave'}{self.tier}"

    def render_note(self, pool: NetworkPool) -> str:
        """Return the event's note, with the utilization that the pool's status shows."""
        change = "is over {}% utilized" if self.is_entered else "utilization recovered below {}%"
        fullest = pool.status.fullest
        used = f"({fullest.allocated}/{count_noun(fullest.total, 'IP')} allocated)"
        return f"NetworkPool {change.format(THRESHOLDS[self.tier])} {used}"

    def is_still_shown(self, pool: NetworkPool) -> bool:
        """Return whether the pool's condition still shows that the tier was entered, or left."""
        condition = find_condition(pool.status.conditions, self.tier)
        return condition is not None and _shows_crossing(self, condition)


def _shows_crossing(crossing: Crossing, condition: Condition) -> bool:
    """Return whether the condition of a tier shows a crossing.

    The condition of a pool without addresses is False, but its utilization is not known to have
    recovered.
    """
    return (condition.status == "True") == crossing.is_entered and condition.reason != NO_CAPACITY


def find_crossings(before: Sequence[Condition], after: Sequence[Condition]) -> list[Crossing]:
    """Return each tier that a status write left, and the highest tier if the write entered it.

    A tier that was entered on the way to a higher one gets no event; its condition is True.
    """
    left_tiers = [
        Crossing(tier, is_entered=False)
        for tier in THRESHOLDS
        if is_true(before, tier)
        and (condition := find_condition(after, tier)) is not None
        and _shows_crossing(Crossing(tier, is_entered=False), condition)
    ]
    return left_tiers + [
        crossing for crossing in _find_lasting_tiers(after) if not is_true(before, crossing.tier)
    ]


def _find_lasting_tiers(conditions: Sequence[Condition]) -> list[Crossing]:
    """Return the entry of the highest tier that a pool is in; empty if it is in none."""
    # THRESHOLDS ascend, so the last tier is the highest.
    reached_tiers = [tier for tier in THRESHOLDS if is_true(conditions, tier)]
    return [Crossing(tier, is_entered=True) for tier in reached_tiers[-1:]]


class CapacityEvents:
    """Records crossings at most once per interval, and repeats the event of a lasting tier.

    Args:
        recorder: takes the events.
        clock: the time.
        interval: seconds between two events of the same kind, tier and pool.
    """

    def __init__(self, recorder: Recorder, clock: Clock, interval: float) -> None:
        self._recorder = recorder
        self._clock = clock
        self._interval = timedelta(seconds=interval)
        self._repeat_interval = max(self._interval, REPEAT_INTERVAL)
        self._known_since = clock.now()
        """Since when this process has recorded events; earlier ones are not known."""
        self._recorded: dict[tuple[str, Crossing], datetime] = {}
        """By uid of the pool, and crossing: when its event was recorded last."""
        self._postponed: dict[Key, dict[Crossing, datetime]] = {}
        """By pool and crossing: when its event is due."""
        self._seen_from_start: dict[Key, str] = {}
        """The uids of pools all of whose history this process has seen."""

    def record_status_write(self, before: NetworkPool, after: NetworkPool) -> None:
        """Record the tiers that a status write of the pool entered or left.

        If the same crossing was recorded less than an interval ago, it is postponed.

        Args:
            before: the pool that the write replaced.
            after: the pool as it was written.
        """
        now, key = self._clock.now(), after.metadata.key
        # No tier is shown before the first status write of a pool.
        if not any(find_condition(before.status.conditions, tier) for tier in THRESHOLDS):
            self._seen_from_start[key] = before.metadata.uid
        for crossing in find_crossings(before.status.conditions, after.status.conditions):
            last_recorded = self._find_last_event_time(before, crossing)
            due = now if last_recorded is None else last_recorded + self._interval
            self._postponed.setdefault(key, {})[crossing] = max(due, now)
        self.record_due(after)

    def record_due(self, pool: NetworkPool) -> float | None:
        """Record the events that are due; return in how many seconds to call again.

        None if the pool is in no tier and no crossing is postponed.
        """
        now, key = self._clock.now(), pool.metadata.key
        postponed = self._postponed.pop(key, {})
        postponed = {
            crossing: due for crossing, due in postponed.items() if crossing.is_still_shown(pool)
        }
        for crossing, due in list(postponed.items()):
            if due <= now:
                del postponed[crossing]
                self._record(pool, crossing, now)
        # The tier that the pool stays in is recorded again before API servers delete its event.
        for lasting in _find_lasting_tiers(pool.status.conditions):
            last_recorded = self._recorded.get((pool.metadata.uid, lasting), self._known_since)
            postponed.setdefault(lasting, max(last_recorded + self._repeat_interval, now))
        if not postponed:
            return None
        self._postponed[key] = postponed
        return (min(postponed.values()) - now).total_seconds()

    def forget(self, key: Key) -> None:
        """Forget a pool that is gone, and what was recorded too long ago to matter."""
        self._postponed.pop(key, None)
        self._seen_from_start.pop(key, None)
        horizon = self._clock.now() - self._repeat_interval
        self._recorded = {
            event_key: recorded_at
            for event_key, recorded_at in self._recorded.items()
            if recorded_at > horizon
        }

    def _record(self, pool: NetworkPool, crossing: Crossing, now: datetime) -> None:
        """Record the event of a crossing, and its time."""
        self._recorded[pool.metadata.uid, crossing] = now
        self._recorder.record(
            NETWORK_POOL,
            pool,
            crossing.type,
            crossing.reason,
            crossing.render_note(pool),
            action=crossing.action,
        )

    def _find_last_event_time(self, before: NetworkPool, crossing: Crossing) -> datetime | None:
        """Return when the same event may last have been recorded; None if it never was.

        An earlier process may have recorded it. Then the time follows from the tier's condition.
        """
        recorded = self._recorded.get((before.metadata.uid, crossing))
        if recorded is not None:
            return recorded
        earlier = find_condition(before.status.conditions, crossing.tier)
        # The uid differs if a pool of the same name was recreated.
        from_start = self._seen_from_start.get(before.metadata.key) == before.metadata.uid
        # No earlier process recorded it: the pool is newer than this process, or has no condition
        # of the tier that shows a time.
        if from_start or earlier is None or earlier.lastTransitionTime is None:
            return None
        # The condition changed the other way then, so the last such event is not newer. Nor is it
        # newer than this process, which has not recorded it.
        return min(earlier.lastTransitionTime, self._known_since)


class PoolEvents:
    """Everything that is recorded about pools.

    Args:
        recorder: takes the events.
        clock: the time.
        interval: seconds between two capacity events of the same kind, tier and pool.
        metrics: takes the counts.
    """

    def __init__(
        self, recorder: Recorder, clock: Clock, interval: float, metrics: IpamMetrics | None = None
    ) -> None:
        self._metrics = metrics or IpamMetrics()
        self.allocations = AllocationEvents(recorder, clock, self._metrics)
        self.capacity = CapacityEvents(recorder, clock, interval)

    def record_status_write(self, before: NetworkPool, after: NetworkPool) -> None:
        """Record what a write of a pool's status changed.

        That is: crossed tiers of utilization, another controller that began or stopped to write,
        and other pools that began to hand out the same addresses.
        """
        self.capacity.record_status_write(before, after)
        self.allocations.record_foreign_manager(before, after)
        self.allocations.record_overlap(before, after)

    def forget(self, pool: Key) -> None:
        """Forget a pool that is gone."""
        self.capacity.forget(pool)
        self._metrics.forget(pool)
