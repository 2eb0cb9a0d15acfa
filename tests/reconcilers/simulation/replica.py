"""One replica: caches that lag, real reconcilers, tasks that may be cut off at any await.

With shards it works only on pools, and on allocations of pools, of the shards that it believes to
hold; which these are is said by `gain` and `lose`.
"""

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec import structs
from typing_extensions import override

from controller.cache import Cache
from controller.client import Client
from controller.codec import Deleted, Modified, Unreadable, decode_event
from controller.errors import ControllerError
from controller.events import Recorder
from controller.meta import Key, Object, Version
from controller.resource import Resource
from controller.runner import Reconcile
from controller.shards import Partition, Shards
from reconcilers.api import names
from reconcilers.configuration.settings import PoolSettings
from tests.clock import VirtualClock
from tests.reconcilers.simulation.model import Event, ModelServer
from tests.reconcilers.simulation.wire import Flight, Wire


class Silent:
    def record(self, *args: Any, **kwargs: Any) -> None:
        """Say nothing: events decide nothing."""


class Feed:
    """A cache and how far it has read its kind's history."""

    def __init__(self, cache: Cache[Any], history: list[Event], model: ModelServer) -> None:
        self.cache = cache
        self._history = history
        """All that has happened so far."""
        self._model = model
        self._read = 0

    def list_at(self, index: int, revision: int) -> None:
        """Begin with a list that shows the history up to `index`."""
        shown_objects: dict[str, Any] = {}
        for event in self._history[:index]:
            if event.object is None:
                shown_objects.pop(event.name, None)
            else:
                shown_objects[event.name] = event.object
        items, unreadable = [], dict[Key, str]()
        for obj in shown_objects.values():
            decoded = _decode(self.cache.resource, obj)
            if isinstance(decoded, Unreadable):
                unreadable[decoded.key] = decoded.reason
            else:
                items.append(decoded.object)
        self.cache.replace(items, revision, unreadable)
        self._read = index

    def advance(self, count: int) -> None:
        """Deliver the next `count` events."""
        for event in self._history[self._read : self._read + count]:
            self._deliver(event)
        self._read = min(len(self._history), self._read + count)

    def boot(self, rnd: random.Random, *, stale: bool) -> None:
        """Begin with a list, as a fresh process does; a stale one may show any past."""
        index = rnd.randint(0, len(self._history)) if stale else len(self._history)
        past = self._history[index - 1].revision if index else 1
        newest = index == len(self._history) and not stale
        self.list_at(index, self._model.revision if newest else past)

    def list_past(self, revision: int) -> None:
        """Begin with a list of the state at a revision, as a watch cache that lags gives it."""
        index = sum(event.revision <= revision for event in self._history)
        self.list_at(index, revision)

    @property
    def behind(self) -> int:
        """How many events are still to come."""
        return len(self._history) - self._read

    def _deliver(self, event: Event) -> None:
        if event.object is not None:
            self.cache.apply(_decode(self.cache.resource, event.object))
            return
        if reason := self.cache.unreadable.get(event.key):
            gone = Unreadable(event.key, event.revision, reason, deleted=True)
            self.cache.apply(gone)
            return
        last = self.cache.get(event.key)
        if last is None:
            self.cache.bookmark(event.revision)
            return
        self.cache.apply(Deleted(_stamp(last, event.revision)))


def _decode(resource: Resource[Any], obj: dict[str, Any]) -> Modified[Any] | Unreadable:
    """Return the event of a change, as the codec would if it were sent."""
    try:
        return Modified(msgspec.convert(obj, resource.type))
    except msgspec.ValidationError:
        event = decode_event(resource, msgspec.json.encode({"type": "MODIFIED", "object": obj}))
        assert isinstance(event, Unreadable)
        return event


def _stamp(obj: Object, revision: int) -> Any:
    meta = replace(obj.metadata, resourceVersion=str(revision))
    if isinstance(obj, msgspec.Struct):
        return structs.replace(obj, metadata=meta)
    return replace(cast("Any", obj), metadata=meta)


