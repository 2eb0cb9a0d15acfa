"""Runs asynchronous work until Ctrl-C, and reports its failures."""

import os
import signal
from collections.abc import Awaitable, Callable, Iterator

import anyio

from controller.errors import ControllerError
from reconcilers.cli.problems import CommandProblem


class Interrupted(Exception):
    """SIGINT or SIGTERM ended the work."""


def run_until_interrupted(work: Callable[[], Awaitable[None]]) -> None:
    """Run `work` in an event loop until it ends, or until Ctrl-C cancels it.

    A second Ctrl-C ends the process at once.

    Raises:
        Interrupted: Ctrl-C ended the work.
        CommandProblem: a server did not answer, or a file could not be used; the message says
            which and why.
        Exception: another failure of `work`, without the exception groups around it.
    """
    try:
        anyio.run(_run_interruptibly, work)
    except ControllerError as failure:
        raise CommandProblem(str(failure)) from failure
    except BrokenPipeError:
        raise  # the program that reads our output, such as `head`, has ended
    except OSError as failure:
        reason = failure.strerror or str(failure)
        raise CommandProblem(
            f"{failure.filename}: {reason}" if failure.filename else reason
        ) from failure


async def _run_interruptibly(work: Callable[[], Awaitable[None]]) -> None:
    """Run `work` in a scope that the first signal cancels.

    Raises:
        Interrupted: a signal came.
        Exception: a failure of `work`, without the groups around it if all failures have one type.
    """
    is_interrupted = False

    async def listen(scope: anyio.CancelScope) -> None:
        """Cancel a scope at the first signal, and end the process at the second."""
        nonlocal is_interrupted
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                if is_interrupted:
                    # sys.exit would wait for the tasks, which did not end after the first signal.
                    os._exit(1)
                is_interrupted = True
                scope.cancel()

    try:
        async with anyio.create_task_group() as listening:
            with anyio.CancelScope() as scope:
                listening.start_soon(listen, scope)
                await work()
            listening.cancel_scope.cancel()  # the work has ended: stop listening for signals
    except ExceptionGroup as group:
        failure = find_sole_failure(group)
        if failure is group:
            raise
        raise failure from group
    if is_interrupted:
        raise Interrupted


def find_sole_failure(group: ExceptionGroup[Exception]) -> Exception:
    """Return the first failure inside nested groups; the group itself if their types differ.

    Servers that start at the same time fail for one reason, so the first failure is enough.
    """
    leaves = list(_list_leaves(group))
    return leaves[0] if len({type(leaf) for leaf in leaves}) == 1 else group


def _list_leaves(error: Exception) -> Iterator[Exception]:
    """Yield the exceptions inside nested groups; the exception itself if it is no group."""
    if isinstance(error, ExceptionGroup):
        for inner in error.exceptions:
            yield from _list_leaves(inner)
    else:
        yield error
