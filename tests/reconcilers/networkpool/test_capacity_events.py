"""Events about how full a pool is: one when a tier is entered, one when the tier is left.

The tiers are 70, 85 and 95 % of the addresses. An event is not repeated within ten minutes. While
a pool stays above a tier, the event of that tier is repeated every half hour.
"""

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


class FilledPool:
    """A lab with a pool of 100 addresses, of which a test sets how many are held.

    Args:
        lab: has the pool already; without it, a lab with the pool is made.

    Attributes:
        outcome: the outcome of the last pass.
    """

    def __init__(self, lab: Lab | None = None) -> None:
        self.lab = lab or Lab()
        if lab is None:
            pool = make.pool(tenant=HUNDRED, creationTimestamp="2025-01-01T00:00:00Z")
            self.lab.server.add("networkpools", pool)

    async def fill(self, used: int) -> list[tuple[str, str, str]]:
        """Let `used` addresses be held, run a pass, and return its events."""
        holder = make.allocation("holder", held_range=("10.40.0.0", f"10.40.0.{used - 1}"))
        self.lab.server.add("ipallocations", holder)
        return await self.run_pass()

    async def run_pass(self) -> list[tuple[str, str, str]]:
        """Run a pass and return its events."""
        self.lab.recorded.events.clear()
        self.outcome: Any = await self.lab.run_pool_pass()
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


def _make_recovery_event(tier: int, used: int) -> tuple[str, str, str]:
    """Return the event that a pool with `used` of 100 addresses fell below `tier` percent."""
    note = f"NetworkPool utilization recovered below {tier}% ({used}/100 IPs allocated)"
    return ("Normal", "PoolCapacityRecovered", note)


async def test_only_the_highest_tier_reached_is_reported() -> None:
    filled = FilledPool()
    assert await filled.fill(50) == []
    assert await filled.fill(90) == [CRITICAL]
    exhausted = "NetworkPool is over 95% utilized (95/100 IPs allocated)"
    assert await filled.fill(95) == [("Warning", "PoolCapacityExhausted", exhausted)]


async def test_each_tier_that_a_pool_falls_below_is_reported_once() -> None:
    filled = FilledPool()
    await filled.fill(100)
    assert await filled.fill(80) == [_make_recovery_event(85, 80), _make_recovery_event(95, 80)]
    assert await filled.fill(60) == [_make_recovery_event(70, 60)]


async def test_tiers_left_at_the_same_time_have_events_with_different_actions() -> None:
    seen: list[str] = []
    filled = FilledPool()
    await filled.fill(100)
    record = filled.lab.recorded.record

    def note(*args: Any, action: str, **more: Any) -> None:
        seen.append(action)
        record(*args, action=action, **more)

    filled.lab.recorded.record = note  # type: ignore[method-assign]
    await filled.fill(10)
    assert seen == ["LeaveCapacityWarning", "LeaveCapacityCritical", "LeaveCapacityExhausted"]


async def test_a_pool_that_stays_above_a_tier_repeats_its_event_every_half_hour() -> None:
    filled = FilledPool()
    assert await filled.fill(75) == [WARNING]
    reported = []
    for minute in range(1, 91):
        await filled.lab.clock.advance(60)
        reported += [minute for _ in await filled.run_pass()]
    assert reported == [30, 60, 90]


async def test_a_new_process_repeats_an_event_half_an_hour_after_the_first() -> None:
    filled = FilledPool()
    await filled.fill(75)
    filled.restart()
    await filled.lab.clock.advance(1799)
    assert await filled.run_pass() == []
    assert filled.outcome == Again(1.0)
    await filled.lab.clock.advance(1)
    assert await filled.run_pass() == [WARNING]


async def test_a_pool_that_flaps_around_a_tier_has_two_events_in_ten_minutes() -> None:
    filled = FilledPool()
    reported = []
    for _ in range(20):
        reported += await filled.fill(75)
        await filled.lab.clock.advance(15)
        reported += await filled.fill(60)
        await filled.lab.clock.advance(15)
    assert reported == [WARNING, _make_recovery_event(70, 60)]


async def test_an_event_that_came_too_soon_is_recorded_later_if_it_is_still_true() -> None:
    filled = FilledPool()
    await filled.fill(75)
    await filled.lab.clock.advance(60)
    await filled.fill(60)
    await filled.lab.clock.advance(60)
    assert await filled.fill(75) == [], "two minutes after the last one"
    assert filled.outcome.after <= 480
    await filled.lab.clock.advance(480)
    assert await filled.run_pass() == [WARNING]
    assert await filled.run_pass() == []


async def test_an_event_that_came_too_soon_is_not_recorded_if_it_is_no_longer_true() -> None:
    filled = FilledPool()
    for used in (75, 60, 75):
        await filled.fill(used)
    await filled.lab.clock.advance(60)
    await filled.fill(60)
    await filled.lab.clock.advance(600)
    assert await filled.run_pass() == [_make_recovery_event(70, 60)]
    await filled.lab.clock.advance(600)
    assert await filled.run_pass() == []


