"""What a manager runs: controllers, once the kinds they watch are listed, and services.

A service is a coroutine function that runs next to the controllers, a periodic job for example.
One that raises is started again after a delay, so that one odd object does not end it for good.
One that has nothing more to do waits until it is cancelled: to return is an error (supervisor.py).

With shards (shards.py) all of that runs in every replica, but a controller reconciles only keys of
the shards that are held here, and the services for the leader run where `LEADING_SHARD` is held.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import anyio

from controller.clock import Clock
from controller.informer import Registration
from controller.loggers import get_logger
from controller.meta import Key
from controller.resource import Scope
from controller.runner import Controller
from controller.shards import Partition, Shards
from controller.slices import run_in_slices
from controller.supervisor import Supervisor, Task
from controller.triggers import KeySink, Trigger, Watch

Service = Callable[[], Awaitable[None]]

LEADING_SHARD = 0
"""Who holds it also runs what is not done by keys: the services for the leader."""

log = get_logger(__name__)


@dataclass(slots=True)
class _Filter:
    """Passes keys on to a queue: those of the shards that are held here, or of one of them."""

    queue: KeySink
    partition: Partition
    only: int | None = None

    def add_after(self, key: Key, seconds: float, *, priority: int = 0) -> None:
        """Queue a key unless it is of another shard."""
        is_wanted = self.only is None or self.partition.shard(key) == self.only
        if is_wanted and self.partition.owns(key):
            self.queue.add_after(key, seconds, priority=priority)

    def restricted_to(self, shard: int, steps: Iterator[None]) -> Iterator[None]:
        """Run the steps of an iterator, and pass on keys of one shard only while each runs."""
        while True:
            self.only = shard
            try:
                next(steps)
            except StopIteration:
                return
            finally:
                self.only = None
            yield


class ControllerJob:
    """Runs a controller once all its triggers are ready; other controllers do not wait for it.

    Where a controller watches one kind in several namespaces, a namespace that cannot be listed
    keeps no other from being served. Its changes come once all kinds that are watched in several
    namespaces were listed in it: until then a reconciler would take objects for absent.

    Args:
        controller: what is run.
        triggers: what feeds its queue.
        partition: the controller's keys in this process; None for all.
    """

    def __init__(
        self,
        controller: Controller,
        triggers: Sequence[Trigger],
        partition: Partition | None = None,
    ) -> None:
        self.controller = controller
        self.partition = partition
        self.ended = anyio.Event()
        """Set when `run` has ended."""
        self._triggers = triggers
        self._filter = _Filter(controller.queue, partition) if partition is not None else None
        self._stopped = anyio.Event()
        self._registrations: list[Registration] = []

    async def run(self) -> None:
        """Wait for the first lists, then run the controller until `stop` or cancelled."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(cancel_when, self._stopped, group.cancel_scope)
                await self._wait_startable()
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
        queue = self._filter or self.controller.queue
        unlisted = _unlisted_namespaces(self._triggers)
        late = [watch for watches in unlisted.values() for watch in watches]
        connecting = [partial(self._connect_late, *item, queue) for item in unlisted.items()]
        try:
            for trigger in self._triggers:
                if trigger not in late:
                    await self._connect(trigger, queue)
            log.info("Starting workers", controller=self.controller.name)
            async with run_in_background(connecting):
                await self.controller.run()
        finally:
            for registration in self._registrations:
                registration.close()
            self._registrations = []

    async def _connect(self, trigger: Trigger, queue: KeySink) -> None:
        """Enqueue what a trigger says from now on, then the keys of the objects in its cache."""
        registration = trigger.connect(queue, replayed=False)
        self._registrations.append(registration)
        await run_in_slices(registration.replay())

    async def _wait_startable(self) -> None:
        """Return once the required kinds are listed, each in one namespace at least."""
        siblings = _siblings(self._triggers)
        for trigger in self._triggers:
            if isinstance(trigger, Watch) and not trigger.is_required:
                continue
            if not any(trigger in group for group in siblings):
                await trigger.wait_ready()
        for group in siblings:
            for watch in group:
                await watch.informer.wait_attempted()
            await _wait_any(group)

    async def _connect_late(
        self, namespace: str, watches: Sequence[Watch[Any]], queue: KeySink
    ) -> None:
        """Connect the Watches of a namespace in which a kind could not be listed at the start."""
        for informer in dict.fromkeys(watch.informer for watch in watches):
            if not informer.cache.synced:
                log.error(
                    "A namespace cannot be listed, the controller serves the others",
                    controller=self.controller.name,
                    resource=informer.resource.full_name,
                    unserved=namespace,
                    error=str(informer.last_error),
                )
        for watch in watches:
            await watch.wait_ready()
        for watch in watches:
            await self._connect(watch, queue)
        log.info(
            "A namespace can be listed, the controller serves it",
            controller=self.controller.name,
            served=namespace,
        )
        await anyio.sleep_forever()

    async def enqueue_shard(self, shard: int) -> None:
        """Queue all keys of a shard that is held here from now on, if the controller runs."""
        if self._filter is not None:
            for registration in tuple(self._registrations):
                await run_in_slices(self._filter.restricted_to(shard, registration.replay()))


