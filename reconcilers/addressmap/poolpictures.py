"""Pools of all kinds, each with everything that holds addresses of it or waits for some.

What claims of Cluster API hold of a NetworkPool counts like what IPAllocations hold of it. So a
pool has one picture and one set of figures, whatever asks for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from controller.meta import Key
from reconcilers.addressmap.extents import Picture, Usage, drawn, picture, usage
from reconcilers.addressmap.objects import Objects
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.integrations.core.scopedlists import NotRead, limits_in
from reconcilers.integrations.core.views import (
    Drawing,
    PoolView,
    Wanted,
    every_pool,
)
from reconcilers.integrations.poolkinds import NETWORK_POOL_HOLDERS
from reconcilers.networkpool.view import may_concern_pool
from reconcilers.promises.unreadable import UnreadableObject, is_terminating
from reconcilers.spaces.offers import PoolName


@dataclass(frozen=True, eq=False)
class PoolPicture:
    """A pool of any kind with all its holders; of a pool of two families, one block.

    Args:
        name: its kind, namespace and name.
        pool: what it may hand out, in the form of a NetworkPool.
        requests: what holds addresses of it or waits for some, in the form of IPAllocations.
        drawing: the pool as its platform shows it; None for a NetworkPool.
        not_read: kinds that may hold addresses of it and may not be read, and objects that cannot
            be decoded: what is free of the pool is not known then.
    """

    name: PoolName
    pool: NetworkPool
    requests: Sequence[IPAllocation]
    drawing: Drawing | None = None
    not_read: Sequence[NotRead | UnreadableObject] = ()

    @property
    def view(self) -> PoolView | None:
        """The pool in numbers of its platform; None for a NetworkPool."""
        return self.drawing.view if self.drawing else None

    @property
    def full_kind(self) -> str:
        """The kind and its group, in small letters, as `kubectl get -o name` prints them."""
        view = self.view
        return view.full_kind if view else f"{NETWORK_POOL.kind.lower()}.{names.GROUP}"

    @cached_property
    def picture(self) -> Picture:
        """The pool's space."""
        if self.drawing:
            return drawn(self.drawing)
        return picture(self.pool, self.requests, all_read=not self.not_read)

    @cached_property
    def usage(self) -> Usage:
        """The pool's figures."""
        return usage(self.pool, self.requests, self.not_read)

    def request(self, key: Key) -> IPAllocation:
        """Return what holds addresses of the pool under a key, in the form of an IPAllocation."""
        return self._requests[key]

    @cached_property
    def _requests(self) -> dict[Key, IPAllocation]:
        # Of several ranges of one claim, the first stands for it.
        return {request.metadata.key: request for request in reversed(self.requests)}


def pool_pictures(objects: Objects, wanted: Wanted = every_pool) -> list[PoolPicture]:
    """Return pools: NetworkPools by namespace and name, then those of other platforms.

    Neither space nor figures are computed before they are asked for.

    Args:
        objects: all of a cluster's.
        wanted: which pools.
    """
    of_other_kinds = [
        PoolPicture(
            drawing.view.pool,
            drawing.pool,
            drawing.allocations,
            drawing,
            drawing.view.unreadable,
        )
        for drawing in objects.integrations.drawings
        if wanted(drawing.view.pool)
    ]
    return [*network_pool_pictures(objects, wanted), *of_other_kinds]


def network_pool_pictures(objects: Objects, wanted: Wanted = every_pool) -> list[PoolPicture]:
    """Return NetworkPools by namespace and name, each block of one with two families.

    Args:
        objects: all of a cluster's.
        wanted: which pools.
    """
    requests: dict[Key, list[IPAllocation]] = {}
    for allocation in objects.allocations.values():
        requests.setdefault(allocation.pool_key, []).append(allocation)
    for key, claims in objects.integrations.requests.items():
        requests.setdefault(key, []).extend(claims)
    pool_names = [PoolName(NETWORK_POOL.kind, key) for key in sorted(objects.pools)]
    return [
        PoolPicture(
            name,
            block,
            requests.get(name.key, []),
            not_read=not_read_of(objects, name.key),
        )
        for name in pool_names
        if wanted(name)
        for block in objects.pools[name.key].blocks
    ]


def not_read_of(objects: Objects, pool: Key) -> list[NotRead | UnreadableObject]:
    """Return what else may hold addresses of a NetworkPool, and may not or cannot be read."""
    return [
        *limits_in(pool.namespace, NETWORK_POOL_HOLDERS, objects.all_not_read),
        *_unreadable_allocations(objects, pool),
        *objects.integrations.unreadable.get(pool, ()),
    ]


def _unreadable_allocations(objects: Objects, pool: Key) -> list[UnreadableObject]:
    """Return the IPAllocations that cannot be decoded and may be a NetworkPool's."""
    return [
        UnreadableObject(kind, key, is_terminating(failure))
        for (kind, key), failure in objects.unreadable.items()
        if kind == IP_ALLOCATION.kind and may_concern_pool(key, failure, pool)
    ]
