"""All pools as one HTML page.

The page needs nothing else: no server, no network, no other file. The objects go into it as
JSON, and names come from whoever may create objects, so they reach the page as data only: `</`
cannot end the script, and the page sets texts, never markup.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from typing import Any

from reconcilers.addressmap.extents import Picture, Usage, usages
from reconcilers.addressmap.objects import Objects
from reconcilers.addressmap.styles import STYLES

_PLACE_OF_DATA = "/*DATA*/null"


def page(pictures: Sequence[Picture], objects: Objects, now: datetime) -> str:
    """Return the HTML page with these pictures, and the pools' figures as of `now`."""
    template = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    figures = {(one.pool.metadata.key, one.pool.spec.cidr): one for one in usages(objects)}
    data = {
        "made": now.strftime("%Y-%m-%d %H:%M UTC"),
        "states": {
            state.value: {"fill": style.fill, "dark": style.dark, "words": style.words}
            for state, style in STYLES.items()
        },
        "pools": [_pool_data(one, figures) for one in pictures],
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for unsafe in ("<", "\u2028", "\u2029"):
        text = text.replace(unsafe, f"\\u{ord(unsafe):04x}")
    return template.replace(_PLACE_OF_DATA, text)


def _pool_data(one: Picture, known: Mapping[Any, Usage]) -> dict[str, Any]:
    cidr, figures = one.cidr, known[one.pool.metadata.key, one.pool.spec.cidr]
    return {
        "name": str(one.pool.metadata.key),
        "cidr": one.pool.spec.cidr,
        "fault": one.fault,
        "first": cidr.start_text if cidr else "",
        "size": cidr.size if cidr else 0,
        "ready": figures.ready,
        "reason": figures.reason,
        "percent": figures.percent,
        "fragmentation": figures.capacity.fragmentation_percent,
        "largest": figures.capacity.largest_free,
        "available": figures.capacity.available,
        "total": figures.capacity.total,
        "waiting": figures.waiting,
        # From the CIDR's first address: numbers of a browser are exact up to 2^53.
        "extents": [
            extent.document() | {"at": extent.range.first - (cidr.first if cidr else 0)}
            for extent in one.extents
        ],
    }
