"""The age of a request that moves to another pool, told before its allocation is deleted.

An allocation's spec cannot be changed, so moving is deleting and asking again. The age that gives
the request its place in the queue would be lost with the process in between; so it is written on
the TenantCluster first, by the allocation's name, and taken off once the new one carries it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from controller.cache import Cache
from controller.client import Client
from controller.meta import Key, Version
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster


@dataclass(frozen=True, slots=True)
class Moving:
    """One request on its way to another pool.

    Args:
        since: when it was first made.
        leaving: the uid of the allocation that is deleted for it.
    """

    since: str
    leaving: str


def moving(tenant: TenantCluster) -> dict[str, Moving]:
    """Return the requests that are moving, by the name of their allocation; nonsense is none."""
    told = tenant.metadata.annotations.get(names.ANNOTATION_MOVING, "{}")
    try:
        return {
            name: one
            for name, one in msgspec.json.decode(told, type=dict[str, Moving]).items()
            if datetime.fromisoformat(one.since).tzinfo is not None
        }
    except (msgspec.MsgspecError, ValueError):
        return {}


async def remember(client: Client, tenant: TenantCluster, failed: IPAllocation) -> TenantCluster:
    """Write down since when `failed` has been asked for; return the cluster as it is then.

    Raises:
        Conflict: the cluster changed since it was read.
    """
    told = moving(tenant)
    entry = Moving(failed.requested_at.isoformat(), failed.metadata.uid)
    if told.get(failed.metadata.name) == entry:
        return tenant
    return await _write(client, tenant, told | {failed.metadata.name: entry})


async def tidy(
    client: Client, tenant: TenantCluster, allocations: Cache[IPAllocation], namespace: str
) -> TenantCluster:
    """Take off what is carried by the new allocations; return the cluster as it is then.

    Raises:
        Conflict: the cluster changed since it was read.
    """
    told = moving(tenant)
    left = {
        name: entry
        for name, entry in told.items()
        if not _carried(entry, allocations.get(Key(namespace, name)))
    }
    return tenant if left == told else await _write(client, tenant, left)


def _carried(entry: Moving, allocation: IPAllocation | None) -> bool:
    return allocation is not None and allocation.metadata.uid != entry.leaving


async def _write(
    client: Client, tenant: TenantCluster, told: Mapping[str, Moving]
) -> TenantCluster:
    text = msgspec.json.encode(told).decode() if told else None
    patch = {"metadata": {"annotations": {names.ANNOTATION_MOVING: text}}}
    return await client.patch(TENANT_CLUSTER, Version.from_object(tenant), patch)
