"""Equality of JSON values as the server sees it: 1, 1.0 and true are three different values."""

from __future__ import annotations

from typing import Any


def same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal in value and in type, at every depth."""
    if left is right:
        return True
    # Python's own comparison runs in C and settles most cases; it takes 1, 1.0 and True for equal.
    return bool(left == right) and _same_types(left, right)


def _same_types(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return all(_same_types(item, right[name]) for name, item in left.items())
    if isinstance(left, list):
        return all(map(_same_types, left, right))
    return True
