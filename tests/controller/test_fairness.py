"""Priorities under load, simulated on a virtual clock: live changes are quick, nothing starves."""

import anyio
import pytest

from controller.priorities import SHARE
from controller.workqueue import LOW_PRIORITY, WorkQueue
from tests.clock import VirtualClock

WORK_SECONDS = 0.01
INITIAL = 2000


async def simulated(live_per_second: float, seconds: float) -> tuple[list[float], list[float]]:
    """Play one worker that needs 10 ms per key, a backlog, and a steady stream of live keys.

    Returns:
        How long each live key waited, and when each key of the backlog was taken.
    """
    clock = VirtualClock()
    queue = WorkQueue[str](clock)
    added: dict[str, float] = {}
    live: list[float] = []
    initial: list[float] = []

    async def worker() -> None:
        while True:
            key = await queue.get()
            if key in added:
                live.append(clock.monotonic() - added.pop(key))
            else:
                initial.append(clock.monotonic())
            await clock.sleep(WORK_SECONDS)
            queue.done(key)

    async def source() -> None:
        number = 0
        while True:
            await clock.sleep(1 / live_per_second)
            number += 1
            added[f"live-{number}"] = clock.monotonic()
            queue.add(f"live-{number}")

    for number in range(INITIAL):
        queue.add(f"initial-{number}", priority=LOW_PRIORITY)
    async with anyio.create_task_group() as group:
        group.start_soon(worker)
        group.start_soon(source)
        await clock.advance(seconds)
        group.cancel_scope.cancel()
    return live, initial


@pytest.mark.slow
async def test_a_backlog_is_worked_off_beside_a_load_of_nine_tenths_that_hardly_feels_it() -> None:
    live, initial = await simulated(live_per_second=90, seconds=250)
    assert len(initial) == INITIAL
    assert max(live) < 5 * WORK_SECONDS


@pytest.mark.slow
async def test_even_more_live_keys_than_can_be_worked_on_starve_nobody() -> None:
    _, initial = await simulated(live_per_second=150, seconds=60)
    share = (60 - 10) / WORK_SECONDS / SHARE
    assert len(initial) == pytest.approx(share, rel=0.1)
