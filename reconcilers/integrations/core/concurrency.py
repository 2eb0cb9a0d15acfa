"""Runs several requests at once, whose failures do not stop one another."""

from collections.abc import Awaitable, Callable, Sequence

import anyio

from controller.errors import ControllerError


async def run_concurrently(work: Sequence[Callable[[], Awaitable[None]]], width: int) -> None:
    """Run all of it, `width` at once, and return when none is under way.

    A task group alone would cancel the others at the first failure, and raise a group, which is
    none of the errors that say who may retry.

    Raises:
        ControllerError: some of it failed; the first error, after all was tried.
    """
    limit, failures = anyio.CapacityLimiter(width), list[ControllerError]()

    async def run_one(one: Callable[[], Awaitable[None]]) -> None:
        async with limit:
            try:
                await one()
            except ControllerError as error:
                failures.append(error)

    async with anyio.create_task_group() as group:
        for one in work:
            group.start_soon(run_one, one)
    if failures:
        raise failures[0]
