"""Runs code under a deadline, and tells when the code catches its cancellation and goes on.

A cancel scope of anyio repeats its cancellation at each turn of the event loop until the code has
ended. So code that catches CancelledError in a loop takes all of the processor, without a line in
the log. Here the code is cancelled once, with asyncio's cancellation, and again after 1 s, 2 s,
4 s and so on.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

import anyio

from controller.clock import Clock
from controller.supervisor import expect_cancellation, is_cancellation_requested

R = TypeVar("R")

FIRST_REPEAT_SECONDS = 1.0
LAST_REPEAT_SECONDS = 60.0


class DeadlinePassed(Exception):
    """The code did not end in time; its own error, if it raised one, is the cause."""


class Deadline:
    """A deadline for one call.

    Args:
        clock: measures the time.
        seconds: how long the code may take.
        on_passed: called once, when the time is over.
        on_ignored: called once, if the code goes on for a second after its cancellation.
    """

    def __init__(
        self,
        clock: Clock,
        seconds: float,
        on_passed: Callable[[], None],
        on_ignored: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._seconds = seconds
        self._on_passed = on_passed
        self._on_ignored = on_ignored
        self._cancellations = 0
        self._has_ended = False

    async def run(self, call: Awaitable[R]) -> R:
        """Await `call` in the present task; cancel it when its time is over.

        Raises:
            DeadlinePassed: the code took longer, even if it returned or raised an error later.
        """
        task = asyncio.current_task()
        assert task is not None  # a coroutine runs in a task
        result: R | None = None
        failure: BaseException | None = None
        with expect_cancellation(task):  # our cancellation is no error of the code
            async with anyio.create_task_group() as group:
                group.start_soon(self._cancel_after_deadline, task)
                try:
                    result = await call
                except BaseException as error:  # noqa: BLE001 - raised below, outside of the group
                    failure = error
                self._has_ended = True
                for _ in range(self._cancellations):
                    task.uncancel()  # our own cancellations are not for the caller
                group.cancel_scope.cancel()  # ends `_cancel_after_deadline`
        if self._cancellations and not _must_reach_caller(failure):
            raise DeadlinePassed from failure
        if failure is not None:
            raise failure
        return cast("R", result)

    async def _cancel_after_deadline(self, task: "asyncio.Task[object]") -> None:
        """Cancel the code when its time is over, and again after growing delays.

        `run` ends this task when the code has ended.
        """
        await self._clock.sleep(self._seconds)
        if self._cancel(task):
            self._on_passed()
        seconds = FIRST_REPEAT_SECONDS
        while True:
            await self._clock.sleep(seconds)
            # A second cancellation means that the code has caught the first one and goes on.
            if self._cancel(task) and self._cancellations == 2:
                self._on_ignored()
            seconds = min(2 * seconds, LAST_REPEAT_SECONDS)

    def _cancel(self, task: "asyncio.Task[object]") -> bool:
        """Cancel the code; return whether it was still running."""
        if self._has_ended:
            return False
        self._cancellations += 1
        task.cancel()
        return True


def _must_reach_caller(failure: BaseException | None) -> bool:
    """Return whether an error must reach the caller: its cancellation, or the process's end.

    All other errors, and None for no error, give way to DeadlinePassed.
    """
    if isinstance(failure, asyncio.CancelledError):
        return is_cancellation_requested()
    return isinstance(failure, SystemExit | KeyboardInterrupt)
