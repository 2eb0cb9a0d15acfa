"""Events about how full a pool is: one when a tier is entered, one when it is left, no spam."""

from datetime import datetime, timedelta
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from typing_extensions import override

from allocator import Capacity
from controller.clock import SystemClock
from controller.conditions import is_true
from controller.events import Recorder
from controller.outcome import Again
from reconcilers.networkpool.events import CapacityEvents
from reconcilers.networkpool.status import PoolSummary
from reconcilers.reporting.conditions import with_findings
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

HUNDRED = {"ranges": [{"start": "10.40.0.0", "end": "10.40.0.99"}]}


class Gauge:
    """A pool of 100 addresses whose fill a test sets."""

    def __init__(self, lab: Lab | None = None) -> None:
        self.lab = lab or Lab()
        if lab is None:
            pool = make.pool(tenant=HUNDRED, creationTimestamp="2025-01-01T00:00:00Z")
            self.lab.server.add("networkpools", pool)

    async def fill(self, used: int) -> list[tuple[str, str, str]]:
        """Let `used` addresses be held, and return what is told of it."""
        holder = make.allocation("holder", held_range=("10.40.0.0", f"10.40.0.{used - 1}"))
        self.lab.server.add("ipallocations", holder)
        return await self.look()

    async def look(self) -> list[tuple[str, str, str]]:
        """Run a pass and return what is told."""
        self.lab.recorded.events.clear()
        self.outcome: Any = await self.lab.pool()
        return list(self.lab.recorded.events)

    def restart(self) -> None:
        """Let another process take over."""
        self.lab.pools = self.lab.make_pool_reconciler()


WARNING = (
    "Warning",
    "PoolCapacityWarning",
    "NetworkPool is over 70% utilized (75/100 IPs allocated)",
)
CRITICAL = (
    "Warning",
    "PoolCapacityCritical",
    "NetworkPool is over 85% utilized (90/100 IPs allocated)",
)


def _make_recovery(tier: int, used: int) -> tuple[str, str, str]:
    note = f"NetworkPool utilization recovered below {tier}% ({used}/100 IPs allocated)"
    return ("Normal", "PoolCapacityRecovered", note)


async def test_only_the_highest_tier_reached_is_reported() -> None:
    gauge = Gauge()
    assert await gauge.fill(50) == []
    assert await gauge.fill(90) == [CRITICAL]
    exhausted = "NetworkPool is over 95% utilized (95/100 IPs allocated)"
    assert await gauge.fill(95) == [("Warning", "PoolCapacityExhausted", exhausted)]


async def test_each_tier_left_is_reported_once_and_named() -> None:
    gauge = Gauge()
    await gauge.fill(100)
    assert await gauge.fill(80) == [_make_recovery(85, 80), _make_recovery(95, 80)]
    assert await gauge.fill(60) == [_make_recovery(70, 60)]


async def test_tiers_left_in_one_moment_are_events_of_their_own() -> None:
    seen: list[str] = []
    gauge = Gauge()
    await gauge.fill(100)
    record = gauge.lab.recorded.record

    def note(*args: Any, action: str, **more: Any) -> None:
        seen.append(action)
        record(*args, action=action, **more)

    gauge.lab.recorded.record = note  # type: ignore[method-assign]
    await gauge.fill(10)
    assert seen == ["LeaveCapacityWarning", "LeaveCapacityCritical", "LeaveCapacityExhausted"]


async def test_a_pool_that_stays_above_a_tier_says_so_again_before_events_are_forgotten() -> None:
    gauge = Gauge()
    assert await gauge.fill(75) == [WARNING]
    reported = []
    for minute in range(1, 91):
        await gauge.lab.clock.advance(60)
        reported += [minute for _ in await gauge.look()]
    assert reported == [30, 60, 90]


async def test_another_process_repeats_what_lasts_too() -> None:
    gauge = Gauge()
    await gauge.fill(75)
    gauge.restart()
    await gauge.lab.clock.advance(1799)
    assert await gauge.look() == []
    assert gauge.outcome == Again(1.0)
    await gauge.lab.clock.advance(1)
    assert await gauge.look() == [WARNING]


async def test_a_pool_that_flaps_reports_each_tier_once_in_ten_minutes() -> None:
    gauge = Gauge()
    reported = []
    for _ in range(20):
        reported += await gauge.fill(75)
        await gauge.lab.clock.advance(15)
        reported += await gauge.fill(60)
        await gauge.lab.clock.advance(15)
    assert reported == [WARNING, _make_recovery(70, 60)]


async def test_what_came_too_soon_is_reported_later_if_it_is_still_true() -> None:
    gauge = Gauge()
    await gauge.fill(75)
    await gauge.lab.clock.advance(60)
    await gauge.fill(60)
    await gauge.lab.clock.advance(60)
    assert await gauge.fill(75) == [], "two minutes after the last one"
    assert gauge.outcome.after <= 480
    await gauge.lab.clock.advance(480)
    assert await gauge.look() == [WARNING]
    assert await gauge.look() == []


async def test_what_came_too_soon_and_passed_is_not_reported() -> None:
    gauge = Gauge()
    for used in (75, 60, 75):
        await gauge.fill(used)
    await gauge.lab.clock.advance(60)
    await gauge.fill(60)
    await gauge.lab.clock.advance(600)
    assert await gauge.look() == [_make_recovery(70, 60)]
    await gauge.lab.clock.advance(600)
    assert await gauge.look() == []


