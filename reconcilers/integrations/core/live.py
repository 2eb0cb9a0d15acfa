"""The interface by which a platform shows its pools while watches keep its objects current."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from controller.cache import Cache, Change
from controller.indexes import IndexFunction
from controller.informer import Informer
from controller.meta import Key, Object
from controller.resource import Resource
from reconcilers.api.networkpool import NetworkPool
from reconcilers.integrations.core.scopedlists import NotRead
from reconcilers.integrations.core.views import Views, Wanted
from reconcilers.spaces.offers import PoolName

T = TypeVar("T", bound=Object)
Object_co = TypeVar("Object_co", bound=Object, covariant=True)


class WatchedResource(Generic[Object_co]):
    """A watched kind, with the function that says which pools' views a change of it affects.

    Args:
        informer: lists and watches the objects of the kind.
        list_pools: returns the pools whose views may differ after a change.
    """

    def __init__(
        self,
        informer: Informer[Object_co],
        list_pools: Callable[[Change[Object_co]], Iterable[PoolName]],
    ) -> None:
        self.informer = informer
        """Lists and watches the objects of the kind."""
        self._list_pools = list_pools

    def list_concerned_pools(self) -> Iterator[PoolName]:
        """Yield the pools that the cached objects concern, once per object."""
        for obj in self.informer.cache:  # as if the object had just been created
            yield from self._list_pools(Change(None, obj))

    def subscribe(self, notify: Callable[[Collection[PoolName]], None]) -> None:
        """Call `notify` from now on with the pools that each change concerns."""

        def notify_pools(change: Change[Object_co]) -> None:
            """Notify of the pools that a change concerns."""
            notify(list(self._list_pools(change)))

        self.informer.cache.subscribe(notify_pools)


def watch_resource(
    informer: Informer[T], list_pools: Callable[[Change[T]], Iterable[PoolName]]
) -> WatchedResource[Object]:
    """Return a watched kind as an element of a collection of several kinds."""
    watched: WatchedResource[T] = WatchedResource(informer, list_pools)
    return watched


@dataclass(frozen=True, slots=True)
class LivePlatform:
    """The watches of one platform, and functions that make its views from their caches.

    Args:
        watched: the kinds whose objects change the views.
        list_pool_names: returns the names of the platform's pools in order, without NetworkPools.
        make_views: returns the views of the wanted pools, given the kinds that may not be read.
    """

    watched: Sequence[WatchedResource[Object]]
    list_pool_names: Callable[[], list[PoolName]]
    make_views: Callable[[Wanted, Sequence[NotRead]], Views]


class MakeInformer(Protocol):
    """Makes an informer of a kind with these indexes; the caller runs it."""

    def __call__(
        self, resource: Resource[T], indexes: Mapping[str, IndexFunction[T]], /
    ) -> Informer[T]:
        """Return the informer."""
        ...


@dataclass(frozen=True, slots=True)
class PlatformSource:
    """What a platform needs to watch its objects.

    Args:
        make_informer: creates an informer of a kind with these indexes; the caller runs it.
        networkpools: all NetworkPools, which the caller watches.
    """

    make_informer: MakeInformer
    networkpools: Cache[NetworkPool]


def watch_pools(pools: Informer[T]) -> WatchedResource[Object]:
    """Return pools as watched objects: each concerns its own view."""
    kind = pools.resource.kind

    def name_pool(pool: T) -> Iterable[PoolName]:
        """Return the name of a pool."""
        return (PoolName(kind, pool.metadata.key),)

    return watch_resource(pools, make_pool_lister(name_pool))


def watch_holders(
    holders: Informer[T], kind: str, find_pool: Callable[[T], Key | None]
) -> WatchedResource[Object]:
    """Return objects that hold addresses as watched objects: each concerns the pool it names.

    Args:
        kind: of the pools.
        find_pool: returns the pool that an object names; None if it names no pool of the kind.
    """

    def name_pool(holder: T) -> Iterable[PoolName]:
        """Return the name of the pool that a holder names; empty if it names none."""
        pool = find_pool(holder)
        return () if pool is None else (PoolName(kind, pool),)

    return watch_resource(holders, make_pool_lister(name_pool))


def list_pool_names(kind: str, pools: Iterable[Object]) -> list[PoolName]:
    """Return the names of pools of a kind, sorted by namespace and name."""
    return [PoolName(kind, key) for key in sorted(pool.metadata.key for pool in pools)]


def make_pool_lister(
    list_pools_of: Callable[[T], Iterable[PoolName]],
) -> Callable[[Change[T]], set[PoolName]]:
    """Return a function from a change to the pools of the object before it and after it.

    Args:
        list_pools_of: returns the pools of an object.
    """

    def list_pools(change: Change[T]) -> set[PoolName]:
        """Return the pools of the old and the new object of a change."""
        return {
            pool
            for obj in (change.old, change.new)
            if obj is not None
            for pool in list_pools_of(obj)
        }

    return list_pools
