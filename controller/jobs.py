"""What a manager runs: controllers, once the kinds they watch are listed, and services.

A service is a coroutine function that runs next to the controllers, a periodic job for example.
One that raises is started again after a delay, so that one odd object does not end it for good.
One that has nothing more to do waits until it is cancelled: to return is an error (supervisor.py).

With shards (shards.py) all of that runs in every replica, but a controller reconciles only keys of
the shards that are held here, and the services for the leader run where `LEADING_SHARD` is held.
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

    Where a controller watches kinds in a set of namespaces, it hears of a namespace once all these
    kinds were listed there: until then a reconciler would take objects for absent. A namespace
    that cannot be listed keeps no other from being served.

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
        connections = [
            _NamespaceConnections(watches, partial(self._connect, queue=queue), self._disconnect)
            for watches in _group_by_set(self._triggers)
        ]
        try:
            with ExitStack() as stack:
                for trigger in self._triggers:
                    if not _is_in_set(trigger):
                        await self._connect(trigger, queue)
                tasks: list[Task] = []
                for connection in connections:
                    changes = stack.enter_context(connection.namespaces.changes())
                    await connection.update(changes.take())
                    tasks.append(partial(connection.run, changes))
                log.info("Starting workers", controller=self.controller.name)
                async with run_in_background(tasks):
                    await self.controller.run()
        finally:
            for registration in self._registrations:
                registration.close()
            self._registrations = []

    async def _connect(self, trigger: Trigger, queue: KeySink) -> Registration:
        """Enqueue what a trigger says from now on, then the keys of the objects in its cache."""
        registration = trigger.connect(queue, replayed=False)
        self._registrations.append(registration)
        await run_in_slices(registration.replay())
        return registration

    def _disconnect(self, registration: Registration) -> None:
        """Enqueue nothing more for a registration."""
        registration.close()
        self._registrations.remove(registration)

    async def _wait_startable(self) -> None:
        """Return once the required kinds are listed, each in one namespace of a set at least."""
        for trigger in self._triggers:
            if not isinstance(trigger, Watch) or trigger.is_required:
                await trigger.wait_ready()

    async def enqueue_shard(self, shard: int) -> None:
        """Queue all keys of a shard that is held here from now on, if the controller runs."""
        if self._filter is not None:
            for registration in tuple(self._registrations):
                await run_in_slices(self._filter.restricted_to(shard, registration.replay()))


SetWatch = tuple[Watch[Any], NamespacesInformer[Any]]
"""A Watch, and its informer."""


@dataclass(eq=False, slots=True)
class _NamespaceConnections:
    """Connects the Watches of a set of namespaces, in each namespace that is listed.

    Args:
        watches: a namespace is served once the informers of all of them have listed it.
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
        """Connect namespaces that come, and disconnect those that have gone, until cancelled.

        Args:
            changes: of the set.
        """
        while True:
            await changes.wait()
            await self.update(changes.take())

    async def update(self, names: Iterable[str]) -> None:
        """Connect what is listed now, and disconnect namespaces whose objects were dropped.

        One that left and came back before all its informers noticed has new informers of some
        kinds alone: it is connected anew as well.

        Args:
            names: of the namespaces that have changed.
        """
        for name in names:
            listed = [source.find_listed(name) for _, source in self.watches]
            connected = self._informers.get(name)
            if connected is not None:
                is_there = any(
                    source.has(name, informer)
                    for (_, source), informer in zip(self.watches, connected, strict=True)
                )
                if is_there and (None in listed or listed == connected):
                    continue
                del self._informers[name]
                for registration in self._registrations.pop(name):
                    self.disconnect(registration)
            informers = [informer for informer in listed if informer is not None]
            if name not in self.namespaces or len(informers) < len(listed):
                continue
            self._informers[name] = informers
            registrations = self._registrations[name] = []
            for (watch, _), informer in zip(self.watches, informers, strict=True):
                registrations.append(await self.connect(replace(watch, informer=informer)))


def _is_in_set(trigger: Trigger) -> bool:
    """Return whether a trigger watches a set of namespaces."""
    return isinstance(trigger, Watch) and isinstance(trigger.informer, NamespacesInformer)


def _group_by_set(triggers: Sequence[Trigger]) -> list[list[SetWatch]]:
    """Return the Watches that are connected together: those of one set that are required.

    One that is not required stands alone.
    """
    together: dict[NamespaceSet, list[SetWatch]] = {}
    alone: list[list[SetWatch]] = []
    for trigger in triggers:
        if isinstance(trigger, Watch) and isinstance(trigger.informer, NamespacesInformer):
            watch = (trigger, trigger.informer)
            if trigger.is_required:
                together.setdefault(trigger.informer.namespaces, []).append(watch)
            else:
                alone.append([watch])
    return [*together.values(), *alone]


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
