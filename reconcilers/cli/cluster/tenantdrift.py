"""Drift of tenants: differences between a tenant's allocations and the tenant's load balancer.

A *projection* is the set of objects in the tenant that give its load balancer the ranges of the
allocations.
"""

from collections.abc import Sequence

import anyio

from controller.client import Client
from controller.clock import SystemClock
from controller.errors import ControllerError
from reconcilers.addressing import poolgeometry
from reconcilers.addressmap.audit import Finding, Subject
from reconcilers.addressmap.objects import Objects
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.cli.progress import show_done
from reconcilers.clusteraccess.clusteridentity import AdmitAll, ClusterIdentity
from reconcilers.clusteraccess.tenantclients import TenantClients
from reconcilers.clusteraccess.tenantfailures import TenantUnavailable
from reconcilers.configuration.settings import TenantSettings
from reconcilers.loadbalancers.choice import LoadBalancerKinds
from reconcilers.loadbalancers.port import BalancerBlocked
from reconcilers.tenantcluster.inspection import TenantReading, find_problems, read_tenant
from reconcilers.tenantcluster.projections import make_projection
from reconcilers.tenantcluster.record.records import TenantRecords
from reconcilers.wiring.loadbalancers import make_load_balancer_kinds

AT_ONCE = 8
"""The number of tenants that are read at the same time."""


async def find_tenant_drift(
    client: Client, objects: Objects, namespace: str = ""
) -> list[Finding]:
    """Return a finding for each fault in a tenant, and for each tenant that could not be read.

    Args:
        client: a client of the management cluster, which has the tenants' kubeconfigs.
        objects: the objects that the user may read.
        namespace: only tenants in this namespace, or with an allocation in it; empty for all.
    """
    settings = TenantSettings()
    clock = SystemClock()
    kinds = make_load_balancer_kinds(clock, settings)
    guard = AdmitAll(ClusterIdentity(client, clock))
    clients = TenantClients(client, settings, clock=clock, accesses=TenantRecords(), guard=guard)
    drifts: list[Finding] = []
    read_count = 0
    limit = anyio.CapacityLimiter(AT_ONCE)
    pool_cidrs = [
        cidr for pool in objects.pools.values() for cidr in poolgeometry.parse_cidrs(pool.spec)
    ]

    async def compare(tenant: TenantCluster, members: Sequence[IPAllocation]) -> None:
        """Read a tenant, and add its findings to `drifts`.

        A tenant that cannot be read is a finding, with one exception: it has no kubeconfig, and no
        allocation has a range for it. Then the tenant is probably not built yet.
        """
        subject = Subject.from_object(TENANT_CLUSTER, tenant)
        nonlocal read_count
        async with limit:
            answer = await _read_tenant(clients, tenant, kinds)
        read_count += 1
        show_done(read_count, len(objects.clusters))
        if isinstance(answer, TenantReading):
            tenant_problems = find_problems(answer, members, pool_cidrs)
            drifts.extend(
                Finding(kind, severity, subject=subject, sentence=sentence)
                for kind, severity, sentence in tenant_problems
            )
        # The position of a cache is of no use here: the allocations come from a list.
        elif make_projection(members, position=0).entries or not answer.absent:
            sentence = f"could not be asked: {answer.message}"
            drifts.append(Finding("TenantDrift", "warning", subject=subject, sentence=sentence))

    try:
        async with anyio.create_task_group() as group:
            for tenant, members in objects.group_by_tenant():
                # A tenant without allocations may still have ranges of earlier allocations. If the
                # user may not read all objects, allocations may exist that were not read.
                may_hold = tenant.projection_begun and not objects.not_read
                if (members or may_hold) and _is_in_namespace(namespace, tenant, members):
                    group.start_soon(compare, tenant, members)
    finally:
        with anyio.CancelScope(shield=True):
            await clients.aclose()
    return sorted(
        drifts, key=lambda finding: (finding.subject.namespace, finding.subject.name, finding.kind)
    )


def _is_in_namespace(
    namespace: str, tenant: TenantCluster, members: Sequence[IPAllocation]
) -> bool:
    """Return whether a tenant or one of its allocations is in a namespace; empty means any."""
    metas = (tenant.metadata, *(allocation.metadata for allocation in members))
    return not namespace or any(meta.namespace == namespace for meta in metas)


async def _read_tenant(
    clients: TenantClients, tenant: TenantCluster, kinds: LoadBalancerKinds
) -> TenantReading | TenantUnavailable:
    """Return the reading of a tenant's load balancer; if it cannot be read, the exception.

    The exception is returned, because a tenant that cannot be read is a finding, and the other
    tenants are read all the same.
    """
    try:
        async with clients.open_client(tenant) as client:
            management = await clients.read_management_identity()
            return await read_tenant(client, kinds, tenant=tenant, management=management)
    except TenantUnavailable as error:
        return error
    except (BalancerBlocked, ControllerError) as error:
        return TenantUnavailable("Failed", str(error))
