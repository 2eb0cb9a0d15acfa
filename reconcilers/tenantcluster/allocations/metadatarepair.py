"""Repairs the labels and the noted owner of a tenant's allocations."""

from controller.cache import Cache
from controller.client import Client
from controller.loggers import get_logger
from controller.meta import Version
from reconcilers.api import names
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.api.resources import IP_ALLOCATION, TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.networkpool.owners import read_noted_uid
from reconcilers.tenantcluster.allocations.membership import list_members, make_repair_patch

_log = get_logger(__name__)


async def repair_metadata(
    client: Client, allocations: Cache[IPAllocation], tenant: TenantCluster
) -> None:
    """Repair the labels, the role among them, and the noted owner of a tenant's allocations.

    Raises:
        Conflict: an allocation changed since it was read; begin again.
        ControllerError: the management cluster did not answer.
    """
    uid: str | None = None
    for allocation in list_members(allocations, tenant):
        if allocation.metadata.is_terminating or allocation.status.phase != ALLOCATED:
            # While it waits for a range, a write would void the pool's promise to it: a promise is
            # for one version of the allocation.
            continue
        if uid is None and not read_noted_uid(allocation):
            uid = await _read_uid(client, tenant)
        patch = make_repair_patch(allocation, tenant, uid or "")
        if not patch:
            continue
        await client.patch(IP_ALLOCATION, Version.from_object(allocation), patch)
        if names.LABEL_ROLE in patch["metadata"].get("labels", {}):
            _log.info("migrated allocation-role label", allocation=allocation.metadata.name)


async def _read_uid(client: Client, tenant: TenantCluster) -> str:
    """Read a TenantCluster live; return its uid, empty if it is deleted, terminating or recreated.

    The uid of a stale cache would name an earlier cluster. The allocation may be for the next
    cluster of that name, and would later be released as the earlier one's.
    """
    meta = tenant.metadata
    live = await client.find(TENANT_CLUSTER, meta.key)
    if live is None or live.metadata.is_terminating or live.metadata.uid != meta.uid:
        return ""
    return meta.uid
