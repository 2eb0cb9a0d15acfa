"""The data of the page as plain JSON: the one module of the page that knows the models.

A *state* is all data of the page at one time: a mapping of JSON values whose integers above 2^53
are texts and whose texts have no control characters. A *document* is the part of a state about one
object. `reconcilers/addressmap/pagemessages.py` says which parts are keyed.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from allocator import AddressRange
from controller.plaintext import escape_text, escape_values
from reconcilers.addressmap.integers import convert_large_integers
from reconcilers.addressmap.looks import DARK_FILLS, FILLS, PATTERNS, TILE
from reconcilers.addressmap.objects import Objects
from reconcilers.addressmap.poolpictures import draw_pools
from reconcilers.addressmap.styles import STYLES
from reconcilers.addressmap.tenants import Holding, assign_look_numbers, list_holdings
from reconcilers.api import names
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.pictures.extents import BY_TENANT, Extent
from reconcilers.pictures.poolpicture import PoolFamily, PoolPicture, PoolRequest
from reconcilers.spaces.offers import PoolName

WAITING_LISTED = 5_000
"""The most requests of one pool that the page lists; further requests are only counted."""

Document = dict[str, Any]

STYLE: Document = {
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
    "patterns": [*PATTERNS.items()],
    "tile": TILE,
}
"""Colours and patterns, the same for every cluster."""


def build_page_state(
    objects: Objects,
    now: datetime,
    pools: Iterable[Document],
    numbers: Mapping[str, int] | None = None,
    tenants: "TenantDocuments | None" = None,
) -> Document:
    """Return the state of the page as of `now`.

    Args:
        objects: all objects of a cluster.
        now: the time.
        pools: the pools to show, from `build_pool_documents`.
        numbers: the number of each tenant's look, from `assign_look_numbers`; None to compute it.
        tenants: the tenants' documents of an earlier state, which are reused; None for none.
    """
    by_key = {build_pool_key(pool): pool for pool in pools}
    tenants_in_pools = {name for pool in by_key.values() for name in list_tenants(pool)}
    # A tenant without a cluster is shown only if it holds addresses of a pool on the page.
    by_id = (tenants or TenantDocuments()).update(
        holding
        for holding in list_holdings(objects)
        if holding.tenant or escape_text(str(holding.key)) in tenants_in_pools
    )
    numbers = assign_look_numbers(objects) if numbers is None else numbers
    looks = {escape_text(name): number for name, number in numbers.items()}
    tenant_names = tenants_in_pools | {tenant["name"] for tenant in by_id.values()}
    return {
        **build_time_and_failures(now, ()),
        "events": [],
        "style": STYLE,
        "looks": {name: looks[name] for name in sorted(tenant_names)},
        "tenants": by_id,
        "pools": by_key,
        "order": list(by_key),
    }


def build_time_and_failures(now: datetime, failures: Iterable[str]) -> Document:
    """Return the parts of a state that change while no object changes.

    Args:
        now: the time as of which the state is shown.
        failures: messages about what could not be read.
    """
    return {
        "made": now.strftime("%Y-%m-%d %H:%M:%S UTC"),
        "failures": escape_values(list(failures)),
    }


def build_pool_key(pool: Document) -> str:
    """Return the key of a pool's document: name and CIDR, as each family has a document."""
    return f"{pool['name']} {pool['cidr']}"


def list_tenants(pool: Document) -> Iterator[str]:
    """Yield the names of the tenants in a pool's document, some of them repeatedly."""
    for extent in pool["extents"].values():
        for _, tenant, _ in extent.get("holders", ()):
            yield tenant
    for request in pool["requests"].values():
        yield request["tenant"]


def build_documents_by_pool(
    objects: Objects, names: Collection[PoolName]
) -> dict[PoolName, list[Document]]:
    """Return the documents of some pools; a pool of two families has two documents."""
    documents: dict[PoolName, list[Document]] = {name: [] for name in names}
    for pool in draw_pools(objects, documents.__contains__):
        documents[pool.name] += build_pool_documents(pool)
    return documents


def build_pool_documents(pool: PoolPicture) -> list[Document]:
    """Return the document of each family of a pool."""
    return [_build_family_document(pool, family) for family in pool.families]


