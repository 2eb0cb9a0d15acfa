"""Whether every tenant's MetalLB holds what the allocations say, seen in the tenant itself."""

from collections.abc import Sequence

import anyio

from controller.client import Client
from controller.clock import SystemClock
from controller.errors import ControllerError
from controller.meta import Key
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.cli.survey.audit import Finding, Subject
from reconcilers.cli.survey.objects import Objects, sorted_by_key
from reconcilers.settings import TenantSettings
from reconcilers.tenantclients import TenantClients, TenantUnavailable
from reconcilers.tenantcluster.metallb import MetalLB, ProjectionBlocked, projection

AT_ONCE = 8
"""Tenants that are asked at once."""


async def tenant_drift(client: Client, objects: Objects) -> list[Finding]:
    """Return a finding for each tenant that holds something else, or could not be asked.

    Their kubeconfigs are read by `client`, from the management cluster.
    """
    settings = TenantSettings()
    clients = TenantClients(client, settings, SystemClock())
    found: list[Finding] = []
    limit = anyio.CapacityLimiter(AT_ONCE)
    of_tenant: dict[Key, list[IPAllocation]] = {}
    for one in objects.allocations.values():
        of_tenant.setdefault(one.spec.tenantClusterRef.key, []).append(one)

    async def compare(tenant: TenantCluster, members: Sequence[IPAllocation]) -> None:
        async with limit:
            sentence = await _difference(clients, tenant, members, settings.metallb_namespace)
        if sentence:
            subject = Subject.from_object(TENANT_CLUSTER, tenant)
            found.append(Finding("TenantDrift", "warning", subject, sentence))

    try:
        async with anyio.create_task_group() as group:
            for tenant in sorted_by_key(objects.clusters):
                members = of_tenant.get(tenant.metadata.key, [])
                # Ranges may be left in a tenant that something was projected into.
                begun = names.ANNOTATION_PROJECTION_BEGUN in tenant.metadata.annotations
                if members or begun:
                    group.start_soon(compare, tenant, members)
    finally:
        with anyio.CancelScope(shield=True):
            await clients.aclose()
    return sorted(found, key=lambda one: (one.subject.namespace, one.subject.name))


async def _difference(
    clients: TenantClients, tenant: TenantCluster, members: Sequence[IPAllocation], namespace: str
) -> str:
    wanted = list(projection(members, 0).entries)
    try:
        async with clients.client(tenant) as inside:
            pool = await MetalLB(inside, namespace).pool()
    except TenantUnavailable as none:
        return "" if none.absent and not wanted else f"could not be asked: {none.message}"
    except ProjectionBlocked as unavailable:
        return f"could not be asked: {unavailable.message}"
    except ControllerError as error:
        return f"could not be asked: {error}"
    holds = list(pool.spec.addresses) if pool is not None else []
    if holds == wanted:
        return ""
    return (
        f"its MetalLB holds {', '.join(holds) or 'nothing'}, and should hold"
        f" {', '.join(wanted) or 'nothing'}; a running controller mends that"
    )
