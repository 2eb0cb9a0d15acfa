"""The ways in which called code can end that is neither an answer nor an Exception of ours."""

import asyncio
from collections.abc import Awaitable, Callable

from anyio.lowlevel import checkpoint


class Odd(BaseException):
    """Not an Exception, as asyncio.CancelledError and GeneratorExit are not."""


async def await_what_was_cancelled() -> None:
    """Await a future that was cancelled."""
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def cancel_own_task() -> None:
    """Cancel the task that this runs in, as a library with a bug would."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await checkpoint()


async def raise_exception() -> None:
    """Raise an Exception that is no error of the framework."""
    raise ZeroDivisionError("raised by the test")


async def raise_base_exception() -> None:
    """Raise what `except Exception` does not catch."""
    raise Odd("raised by the test")


WAYS: dict[str, Callable[[], Awaitable[None]]] = {
    "awaits what was cancelled": await_what_was_cancelled,
    "cancels its task": cancel_own_task,
    "raises": raise_exception,
    "raises a BaseException": raise_base_exception,
}
