"""Integers in documents for programs, and the sizes of cells."""

from collections.abc import Mapping
from typing import Any

_EXACT = 1 << 53
"""Up to here, a program that reads each number of JSON as a float has it exactly."""


def exact(value: Any) -> Any:
    """Return a document with integers above 2^53 as text."""
    if isinstance(value, Mapping):
        return {name: exact(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [exact(item) for item in value]
    return str(value) if type(value) is int and abs(value) > _EXACT else value


def power_of_two(size: int, most: int) -> int:
    """Return the least power of two of which `most` are enough for `size`."""
    return 1 << max(0, -(-size // most) - 1).bit_length()
