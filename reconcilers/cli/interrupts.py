"""Work in an event loop that Ctrl-C ends, and how its failures are reported."""

import os
import signal
from collections.abc import Awaitable, Callable, Iterator

import anyio

from controller.errors import ControllerError
from reconcilers.cli.problems import CommandProblem


class Interrupted(Exception):
    """SIGINT or SIGTERM ended the work."""


def run_until_interrupted(work: Callable[[], Awaitable[None]]) -> None:
    """Run `work` in an event loop of its own, until it ends or Ctrl-C ends it.

    Raises:
        Interrupted: Ctrl-C came first, and everything has ended; a second one exits at once.
        Problem: a server did not answer, or a file could not be used; says which and why.
        Exception: what else `work` raised, out of the groups that task groups make of it.
    """
    try:
        anyio.run(_interruptible, work)
    except ControllerError as failure:
        raise CommandProblem(str(failure)) from failure
    except BrokenPipeError:
        raise  # the reader of our output, `head` say, has ended
    except OSError as failure:
        reason = failure.strerror or str(failure)
        raise CommandProblem(
            f"{failure.filename}: {reason}" if failure.filename else reason
        ) from failure


async def _interruptible(work: Callable[[], Awaitable[None]]) -> None:
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
        failure = sole_failure(group)
        if failure is group:
            raise
        raise failure from group
    if asked:
        raise Interrupted


def sole_failure(group: ExceptionGroup[Exception]) -> Exception:
    """Return the failure inside nested groups; the group itself if there are different kinds.

    Servers that start at once fail at once, all for one reason: the first is reported.
    """
    leaves = list(_leaves(group))
    return leaves[0] if len({type(leaf) for leaf in leaves}) == 1 else group


def _leaves(error: Exception) -> Iterator[Exception]:
    if isinstance(error, ExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
