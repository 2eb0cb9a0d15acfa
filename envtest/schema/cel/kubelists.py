"""Functions that Kubernetes adds for lists: order, sums, positions, and sets."""

from __future__ import annotations

import datetime
import itertools
from typing import Any, Final

from envtest.schema.cel.functions import CelError, Library
from envtest.schema.cel.standard import checked_int, comparable, equal

LISTS: Final = Library()
_define = LISTS.define
_ORDERED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_SUMMED = ("int", "uint", "double", "duration")


@_define("isSorted", *(f"list({kind}).() bool" for kind in _ORDERED))
def _is_sorted(items: list[Any]) -> bool:
    for before, after in itertools.pairwise(items):
        comparable(before, after)
        if after < before:
            return False
    return True


@_define("sum", *(f"list({kind}).() {kind}" for kind in _SUMMED))
def _sum(items: list[Any]) -> Any:
    if items and isinstance(items[0], datetime.timedelta):
        return sum(items, datetime.timedelta())
    total = sum(items)
    return checked_int(total) if isinstance(total, int) else total


@_define("min", *(f"list({kind}).() {kind}" for kind in _ORDERED))
def _min(items: list[Any]) -> Any:
    _ordered("min", items)
    return min(items)


@_define("max", *(f"list({kind}).() {kind}" for kind in _ORDERED))
def _max(items: list[Any]) -> Any:
    _ordered("max", items)
    return max(items)


def _ordered(name: str, items: list[Any]) -> None:
    if not items:
        raise CelError(f"{name} called on empty list")
    for item in items:
        comparable(items[0], item)


@_define("indexOf", "list(A).(A) int")
def _index_of(items: list[Any], wanted: Any) -> int:
    return next((index for index, item in enumerate(items) if equal(item, wanted)), -1)


@_define("lastIndexOf", "list(A).(A) int")
def _last_index_of(items: list[Any], wanted: Any) -> int:
    last = len(items) - 1
    return next((last - i for i, item in enumerate(reversed(items)) if equal(item, wanted)), -1)


def _has(items: list[Any], wanted: Any) -> bool:
    return any(equal(item, wanted) for item in items)


@_define("sets.contains", "(list(A), list(A)) bool")
def _contains(items: list[Any], wanted: list[Any]) -> bool:
    return all(_has(items, item) for item in wanted)


@_define("sets.equivalent", "(list(A), list(A)) bool")
def _equivalent(left: list[Any], right: list[Any]) -> bool:
    return _contains(left, right) and _contains(right, left)


@_define("sets.intersects", "(list(A), list(A)) bool")
def _intersects(left: list[Any], right: list[Any]) -> bool:
    return any(_has(right, item) for item in left)
