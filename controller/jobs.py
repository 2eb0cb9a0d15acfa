"""What a manager runs: controllers, once the kinds they watch are listed, and services.

A service is a coroutine function that runs next to the controllers, a periodic job for example.
One that raises is started again after a delay, so that one odd object does not end it for good.
One that has nothing more to do waits until it is cancelled: to return is an error (supervisor.py).
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import anyio
import structlog

from controller.runner import Controller
from controller.supervisor import Supervisor, Task
from controller.triggers import Trigger

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
        supervisor: runs them.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
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
            self._supervisor.restarting(name, run)
            for name, (run, only) in self._services.items()
            if only == leader_only
        ]


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
