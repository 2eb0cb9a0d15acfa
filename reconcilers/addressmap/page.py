"""All pools as one HTML page, and what it is about as JSON.

The page is one file and needs no other: its policy lets nothing run but the script that is in it,
by its hash. The objects go into it as JSON in an element of their own. Names come from users who
may create objects, so they reach the page as data only: `<` is escaped, control characters are
shown as escapes, and the script sets texts, never markup. A server gives the same page without
objects, and the page asks it for them.
"""

import base64
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from allocator import AddressRange
from controller.plaintext import escape_values
from reconcilers.addressmap.integers import exact
from reconcilers.addressmap.looks import DARK_FILLS, FILLS, PATTERNS, TILE, look_at
from reconcilers.addressmap.objects import Objects
from reconcilers.addressmap.poolpictures import pool_pictures
from reconcilers.addressmap.styles import STYLES
from reconcilers.addressmap.tenants import Holding, holdings, numbered
from reconcilers.api import names
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.pictures.extents import BY_TENANT, Extent
from reconcilers.pictures.poolpicture import PoolFamily, PoolPicture, PoolRequest
from reconcilers.spaces.offers import PoolName

SCRIPTS = ("basics.js", "looks.js", "tables.js", "maps.js", "input.js", "main.js", "live.js")
"""In the order in which they run, as one script."""
_WAITING_LISTED = 200
"""Of a pool; more are counted only."""

Document = dict[str, Any]


def _web(name: str) -> str:
    return files(__package__).joinpath("web", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = base64.b64encode(sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


@cache
def template() -> tuple[str, str]:
    """Return the page without its data, and its Content-Security-Policy."""
    script = '"use strict";\n' + "".join(_web(name) for name in SCRIPTS)
    style = _web("page.css")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)};"
        " connect-src 'self'; base-uri 'none'; form-action 'none'"
    )
    text = _web("page.html").replace("/*POLICY*/", policy)
    return text.replace("/*STYLE*/", style).replace("/*SCRIPT*/", script), policy


def page(data: Document | None) -> str:
    """Return the HTML page.

    Args:
        data: what `document` returned; None for the page of a server, which asks for it.
    """
    return template()[0].replace("/*DATA*/null", page_data(data).replace("<", "\\u003c"))


def page_data(value: Any) -> str:
    """Return what the page shows as JSON in one line; texts have no control characters."""
    return json.dumps(exact(escape_values(value)), ensure_ascii=False, separators=(",", ":"))


def document(
    objects: Objects,
    now: datetime,
    pools: Iterable[Document],
    numbers: Mapping[str, int] | None = None,
) -> Document:
    """Return what the page is about, as of `now`.

    Args:
        objects: all of a cluster's.
        now: the time.
        pools: those to be shown, from `pool_documents`.
        numbers: of the tenants' looks, from `numbered`; it is asked if there are none.
    """
    shown = list(pools)
    found = {name for pool in shown for name in tenants_in(pool)}
    tenants = [one for one in holdings(objects) if one.tenant or str(one.key) in found]
    numbers = numbered(objects) if numbers is None else numbers
    named = sorted(found | {str(one.key) for one in tenants})
    return {
        "made": now.strftime("%Y-%m-%d %H:%M:%S UTC"),
        "states": {
            state.value: {
                "fill": style.fill,
                "dark": style.dark,
                "words": style.words,
                "byTenant": state in BY_TENANT,
            }
            for state, style in STYLES.items()
        },
        "fills": FILLS,
        "darkFills": DARK_FILLS,
        "patterns": PATTERNS,
        "tile": TILE,
        "looks": {name: _look(numbers[name]) for name in named},
        "tenants": [_tenant_document(tenant) for tenant in tenants],
        "pools": shown,
    }


def tenants_in(pool: Document) -> Iterator[str]:
    """Yield the names of the tenants that a pool's document shows, some of them repeatedly."""
    for extent in pool["extents"]:
        for holder in extent["holders"]:
            yield holder["tenant"]
    for request in pool["requests"]:
        yield request["tenant"]


def _look(number: int) -> Document:
    look = look_at(number)
    return {"colour": look.colour, "pattern": look.pattern}


def _tenant_document(tenant: Holding) -> Document:
    """Return what is to be shown of a tenant; `ready` and `reason` are of its NetworkReady."""
    status, reason = tenant.network
    return {
        "name": str(tenant.key),
        "phase": tenant.phase,
        "nodes": tenant.sizes(names.TYPE_NODES),
        "loadbalancer": tenant.sizes(names.TYPE_LOADBALANCER),
        "grown": tenant.grown,
        "waiting": tenant.waiting,
        "notRead": [str(limit) for limit in tenant.not_read],
        "ready": status,
        "reason": reason,
    }


def documents_of(objects: Objects, names: Collection[PoolName]) -> dict[PoolName, list[Document]]:
    """Return what is to be shown of some pools; one of two families is two documents."""
    documents: dict[PoolName, list[Document]] = {name: [] for name in names}
    for pool in pool_pictures(objects, documents.__contains__):
        documents[pool.name] += pool_documents(pool)
    return documents


def pool_documents(pool: PoolPicture) -> list[Document]:
    """Return what is to be shown of each family of a pool."""
    return [_family_document(pool, family) for family in pool.families]


def _family_document(pool: PoolPicture, family: PoolFamily) -> Document:
    cidr, capacity = family.cidr, family.figures.capacity
    is_ours = pool.name.kind == NETWORK_POOL.kind
    return {
        "name": str(pool.name.key) if is_ours else pool.title,
        "cidr": family.label,
        "family": cidr.family if cidr else 0,
        "fault": family.fault,
        "first": cidr.start_text if cidr else "",
        "size": cidr.size if cidr else 0,
        "ready": pool.ready,
        "reason": pool.reason,
        "percent": capacity.utilization_percent,
        "fragmentation": capacity.fragmentation_percent,
        "largest": capacity.largest_free,
        "available": capacity.available,
        "allocated": capacity.allocated,
        "total": capacity.total,
        "waiting": len(pool.waiting),
        "notRead": list(pool.not_read),
        "requests": [_request_document(request) for request in pool.waiting[:_WAITING_LISTED]],
        "extents": [_extent_document(extent, cidr) for extent in family.extents],
    }


def _extent_document(extent: Extent, cidr: AddressRange | None) -> Document:
    """Return what is to be shown of an extent.

    `at` counts from the CIDR's first address: of IPv4, numbers that a browser has exactly.
    """
    return {
        "at": extent.range.first - (cidr.first if cidr else 0),
        "start": extent.range.start_text,
        "end": extent.range.end_text,
        "size": extent.range.size,
        "state": extent.state.value,
        "note": extent.note,
        "holders": [
            {
                "kind": holder.kind,
                "allocation": holder.text,
                "tenant": holder.tenant,
                "type": holder.purpose,
            }
            for holder in extent.holders
        ],
    }


def _request_document(request: PoolRequest) -> Document:
    """Return what is to be shown of a request that waits."""
    since = request.since
    return {
        "kind": request.kind,
        "allocation": request.text,
        "tenant": request.tenant,
        "type": request.purpose,
        "since": since.strftime("%Y-%m-%d %H:%M UTC") if since is not None else "",
        "why": request.reason,
    }
