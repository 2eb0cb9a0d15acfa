"""Runs the parts of a manager: controllers, once the kinds they watch are listed, and services.

A service is a coroutine function that runs next to the controllers, a periodic job for example.
A service that raises is started again after a delay, so that one odd object does not end it for
good. A service that has nothing more to do must wait until it is cancelled; to return is an error
(supervisor.py).

With shards (shards.py) controllers and services run in every replica. But a controller reconciles
only keys of the shards that its process holds, and the services for the leader run only in the
process that holds `LEADING_SHARD`.
"""

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import anyio

from controller.clock import Clock
from controller.informer import Informer, Registration
from controller.loggers import get_logger
from controller.meta import Key
from controller.namespaces import NamespaceChanges, NamespaceSet, NamespacesInformer
from controller.runner import Controller
from controller.shards import Partition, Shards
from controller.slices import run_in_slices
from controller.supervisor import Supervisor, Task
from controller.triggers import KeySink, Trigger, Watch

Service = Callable[[], Awaitable[None]]

LEADING_SHARD = 0
"""The process that holds this shard also runs the services for the leader, which have no keys."""

log = get_logger(__name__)


@dataclass(slots=True)
class _ShardFilter:
    """Passes on to a queue the keys of the shards that this process holds.

    Args:
        queue: gets the keys.
        partition: tells which keys this process reconciles.
        only_shard: while set, only the keys of this shard pass.
    """

    queue: KeySink
    partition: Partition
    only_shard: int | None = None

    def add_after(self, key: Key, seconds: float, *, priority: int = 0) -> None:
        """Queue a key, unless its shard does not pass or this process does not reconcile it."""
        is_in_shard = self.only_shard is None or self.partition.find_shard(key) == self.only_shard
        if is_in_shard and self.partition.owns(key):
            self.queue.add_after(key, seconds, priority=priority)

    def restrict_to(self, shard: int, steps: Iterator[None]) -> Iterator[None]:
        """Run the steps of an iterator; while a step runs, only keys of `shard` pass.

        Between two steps other tasks run, whose keys are of any shard.
        """
        while True:
            self.only_shard = shard
            try:
                next(steps)
            except StopIteration:
                return
            finally:
                self.only_shard = None
            yield


class ControllerJob:
    """Runs a controller once all its triggers are ready; other controllers do not wait for it.

    If a controller watches kinds in a set of namespaces, it gets the keys of a namespace once all
    these kinds were listed there. Before that a reconciler would take objects for absent. A
    namespace that cannot be listed delays no other namespace.

    Args:
        triggers: enqueue keys for the controller.
        partition: tells which keys this process reconciles; None for all keys.
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
        self._filter = _ShardFilter(controller.queue, partition) if partition is not None else None
        self._stopped = anyio.Event()
        self._registrations: list[Registration] = []

    async def run(self) -> None:
        """Wait for the first lists, then run the controller until `stop` or cancelled."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(cancel_when, self._stopped, group.cancel_scope)
                await self._wait_for_required_kinds()
                group.cancel_scope.cancel()  # ends the wait for `stop`
            if not self._stopped.is_set():
                await self._run_controller()
        finally:
            self.ended.set()

    def stop(self) -> None:
        """Start no more reconciliations; `ended` is set when the running ones have ended."""
        self._stopped.set()
        self.controller.stop()

    async def _run_controller(self) -> None:
        """Connect the triggers to the queue, and run the controller until it is stopped.

        The triggers are not connected before that. So the first reconciliation finds all caches
        filled, and the queue of a standby does not fill up while another replica leads.
        """
        queue = self._filter or self.controller.queue
        connections = [
            _NamespaceConnections(watches, partial(self._connect, queue=queue), self._disconnect)
            for watches in _group_watches_by_set(self._triggers)
        ]
        try:
            with ExitStack() as stack:
                for trigger in self._triggers:
                    if not _has_namespace_set(trigger):  # `connections` connect the others
                        await self._connect(trigger, queue)
                tasks: list[Task] = []
                for connection in connections:
                    changes = stack.enter_context(connection.namespaces.watch_changes())
                    await connection.update(changes.take())  # at first, all names of the set
                    tasks.append(partial(connection.run, changes))
                log.info("Starting workers", controller=self.controller.name)
                async with run_in_background(tasks):
                    await self.controller.run()
        finally:
            for registration in self._registrations:
                registration.close()
            self._registrations = []

    async def _connect(self, trigger: Trigger, queue: KeySink) -> Registration:
        """Enqueue the keys of a trigger's changes from now on, and of the objects in its cache."""
        registration = trigger.connect(queue, replayed=False)
        self._registrations.append(registration)
        await run_in_slices(registration.replay())
        return registration

    def _disconnect(self, registration: Registration) -> None:
        """Close a registration, so that it enqueues no more keys."""
        registration.close()
        self._registrations.remove(registration)

    async def _wait_for_required_kinds(self) -> None:
        """Return once the required kinds are listed, each in at least one namespace of a set."""
        for trigger in self._triggers:
            if not isinstance(trigger, Watch) or trigger.is_required:
                await trigger.wait_ready()

    async def enqueue_shard(self, shard: int) -> None:
        """Queue all keys of a shard that this process has begun to hold.

        Does nothing if the controller does not run yet: its start queues all keys. Does nothing
        either if its keys are not divided by shards.
        """
        if self._filter is not None:
            for registration in tuple(self._registrations):
                await run_in_slices(self._filter.restrict_to(shard, registration.replay()))


