"""What a manager runs: controllers that wait for what they read, services that are kept up."""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import structlog
from prometheus_client import Counter

from controller.clock import Clock
from controller.runner import Controller
from controller.triggers import Trigger

FIRST_RESTART_SECONDS = 1.0
LAST_RESTART_SECONDS = 60.0
STEADY_SECONDS = 300.0

Task = Callable[[], Coroutine[Any, Any, None]]

log = structlog.get_logger(__name__)


class ControllerJob:
    """Runs a controller once all it watches can be seen; others need not wait for it.

    Args:
        controller: what is run.
        watches: what feeds its queue.
    """

    def __init__(self, controller: Controller, watches: Sequence[Trigger]) -> None:
        self.controller = controller
        self.ended = anyio.Event()
        """Set when `run` is over."""
        self._watches = watches
        self._stopped = anyio.Event()

    async def run(self) -> None:
        """Wait for the first lists, then work until `stop` or cancelled."""
        try:
            if await self._synced():
                await self._work()
        finally:
            self.ended.set()

    def stop(self) -> None:
        """Begin no more work; `ended` is set when the running reconciliations are over."""
        self._stopped.set()
        self.controller.stop()

    async def _synced(self) -> bool:
        """Whether everything was synced before the job was stopped."""
        async with anyio.create_task_group() as race:
            race.start_soon(cancel_when, self._stopped, race.cancel_scope)
            for watch in self._watches:
                await watch.wait_ready()
            race.cancel_scope.cancel()
        return not self._stopped.is_set()

    async def _work(self) -> None:
        # Connected only now, so that a reconciler's first look finds all its caches filled, and a
        # standby does not pile up keys while somebody else leads.
        registrations = [watch.connect(self.controller.queue) for watch in self._watches]
        log.info("Starting workers", controller=self.controller.name)
        try:
            await self.controller.run()
        finally:
            for registration in registrations:
                registration.close()


async def keep_up(
    name: str, run: Callable[[], Awaitable[None]], clock: Clock, restarts: Counter
) -> None:
    """Run a service, and again after a pause each time it fails; one that returns is over.

    A periodic job that meets one odd object must not take the others down with it.
    """
    pause = FIRST_RESTART_SECONDS
    while True:
        begun = clock.monotonic()
        try:
            await run()
        except Exception:
            log.exception("A service failed and is started again", service=name, after=pause)
            restarts.labels(name).inc()
        else:
            return
        if clock.monotonic() - begun > STEADY_SECONDS:
            pause = FIRST_RESTART_SECONDS
        await clock.sleep(pause)
        pause = min(pause * 2, LAST_RESTART_SECONDS)


@asynccontextmanager
async def running(tasks: Sequence[Task]) -> AsyncIterator[None]:
    """Run `tasks` inside the context, and cancel them at its end."""
    async with anyio.create_task_group() as group:
        for task in tasks:
            group.start_soon(task)
        yield
        group.cancel_scope.cancel()


async def cancel_when(event: anyio.Event, scope: anyio.CancelScope) -> None:
    """Cancel `scope` when `event` is set."""
    await event.wait()
    scope.cancel()
