"""Integers in documents for programs, and the sizes of cells."""

from collections.abc import Mapping
from typing import Any

_EXACT = 1 << 53
"""Up to this number, a program that reads numbers of JSON as floats gets exact integers."""


def write_large_as_text(value: Any) -> Any:
    """Return a document in which integers above 2^53 are texts, at any depth."""
    if isinstance(value, Mapping):
        return {name: write_large_as_text(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [write_large_as_text(item) for item in value]
    return str(value) if type(value) is int and abs(value) > _EXACT else value


def find_power_of_two(size: int, most: int) -> int:
    """Return the smallest power of two that reaches `size` in at most `most` steps.

    Args:
        size: a number of addresses.
        most: the most cells of a picture; the result is the number of addresses in one cell.
    """
    return 1 << max(0, -(-size // most) - 1).bit_length()