SetWatch = tuple[Watch[Any], NamespacesInformer[Any]]
"""A Watch, and its informer."""


@dataclass(eq=False, slots=True)
class _NamespaceConnections:
    """Connects the Watches of a set of namespaces, in each namespace that is listed.

    To connect a Watch in a namespace means to enqueue the keys of its objects there, once now and
    then with each change.

    Args:
        watches: the Watches; a namespace is connected once the informers of all have listed it.
        connect: registers a Watch, and returns the registration.
        disconnect: ends a registration.
    """

    watches: Sequence[SetWatch]
    connect: Callable[[Watch[Any]], Awaitable[Registration]]
    disconnect: Callable[[Registration], None]
    _registrations: dict[str, list[Registration]] = field(default_factory=dict)
    _informers: dict[str, list[Informer[Any]]] = field(default_factory=dict)

    @property
    def namespaces(self) -> NamespaceSet:
        """The set."""
        _, informer = self.watches[0]
        return informer.namespaces

    async def run(self, changes: NamespaceChanges) -> None:
        """Connect and disconnect namespaces as `changes` names them, until cancelled.

        Args:
            changes: the names of namespaces that enter or leave the set, or were listed.
        """
        while True:
            await changes.wait()
            await self.update(changes.take())

    async def update(self, names: Iterable[str]) -> None:
        """Connect namespaces that are listed now; disconnect those whose objects were dropped.

        A namespace that left the set and came back has new informers, perhaps at first for some
        kinds only. It is connected again once all its kinds are listed.

        Args:
            names: the names of the namespaces that have changed.
        """
        for name in names:
            # For each Watch: its informer in the namespace; None if the namespace is not listed.
            listed_informers = [source.find_listed(name) for _, source in self.watches]
            if name in self._informers:
                if self._is_current(name, listed_informers):
                    continue
                del self._informers[name]
                for registration in self._registrations.pop(name):
                    self.disconnect(registration)
            await self._connect_if_listed(name, listed_informers)

    def _is_current(self, name: str, listed_informers: Sequence[Informer[Any] | None]) -> bool:
        """Return whether a connected namespace stays connected to the informers that it has.

        It does while one of these informers delivers changes, and not all kinds have been listed
        by new informers.

        Args:
            name: the name of the namespace.
            listed_informers: for each Watch, its informer that has listed the namespace now.
        """
        informers = self._informers[name]
        is_attached = any(
            source.is_attached(name, informer)
            for (_, source), informer in zip(self.watches, informers, strict=True)
        )
        has_new_informers = None not in listed_informers and listed_informers != informers
        return is_attached and not has_new_informers

    async def _connect_if_listed(
        self, name: str, listed_informers: Sequence[Informer[Any] | None]
    ) -> None:
        """Connect a namespace of the set, unless one of its kinds is not listed in it yet."""
        informers = [informer for informer in listed_informers if informer is not None]
        if name not in self.namespaces or len(informers) < len(self.watches):
            return
        self._informers[name] = informers
        registrations = self._registrations[name] = []
        for (watch, _), informer in zip(self.watches, informers, strict=True):
            registrations.append(await self.connect(replace(watch, informer=informer)))