async def test_the_events_of_one_pool_do_not_delay_those_of_another() -> None:
    filled = FilledPool()
    hundred = {"start": "10.41.0.0", "end": "10.41.0.99"}
    filled.lab.server.add("networkpools", make.pool("other", "10.41.0.0/24", tenant=hundred))
    assert await filled.fill(75) == [WARNING]
    allocation = make.allocation("b", of="other", held_range=("10.41.0.0", "10.41.0.74"))
    filled.lab.server.add("ipallocations", allocation)
    filled.lab.recorded.events.clear()
    await filled.lab.run_pool_pass("other")
    assert filled.lab.recorded.events == [WARNING]


async def test_a_new_process_reports_the_recovery_from_a_warning_of_an_earlier_process() -> None:
    filled = FilledPool()
    await filled.fill(90)
    await filled.lab.clock.advance(3600)
    filled.restart()
    assert await filled.run_pass() == [], "a restart repeats nothing"
    assert await filled.fill(60) == [_make_recovery_event(70, 60), _make_recovery_event(85, 60)]
    await filled.lab.clock.advance(3600)
    filled.restart()
    assert await filled.run_pass() == [], "nor a recovery"


async def test_a_new_process_does_not_repeat_an_event_within_ten_minutes() -> None:
    filled = FilledPool()
    await filled.fill(75)
    await filled.lab.clock.advance(60)
    assert await filled.fill(60) == [_make_recovery_event(70, 60)]
    await filled.lab.clock.advance(60)
    filled.restart()
    assert await filled.fill(75) == [], (
        "the condition changed a minute ago, so the last warning may be recent"
    )
    await filled.lab.clock.advance(600)
    assert await filled.run_pass() == [WARNING]


async def test_a_new_pool_reports_its_first_tiers_at_once() -> None:
    lab = Lab()
    lab.server.add(
        "networkpools", make.pool(tenant=HUNDRED, creationTimestamp="2026-01-01T00:00:00Z")
    )
    filled = FilledPool(lab)
    await filled.fill(50)
    await lab.clock.advance(5)
    assert await filled.fill(75) == [WARNING]


async def test_losing_all_capacity_is_no_recovery() -> None:
    filled = FilledPool()
    await filled.fill(75)
    filled.lab.server.edit(
        "networkpools", "lab", {"spec": {"reserved": [{"cidr": "10.40.0.0/24"}]}}
    )
    assert await filled.run_pass() == []
    assert (
        filled.lab.find_condition("networkpools", "lab", "CapacityWarning")["reason"]
        == "NoCapacity"
    )


async def test_a_status_write_that_conflicts_records_no_event() -> None:
    filled = FilledPool()
    await filled.fill(50)
    filled.lab.hold_events("networkpools")
    filled.lab.server.edit("networkpools", "lab", {"metadata": {"labels": {"x": "y"}}})
    assert await filled.fill(75) == [WARNING], (
        "one event, by the write that was repeated after the conflict"
    )


class _WallClock(SystemClock):
    """A clock whose time a test sets."""

    seconds = 0
    """Seconds since EPOCH."""

    @override
    def now(self) -> datetime:
        return make.EPOCH + timedelta(seconds=self.seconds)


class _ReportedPool:
    """A pool whose status a test writes, and the actions of its events, each with its second."""

    def __init__(self) -> None:
        self.clock = _WallClock()
        self.pool = make.pool(creationTimestamp="2025-01-01T00:00:00Z")
        self.reported: list[tuple[int, str]] = []
        self.restart()

    def restart(self) -> None:
        """Let another process take over."""
        self.events = CapacityEvents(cast("Recorder", self), self.clock, 600.0)

    def record(self, *_: Any, action: str, **__: Any) -> None:
        """Keep the action of an event, in place of a recorder."""
        self.reported.append((self.clock.seconds, action))

    def fill(self, used: int) -> None:
        """Write a status in which `used` of 100 addresses are allocated."""
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
        """Write each step, then let 20 minutes pass in which only delayed events are recorded.

        Args:
            steps: the number of allocated addresses, and the seconds until the next step.
            restarts: the numbers of the steps before which a new process takes over.
        """
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
def test_no_event_is_repeated_within_ten_minutes_whatever_the_fill_does(
    steps: list[tuple[int, int]], restarts: frozenset[int]
) -> None:
    reported_pool = _ReportedPool()
    reported_pool.play(steps, restarts)
    last: dict[str, int] = {}
    for at, action in reported_pool.reported:
        assert at - last.get(action, -600) >= 600
        last[action] = at


@given(_STEPS)
def test_the_last_event_of_a_tier_does_not_say_entered_if_the_tier_was_left(
    steps: list[tuple[int, int]],
) -> None:
    reported_pool = _ReportedPool()
    reported_pool.play(steps, frozenset())
    for tier in ("CapacityWarning", "CapacityCritical", "CapacityExhausted"):
        actions = [action for _, action in reported_pool.reported if action.endswith(tier)]
        if actions:
            last_is_entered = actions[-1].startswith("Enter")
            holds = is_true(reported_pool.pool.status.conditions, tier)
            assert holds or not last_is_entered, "the tier was left since"
