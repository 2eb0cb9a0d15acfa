"""Runs several requests at once; the failure of one does not stop the others."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TypeVar

import anyio

from controller.errors import ControllerError

ResultT = TypeVar("ResultT")
NO_TURNS = nullcontext()
"""No limit besides `width`: for a caller that shares its `width` with no other call."""


async def run_concurrently(
    work: Sequence[Callable[[], Awaitable[ResultT]]],
    width: int,
    turns: AbstractAsyncContextManager[object] = NO_TURNS,
) -> list[ResultT]:
    """Send all requests, `width` at once, started in order; return when all are answered.

    A task group alone would cancel the other requests at the first failure. It would also raise an
    exception group, from which callers cannot read whether to retry, as they can from a
    ControllerError. Any other exception cancels the other requests.

    Args:
        work: functions that send one request each.
        width: the most requests at once.
        turns: is entered for each request. It limits requests that several calls send together.

    Returns:
        The results of the functions, in their order.

    Raises:
        ControllerError: a request failed. It is the first error, raised after all were tried.
    """
    results = dict[int, ResultT]()
    failures = list[ControllerError]()
    # All workers take from one iterator, so each request is sent once.
    numbered_work = iter(enumerate(work))

    async def send_until_none_is_left() -> None:
        for number, send in numbered_work:
            async with turns:
                try:
                    results[number] = await send()
                except ControllerError as error:
                    failures.append(error)  # raised below, once the other requests were tried

    async with anyio.create_task_group() as group:
        # At most `width` workers, and no more workers than requests.
        for _ in work[:width]:
            group.start_soon(send_until_none_is_left)
    if failures:
        raise failures[0]
    return [results[number] for number in range(len(work))]
