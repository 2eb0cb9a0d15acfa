"""Ctrl-C and SIGTERM for commands that start servers: the first ends in order, the second now."""

import os
import signal
from collections.abc import Awaitable, Callable, Iterator

import anyio


class Interrupted(Exception):
    """SIGINT or SIGTERM ended the work."""


async def interruptible(work: Callable[[], Awaitable[None]]) -> None:
    """Run `work` until it ends or a signal ends it; a second signal exits at once.

    Raises:
        Interrupted: a signal came first; everything that `work` started has ended.
        Exception: what `work` raised, out of the groups that task groups make of it.
    """
    asked = False

    async def listen(scope: anyio.CancelScope) -> None:
        nonlocal asked
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                if asked:
                    # Not sys.exit: that would wait for the very tasks that do not end.
                    os._exit(1)
                asked = True
                scope.cancel()

    try:
        async with anyio.create_task_group() as listening:
            with anyio.CancelScope() as scope:
                listening.start_soon(listen, scope)
                await work()
            listening.cancel_scope.cancel()
    except ExceptionGroup as group:
        raise sole(group) from group
    if asked:
        raise Interrupted


def sole(group: ExceptionGroup[Exception]) -> Exception:
    """Return the failure inside nested groups; the group itself if there are different kinds.

    Servers that start at once fail at once, all for one reason: the first speaks for all.
    """
    found = list(_leaves(group))
    return found[0] if len({type(one) for one in found}) == 1 else group


def _leaves(error: Exception) -> Iterator[Exception]:
    if isinstance(error, ExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
