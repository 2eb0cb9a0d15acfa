"""Labels, role and owner of a tenant's allocations are repaired, in every mode."""

from controller.cache import Cache
from controller.client import Client
from controller.loggers import get_logger
from controller.meta import Version
from reconcilers.api import names
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.api.resources import IP_ALLOCATION, TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.networkpool.owners import noted_uid
from reconcilers.tenantcluster.allocations.membership import members, repairs

_log = get_logger(__name__)


async def repair_metadata(
    client: Client, allocations: Cache[IPAllocation], tenant: TenantCluster
) -> None:
    """Repair labels, role and owner on the tenant's allocations.

    Those that wait for a range are left alone: a new version of one voids what it is promised.

    Raises:
        Conflict: an allocation changed since it was read; begin again.
        ControllerError: the management cluster did not answer.
    """
    uid: str | None = None
    for allocation in members(allocations, tenant):
        if allocation.metadata.terminating or allocation.status.phase != ALLOCATED:
            continue
        if uid is None and not noted_uid(allocation):
            uid = await _read_uid(client, tenant)
        patch = repairs(allocation, tenant, uid or "")
        if not patch:
            continue
        await client.patch(IP_ALLOCATION, Version.from_object(allocation), patch)
        if names.LABEL_ROLE in patch["metadata"].get("labels", {}):
            _log.info("migrated allocation-role label", allocation=allocation.metadata.name)


async def _read_uid(client: Client, tenant: TenantCluster) -> str:
    """Read a TenantCluster live, and return its uid.

    The uid of a stale cache would later cost the allocation its range, because the allocation
    may be for the next cluster of that name.

    Returns:
        The uid; empty if the cluster is deleted, being deleted, or recreated.
    """
    meta = tenant.metadata
    live = await client.find(TENANT_CLUSTER, meta.key)
    if live is None or live.metadata.terminating or live.metadata.uid != meta.uid:
        return ""
    return meta.uid
