"""Runs the parts of a process that must not end, and reports a part that ends all the same.

A task can end without a trace: code that awaits a task which other code has cancelled gets a
CancelledError. A task group takes that for its own cancellation, and ends without an error. So the
framework calls code of users (a reconciler, a service, a webhook, a transport) by `call_guarded`
or `wrap_in_exception`, and a Supervisor runs the parts that must not end:

| what it does                                 | a service                 | a controller         |
|----------------------------------------------|---------------------------|----------------------|
| returns                                      | the manager ends with UnexpectedEnd              |
| raises an Exception                          | logged, started again     | the manager ends     |
| is cancelled, and not by the framework       | logged, started again     | the manager ends     |
| raises a BaseException of another kind       | logged, started again     | the manager ends     |
| raises SystemExit or KeyboardInterrupt       | the process ends, as asked                       |

A reconciler is no such part: its exception is an error of its key (runner.py). Informers restart
themselves, and a leader that cannot renew has lost the lease. When the manager ends by itself,
/healthz and /readyz fail until it has ended.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import anyio
from prometheus_client import Counter

from controller.callbacks import UnexpectedError, require_awaitable, safe_repr
from controller.clock import Clock
from controller.errors import UnexpectedEnd
from controller.health import Check, Failing
from controller.loggers import get_logger

FIRST_RESTART_SECONDS = 1.0
"""The delay before the first restart of a service; it doubles with each further restart."""
LAST_RESTART_SECONDS = 60.0
"""The longest delay before a restart."""
STEADY_SECONDS = 300.0
"""A part that ran for so long is started again after the first delay."""

R = TypeVar("R")
Part = Callable[[], Awaitable[None]]
Task = Callable[[], Coroutine[Any, Any, None]]

log = get_logger(__name__)


_tasks_with_deadline: "set[asyncio.Task[Any]]" = set()
"""Tasks that a deadline may cancel with asyncio's cancellation (deadlines.py)."""


@contextmanager
def expect_cancellation(task: "asyncio.Task[Any]") -> Iterator[None]:
    """Let asyncio's cancellation of `task` inside the context count as requested by the framework.

    Args:
        task: a task whose code runs under a deadline, which may cancel it.
    """
    _tasks_with_deadline.add(task)
    try:
        yield
    finally:
        _tasks_with_deadline.discard(task)


_BUGS = (
    *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, MemoryError),
    *(NameError, NotImplementedError, RecursionError, TypeError, ValueError, UnexpectedError),
)


def is_bug(error: Exception) -> bool:
    """Return whether Python raises an error of this type for a mistake in code, as Go panics.

    Errors of files, of connections and of libraries, and the user's own errors, are no bugs. A
    group is a bug if any error in it is a bug.

    Args:
        error: the exception that was raised.
    """
    if isinstance(error, ExceptionGroup):
        return any(is_bug(inner) for inner in error.exceptions)
    return isinstance(error, _BUGS)


async def call_guarded(run: Callable[[], Awaitable[R]]) -> R:
    """Await `run()`, so that a CancelledError by mistake cannot end the caller without a trace.

    Every Exception is raised as it is. So are a requested cancellation, SystemExit and
    KeyboardInterrupt, which are meant to end the caller.

    Args:
        run: the code to call.

    Raises:
        UnexpectedError: other code caused a CancelledError, or `run` raised a BaseException of
            another kind.
    """
    try:
        return await require_awaitable(run, run())
    except Exception:
        raise  # unwrapped: `raise error from error` would replace the error's own cause
    except BaseException as error:
        raise wrap_in_exception(error) from error


def wrap_in_exception(error: BaseException) -> Exception:
    """Return an Exception in place of `error`, which called code has just raised.

    An Exception is returned as it is. For a CancelledError that the framework did not request, and
    for any other BaseException, an UnexpectedError is returned. A requested cancellation,
    SystemExit and KeyboardInterrupt are raised again: they are to end the caller or the process.

    Args:
        error: the error that is being handled.
    """
    match error:
        case Exception():
            return error
        case SystemExit() | KeyboardInterrupt():
            # Logged here: the end of a process by code that calls sys.exit has no traceback.
            log.error(
                "SystemExit or KeyboardInterrupt was raised, the process ends", exc_info=error
            )
            raise error
        case asyncio.CancelledError():
            if is_cancellation_requested():
                raise error
            substitute = UnexpectedError("cancelled by other code, or awaited what was cancelled")
        case _:
            substitute = UnexpectedError(f"raised {safe_repr(error)}, which is not an Exception")
    substitute.__cause__ = error
    return substitute