def _build_family_document(pool: PoolPicture, family: PoolFamily) -> Document:
    """Return the document of one family of a pool: figures, waiting requests, and ranges."""
    cidr, capacity = family.cidr, family.figures.capacity
    is_ours = pool.name.kind == NETWORK_POOL.kind
    fields = {
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
    }
    return {
        **convert_large_integers(escape_values(fields)),
        "requests": _build_request_documents(pool.waiting),
        "extents": dict(_build_extent_entry(extent, cidr) for extent in family.extents),
    }


def _build_extent_entry(extent: Extent, cidr: AddressRange | None) -> tuple[str, Document]:
    """Return key and document of a range.

    The key is the offset from the first address of the CIDR. The document has the family only if
    it is not the family of the CIDR.
    """
    # Texts are escaped one by one here: there are many ranges, and `escape_values` is slower.
    document: Document = {
        "size": convert_large_integers(extent.range.size),
        "state": extent.state.value,
    }
    if cidr is not None and extent.range.family != cidr.family:
        document["family"] = extent.range.family
    if extent.note:
        document["note"] = escape_text(extent.note)
    if extent.holders:
        document["holders"] = [
            [*map(escape_text, (holder.text, holder.tenant, holder.purpose))]
            for holder in extent.holders
        ]
    return str(extent.range.first - (cidr.first if cidr else 0)), document


def _build_request_documents(requests: Sequence[PoolRequest]) -> Document:
    """Return the documents of waiting requests by the names of their objects, in their order."""
    return {
        escape_text(request.text): escape_values(_build_request_document(request))
        for request in requests[:WAITING_LISTED]
    }


def _build_request_document(request: PoolRequest) -> Document:
    """Return the document of a waiting request."""
    since = request.since
    return {
        "tenant": request.tenant,
        "type": request.purpose,
        "since": since.strftime("%Y-%m-%d %H:%M UTC") if since is not None else "",
        "why": request.reason,
    }


class TenantDocuments:
    """Documents of tenants by id; a tenant whose objects did not change keeps its document."""

    def __init__(self) -> None:
        self._built: dict[str, tuple[Holding, Document]] = {}
        """The last document of each tenant, with the holding that it was built from."""

    def update(self, tenants: Iterable[Holding]) -> Document:
        """Return the documents of tenants by id, built again only if the tenant has changed.

        Args:
            tenants: the holdings. If two have one name, the second is of an earlier cluster.
        """
        documents: dict[str, tuple[Holding, Document]] = {}
        for tenant in tenants:
            name = escape_text(str(tenant.key))
            key = f"{name} (earlier)" if name in documents else name
            built = self._built.get(key)
            # This comparison is cheap: tuples compare identical objects by their identity.
            if built is not None and built[0] == tenant:
                documents[key] = built
            else:
                documents[key] = (tenant, build_tenant_document(tenant))
        # Tenants that are gone are left out, so their documents do not stay in memory.
        self._built = documents
        return {key: document for key, (_, document) in documents.items()}


def build_tenant_document(tenant: Holding) -> Document:
    """Return the document of a tenant.

    `ready` and `reason` come from the condition NetworkReady; `nodes` and `loadbalancer` map a
    family to the number of addresses.
    """
    status, reason = tenant.network_ready
    document = {
        "name": str(tenant.key),
        "phase": tenant.phase,
        "nodes": _count_addresses_by_family(tenant, names.TYPE_NODES),
        "loadbalancer": _count_addresses_by_family(tenant, names.TYPE_LOADBALANCER),
        "grown": tenant.growth_count,
        "waiting": tenant.waiting_count,
        "notRead": [str(limit) for limit in tenant.not_read],
        "ready": status,
        "reason": reason,
    }
    safe: Document = convert_large_integers(escape_values(document))
    return safe


def _count_addresses_by_family(tenant: Holding, allocation_type: str) -> dict[str, int]:
    """Return how many addresses of a type a tenant holds, by family: "4" or "6"."""
    sizes = Counter[str]()
    for held_range in tenant.list_ranges(allocation_type):
        sizes[str(held_range.family)] += held_range.size
    return dict(sorted(sizes.items()))
