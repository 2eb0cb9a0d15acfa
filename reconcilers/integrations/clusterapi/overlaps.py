"""Pools that may hand out the same addresses, whatever their kinds.

That is allowed, for sites behind NAT say, and reported on both. What counts is what two pools may
hand out, so pools that divide a subnet among them do not overlap.

Hundreds of sites may have the same addresses. So a pool that comes or goes concerns only those
whose condition reads otherwise for it: it names those near the pool, others only while these are
few, and counts none.
"""

from bisect import bisect_left, insort
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
"""Up to so many pools are named in a message."""


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
        self._first: dict[tuple[str, Key], list[Overlap]] = {}
        """By pool: the first of those that it overlaps with, two more than are named."""
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
        """Return the first of the pools that may hand out addresses of one pool.

        Args:
            kind: of the pool.
            pool: the pool, as the cache has it.

        Returns:
            As many as are named, and some more if there are others.
        """
        mine = self._offers.get((kind, pool.metadata.key))
        return [] if mine is None else list(self._first_of(mine))

    def concerned(self, kind: str, pool: Any, others: str) -> list[Key]:
        """Return the pools of a kind whose condition reads otherwise for one that came or went.

        Args:
            kind: of the pool that came or went.
            pool: that one, as it is or was.
            others: the kind of those that are returned.
        """
        changed = self._offer(kind, pool)
        if changed is None:
            return []
        found = []
        for overlap in overlapping(changed, self._of_kind(others)):
            mine = self._offers[others, overlap.key]
            back = Overlap(kind, changed.key, overlap.shared)
            first = self._first_of(mine)
            few = len(first) <= NAMED + 1
            if few or (is_near(back, mine.key) and _place(mine, first, back) <= NAMED):
                found.append(overlap.key)
        return found

    def _of_kind(self, kind: str) -> list[Offer]:
        return [offer for offer in self._offers.values() if offer.kind == kind]

    def _first_of(self, mine: Offer) -> list[Overlap]:
        identity = mine.kind, mine.key
        if identity not in self._first:
            self._first[identity] = overlapping(mine, self._offers.values())[: NAMED + 2]
        return self._first[identity]

    def _note(self, kind: str, change: Change[Any]) -> None:
        old, new = change.old, change.new
        if old is not None and new is not None and old.spec == new.spec:
            return
        if old is not None:
            self._forget(self._offers.pop((kind, old.metadata.key), None))
        offer = None if new is None else self._offer(kind, new)
        if offer is not None:
            self._add(offer)

    def _add(self, offer: Offer) -> None:
        self._offers[offer.kind, offer.key] = offer
        for identity, first in self._first.items():
            mine = self._offers[identity]
            for overlap in overlapping(mine, [offer]):
                insort(first, overlap, key=partial(_order, mine))
                del first[NAMED + 2 :]

    def _forget(self, offer: Offer | None) -> None:
        if offer is None:
            return
        self._first.pop((offer.kind, offer.key), None)
        for identity, first in list(self._first.items()):
            left = [one for one in first if (one.kind, one.key) != (offer.kind, offer.key)]
            if len(left) == len(first):
                continue
            if len(first) > NAMED + 1:
                del self._first[identity]  # there may be others, to be looked for
            else:
                self._first[identity] = left

    def _offer(self, kind: str, pool: Any) -> Offer | None:
        try:
            return Offer.from_space(kind, pool.metadata.key, self._read(kind, pool))
        except InvalidPool:
            return None  # it offers nothing, and says why itself


def overlapping(mine: Offer, others: Iterable[Offer]) -> list[Overlap]:
    """Return the pools that may hand out addresses of one pool, those of its namespace first.

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
    return sorted(found, key=partial(_order, mine))


def is_near(other: Overlap, pool: Key) -> bool:
    """Return whether another pool is of a pool's own namespace, or of the whole cluster."""
    return other.key.namespace in {"", pool.namespace}


def _order(mine: Offer, other: Overlap) -> tuple[bool, Overlap]:
    """Return what orders the pools that overlap with one: the near ones, then kind and name."""
    return not is_near(other, mine.key), other


def _place(mine: Offer, ordered: Sequence[Overlap], other: Overlap) -> int:
    """Return at which place another pool is, or would be, among those that overlap with one."""
    key = partial(_order, mine)
    return bisect_left(ordered, key(other), key=key)


def finding(pool: Key, found: Sequence[Overlap]) -> Finding:
    """Return the condition that says which pools may hand out the same addresses.

    Args:
        pool: whose condition it is.
        found: the others, the near ones first.
    """
    if not found:
        what = "no other NetworkPool or pool of Cluster API hands out these addresses"
        return Finding(OVERLAPPING, False, "NoOverlap", what)
    few = len(found) <= NAMED
    named = [one for one in found if few or is_near(one, pool)][:NAMED]
    said = ", ".join(f"{one.kind} {one.key} ({one.shared})" for one in named)
    if not few:
        said = f"{said} and others" if named else f"more than {NAMED} pools of other namespaces"
    what = f"addresses are also handed out by {said}"
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
