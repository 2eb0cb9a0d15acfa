"""Pools that may hand out the same addresses, whatever their kinds. Pure functions.

That is allowed, for sites behind NAT say, and reported on both. What counts is what two pools may
hand out, so pools that divide a subnet among them do not overlap.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from allocator import Family
from allocator.addresses import Span
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
    for first, last in one:
        while at < len(other) and other[at][1] < first:
            at += 1
        ahead = at
        while ahead < len(other) and other[ahead][0] <= last:
            shared += min(last, other[ahead][1]) - max(first, other[ahead][0]) + 1
            ahead += 1
    return shared
