"""What is this process doing right now: every task and every thread, with its stack.

SIGUSR1 asks for it and stops nothing. Threads are written by faulthandler, straight from the
signal, so they are told even if the event loop hangs; tasks are written by the loop, when it
comes to it. Both go to standard error as plain text, as a traceback does: lines of a stack are
for eyes.
"""

import asyncio
import faulthandler
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, TextIO

import anyio
import structlog

log = structlog.get_logger(__name__)


def describe_tasks() -> str:
    """Return all tasks of the running event loop, each with the chain of what it waits for."""
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    return "".join(
        f"Task {task.get_name()}:\n" + "".join(_lines(task.get_coro())) for task in tasks
    )


async def dump_on_signal(stream: TextIO | None = None) -> None:
    """Write tasks and threads at each SIGUSR1, until cancelled.

    Returns at once on a system that has no such signal.

    Args:
        stream: where to; standard error by default.
    """
    if not hasattr(signal, "SIGUSR1"):
        return
    target = stream or sys.stderr
    with anyio.open_signal_receiver(signal.SIGUSR1) as signals, _threads_told(target):
        async for _ in signals:
            tasks = describe_tasks()
            target.write(tasks)
            target.flush()
            log.info("Dumped tasks and threads", tasks=tasks.count("\nTask ") + 1)


@contextmanager
def _threads_told(target: TextIO) -> Iterator[None]:
    """Have threads written at once when the signal comes, inside the context."""
    try:
        faulthandler.register(signal.SIGUSR1, file=target, all_threads=True, chain=True)
    except (AttributeError, OSError, ValueError, RuntimeError) as error:
        # Standard error may be no file at all, where it is captured.
        log.debug("Threads cannot be told on SIGUSR1", error=str(error))
        yield
        return
    try:
        yield
    finally:
        faulthandler.unregister(signal.SIGUSR1)


def _lines(awaitable: Any) -> Iterator[str]:
    """Yield a line for each frame from the task's own function to where it waits."""
    while awaitable is not None:
        frame, inner = _parts(awaitable)
        if frame is None:
            if inner is None:
                yield f"  waiting for {awaitable!r:.200}\n"
        else:
            code: CodeType = frame.f_code
            yield f'  File "{code.co_filename}", line {frame.f_lineno}, in {code.co_qualname}\n'
        awaitable = inner


def _parts(awaitable: Any) -> tuple[FrameType | None, Any]:
    """Return the frame of a coroutine or generator, and what it waits for itself."""
    for frame, inner in (
        ("cr_frame", "cr_await"),
        ("gi_frame", "gi_yieldfrom"),
        ("ag_frame", "ag_await"),
    ):
        if hasattr(awaitable, frame):
            return getattr(awaitable, frame), getattr(awaitable, inner)
    return None, None
