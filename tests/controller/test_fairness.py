"""Fairness: live changes are quick under load, nothing starves, and tenants take turns."""

from collections import Counter

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.meta import Key
from controller.queueorder import AGEING_SECONDS, OLDEST_EVERY, ReadyLevels
from controller.workqueue import LOW_PRIORITY, WorkQueue
from tests.clock import VirtualClock

WORK_SECONDS = 0.01
INITIAL_COUNT = 2000


async def simulate_load(live_per_second: float, seconds: float) -> tuple[list[float], list[float]]:
    """Play one worker that needs 10 ms per key, a backlog, and a steady stream of live keys.

    Returns:
        How many seconds each live key waited, and the second at which each key of the backlog
        was taken.
    """
    clock = VirtualClock()
    queue = WorkQueue[str](clock)
    added_at: dict[str, float] = {}
    live_waits: list[float] = []
    initial_times: list[float] = []

    async def reconcile_keys() -> None:
        while True:
            key = await queue.get()
            if key in added_at:
                live_waits.append(clock.monotonic() - added_at.pop(key))
            else:
                initial_times.append(clock.monotonic())
            await clock.sleep(WORK_SECONDS)
            queue.done(key)

    async def add_live_keys() -> None:
        number = 0
        while True:
            await clock.sleep(1 / live_per_second)
            number += 1
            added_at[f"live-{number}"] = clock.monotonic()
            queue.add(f"live-{number}")

    for number in range(INITIAL_COUNT):
        queue.add(f"initial-{number}", priority=LOW_PRIORITY)
    async with anyio.create_task_group() as group:
        group.start_soon(reconcile_keys)
        group.start_soon(add_live_keys)
        await clock.advance(seconds)
        group.cancel_scope.cancel()
    return live_waits, initial_times


@pytest.mark.slow
async def test_initial_objects_are_reconciled_under_load_and_hardly_delay_live_changes() -> None:
    live_waits, initial_times = await simulate_load(live_per_second=90, seconds=250)
    assert len(initial_times) == INITIAL_COUNT
    assert max(live_waits) < 5 * WORK_SECONDS


@pytest.mark.slow
async def test_initial_objects_do_not_starve_even_when_live_keys_exceed_the_capacity() -> None:
    _, initial_times = await simulate_load(live_per_second=150, seconds=60)
    expected_count = (60 - AGEING_SECONDS) / WORK_SECONDS / OLDEST_EVERY
    assert len(initial_times) == pytest.approx(expected_count, rel=0.1)


def get_tenant(key: Key) -> str:
    """Return the namespace of a key, which is its tenant here."""
    return key.namespace


async def test_a_thousand_keys_of_one_tenant_delay_the_others_by_one_each() -> None:
    queue = WorkQueue[Key](VirtualClock(), group=get_tenant)
    for number in range(1000):
        queue.add(Key("greedy", str(number)))
    modest = [Key(f"modest-{number}", "only") for number in range(9)]
    for key in modest:
        queue.add(key)
    first_ten = [await queue.get() for _ in range(10)]
    assert set(modest) < set(first_ten)


async def test_a_tenant_that_never_stops_gets_no_more_than_its_turn() -> None:
    queue = WorkQueue[Key](VirtualClock(), group=get_tenant)
    counts: Counter[str] = Counter()
    for number in range(200):
        queue.add(Key("steady", str(number)))
        queue.add(Key("noisy", str(2 * number)))
        queue.add(Key("noisy", str(2 * number + 1)))
    for _ in range(300):
        key = await queue.get()
        queue.done(key)
        counts[key.namespace] += 1
        if key.namespace == "noisy":
            queue.add(key)
    assert counts == {"steady": 150, "noisy": 150}


async def test_a_key_whose_group_changes_while_it_waits_is_still_taken() -> None:
    groups = {"a": "one", "b": "one", "c": "two"}
    queue = WorkQueue[str](VirtualClock(), group=groups.__getitem__)
    for key in groups:
        queue.add(key, priority=LOW_PRIORITY)
    groups["a"] = "two"
    queue.add("a")
    assert [await queue.get() for _ in groups] == ["a", "b", "c"]


async def test_without_groups_keys_come_in_the_order_in_which_they_were_added() -> None:
    queue = WorkQueue[Key](VirtualClock())
    keys = [Key(namespace, str(number)) for number in range(5) for namespace in ("a", "a", "b")]
    for key in keys:
        queue.add(key)
    assert [await queue.get() for _ in range(10)] == list(dict.fromkeys(keys))


PUSHES = st.tuples(
    st.sampled_from(["a", "b", "c", "d"]), st.integers(0, 5), st.sampled_from([0, 0, 5])
)


@given(st.lists(PUSHES | st.none(), max_size=200))
def test_no_group_waits_for_two_turns_of_another(
    steps: list[tuple[str, int, int] | None],
) -> None:
    """A step of None takes a key out; others queue a key of a tenant, number and priority."""
    ready = ReadyLevels[Key](group=get_tenant)
    waiting: dict[Key, tuple[int, int]] = {}
    # The tenants that had a turn since a tenant at a priority began to wait.
    turns: dict[tuple[int, str], list[str]] = {}
    for number, step in enumerate(steps):
        if step is not None:
            namespace, name, priority = step
            key = Key(namespace, str(name))
            ready.push(key, priority, 0.0)
            old = waiting.get(key)
            if old is None or old[0] < priority:
                waiting[key] = (priority, number)
            # A key that was raised may have been the last of its tenant at that priority.
            waiting_tenants = {
                (level, waiting_key.namespace) for waiting_key, (level, _) in waiting.items()
            }
            turns = {level: passed for level, passed in turns.items() if level in waiting_tenants}
            continue
        popped = ready.pop(0.0)
        if popped is None:
            assert waiting == {}
            continue
        assert waiting[popped.key][0] == max(priority for priority, _ in waiting.values())
        waits_of_tenant = [
            (since, key)
            for key, (priority, since) in waiting.items()
            if (priority, key.namespace) == (popped.priority, popped.key.namespace)
        ]
        assert min(waits_of_tenant)[1] == popped.key, "first in, first out within a tenant"
        del waiting[popped.key]
        turns.pop((popped.priority, popped.key.namespace), None)
        for key, (priority, _) in waiting.items():
            if priority == popped.priority and key.namespace != popped.key.namespace:
                passed = turns.setdefault((priority, key.namespace), [])
                if popped.key.namespace not in passed[-1:]:
                    passed.append(popped.key.namespace)
        for (_, namespace), passed in turns.items():
            assert len(passed) == len(set(passed)), f"{namespace} was passed over by {passed}"
    assert sum(ready.count_by_priority().values()) == len(waiting)
