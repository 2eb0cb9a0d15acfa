"""Runs several requests at once, whose failures do not stop one another."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TypeVar

import anyio

from controller.errors import ControllerError

ResultT = TypeVar("ResultT")
NO_TURNS = nullcontext()
"""For callers that share their width with no other."""


async def run_concurrently(
    work: Sequence[Callable[[], Awaitable[ResultT]]],
    width: int,
    turns: AbstractAsyncContextManager[object] = NO_TURNS,
) -> list[ResultT]:
    """Run all of it, `width` at once, begun in order, and return when none is under way.

    A task group alone would cancel the others at the first failure, and raise a group, which is
    none of the errors that say who may retry.

    Args:
        work: sends one request each.
        width: the most requests at once.
        turns: is entered for each request, where other callers share the width.

    Returns:
        What each of them returned, in order.

    Raises:
        ControllerError: some of it failed; the first error, after all was tried.
    """
    results, failures = dict[int, ResultT](), list[ControllerError]()
    numbered = iter(enumerate(work))

    async def run_in_turn() -> None:
        for number, request in numbered:
            async with turns:
                try:
                    results[number] = await request()
                except ControllerError as error:
                    failures.append(error)

    async with anyio.create_task_group() as group:
        for _ in work[:width]:
            group.start_soon(run_in_turn)
    if failures:
        raise failures[0]
    return [results[number] for number in range(len(work))]
