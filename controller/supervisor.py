"""Runs the parts of a process that must not end, and tells when one ends all the same.

A task can end without a trace: code that awaits a task which other code has cancelled gets a
CancelledError. A task group takes that for its own cancellation, and ends without an error. So
code that calls other people's (a reconciler, a service, a webhook, a transport) does so
with `call_guarded` or `as_exception`, and what must not end is run by a Supervisor:

| what it does                                 | a service                 | a controller         |
|----------------------------------------------|---------------------------|----------------------|
| returns                                      | the manager ends with UnexpectedEnd              |
| raises an Exception                          | logged, started again     | the manager ends     |
| is cancelled, and not by the framework       | logged, started again     | the manager ends     |
| raises a BaseException of another kind       | logged, started again     | the manager ends     |
| raises SystemExit or KeyboardInterrupt       | the process ends, as asked                       |

A reconciler is no part: what it raises is an error of its key (runner.py). Informers start
themselves again, and a leader that cannot renew has lost the lease. When the manager ends by
itself, /healthz and /readyz fail until it has ended.
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
LAST_RESTART_SECONDS = 60.0
STEADY_SECONDS = 300.0
"""A part that ran for so long is started again after the first delay."""

R = TypeVar("R")
Part = Callable[[], Awaitable[None]]
Task = Callable[[], Coroutine[Any, Any, None]]

log = get_logger(__name__)


_expiring: "set[asyncio.Task[Any]]" = set()
"""Tasks that a deadline may cancel with asyncio's cancellation (deadlines.py)."""


@contextmanager
def expiring(task: "asyncio.Task[Any]") -> Iterator[None]:
    """Take cancellations of `task` inside the context as asked for by the framework.

    Args:
        task: runs under a deadline.
    """
    _expiring.add(task)
    try:
        yield
    finally:
        _expiring.discard(task)


_BUGS = (
    *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, MemoryError),
    *(NameError, NotImplementedError, RecursionError, TypeError, ValueError, UnexpectedError),
)


def is_bug(error: Exception) -> bool:
    """Return whether `error` is what Python raises for mistakes in code, what Go panics for.

    Errors of files and connections, of libraries and of the caller's own are none. A group is one
    if any of its errors is.

    Args:
        error: what was raised.
    """
    if isinstance(error, ExceptionGroup):
        return any(is_bug(inner) for inner in error.exceptions)
    return isinstance(error, _BUGS)


async def call_guarded(run: Callable[[], Awaitable[R]]) -> R:
    """Await `run()`, so that nothing that it raises can end the caller without a trace.

    Every Exception passes as it is. So do a cancellation that was requested, SystemExit and
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
        raise  # not from itself, by which it would lose its own cause
    except BaseException as error:
        raise as_exception(error) from error


def as_exception(error: BaseException) -> Exception:
    """Return the Exception that stands for `error`, which called code has just raised.

    That is an UnexpectedError for a CancelledError not caused by the framework, and for any other
    BaseException. A cancellation that was asked for is raised again, and so are SystemExit and
    KeyboardInterrupt, which ask for the end of the process.

    Args:
        error: what was raised.
    """
    match error:
        case Exception():
            return error
        case SystemExit() | KeyboardInterrupt():
            log.error(
                "SystemExit or KeyboardInterrupt was raised, the process ends", exc_info=error
            )
            raise error
        case asyncio.CancelledError():
            if cancellation_requested():
                raise error
            substitute = UnexpectedError("cancelled by other code, or awaited what was cancelled")
        case _:
            substitute = UnexpectedError(f"raised {safe_repr(error)}, which is not an Exception")
    substitute.__cause__ = error
    return substitute


def cancellation_requested() -> bool:
    """Return whether the CancelledError that is being handled was meant for the present task.

    A task of a task group is cancelled through its group, and in no other way; one that asyncio
    itself started may also be cancelled by its owner. If it was not, the task can go on.
    """
    # Minus infinity is anyio's word for "a scope around this was cancelled".
    if anyio.current_effective_deadline() == -math.inf:
        return True
    task = asyncio.current_task()
    if task is None or not task.cancelling():
        return False
    if anyio.get_current_task().parent_id is None or task in _expiring:
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

    def check(self) -> Check:
        """Return a check that fails when a part has ended by itself."""

        def run() -> Failing | None:
            return Failing(self._ended) if self._ended else None

        return Check("running", run)

    def restarting(self, name: str, run: Part) -> Task:
        """Return a task that runs a part, and again after a delay whenever it raises.

        Args:
            name: for logs and metrics.
        """
        return partial(self._run_restarting, name, run)

    def lasting(self, name: str, run: Part) -> Task:
        """Return a task that runs a part once, and raises if it ends before the manager stops.

        Args:
            name: for logs.
        """
        return partial(self._run_lasting, name, run)

    async def _run_lasting(self, name: str, run: Part) -> None:
        """Run a task that must not end before the manager is stopped."""
        try:
            await call_guarded(run)
        except Exception:
            self._ended = f"{name} has failed"
            log.exception("A task failed, stopping the manager", part=name)
            raise
        self._check_end(name)

    async def _run_restarting(self, name: str, run: Part) -> None:
        """Run a service; restart it with growing delays whenever it raises."""
        delay = FIRST_RESTART_SECONDS
        while True:
            begun = self._clock.monotonic()
            try:
                await call_guarded(run)
            except Exception:
                if self._clock.monotonic() - begun > STEADY_SECONDS:
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
        """Raise UnexpectedEnd if a task returned although the manager was not stopped."""
        if self._stopping():
            return
        self._ended = f"{name} has ended"
        log.error("A task returned unexpectedly, stopping the manager", part=name)
        raise UnexpectedEnd(
            f"{name} returned although the manager was not stopped: what has nothing left to do"
            " waits until it is cancelled"
        )
