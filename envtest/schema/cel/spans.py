"""Ranges of sizes and costs: unsigned 64-bit numbers that stop at the largest one."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

LARGEST: Final = 2**64 - 1


class Span(NamedTuple):
    """At least `low`, at most `high`."""

    low: int
    high: int

    def plus(self, other: Span) -> Span:
        """Both, one after the other."""
        return Span(_capped(self.low + other.low), _capped(self.high + other.high))

    def times(self, other: Span) -> Span:
        """As many of the other."""
        return Span(_capped(self.low * other.low), _capped(self.high * other.high))

    def scaled(self, factor: float) -> Span:
        """A multiple, rounded up."""
        return Span(_scaled(self.low, factor), _scaled(self.high, factor))

    def union(self, other: Span) -> Span:
        """The least range that has both in it."""
        return Span(min(self.low, other.low), max(self.high, other.high))


NOTHING: Final = Span(0, 0)
ONE: Final = Span(1, 1)
UNKNOWN: Final = Span(0, LARGEST)


def exactly(number: int) -> Span:
    """A range of one number."""
    return Span(number, number)


def capped_product(left: int, right: int) -> int:
    """A product that stops at the largest number."""
    return _capped(left * right)


def _capped(number: int) -> int:
    return min(number, LARGEST)


def _scaled(number: int, factor: float) -> int:
    product = math.ceil(float(number) * factor)
    return LARGEST if product >= 2**64 else product
