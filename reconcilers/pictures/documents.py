"""Pools as documents for programs, the same fields for pools of all kinds.

The schema of these documents is docs/formats/reports.schema.json. A figure that is not known is
null.
"""

from collections.abc import Mapping
from typing import Any

from allocator import Capacity
from reconcilers.pictures.extents import AddressHolder, Extent
from reconcilers.pictures.poolpicture import PoolFamily, PoolPicture, PoolRequest

Document = dict[str, Any]


def build_pool_document(pool: PoolPicture) -> Document:
    """Return the document of a pool with its figures by family."""
    families = [_build_family_head(pool, family) for family in pool.families]
    return _build_pool_head(pool) | {"families": families}


def build_map_document(pool: PoolPicture) -> Document:
    """Return the document of a pool with its figures, its extents, and its waiting requests."""
    families = [
        _build_family_head(pool, family)
        | {
            "addresses": {state.value: count for state, count in family.count_states().items()},
            "extents": [build_extent_document(extent) for extent in family.extents],
        }
        for family in pool.families
    ]
    requests = [_build_request_document(request) for request in pool.waiting]
    return _build_pool_head(pool) | {"families": families, "requests": requests}


def build_pool_name_document(pool: PoolPicture) -> Document:
    """Return the document with kind, namespace and name of a pool, and its part if it is one."""
    name = pool.name
    head = {"kind": name.kind, "namespace": name.key.namespace, "name": name.key.name}
    return head | ({"part": pool.part} if pool.part else {})


def build_extent_document(extent: Extent) -> Document:
    """Return the document of an extent: addresses in a row that are in one state."""
    return {
        "start": extent.range.start_text,
        "end": extent.range.end_text,
        "size": extent.range.size,
        "state": extent.state.value,
        "note": extent.note,
        "holders": [build_holder_document(holder) for holder in extent.holders],
    }


def build_holder_document(holder: AddressHolder) -> Document:
    """Return the document of an object that holds addresses."""
    return {
        "kind": holder.kind,
        "namespace": holder.key.namespace,
        "name": holder.key.name,
        "tenant": holder.tenant,
        "type": holder.purpose,
        "phase": holder.phase,
        "promised": holder.promised,
        "releasing": holder.releasing,
        "since": holder.since.isoformat() if holder.since is not None else None,
    }


def build_capacity_document(capacity: Capacity) -> dict[str, int]:
    """Return the document of a capacity: held and free addresses, or held and free prefixes."""
    return {
        "total": capacity.total,
        "allocated": capacity.allocated,
        "available": capacity.available,
        "largestFreeBlock": capacity.largest_free,
        "fragmentationPercent": capacity.fragmentation_percent,
    }


def _build_pool_head(pool: PoolPicture) -> Document:
    """Return the fields of a pool's document that are about all families.

    If objects were not read, the number of waiting requests is not known: null.
    """
    head = build_pool_name_document(pool) | {
        "ready": pool.ready,
        "reason": pool.reason,
        "waiting": None if pool.not_read else len(pool.waiting),
    }
    return head | ({"notRead": list(pool.not_read)} if pool.not_read else {})


def _build_family_head(pool: PoolPicture, family: PoolFamily) -> Document:
    """Return the fields about one family of a pool, without its extents.

    If objects were not read, only the total is known: all other numbers are null.
    """
    figures = family.figures
    numbers: Mapping[str, int | None] = {
        **build_capacity_document(figures.capacity),
        "utilizationPercent": figures.capacity.utilization_percent,
        "outOfRange": figures.outside,
        "holders": family.holder_count,
        "tenants": family.tenant_count,
    }
    if pool.not_read:
        numbers = {**dict.fromkeys(numbers), "total": figures.capacity.total}
    return {
        "family": f"IPv{family.family}" if family.family is not None else None,
        "offers": family.offers,
        "cidr": family.label if family.cidr is not None else None,
        "prefixLength": family.prefix_length,
        "fault": family.fault,
        **numbers,
    }


def _build_request_document(request: PoolRequest) -> Document:
    """Return the document of an object that waits for addresses."""
    return {
        "kind": request.kind,
        "namespace": request.key.namespace,
        "name": request.key.name,
        "tenant": request.tenant,
        "type": request.purpose,
        "since": request.since.isoformat() if request.since is not None else None,
        "reason": request.reason,
    }
