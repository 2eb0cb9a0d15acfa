"""What a manager runs: controllers, once the kinds they watch are listed, and services.

A service is a coroutine function that runs next to the controllers, a periodic job for example.
One that raises is started again after a delay, so that one odd object does not end it for good.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
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
"""A service that ran for so long is started again after the first delay."""

Task = Callable[[], Coroutine[Any, Any, None]]
Service = Callable[[], Awaitable[None]]

log = structlog.get_logger(__name__)


class ControllerJob:
    """Runs a controller once all its triggers are ready; other controllers do not wait for it.

    Args:
        controller: what is run.
        triggers: what feeds its queue.
    """

    def __init__(self, controller: Controller, triggers: Sequence[Trigger]) -> None:
        self.controller = controller
        self.ended = anyio.Event()
        """Set when `run` has ended."""
        self._triggers = triggers
        self._stopped = anyio.Event()

    async def run(self) -> None:
        """Wait for the first lists, then run the controller until `stop` or cancelled."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(cancel_when, self._stopped, group.cancel_scope)
                for trigger in self._triggers:
                    await trigger.wait_ready()
                group.cancel_scope.cancel()
            if not self._stopped.is_set():
                await self._run_controller()
        finally:
            self.ended.set()

    def stop(self) -> None:
        """Start no more reconciliations; `ended` is set when the running ones have ended."""
        self._stopped.set()
        self.controller.stop()

    async def _run_controller(self) -> None:
        # Connected only now, so that the first reconciliation finds all caches filled, and the
        # queue of a standby does not fill up while another replica leads.
        registrations = [trigger.connect(self.controller.queue) for trigger in self._triggers]
        log.info("Starting workers", controller=self.controller.name)
        try:
            await self.controller.run()
        finally:
            for registration in registrations:
                registration.close()


class Services:
    """The services of a manager, each for the leader alone or for every replica.

    Args:
        clock: for the delays before a service is started again.
        restarts: counts restarts by the service's name.
    """

    def __init__(self, clock: Clock, restarts: Counter) -> None:
        self._clock = clock
        self._restarts = restarts
        self._services: dict[str, tuple[Service, bool]] = {}

    def add(self, name: str, run: Service, *, leader_only: bool) -> None:
        """Add a service.

        Args:
            name: for logs and metrics.
            run: the service.
            leader_only: run it only while holding the lease, else in every replica.

        Raises:
            ValueError: there is a service of that name.
        """
        if name in self._services:
            raise ValueError(f"there is a service called {name} already")
        self._services[name] = (run, leader_only)

    def tasks(self, *, leader_only: bool) -> list[Task]:
        """Return the tasks of the services for the leader alone, or of those for every replica."""
        return [
            partial(run_restarting, name, run, self._clock, self._restarts)
            for name, (run, only) in self._services.items()
            if only == leader_only
        ]


async def run_restarting(name: str, run: Service, clock: Clock, restarts: Counter) -> None:
    """Run a service until it returns; when it raises, log that and run it again after a delay.

    Args:
        name: for logs and metrics.
        run: the service.
        clock: for the delay, from 1 s doubling up to 60 s.
        restarts: counts restarts by name.
    """
    delay = FIRST_RESTART_SECONDS
    while True:
        begun = clock.monotonic()
        try:
            await run()
        except Exception:
            log.exception("A service failed and is started again", service=name, after=delay)
            restarts.labels(name).inc()
        else:
            return
        if clock.monotonic() - begun > STEADY_SECONDS:
            delay = FIRST_RESTART_SECONDS
        await clock.sleep(delay)
        delay = min(delay * 2, LAST_RESTART_SECONDS)


@asynccontextmanager
async def running(tasks: Sequence[Task]) -> AsyncIterator[None]:
    """Run `tasks` inside the context, and cancel them when it ends."""
    async with anyio.create_task_group() as group:
        for task in tasks:
            group.start_soon(task)
        yield
        group.cancel_scope.cancel()


async def cancel_when(event: anyio.Event, scope: anyio.CancelScope) -> None:
    """Cancel `scope` when `event` is set."""
    await event.wait()
    scope.cancel()
