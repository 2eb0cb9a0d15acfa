"""Pools that may hand out the same addresses: allowed, for sites behind NAT say, but said on both.

What counts is what two pools may hand out. Pools that share a CIDR and divide it among them, by
their ranges or by reservations, do not overlap.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from allocator import InvalidPool, Layout
from controller.meta import Key
from reconcilers import ranges
from reconcilers.api.networkpool import NetworkPool, NetworkPoolSpec


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another pool, and how many addresses both may hand out."""

    key: Key
    shared: int


def neighbours(
    pool: NetworkPool, others: Iterable[NetworkPool], max_addresses: int
) -> tuple[Neighbour, ...]:
    """Return the pools among `others` that may hand out addresses of `pool`, sorted by key."""
    mine = _layout(pool.spec, max_addresses)
    if mine is None:
        return ()
    found = []
    for other in others:
        if other.metadata.key == pool.metadata.key:
            continue
        theirs = _layout(other.spec, max_addresses)
        shared = _shared(mine, theirs) if theirs is not None else 0
        if shared:
            found.append(Neighbour(other.metadata.key, shared))
    return tuple(sorted(found, key=lambda one: one.key))


@lru_cache(maxsize=4_096)
def _layout(spec: NetworkPoolSpec, max_addresses: int) -> Layout | None:
    """Return the geometry of a spec; None of one that contradicts itself and so offers nothing."""
    try:
        return ranges.layout(spec, max_addresses)
    except InvalidPool:
        return None


def _shared(one: Layout, other: Layout) -> int:
    if one.family != other.family:
        return 0
    return sum(
        last - first + 1
        for block in one.blocks
        for first, last in other.clip((block.first, block.last))
    )
