"""One replica: caches that lag, real reconcilers, passes that may be cancelled at any await.

A replica with shards works only on pools, and on allocations of pools, of the shards that it
believes to hold: `gain_shard` and `lose_shard` change these.
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


class SilentRecorder:
    def record(self, *args: Any, **kwargs: Any) -> None:
        """Record nothing: no reconciler depends on events."""


class Feed:
    """The part of a kind's history that one cache has read; `deliver` adds to it."""

    def __init__(self, cache: Cache[Any], history: list[Event], model: ModelServer) -> None:
        self.cache = cache
        self._history = history
        """All events of the kind, oldest first; the model adds to it."""
        self._model = model
        self._read = 0

    def list_at(self, index: int, revision: int) -> None:
        """Fill the cache by a list of the first `index` events of the history."""
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

    def deliver(self, count: int) -> None:
        """Deliver the next `count` events to the cache."""
        for event in self._history[self._read : self._read + count]:
            self._apply_event(event)
        self._read = min(len(self._history), self._read + count)

    def catch_up(self) -> None:
        """Deliver all events that the cache has not read."""
        self.deliver(self.unread_count)

    def boot(self, rnd: random.Random, *, stale: bool) -> None:
        """Fill the cache by a list, as a new process does; a stale list may show any past."""
        index = rnd.randint(0, len(self._history)) if stale else len(self._history)
        past = self._history[index - 1].revision if index else 1
        newest = index == len(self._history) and not stale
        self.list_at(index, self._model.revision if newest else past)

    def list_past(self, revision: int) -> None:
        """Fill the cache by a list at an earlier revision, as from a lagging watch cache."""
        index = sum(event.revision <= revision for event in self._history)
        self.list_at(index, revision)

    @property
    def unread_count(self) -> int:
        """How many events the cache has not read."""
        return len(self._history) - self._read

    def _apply_event(self, event: Event) -> None:
        """Apply one event of the history to the cache, as a watch would.

        The event of a deletion has no object. It is applied with the last state in the cache.
        """
        if event.object is not None:
            self.cache.apply(_decode(self.cache.resource, event.object))
        elif reason := self.cache.unreadable.get(event.key):  # the object could not be decoded
            self.cache.apply(Unreadable(event.key, event.revision, reason, deleted=True))
        elif (last_state := self.cache.get(event.key)) is not None:
            self.cache.apply(Deleted(_set_revision(last_state, event.revision)))
        else:  # the cache does not have the object
            self.cache.apply_bookmark(event.revision)


def _decode(resource: Resource[Any], obj: dict[str, Any]) -> Modified[Any] | Unreadable:
    """Return the event of a change, as the codec would if it were sent."""
    try:
        return Modified(msgspec.convert(obj, resource.type))
    except msgspec.ValidationError:
        event = decode_event(resource, msgspec.json.encode({"type": "MODIFIED", "object": obj}))
        assert isinstance(event, Unreadable)
        return event


def _set_revision(obj: Object, revision: int) -> Any:
    """Return an object with the resourceVersion of its deletion."""
    meta = replace(obj.metadata, resourceVersion=str(revision))
    if isinstance(obj, msgspec.Struct):
        return structs.replace(obj, metadata=meta)
    return replace(cast("Any", obj), metadata=meta)