class Passes:
    """Passes of some reconcilers that may be cut off, over caches that lag.

    Args:
        rnd: decides how far caches read, and what is worked on.
        feeds: the caches.
        reconcilers: what works, each with the caches that say on what.
        partitions: what each of them may work on; everything if not given.
        shards: which shards are held; None where work is not shared.
    """

    def __init__(
        self,
        rnd: random.Random,
        feeds: Sequence[Feed],
        reconcilers: Sequence[tuple[Reconcile, Sequence[Feed]]],
        partitions: Sequence[Partition] = (),
        shards: Shards | None = None,
    ) -> None:
        self._rnd = rnd
        self.shards = shards
        self._feeds = feeds
        self._reconcilers = reconcilers
        self._partitions = partitions or [Partition(_everything()) for _ in reconcilers]
        self.cancelled = 0
        """How many passes were cancelled because their shard was lost."""
        self.failures = Counter[tuple[int, Key]]()
        """By what is worked on: how many passes in a row ended with an error."""
        self._passes: dict[tuple[int, Key], anyio.CancelScope] = {}

    def boot(self, *, stale: bool) -> None:
        """List all kinds, as a fresh process does; a stale list may show any past."""
        for feed in self._feeds:
            feed.boot(self._rnd, stale=stale)

    def list_past(self, revision: int) -> None:
        """List all kinds as they were at a revision."""
        for feed in self._feeds:
            feed.list_past(revision)

    def read(self, often: float, *, all_of_it: bool = False) -> None:
        """Deliver some of what the caches have not seen yet."""
        for feed in self._feeds:
            if all_of_it:
                feed.advance(feed.behind)
            elif self._rnd.random() < often:
                feed.advance(self._rnd.randint(0, feed.behind))

    def gain(self, shard: int) -> None:
        """Work on a shard from now on."""
        assert self.shards is not None
        self.shards.held.add(shard)

    def lose(self, shard: int) -> None:
        """Work no more on a shard; requests of passes that are cut off stay on their way."""
        assert self.shards is not None
        self.shards.held.discard(shard)
        for partition in self._partitions:
            partition.cancel(shard)
            partition.forget(shard)

    def work(self, group: TaskGroup) -> None:
        """Begin a pass over some key that is not being worked on."""
        number = self._rnd.randrange(len(self._reconcilers))
        if keys := self._keys(number):
            self.begin(group, number, self._rnd.choice(keys))

    def begin(self, group: TaskGroup, number: int, key: Key) -> None:
        """Begin a pass over `key`, unless one is under way."""
        if (number, key) not in self._passes:
            self._passes[number, key] = anyio.CancelScope()
            group.start_soon(self._pass, number, key)

    async def _pass(self, number: int, key: Key) -> None:
        with self._passes[number, key], self._partitions[number].open_pass(key) as scope:
            try:
                await self._reconcilers[number][0](key)
                self.failures.pop((number, key), None)
            except ControllerError:
                # a fault: the runner would retry with back-off, here the seed decides when
                self.failures[number, key] += 1
        self.cancelled += scope.cancelled_caught
        del self._passes[number, key]

    def all_keys(self) -> list[tuple[int, Key]]:
        """Return everything that there is to work on."""
        numbers = range(len(self._reconcilers))
        return [(number, key) for number in numbers for key in self._keys(number)]

    def _keys(self, number: int) -> list[Key]:
        """Return the keys that a reconciler may work on."""
        feeds = self._reconcilers[number][1]
        owns = self._partitions[number].owns
        return sorted(
            {key for feed in feeds for obj in feed.cache if owns(key := obj.metadata.key)}
        )

    @property
    def idle(self) -> bool:
        """Whether no pass is under way."""
        return not self._passes

    def die(self) -> None:
        """Stop at whatever await it is at. Its requests stay on their way."""
        for scope in self._passes.values():
            scope.cancel()


def _everything() -> Shards:
    """Return a single shard that is held: all keys are worked on."""
    shards = Shards(1)
    shards.held.add(0)
    return shards


class Worker(NamedTuple):
    """A reconciler of a process.

    Args:
        reconcile: a pass over one object.
        feeds: the feeds of the objects that it works on.
        pool_of: returns the pool that decides to which shard an object belongs; None if the
            object itself does.
        forget: drops what is remembered of an object.
    """

    reconcile: Reconcile
    feeds: Sequence[Feed]
    pool_of: Callable[[Key], Key | None] | None = None
    forget: Callable[[Key], None] | None = None


class World(NamedTuple):
    """What replicas share.

    Args:
        model: the API server.
        flights: where requests wait until they run.
        clock: the time.
        rnd: decides how far caches read, and what is worked on.
        patience: seconds that promises of other replicas are left to these.
        shards: in how many parts the pools are shared out; 0: every replica works on all.
    """

    model: ModelServer
    flights: list[Flight]
    clock: VirtualClock
    rnd: random.Random
    patience: float = 0.0
    shards: int = 0


class Process(Passes, ABC):
    """A process that believes it leads, or that it holds some shards; it has read nothing yet.

    Args:
        world: what it shares with other processes.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.clock = world.clock
        self.settings = PoolSettings(foreign_patience=world.patience)
        self.recorder = cast("Recorder", Silent())
        self._made: list[Feed] = []
        workers = self._set_up()
        shared = Shards(world.shards) if world.shards else None
        held_objects = shared or _everything()
        super().__init__(
            world.rnd,
            self._made,
            [(worker.reconcile, worker.feeds) for worker in workers],
            [Partition(held_objects, worker.pool_of, worker.forget) for worker in workers],
            shared,
        )

    @abstractmethod
    def _set_up(self) -> Sequence[Worker]:
        """Make the caches, their feeds and the reconcilers; return the latter."""

    def _feed(self, plural: str, cache: Cache[Any]) -> Feed:
        """Return the feed of a cache, which reads from now on."""
        feed = Feed(cache, self._world.model.history[plural], self._world.model)
        self._made.append(feed)
        return feed

    def _client(self) -> Client:
        """Return a client whose requests fly, and whose answers enter the caches."""
        by_kind = {feed.cache.resource.kind: feed.cache for feed in self._made}

        def apply_answer(resource: Resource[Any], obj: Object) -> None:
            if resource == by_kind[resource.kind].resource:
                by_kind[resource.kind].apply_own_write(obj)

        def mark_deleted(resource: Resource[Any], version: Version) -> None:
            by_kind[resource.kind].mark_deleted(version)

        return Client(
            Wire(self._world.model, self._world.flights),
            on_object=apply_answer,
            on_deleted=mark_deleted,
            field_manager=names.FIELD_MANAGER,
        )


class IdleProcess(Process):
    """A process that serves no pools of the kind."""

    @override
    def _set_up(self) -> Sequence[Worker]:
        return ()

    @override
    def work(self, group: TaskGroup) -> None:
        """Do nothing."""
