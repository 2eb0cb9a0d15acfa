"""Looks of tenants in pictures: a look is a colour and a pattern.

A tenant's look follows from its name, so it is the same in each picture of a cluster, and on the
next day. Two names may lead to the same look. Then the later name takes the next unused look, so
only colliding tenants depend on the other tenants.

People who do not see red, green or blue can tell the colours of one pattern apart (the test of
this module computes what they see); without colours, the patterns differ. With more tenants than
looks, looks are used twice. For that reason, too, names are written in or beside the ranges.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256

FILLS = ("#1f1fd6", "#e85e81", "#6b0f6b", "#8282ed", "#104110", "#b38c19")
"""Colours on light ground."""
DARK_FILLS = ("#8f3be3", "#f2a6f2", "#c4317a", "#5ee8a3", "#398321", "#b9e33b")
"""The colours on dark ground, in the order of FILLS."""
TILE = 8
"""The width and the height of a pattern's tile."""
PATTERNS: Mapping[str, str] = {
    "plain": "",
    "rising": "M-2,2l4,-4M0,8l8,-8M6,10l4,-4",
    "falling": "M-2,6l4,4M0,0l8,8M6,-2l4,4",
    "upright": "M4,0v8",
    "level": "M0,4h8",
    "checked": "M0,4h8M4,0v8",
    "dotted": "M2,1v2M6,5v2",
}
"""The SVG path that is drawn over the colour in each tile, by the name of the pattern."""
_LOOK_COUNT = len(FILLS) * len(PATTERNS)


@dataclass(frozen=True, slots=True)
class ExtentLook:
    """A colour, as its index in FILLS and DARK_FILLS, and the name of a pattern."""

    colour: int
    pattern: str

    @property
    def name(self) -> str:
        """The identifier of the look in a document."""
        return f"{self.pattern}-{self.colour}"


def find_look(number: int) -> ExtentLook:
    """Return the look with a number; successive numbers differ in colour."""
    colour, pattern = number % len(FILLS), number // len(FILLS) % len(PATTERNS)
    return ExtentLook(colour, tuple(PATTERNS)[pattern])


def assign_looks(
    tenants: Iterable[str], earlier_numbers: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Return the number of each tenant's look, in the order of names.

    Args:
        tenants: the names of tenants, in any order, with repetitions.
        earlier_numbers: the numbers in an earlier picture, which stay; None for none.
    """
    tenant_names = set(tenants)
    names = sorted(tenant_names)
    numbers = {
        name: number for name, number in (earlier_numbers or {}).items() if name in tenant_names
    }
    used = set(numbers.values())
    for name in names:
        if name in numbers:
            continue
        if len(used) >= _LOOK_COUNT:
            used = set()  # all looks are in use, so each is used once more
        # The first choice follows from the name alone, so it is the same in each picture.
        number = int.from_bytes(sha256(name.encode()).digest()[:4], "big") % _LOOK_COUNT
        while number in used:
            number = (number + 1) % _LOOK_COUNT
        numbers[name] = number
        used.add(number)
    # `numbers` may begin with the order of `earlier_numbers`.
    return {name: numbers[name] for name in names}
