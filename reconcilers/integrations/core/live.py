"""What a platform shows while watches keep its objects current."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

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
Indexes = Mapping[str, IndexFunction[Any]]


@dataclass(frozen=True, slots=True)
class WatchedResource:
    """A kind that is watched.

    Args:
        informer: of the kind.
        concerned: returns the pools whose views may differ after a change.
    """

    informer: Informer[Any]
    concerned: Callable[[Change[Any]], Iterable[PoolName]]


@dataclass(frozen=True, slots=True)
class Live:
    """A platform of which what is needed to show its pools is served.

    Args:
        watched: its kinds.
        names: returns the pools that there are now, NetworkPools excepted, in order.
        views: returns the views of the pools that are wanted, given what may not be read.
    """

    watched: Sequence[WatchedResource]
    names: Callable[[], list[PoolName]]
    views: Callable[[Wanted, Sequence[NotRead]], Views]


@dataclass(frozen=True, slots=True)
class PlatformSource:
    """What a platform is watched by.

    Args:
        informer: makes an informer of a kind with these indexes; the caller runs it.
        networkpools: all NetworkPools, as others watch them.
    """

    informer: Callable[[Resource[Object], Indexes], Informer[Any]]
    networkpools: Cache[NetworkPool]


def watch_pools(pools: Informer[T]) -> WatchedResource:
    """Return pools as watched objects: each concerns its own view."""
    kind = pools.resource.kind

    def name_pool(pool: T) -> Iterable[PoolName]:
        return (PoolName(kind, pool.metadata.key),)

    return WatchedResource(pools, either(name_pool))


def watch_holders(
    holders: Informer[T], kind: str, pool_of: Callable[[T], Key | None]
) -> WatchedResource:
    """Return objects that hold addresses as watched objects: each concerns the pool it names.

    Args:
        kind: of the pools.
        pool_of: returns the pool that an object names; None for none of the kind.
    """

    def name_pool(holder: T) -> Iterable[PoolName]:
        pool = pool_of(holder)
        return () if pool is None else (PoolName(kind, pool),)

    return WatchedResource(holders, either(name_pool))


def names_of(kind: str, pools: Cache[T]) -> list[PoolName]:
    """Return the pools of a kind, by namespace and name."""
    return [PoolName(kind, key) for key in sorted(pool.metadata.key for pool in pools)]


def either(of: Callable[[T], Iterable[PoolName]]) -> Callable[[Change[T]], set[PoolName]]:
    """Return a function from a change to the pools of the object before it and after it.

    Args:
        of: returns the pools of an object.
    """

    def list_pools(change: Change[T]) -> set[PoolName]:
        return {name for obj in (change.old, change.new) if obj is not None for name in of(obj)}

    return list_pools
