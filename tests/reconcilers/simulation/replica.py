"""One replica: caches that lag, the real reconcilers, tasks that may be cut off at any await.

With shards it works only on pools, and on allocations of pools, of the shards that it believes to
hold; which these are is said by `gain` and `lose`.
"""

import contextlib
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import anyio
import msgspec
from anyio.abc import TaskGroup
from typing_extensions import override

from controller.cache import Cache
from controller.client import Client
from controller.codec import Deleted, Modified, Unreadable, decode_event
from controller.errors import ControllerError
from controller.events import Recorder
from controller.meta import Key, Object
from controller.resource import Resource
from controller.runner import Reconcile
from controller.shards import Partition, Shards
from reconcilers.api.ipallocation import POOL_INDEX, IPAllocation, pool_index
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.configuration.settings import AllocationSettings, PoolSettings
from reconcilers.ipallocation.reconciler import IPAllocationReconciler
from reconcilers.ipallocation.release import ReleaseCheck, Released
from reconcilers.networkpool.events import PoolEvents
from reconcilers.networkpool.reconciler import NetworkPoolReconciler
from tests.clock import VirtualClock
from tests.reconcilers.simulation.model import ALLOCATIONS, POOLS, Event, ModelServer
from tests.reconcilers.simulation.wire import Flight, Wire


class OpenGate(ReleaseCheck):
    """Every tenant lets go at once."""

    @override
    async def check(self, allocation: IPAllocation, mark: int) -> Released:
        return Released("the tenant was not asked")


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
        shown: dict[str, Any] = {}
        for event in self._history[:index]:
            if event.object is None:
                shown.pop(event.name, None)
            else:
                shown[event.name] = event.object
        items, unreadable = [], dict[Key, str]()
        for obj in shown.values():
            decoded = _decoded(self.cache.resource, obj)
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

    @property
    def behind(self) -> int:
        """How many events are still to come."""
        return len(self._history) - self._read

    def _deliver(self, event: Event) -> None:
        if event.object is not None:
            self.cache.apply(_decoded(self.cache.resource, event.object))
            return
        if reason := self.cache.unreadable.get(event.key):
            gone = Unreadable(event.key, event.revision, reason, deleted=True)
            self.cache.apply(gone)
            return
        last = self.cache.get(event.key)
        if last is None:
            self.cache.bookmark(event.revision)
            return
        self.cache.apply(Deleted(_restamped(last, event.revision)))


def _decoded(resource: Resource[Any], obj: dict[str, Any]) -> Modified[Any] | Unreadable:
    """Return the event of a change, as the codec would if it were sent."""
    try:
        return Modified(msgspec.convert(obj, resource.type))
    except msgspec.ValidationError:
        event = decode_event(resource, msgspec.json.encode({"type": "MODIFIED", "object": obj}))
        assert isinstance(event, Unreadable)
        return event


def _restamped(obj: Object, revision: int) -> Any:
    meta = replace(obj.metadata, resourceVersion=str(revision))
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
        self._passes: dict[tuple[int, Key], anyio.CancelScope] = {}

    def boot(self, *, stale: bool) -> None:
        """List all kinds, as a fresh process does; a stale list may show any past."""
        for feed in self._feeds:
            feed.boot(self._rnd, stale=stale)

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
        with (
            self._passes[number, key],
            contextlib.suppress(ControllerError),
            self._partitions[number].running(key) as scope,
        ):
            # a fault: the runner would retry with back-off, here the seed decides when
            await self._reconcilers[number][0](key)
        self.cancelled += scope.cancelled_caught
        del self._passes[number, key]

    def all_keys(self) -> list[tuple[int, Key]]:
        """Return everything that there is to work on."""
        numbers = range(len(self._reconcilers))
        return [(number, key) for number in numbers for key in self._keys(number)]

    def _keys(self, number: int) -> list[Key]:
        """Return what a reconciler may work on."""
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


class Replica(Passes):
    """A process that believes it leads, or that it holds some shards."""

    def __init__(
        self,
        model: ModelServer,
        flights: list[Flight],
        clock: VirtualClock,
        rnd: random.Random,
        *,
        patience: float,
        shards: int = 0,
    ) -> None:
        pools = Cache(NETWORK_POOL)
        allocations = Cache(IP_ALLOCATION, indexes={POOL_INDEX: pool_index})
        self.pools = Feed(pools, model.history[POOLS], model)
        self.allocations = Feed(allocations, model.history[ALLOCATIONS], model)
        caches: dict[str, Cache[Any]] = {"NetworkPool": pools, "IPAllocation": allocations}

        def answered(resource: Resource[Any], obj: Object) -> None:
            caches[resource.kind].apply_own_write(obj)

        client = Client(Wire(flights), on_object=answered)
        settings = PoolSettings(foreign_patience=patience)
        events = PoolEvents(cast("Recorder", Silent()), clock, settings.event_interval)
        of_pools = NetworkPoolReconciler(client, pools, allocations, events, clock, settings)
        of_allocations = IPAllocationReconciler(
            client, allocations, pools, OpenGate(), clock, AllocationSettings()
        )

        def pool(key: Key) -> Key | None:
            found = allocations.get(key)
            return None if found is None else found.pool_key

        shared = Shards(shards) if shards else None
        held = shared or _everything()
        super().__init__(
            rnd,
            (self.pools, self.allocations),
            (
                (of_pools.reconcile, (self.pools,)),
                (of_allocations.reconcile, (self.allocations,)),
            ),
            (
                Partition(held, forget=of_pools.forget),
                Partition(held, pool, of_allocations.forget),
            ),
            shared,
        )
