"""Problems that `check --tenants` finds in tenants with Cilium or with two load balancers."""

import msgspec

from allocator import AddressRange
from controller.client import Client
from controller.clock import SystemClock
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.configuration.settings import TenantSettings
from reconcilers.tenantcluster.inspection import find_problems, read_tenant
from reconcilers.wiring.loadbalancers import make_load_balancer_kinds
from tests.reconcilers import make
from tests.reconcilers.lab import Lab
from tests.reconcilers.lbipam import POOLS
from tests.reconcilers.server import Json, Server
from tests.reconcilers.tenantcluster.ciliumtenants import (
    CILIUM_SPEC,
    L2_POLICIES,
    add_service,
    make_cilium_tenant,
    make_metallb_deployment,
    run_passes,
)

SPACES = [AddressRange.parse("10.40.0.0", "10.40.0.255")]
Problems = list[tuple[str, str, str]]
"""Kind, severity and sentence of each problem."""


async def _inspect(lab: Lab, tenant: Server) -> Problems:
    """Return the problems of cluster a, from the current objects of both API servers."""
    kinds = make_load_balancer_kinds(SystemClock(), TenantSettings())
    cluster = msgspec.convert(
        lab.server.see("tenantclusters", "a", namespace="team"), TenantCluster
    )
    tenant_reading = await read_tenant(Client(tenant), kinds, tenant=cluster, management="")
    stored = lab.server.all("ipallocations")
    members = [msgspec.convert(allocation, IPAllocation) for allocation in stored]
    return list(find_problems(tenant_reading, members, SPACES))


async def _inspect_served_tenant(*kinds: str) -> tuple[Lab, Server, Problems]:
    """Return a lab, its tenant, which Cilium serves and announces, and the problems in it.

    Args:
        kinds: plurals of further kinds that the tenant's API server serves.
    """
    lab, replica, tenant, _ = make_cilium_tenant(L2_POLICIES, *kinds)
    tenant.add(L2_POLICIES, {"metadata": {"name": "all"}})
    await run_passes(lab, replica, 3)
    return lab, tenant, await _inspect(lab, tenant)


async def test_a_tenant_that_cilium_serves_from_two_pools_has_no_problem() -> None:
    _, tenant, inspected = await _inspect_served_tenant("ipaddresspools", "deployments")
    assert len(tenant.all(POOLS)) == 2
    assert inspected == []


async def test_a_cilium_pool_with_other_blocks_is_drift() -> None:
    lab, tenant, _ = await _inspect_served_tenant()
    [pool, _] = tenant.all(POOLS)
    edit: Json = {"spec": {"blocks": [{"start": "10.40.0.64", "stop": "10.40.0.71"}]}}
    tenant.edit(POOLS, pool["metadata"]["name"], edit, namespace="")
    [(kind, severity, sentence)] = await _inspect(lab, tenant)
    assert (kind, severity) == ("TenantDrift", "warning")
    assert sentence.startswith("its Cilium holds ")
    assert "10.40.0.64-10.40.0.71" in sentence


async def test_a_cilium_whose_operator_never_acknowledged_a_pool_is_found() -> None:
    lab, replica, tenant, operator = make_cilium_tenant(L2_POLICIES)
    tenant.add(L2_POLICIES, {"metadata": {"name": "all"}})
    operator.paused = True
    await run_passes(lab, replica, 3)
    [(kind, severity, _)] = await _inspect(lab, tenant)
    assert (kind, severity) == ("TenantConfigurationNotRead", "error")


async def test_pools_of_metallb_in_a_tenant_of_cilium_are_found_and_named() -> None:
    lab, tenant, _ = await _inspect_served_tenant("ipaddresspools", "deployments")
    pool = {"metadata": {"name": "theirs", "namespace": "metallb-system"}, "spec": {}}
    tenant.add("ipaddresspools", pool)
    [(kind, severity, sentence)] = await _inspect(lab, tenant)
    assert (kind, severity) == ("LoadBalancersConflict", "error")
    assert sentence.startswith("the tenant has pools of MetalLB: theirs")


async def test_a_metallb_without_pools_that_takes_addresses_is_found() -> None:
    lab, tenant, _ = await _inspect_served_tenant("ipaddresspools", "deployments")
    tenant.add("deployments", make_metallb_deployment("--port=7472"))
    [(kind, severity, sentence)] = await _inspect(lab, tenant)
    assert (kind, severity) == ("LoadBalancersConflict", "error")
    assert "Deployment metallb-system/controller" in sentence


async def test_a_tenant_of_cilium_in_which_nothing_announces_addresses_is_found() -> None:
    lab, replica, tenant, _ = make_cilium_tenant(L2_POLICIES)
    await run_passes(lab, replica, 3)
    [(kind, severity, _)] = await _inspect(lab, tenant)
    assert (kind, severity) == ("TenantNotAnnounced", "warning")


async def test_during_a_change_to_metallb_cilium_may_have_ranges_until_they_are_marked() -> None:
    lab, tenant, _ = await _inspect_served_tenant("ipaddresspools", "deployments")
    add_service(tenant)
    metallb = {"addons": {"loadBalancer": {**CILIUM_SPEC["addons"]["loadBalancer"]}}}
    metallb["addons"]["loadBalancer"]["provider"] = "metallb"
    lab.server.edit("tenantclusters", "a", {"spec": metallb}, namespace="team")
    assert await _inspect(lab, tenant) == [], "Cilium may still have both ranges"
    mark: Json = {
        "metadata": {"annotations": {names.ANNOTATION_LEAVING_BALANCER: "2026-01-01T00:00:00Z"}}
    }
    lab.server.edit("ipallocations", "team-a-lb", mark, namespace=make.NAMESPACE)
    [(kind, severity, sentence)] = await _inspect(lab, tenant)
    assert (kind, severity) == ("TenantDrift", "warning")
    assert sentence.startswith("its Cilium holds ")
