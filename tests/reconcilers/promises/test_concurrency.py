"""Several requests at once: a failure stops no other, and is raised as it is."""

from functools import partial

import anyio
import pytest

from controller.errors import NoAnswer
from reconcilers.promises.concurrency import run_concurrently


async def test_a_failure_cancels_no_other_request_and_is_raised_after_all_of_them() -> None:
    done: list[int] = []

    async def one(number: int) -> None:
        if number == 1:
            raise NoAnswer("timed out")
        await anyio.lowlevel.checkpoint()
        done.append(number)

    with pytest.raises(NoAnswer, match="timed out"):
        await run_concurrently([partial(one, number) for number in range(4)], 2)
    assert sorted(done) == [0, 2, 3]


async def test_no_more_requests_are_under_way_than_are_allowed() -> None:
    under_way, most = 0, 0

    async def one() -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await anyio.lowlevel.checkpoint()
        under_way -= 1

    await run_concurrently([one] * 10, 3)
    assert most == 3


async def test_results_are_in_the_order_of_the_requests_whichever_ends_first() -> None:
    async def answer_later(number: int) -> int:
        for _ in range(4 - number):
            await anyio.lowlevel.checkpoint()
        return number

    work = [partial(answer_later, number) for number in range(4)]
    assert await run_concurrently(work, 4) == [0, 1, 2, 3]


async def test_callers_that_share_turns_share_the_width() -> None:
    under_way, most, turns = 0, 0, anyio.Semaphore(2)

    async def request() -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await anyio.lowlevel.checkpoint()
        under_way -= 1

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(run_concurrently, [request] * 4, 2, turns)
    assert most == 2