class Passes:
    """Passes of some reconcilers that may be cut off, over caches that lag.

    Args:
        rnd: decides how far caches read, and which objects are reconciled.
        feeds: of all caches.
        reconcilers: each with the feeds of the objects that it reconciles.
        partitions: the keys that each reconciler may work on; all keys if not given.
        shards: the shards that the replica holds; None if replicas do not share the work.
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
        self._partitions = partitions or [Partition(_hold_all_keys()) for _ in reconcilers]
        self.cancelled = 0
        """How many passes were cancelled because their shard was lost."""
        self.failures = Counter[tuple[int, Key]]()
        """By reconciler and key: how many passes in a row ended with an error."""
        self._passes: dict[tuple[int, Key], anyio.CancelScope] = {}

    def boot(self, *, stale: bool) -> None:
        """List all kinds, as a new process does; a stale list may show any past."""
        for feed in self._feeds:
            feed.boot(self._rnd, stale=stale)

    def list_past(self, revision: int) -> None:
        """List all kinds again as they were at a revision."""
        for feed in self._feeds:
            feed.list_past(revision)

    def read_some(self, probability: float) -> None:
        """Deliver a random number of unread events to each cache.

        Args:
            probability: that a cache reads at all, between 0 and 1.
        """
        for feed in self._feeds:
            if self._rnd.random() < probability:
                feed.deliver(self._rnd.randint(0, feed.unread_count))

    def catch_up(self) -> None:
        """Deliver all unread events to the caches."""
        for feed in self._feeds:
            feed.catch_up()

    def gain_shard(self, shard: int) -> None:
        """Work on a shard from now on."""
        assert self.shards is not None
        self.shards.held.add(shard)

    def lose_shard(self, shard: int) -> None:
        """Stop working on a shard; the requests of its cancelled passes stay on their way."""
        assert self.shards is not None
        self.shards.held.discard(shard)
        for partition in self._partitions:
            partition.cancel(shard)
            partition.forget(shard)

    def begin_any_pass(self, group: TaskGroup) -> None:
        """Begin a pass over a random object that has no running pass."""
        number = self._rnd.randrange(len(self._reconcilers))
        if keys := self._list_keys(number):
            self.begin_pass(group, number, self._rnd.choice(keys))

    def begin_pass(self, group: TaskGroup, number: int, key: Key) -> None:
        """Begin a pass of the reconciler `number` over an object, unless one is running."""
        if (number, key) not in self._passes:
            self._passes[number, key] = anyio.CancelScope()
            group.start_soon(self._run_pass, number, key)

    async def _run_pass(self, number: int, key: Key) -> None:
        """Run one pass; count it as a failure if it ends with an error."""
        with self._passes[number, key], self._partitions[number].open_pass(key) as scope:
            try:
                await self._reconcilers[number][0](key)
                self.failures.pop((number, key), None)
            except ControllerError:
                # a fault: the runner would retry with back-off, here the seed decides when
                self.failures[number, key] += 1
        self.cancelled += scope.cancelled_caught
        del self._passes[number, key]

    def list_all_keys(self) -> list[tuple[int, Key]]:
        """Return the reconcilers' numbers with the keys that each of them may work on."""
        numbers = range(len(self._reconcilers))
        return [(number, key) for number in numbers for key in self._list_keys(number)]

    def _list_keys(self, number: int) -> list[Key]:
        """Return the keys that a reconciler may work on."""
        feeds = self._reconcilers[number][1]
        owns = self._partitions[number].owns
        return sorted(
            {key for feed in feeds for obj in feed.cache if owns(key := obj.metadata.key)}
        )

    @property
    def is_idle(self) -> bool:
        """Whether no pass is running."""
        return not self._passes

    def stop(self) -> None:
        """Cancel all passes at whatever await they are. Their requests stay on their way."""
        for scope in self._passes.values():
            scope.cancel()


def _hold_all_keys() -> Shards:
    """Return shards of which the only one is held: all keys are worked on."""
    shards = Shards(1)
    shards.held.add(0)
    return shards


class Worker(NamedTuple):
    """A reconciler of a process.

    Args:
        reconcile: a pass over one object.
        feeds: the feeds of the objects that it works on.
        find_pool: returns the pool that decides to which shard an object belongs; None if the
            object itself does.
        forget: drops what is remembered of an object.
    """

    reconcile: Reconcile
    feeds: Sequence[Feed]
    find_pool: Callable[[Key], Key | None] | None = None
    forget: Callable[[Key], None] | None = None


class World(NamedTuple):
    """The server, the requests, the clock and the settings that all replicas of a run share.

    Args:
        model: the API server.
        flights: where requests wait until they run.
        clock: the time.
        rnd: decides how far caches read, and which objects are reconciled.
        patience: seconds before a replica writes addresses that another replica promised.
        shards: the number of shards; 0 if every replica works on all pools.
    """

    model: ModelServer
    flights: list[Flight]
    clock: VirtualClock
    rnd: random.Random
    patience: float = 0.0
    shards: int = 0


class Process(Passes, ABC):
    """A process that believes that it leads, or holds some shards; it has read nothing yet.

    Args:
        world: the server, the clock and what else it shares with other processes.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.clock = world.clock
        self.settings = PoolSettings(foreign_patience=world.patience)
        self.recorder = cast("Recorder", SilentRecorder())
        self._all_feeds: list[Feed] = []
        workers = self._set_up()
        shared = Shards(world.shards) if world.shards else None
        held_objects = shared or _hold_all_keys()
        super().__init__(
            world.rnd,
            self._all_feeds,
            [(worker.reconcile, worker.feeds) for worker in workers],
            [Partition(held_objects, worker.find_pool, worker.forget) for worker in workers],
            shared,
        )

    @abstractmethod
    def _set_up(self) -> Sequence[Worker]:
        """Create the caches, their feeds and the reconcilers; return the reconcilers."""

    def _create_feed(self, plural: str, cache: Cache[Any]) -> Feed:
        """Return the feed of a cache from the history of a kind; it has delivered nothing."""
        feed = Feed(cache, self._world.model.history[plural], self._world.model)
        self._all_feeds.append(feed)
        return feed

    def _create_client(self) -> Client:
        """Return a client whose requests go on their way, and whose answers enter the caches."""

        def list_caches(resource: Resource[Any]) -> list[Cache[Any]]:
            # Feeds may be created after the client. Kinds of two groups may have one name.
            caches = (feed.cache for feed in self._all_feeds)
            return [cache for cache in caches if cache.resource.full_name == resource.full_name]

        def apply_answer(resource: Resource[Any], obj: Object) -> None:
            for cache in list_caches(resource):
                if cache.resource == resource:
                    cache.apply_own_write(obj)

        def mark_deleted(resource: Resource[Any], version: Version) -> None:
            for cache in list_caches(resource):
                cache.mark_deleted(version)

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
    def begin_any_pass(self, group: TaskGroup) -> None:
        """Do nothing."""