def _siblings(triggers: Sequence[Trigger]) -> list[list[Watch[Any]]]:
    """Return the Watches of one kind in several namespaces, those of one selector in a group."""
    groups: dict[tuple[str, Scope], list[Watch[Any]]] = {}
    for trigger in triggers:
        if isinstance(trigger, Watch) and trigger.informer.scope.namespace:
            selected = replace(trigger.informer.scope, namespace="")
            groups.setdefault((trigger.resource.full_name, selected), []).append(trigger)
    return [
        group
        for group in groups.values()
        if len({watch.informer.scope.namespace for watch in group}) > 1
    ]


def _unlisted_namespaces(triggers: Sequence[Trigger]) -> dict[str, list[Watch[Any]]]:
    """Return the Watches of the namespaces in which not every kind is listed, by namespace."""
    namespaces: dict[str, list[Watch[Any]]] = {}
    for group in _siblings(triggers):
        for watch in group:
            namespaces.setdefault(watch.informer.scope.namespace, []).append(watch)
    return {
        namespace: watches
        for namespace, watches in namespaces.items()
        if not all(watch.informer.cache.synced for watch in watches)
    }


async def _wait_any(watches: Sequence[Watch[Any]]) -> None:
    """Return once one of the Watches is ready."""
    async with anyio.create_task_group() as group:

        async def wait(watch: Watch[Any]) -> None:
            await watch.wait_ready()
            group.cancel_scope.cancel()

        for watch in watches:
            group.start_soon(wait, watch)


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


class LeaderServices:
    """Runs the services for the leader again and again, whenever `begin` was called.

    Args:
        tasks: returns what is run.
    """

    def __init__(self, tasks: Callable[[], Sequence[Task]]) -> None:
        self._tasks = tasks
        self._begun = anyio.Event()
        self._scope: anyio.CancelScope | None = None
        self._ended = anyio.Event()

    async def run(self) -> None:
        """Run the services between `begin` and `end`, until cancelled."""
        while True:
            begun = self._begun
            await begun.wait()
            if begun is not self._begun:
                continue  # ended before this task had its turn
            try:
                with anyio.CancelScope() as self._scope:
                    async with run_in_background(self._tasks()):
                        await anyio.sleep_forever()
            finally:
                self._scope = None
                self._ended.set()
                self._ended = anyio.Event()

    def begin(self) -> None:
        """Start the services."""
        self._begun.set()

    async def end(self) -> None:
        """Cancel the services, and return once they have ended."""
        if self._begun.is_set():  # else `run` waits for this very event
            self._begun = anyio.Event()
        if self._scope is not None:
            self._scope.cancel()
            await self._ended.wait()


class ShardWork:
    """What is done in this process for the shards that are held here.

    Args:
        shards: those that are held; changed by `begin` and `end`.
        jobs: the controllers; those of an extension come and go while it runs.
        services: of the leader.
        clock: for the grace period.
    """

    def __init__(
        self,
        shards: Shards,
        jobs: Collection[ControllerJob],
        services: LeaderServices,
        clock: Clock,
    ) -> None:
        self.shards = shards
        self._jobs = jobs
        self._services = services
        self._clock = clock

    async def begin(self, shard: int) -> None:
        """Reconcile the keys of a shard from now on, first all that there are."""
        self.shards.held.add(shard)
        for job in tuple(self._jobs):
            await job.enqueue_shard(shard)
        if shard == LEADING_SHARD:
            self._services.begin()

    async def end(self, shard: int, grace_seconds: float = 0.0) -> None:
        """Begin nothing more for a shard; return once nothing is done for it.

        Args:
            shard: which one.
            grace_seconds: how long running reconciliations may go on before they are cancelled.
        """
        self.shards.held.discard(shard)
        with self._clock.move_on_after(grace_seconds):
            await self._wait_idle(shard)
        for job in tuple(self._jobs):
            if job.partition is not None:
                job.partition.cancel(shard)
        if shard == LEADING_SHARD:
            await self._services.end()
        await self._wait_idle(shard)
        for job in tuple(self._jobs):
            if job.partition is not None:
                job.partition.forget(shard)

    async def _wait_idle(self, shard: int) -> None:
        for job in tuple(self._jobs):
            if job.partition is not None:
                await job.partition.wait_idle(shard)


@asynccontextmanager
async def run_in_background(tasks: Sequence[Task]) -> AsyncIterator[None]:
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
