"""Integers in documents for programs, and the sizes of cells."""

from collections.abc import Mapping
from typing import Any

_EXACT = 1 << 53
"""Up to this number, a program that reads numbers of JSON as floats gets exact integers."""


def convert_large_integers(value: Any) -> Any:
    """Return a document in which integers above 2^53 are texts, at any depth."""
    if isinstance(value, Mapping):
        return {name: convert_large_integers(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [convert_large_integers(item) for item in value]
    return str(value) if type(value) is int and abs(value) > _EXACT else value


def choose_cell_size(size: int, max_cells: int) -> int:
    """Return how many addresses one cell of a picture shows: the smallest power of two that fits.

    Args:
        size: the number of addresses in the picture.
        max_cells: the most cells that the picture may have.
    """
    addresses_per_cell = -(-size // max_cells)  # rounded up
    return 1 << max(0, addresses_per_cell - 1).bit_length()
