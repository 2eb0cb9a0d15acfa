"""All pools as one HTML page that needs nothing else: no server, no network, no other file.

The objects go into the page as JSON; the page draws them. Names come from whoever may create
objects, so they reach the page as data only: `</` cannot end the script, and the page sets texts,
never markup.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from importlib.resources import files
from typing import Any

from reconcilers.api.ipallocation import IPAllocation
from reconcilers.cli.survey.extents import Picture
from reconcilers.cli.survey.objects import Objects
from reconcilers.cli.survey.palette import COLOURS
from reconcilers.cli.survey.usage import usage

_PLACE = "/*DATA*/null"


def page(pictures: Sequence[Picture], objects: Objects, now: datetime) -> str:
    """Return the page.

    Args:
        pictures: of the pools that it shows.
        objects: everything, for the pools' figures.
        now: as of when this is so.
    """
    template = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    of_pool = objects.by_pool()
    data = {
        "made": now.strftime("%Y-%m-%d %H:%M UTC"),
        "states": _states(),
        "pools": [_pool(one, of_pool[one.pool.metadata.key]) for one in pictures],
    }
    return template.replace(_PLACE, _safe(data))


def _safe(data: Any) -> str:
    """Return JSON that may stand in a script element, whatever the names in it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _states() -> dict[str, dict[str, str]]:
    return {
        state.value: {"fill": paint.fill, "dark": paint.dark, "words": paint.words}
        for state, paint in COLOURS.items()
    }


def _pool(one: Picture, allocations: Sequence[IPAllocation]) -> dict[str, Any]:
    figures = usage(one.pool, allocations)
    cidr = one.cidr
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
            {
                "at": extent.range.first - (cidr.first if cidr else 0),
                "size": extent.range.size,
                "start": extent.range.start_text,
                "end": extent.range.end_text,
                "state": extent.state.value,
                "note": extent.note,
                "holders": [
                    [str(who.allocation), str(who.tenant), who.type] for who in extent.holders
                ],
            }
            for extent in one.extents
        ],
    }
