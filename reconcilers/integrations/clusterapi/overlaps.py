"""Pools that may hand out the same addresses, whatever their kinds.

That is allowed, for sites behind NAT say, and reported on both. What counts is what two pools may
hand out, so pools that divide a subnet among them do not overlap.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from allocator import Family, InvalidPool
from allocator.addresses import Span
from controller.cache import Cache, Change, Subscriber
from controller.meta import Key
from reconcilers.conditions import Finding
from reconcilers.integrations.clusterapi.addresses import PoolSpace

OVERLAPPING = "Overlapping"
NAMED = 5
"""Up to so many pools are named in a message; the others are counted."""


@dataclass(frozen=True, slots=True, order=True)
class Overlap:
    """Another pool, and how many addresses both may hand out."""

    kind: str
    key: Key
    shared: int


@dataclass(frozen=True, slots=True)
class Offer:
    """What a pool may hand out, as addresses.

    Args:
        kind: of the pool.
        key: its namespace and name.
        family: 4 or 6.
        spans: first and last addresses, ascending and disjoint.
    """

    kind: str
    key: Key
    family: Family
    spans: tuple[Span, ...]

    @classmethod
    def from_space(cls, kind: str, key: Key, space: PoolSpace) -> "Offer":
        """Return what a pool of this kind offers.

        Args:
            kind: of the pool.
            key: its namespace and name.
            space: what it may hand out.
        """
        shift = space.shift
        spans = ((one.first << shift, (one.last + 1 << shift) - 1) for one in space.layout.blocks)
        return cls(kind, key, space.family, tuple(spans))


class Offers:
    """What all pools offer, kept from change to change; to close when it is not needed any more.

    Args:
        pools: the caches of pools by kind.
        read: returns what a pool of a kind may hand out; raises InvalidPool if it cannot be read.
    """

    def __init__(
        self, pools: Mapping[str, Cache[Any]], read: Callable[[str, Any], PoolSpace]
    ) -> None:
        self._read = read
        self._offers: dict[tuple[str, Key], Offer] = {}
        self._sharing: dict[Offer, list[Overlap]] = {}
        self._subscribed: list[tuple[Cache[Any], Subscriber[Any]]] = []
        for kind, cache in pools.items():
            subscriber = partial(self._note, kind)
            for pool in cache:
                subscriber(Change(None, pool))
            cache.subscribe(subscriber)
            self._subscribed.append((cache, subscriber))

    def close(self) -> None:
        """Listen to the caches no longer."""
        for cache, subscriber in self._subscribed:
            cache.unsubscribe(subscriber)

    def sharing(self, kind: str, pool: Any) -> list[Overlap]:
        """Return the pools that may hand out addresses of one pool.

        Args:
            kind: of the pool.
            pool: the pool, as it is or was.
        """
        mine = self._offer(kind, pool)
        if mine is None:
            return []
        if mine not in self._sharing:
            self._sharing[mine] = overlapping(mine, self._offers.values())
        return self._sharing[mine]

    def _note(self, kind: str, change: Change[Any]) -> None:
        old, new = change.old, change.new
        if old is not None and new is not None and old.spec == new.spec:
            return
        self._sharing.clear()
        if old is not None:
            self._offers.pop((kind, old.metadata.key), None)
        offer = None if new is None else self._offer(kind, new)
        if offer is not None:
            self._offers[kind, offer.key] = offer

    def _offer(self, kind: str, pool: Any) -> Offer | None:
        try:
            return Offer.from_space(kind, pool.metadata.key, self._read(kind, pool))
        except InvalidPool:
            return None  # it offers nothing, and says why itself


def overlapping(mine: Offer, others: Iterable[Offer]) -> list[Overlap]:
    """Return the pools that may hand out addresses of one pool, in order of kind and name.

    Args:
        mine: the pool.
        others: all pools, itself possibly among them.
    """
    found = []
    for other in others:
        if (other.kind, other.key) != (mine.kind, mine.key) and other.family == mine.family:
            shared = _shared(mine.spans, other.spans)
            if shared:
                found.append(Overlap(other.kind, other.key, shared))
    return sorted(found)


def finding(found: Sequence[Overlap]) -> Finding:
    """Return the condition that says which pools may hand out the same addresses."""
    if not found:
        return Finding(OVERLAPPING, False, "NoOverlap", "no other pool hands out these addresses")
    named = ", ".join(f"{one.kind} {one.key} ({one.shared})" for one in found[:NAMED])
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    what = f"addresses are also handed out by {named}{more}"
    return Finding(OVERLAPPING, True, "PoolsOverlap", what)


def _shared(one: Sequence[Span], other: Sequence[Span]) -> int:
    """Return how many numbers lie in both; each ascending and disjoint."""
    shared = at = 0
    if not one or not other or one[-1][1] < other[0][0] or other[-1][1] < one[0][0]:
        return 0  # so it is with almost every two pools
    for first, last in one:
        while at < len(other) and other[at][1] < first:
            at += 1
        ahead = at
        while ahead < len(other) and other[ahead][0] <= last:
            shared += min(last, other[ahead][1]) - max(first, other[ahead][0]) + 1
            ahead += 1
    return shared
