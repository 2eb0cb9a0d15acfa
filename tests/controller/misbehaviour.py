"""Functions that end in unexpected ways, as code of users or libraries can."""

import asyncio
from collections.abc import Awaitable, Callable

from anyio.lowlevel import checkpoint


class Odd(BaseException):
    """An error that is not an Exception, like asyncio.CancelledError and GeneratorExit."""


async def await_cancelled_future() -> None:
    """Await a future that was cancelled."""
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def cancel_own_task() -> None:
    """Cancel the current task, as a library with a bug would."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await checkpoint()


async def raise_exception() -> None:
    """Raise an Exception that is no error of the framework."""
    raise ZeroDivisionError("raised by the test")


async def raise_base_exception() -> None:
    """Raise an error that `except Exception` does not catch."""
    raise Odd("raised by the test")


MISBEHAVIOURS: dict[str, Callable[[], Awaitable[None]]] = {
    "awaits a cancelled future": await_cancelled_future,
    "cancels its task": cancel_own_task,
    "raises": raise_exception,
    "raises a BaseException": raise_base_exception,
}
"""The functions, by a description of what each does."""