async def test_pools_are_independent() -> None:
    gauge = Gauge()
    hundred = {"start": "10.41.0.0", "end": "10.41.0.99"}
    gauge.lab.server.add("networkpools", make.pool("other", "10.41.0.0/24", tenant=hundred))
    assert await gauge.fill(75) == [WARNING]
    allocation = make.allocation("b", of="other", held_range=("10.41.0.0", "10.41.0.74"))
    gauge.lab.server.add("ipallocations", allocation)
    gauge.lab.recorded.events.clear()
    await gauge.lab.pool("other")
    assert gauge.lab.recorded.events == [WARNING]


async def test_a_recovery_is_reported_by_another_process_than_the_warning() -> None:
    gauge = Gauge()
    await gauge.fill(90)
    await gauge.lab.clock.advance(3600)
    gauge.restart()
    assert await gauge.look() == [], "a restart repeats nothing"
    assert await gauge.fill(60) == [_make_recovery(70, 60), _make_recovery(85, 60)]
    await gauge.lab.clock.advance(3600)
    gauge.restart()
    assert await gauge.look() == [], "nor a recovery"


async def test_a_restart_does_not_break_the_limit() -> None:
    gauge = Gauge()
    await gauge.fill(75)
    await gauge.lab.clock.advance(60)
    assert await gauge.fill(60) == [_make_recovery(70, 60)]
    await gauge.lab.clock.advance(60)
    gauge.restart()
    assert await gauge.fill(75) == [], "the warning was two minutes ago, for all it knows"
    await gauge.lab.clock.advance(600)
    assert await gauge.look() == [WARNING]


async def test_a_new_pool_reports_its_first_tiers_at_once() -> None:
    lab = Lab()
    lab.server.add(
        "networkpools", make.pool(tenant=HUNDRED, creationTimestamp="2026-01-01T00:00:00Z")
    )
    gauge = Gauge(lab)
    await gauge.fill(50)
    await lab.clock.advance(5)
    assert await gauge.fill(75) == [WARNING]


async def test_losing_all_capacity_is_no_recovery() -> None:
    gauge = Gauge()
    await gauge.fill(75)
    gauge.lab.server.edit(
        "networkpools", "lab", {"spec": {"reserved": [{"cidr": "10.40.0.0/24"}]}}
    )
    assert await gauge.look() == []
    assert gauge.lab.condition("networkpools", "lab", "CapacityWarning")["reason"] == "NoCapacity"


async def test_a_write_that_failed_records_no_event() -> None:
    gauge = Gauge()
    await gauge.fill(50)
    gauge.lab.hold("networkpools")
    gauge.lab.server.edit("networkpools", "lab", {"metadata": {"labels": {"x": "y"}}})
    assert await gauge.fill(75) == [WARNING], "told once, by the write that went through"


class _Clock(SystemClock):
    """The time of a story; nothing in it waits."""

    seconds = 0

    @override
    def now(self) -> datetime:
        return make.EPOCH + timedelta(seconds=self.seconds)


class _Recording:
    """A pool that is written as a test says, and what is told of it."""

    def __init__(self) -> None:
        self.clock = _Clock()
        self.pool = make.pool(creationTimestamp="2025-01-01T00:00:00Z")
        self.reported: list[tuple[int, str]] = []
        self.restart()

    def restart(self) -> None:
        """Let another process take over."""
        self.events = CapacityEvents(cast("Recorder", self), self.clock, 600.0)

    def record(self, *_: Any, action: str, **__: Any) -> None:
        """Take an event."""
        self.reported.append((self.clock.seconds, action))

    def fill(self, used: int) -> None:
        """Write how full the pool is."""
        tiers = PoolSummary(
            (
                Capacity(
                    100,
                    used,
                    available=100 - used,
                    largest_free=100 - used,
                    fragmentation_percent=0,
                ),
            ),
            1,
        ).describe_tiers()
        conditions = with_findings(
            self.pool.status.conditions, tiers, generation=1, now=self.clock.now()
        )
        before = self.pool
        self.pool = replace(before, status=replace(before.status, conditions=conditions))
        self.events.record_status_write(before, self.pool)

    def play(self, steps: list[tuple[int, int]], restarts: frozenset[int]) -> None:
        """Fill step by step, each a fill and the seconds after it, then let everything rest."""
        for number, (used, seconds) in enumerate(steps):
            if number in restarts:
                self.restart()
            self.fill(used)
            self.clock.seconds += seconds
        for _ in range(20):
            self.clock.seconds += 60
            self.events.record_due(self.pool)


_STEPS = st.lists(
    st.tuples(st.sampled_from([50, 75, 90, 100]), st.sampled_from([1, 60, 300, 599, 601])),
    min_size=1,
    max_size=12,
)


@given(_STEPS, st.frozensets(st.integers(0, 11)))
def test_whatever_happens_no_two_alike_are_reported_within_ten_minutes(
    steps: list[tuple[int, int]], restarts: frozenset[int]
) -> None:
    recording = _Recording()
    recording.play(steps, restarts)
    last: dict[str, int] = {}
    for at, action in recording.reported:
        assert at - last.get(action, -600) >= 600
        last[action] = at


@given(_STEPS)
def test_the_last_word_on_a_tier_is_true(steps: list[tuple[int, int]]) -> None:
    recording = _Recording()
    recording.play(steps, frozenset())
    for tier in ("CapacityWarning", "CapacityCritical", "CapacityExhausted"):
        words = [action for _, action in recording.reported if action.endswith(tier)]
        if words:
            last_is_entered = words[-1].startswith("Enter")
            holds = is_true(recording.pool.status.conditions, tier)
            assert holds or not last_is_entered, "entered, but it was left since"
