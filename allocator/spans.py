"""Sets of addresses as (first, last) pairs, ascending and without overlap.

The two operations that a pool is made of, each one sweep over sorted input: a pool is built anew
from all its allocations on every pass, so nothing here may cost more than reading them.
"""

from collections.abc import Iterable, Iterator

Span = tuple[int, int]


def union(ascending: Iterable[Span]) -> list[Span]:
    """Merge spans that overlap or touch.

    Args:
        ascending: spans sorted by their first address; they may overlap.
    """
    merged: list[Span] = []
    reach = -2  # touches nothing, not even address 0
    for first, last in ascending:
        if first > reach + 1:
            merged.append((first, last))
            reach = last
        elif last > reach:
            merged[-1] = (merged[-1][0], last)
            reach = last
    return merged


def minus(spans: Iterable[Span], holes: Iterable[Span]) -> Iterator[Span]:
    """Yield what is left of `spans` without `holes`; both ascending and without overlap."""
    remaining = iter(holes)
    hole = next(remaining, None)
    for first, last in spans:
        start = first
        while hole is not None and hole[0] <= last:
            if hole[0] > start:
                yield start, hole[0] - 1
            start = max(start, hole[1] + 1)
            if hole[1] > last:
                break  # this hole reaches into the next span
            hole = next(remaining, None)
        if start <= last:
            yield start, last