def _has_namespace_set(trigger: Trigger) -> bool:
    """Return whether a trigger watches a set of namespaces."""
    return isinstance(trigger, Watch) and isinstance(trigger.informer, NamespacesInformer)


def _group_watches_by_set(triggers: Sequence[Trigger]) -> list[list[SetWatch]]:
    """Return groups of Watches that are connected together: the required Watches of each set.

    A Watch that is not required is a group of its own, so that no other waits for its lists.
    """
    required: dict[NamespaceSet, list[SetWatch]] = {}
    optional: list[list[SetWatch]] = []
    for trigger in triggers:
        if isinstance(trigger, Watch) and isinstance(trigger.informer, NamespacesInformer):
            watch = (trigger, trigger.informer)
            if trigger.is_required:
                required.setdefault(trigger.informer.namespaces, []).append(watch)
            else:
                optional.append([watch])
    return [*required.values(), *optional]


class Services:
    """The services of a manager, each for the leader alone or for every replica.

    Args:
        supervisor: runs them.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        # By name: the service, and whether only the leader runs it.
        self._services: dict[str, tuple[Service, bool]] = {}

    def add(self, name: str, run: Service, *, leader_only: bool) -> None:
        """Add a service.

        Args:
            name: for logs and metrics.
            run: is started again after a delay if it raises.
            leader_only: run it only while holding the lease, else in every replica.

        Raises:
            ValueError: there is a service of that name.
        """
        if name in self._services:
            raise ValueError(f"there is a service called {name} already")
        self._services[name] = (run, leader_only)

    def create_tasks(self, *, leader_only: bool) -> list[Task]:
        """Return new tasks that run the services of the leader alone, or of every replica."""
        return [
            self._supervisor.create_restarting_task(name, run)
            for name, (run, is_leader_only) in self._services.items()
            if is_leader_only == leader_only
        ]


class LeaderServices:
    """Runs the services for the leader again and again, whenever `begin` was called.

    Args:
        create_tasks: returns new tasks, which run the services.
    """

    def __init__(self, create_tasks: Callable[[], Sequence[Task]]) -> None:
        self._create_tasks = create_tasks
        # Set while the services are to run; `end` replaces it.
        self._begun = anyio.Event()
        # Cancelled to end the services; None while they do not run.
        self._scope: anyio.CancelScope | None = None
        self._ended = anyio.Event()

    async def run(self) -> None:
        """Run the services between `begin` and `end`, until cancelled."""
        while True:
            begin_event = self._begun
            await begin_event.wait()
            if begin_event is not self._begun:
                continue  # `end` was called before this task went on
            try:
                with anyio.CancelScope() as self._scope:
                    async with run_in_background(self._create_tasks()):
                        await anyio.sleep_forever()
            finally:
                self._scope = None
                self._ended.set()
                self._ended = anyio.Event()

    def begin(self) -> None:
        """Start the services."""
        self._begun.set()

    async def end(self) -> None:
        """Cancel the services if they run; return once they have ended."""
        if self._begun.is_set():  # an event that is not set stays: `run` waits for it
            self._begun = anyio.Event()
        if self._scope is not None:
            self._scope.cancel()
            await self._ended.wait()


class ShardWork:
    """Begins and ends the work of this process for a shard.

    Args:
        shards: the shards that this process holds; changed by `begin` and `end`.
        jobs: the controllers; the controllers of an extension come and go while it runs.
        services: the services for the leader, which run with LEADING_SHARD.
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
        """Reconcile the keys of a shard from now on, first the keys of all objects in caches."""
        self.shards.held.add(shard)
        for job in tuple(self._jobs):
            await job.enqueue_shard(shard)
        if shard == LEADING_SHARD:
            self._services.begin()

    async def end(self, shard: int, grace_seconds: float = 0.0) -> None:
        """Begin no more work for a shard; return once all its work has ended.

        The controllers then forget the keys of the shard.

        Args:
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
        await self._wait_idle(shard)  # a cancelled reconciliation may take time to end
        for job in tuple(self._jobs):
            if job.partition is not None:
                job.partition.forget(shard)

    async def _wait_idle(self, shard: int) -> None:
        """Return once no controller reconciles a key of a shard."""
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
