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


_define("distinct", "list(A).() list(A)")(
    lambda items: [item for at, item in enumerate(items) if not _has(items[:at], item)]
)
_define("reverse", "list(A).() list(A)")(lambda items: items[::-1])
_define("lists.range", "(int) list(int)")(lambda count: list(range(count)))


@_define("sort", *(f"list({kind}).() list({kind})" for kind in _ORDERED))
def _sort(items: list[Any]) -> list[Any]:
    for item in items:
        comparable(items[0], item)
    return sorted(items)


@_define("slice", "list(A).(int, int) list(A)")
def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if end > len(items):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


@_define("flatten", "list(list(A)).() list(A)", "list(dyn).(int) list(dyn)")
def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    flat: list[Any] = []
    for item in items:
        if isinstance(item, list) and depth > 0:
            flat += _flatten(item, depth - 1)
        else:
            flat.append(item)
    return flat


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