def is_cancellation_requested() -> bool:
    """Return whether the CancelledError that is being handled was meant for the present task.

    If not, asyncio's cancellation of the task is taken back, so that the task can go on.
    """
    # anyio returns minus infinity if a scope around this code was cancelled: task groups do that.
    if anyio.current_effective_deadline() == -math.inf:
        return True
    task = asyncio.current_task()
    if task is None or not task.cancelling():
        # Nobody cancelled this task: it awaited a cancelled task, or raised the error.
        return False
    # asyncio's own cancellation: by the owner of a task outside of task groups, or by a deadline.
    if anyio.get_current_task().parent_id is None or task in _tasks_with_deadline:
        return True
    while task.cancelling():
        task.uncancel()
    return False


class Supervisor:
    """Runs the parts of one manager.

    Args:
        clock: for the delays before a part is started again.
        restarts: counts restarts by the part's name; None does not count.
        stopping: returns whether the manager was stopped, so that parts may end.
    """

    def __init__(
        self,
        clock: Clock,
        restarts: Counter | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._clock = clock
        self._restarts = restarts
        self._stopping = stopping
        self._ended = ""

    def create_check(self) -> Check:
        """Return a check that fails when a part has ended by itself."""

        def find_failure() -> Failing | None:
            """Return a failure that names the part that has ended; None if no part has ended."""
            return Failing(self._ended) if self._ended else None

        return Check("running", find_failure)

    def create_restarting_task(self, name: str, run: Part) -> Task:
        """Return a task that runs a part, and runs it again after a delay whenever it raises.

        Args:
            name: the name of the part, for logs and metrics.
        """
        return partial(self._run_restarting, name, run)

    def create_lasting_task(self, name: str, run: Part) -> Task:
        """Return a task that runs a part once, and raises if it ends before the manager stops.

        Args:
            name: the name of the part, for logs.
        """
        return partial(self._run_lasting, name, run)

    async def _run_lasting(self, name: str, run: Part) -> None:
        """Run a part once.

        Raises:
            UnexpectedEnd: it returned before the manager was stopped.
            Exception: it raised. The checks of the manager fail from then on.
        """
        try:
            await call_guarded(run)
        except Exception:
            self._ended = f"{name} has failed"
            log.exception("A task failed, stopping the manager", part=name)
            raise
        self._check_end(name)

    async def _run_restarting(self, name: str, run: Part) -> None:
        """Run a part until it returns; restart it with growing delays whenever it raises.

        Raises:
            UnexpectedEnd: it returned before the manager was stopped.
        """
        delay = FIRST_RESTART_SECONDS
        while True:
            begun_at = self._clock.monotonic()
            try:
                await call_guarded(run)
            except Exception:
                if self._clock.monotonic() - begun_at > STEADY_SECONDS:
                    delay = FIRST_RESTART_SECONDS
                log.exception("A service failed, restarting it", service=name, after=delay)
                if self._restarts is not None:
                    self._restarts.labels(name).inc()
            else:
                self._check_end(name)
                return
            await self._clock.sleep(delay)
            delay = min(delay * 2, LAST_RESTART_SECONDS)

    def _check_end(self, name: str) -> None:
        """Refuse the end of a part that returned, unless the manager was stopped.

        Raises:
            UnexpectedEnd: the manager was not stopped. Its checks fail from then on.
        """
        if self._stopping():
            return
        self._ended = f"{name} has ended"
        log.error("A task returned unexpectedly, stopping the manager", part=name)
        raise UnexpectedEnd(
            f"{name} returned although the manager was not stopped: what has nothing left to do"
            " waits until it is cancelled"
        )
