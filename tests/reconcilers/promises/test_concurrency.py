"""Concurrent requests: a failure cancels no other request, and is raised at the end."""

from functools import partial

import anyio
import pytest

from controller.errors import NoAnswer
from reconcilers.promises.concurrency import run_concurrently


async def test_a_failure_cancels_no_other_request_and_is_raised_after_all_of_them() -> None:
    done: list[int] = []

    async def request(number: int) -> None:
        if number == 1:
            raise NoAnswer("timed out")
        await anyio.lowlevel.checkpoint()
        done.append(number)

    with pytest.raises(NoAnswer, match="timed out"):
        await run_concurrently([partial(request, number) for number in range(4)], 2)
    assert sorted(done) == [0, 2, 3]


async def test_no_more_requests_run_at_the_same_time_than_the_width() -> None:
    running, most = 0, 0

    async def request() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.lowlevel.checkpoint()
        running -= 1

    await run_concurrently([request] * 10, 3)
    assert most == 3


async def test_results_are_in_the_order_of_the_requests_whichever_ends_first() -> None:
    async def answer_later(number: int) -> int:
        for _ in range(4 - number):
            await anyio.lowlevel.checkpoint()
        return number

    work = [partial(answer_later, number) for number in range(4)]
    assert await run_concurrently(work, 4) == [0, 1, 2, 3]


async def test_callers_that_share_a_semaphore_share_its_width() -> None:
    running, most, turns = 0, 0, anyio.Semaphore(2)

    async def request() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.lowlevel.checkpoint()
        running -= 1

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(run_concurrently, [request] * 4, 2, turns)
    assert most == 2
