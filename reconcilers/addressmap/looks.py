"""How tenants are told apart in pictures: each has a colour and a pattern, which it keeps.

A tenant's look follows from its name, so it is the same in each picture of a cluster, and on the
next day. Two names may lead to one look; then the later one takes the next that is not in use, so
only tenants that collide depend on who else is there.

People who do not see red, green or blue tell the colours of one pattern apart (the test of this
module computes what they see), and on paper without colours the patterns differ. With more tenants
than there are looks, looks are used again: names are in or beside the ranges for that reason too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256

FILLS = ("#1f1fd6", "#e85e81", "#6b0f6b", "#8282ed", "#104110", "#b38c19")
"""Colours on light ground."""
DARK_FILLS = ("#8f3be3", "#f2a6f2", "#c4317a", "#5ee8a3", "#398321", "#b9e33b")
"""The same places on dark ground."""
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
"""By name, the path of SVG that is drawn over the colour in each tile."""
_COUNT = len(FILLS) * len(PATTERNS)


@dataclass(frozen=True, slots=True)
class ExtentLook:
    """A colour, as its place in FILLS and DARK_FILLS, and the name of a pattern."""

    colour: int
    pattern: str

    @property
    def name(self) -> str:
        """A word for identifiers in documents."""
        return f"{self.pattern}-{self.colour}"


def look_at(place: int) -> ExtentLook:
    """Return the look of a number: neighbours differ in colour."""
    colour, pattern = place % len(FILLS), place // len(FILLS) % len(PATTERNS)
    return ExtentLook(colour, tuple(PATTERNS)[pattern])


def looks(tenants: Iterable[str], known: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return the number of each tenant's look.

    Args:
        tenants: their names, in any order.
        known: of an earlier picture; what is in it stays.
    """
    tenant_names = set(tenants)
    names = sorted(tenant_names)
    places = {name: place for name, place in (known or {}).items() if name in tenant_names}
    used = set(places.values())
    for name in names:
        if name in places:
            continue
        if len(used) >= _COUNT:
            used = set()
        place = int.from_bytes(sha256(name.encode()).digest()[:4], "big") % _COUNT
        while place in used:
            place = (place + 1) % _COUNT
        places[name] = place
        used.add(place)
    return {name: places[name] for name in names}
