"""Several requests at once: a failure stops no other, and is raised as it is."""

from functools import partial

import anyio
import pytest

from controller.errors import NoAnswer
from reconcilers.integrations.core.concurrency import run_concurrently


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
