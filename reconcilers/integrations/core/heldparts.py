"""Addresses that one object of an integration holds of a pool."""

from dataclasses import dataclass
from typing import Literal

from allocator import AddressRange
from controller.meta import Key


@dataclass(frozen=True, slots=True)
class HeldPart:
    """Addresses that one object holds.

    Args:
        range: the addresses.
        state: whether they are written to the object, or promised only.
        key: of the object.
    """

    range: AddressRange
    state: Literal["held", "promised"]
    key: Key
