"""The pass over a TenantCluster and the release check in a tenant with Cilium."""

import pytest

from controller.clock import SystemClock
from reconcilers.api import names
from reconcilers.configuration.settings import TenantSettings
from reconcilers.loadbalancers.cilium.adapter import CiliumKind
from reconcilers.wiring.loadbalancers import make_load_balancer_kinds
from tests.reconcilers import make
from tests.reconcilers.lab import Lab, Replica
from tests.reconcilers.lbipam import POOLS, list_offered_entries
from tests.reconcilers.tenantcluster.ciliumtenants import (
    CILIUM_SPEC,
    FIRST_ENTRY,
    L2_POLICIES,
    SECOND_ENTRY,
    add_service,
    make_cilium_tenant,
    make_metallb_deployment,
    run_passes,
)


def _read_ready_condition(lab: Lab) -> tuple[str, str]:
    """Return status and reason of the condition LoadBalancerReady."""
    condition = lab.find_condition(
        "tenantclusters", "a", kind="LoadBalancerReady", namespace="team"
    )
    return condition["status"], condition["reason"]


async def test_a_tenant_is_given_a_pool_for_each_allocation_and_is_ready() -> None:
    lab, replica, tenant, _ = make_cilium_tenant()
    await run_passes(lab, replica, 3)
    assert sorted(list_offered_entries(tenant)) == [FIRST_ENTRY, SECOND_ENTRY]
    assert _read_ready_condition(lab) == ("True", "Ready")


async def test_a_tenant_whose_operator_does_not_run_is_not_ready() -> None:
    lab, replica, _, operator = make_cilium_tenant()
    operator.paused = True
    await run_passes(lab, replica, 3)
    assert _read_ready_condition(lab) == ("False", "CiliumNotRunning")
    operator.resume()
    await run_passes(lab, replica, 3)
    assert _read_ready_condition(lab) == ("True", "Ready")


async def test_a_deleted_allocation_is_released_once_the_operator_acknowledges_it() -> None:
    lab, replica, tenant, operator = make_cilium_tenant()
    await run_passes(lab, replica, 3)
    operator.paused = True
    lab.server.delete("ipallocations", "team-a-lb-2", namespace=make.NAMESPACE)
    await run_passes(lab, replica)
    assert lab.server.has("ipallocations", "team-a-lb-2")
    operator.resume()
    await run_passes(lab, replica)
    assert not lab.server.has("ipallocations", "team-a-lb-2")
    assert list_offered_entries(tenant) == [FIRST_ENTRY]
    assert len(tenant.all(POOLS)) == 1, "the emptied pool is deleted"


@pytest.mark.parametrize("is_noted", [True, False])
async def test_an_allocation_made_by_hand_is_offered_at_once_only_if_it_names_the_balancer(
    is_noted: bool,
) -> None:
    lab, replica, tenant, _ = make_cilium_tenant()
    await run_passes(lab, replica, 3)
    note = {names.ANNOTATION_LOAD_BALANCER: "cilium"} if is_noted else {}
    held_range = ("10.40.0.32", "10.40.0.35")
    allocation = make.allocation(
        "by-hand", tenant="team/a", held_range=held_range, annotations=note
    )
    lab.server.add("ipallocations", allocation)
    await run_passes(lab, replica, 1)
    entries = set(list_offered_entries(tenant))
    assert {FIRST_ENTRY, SECOND_ENTRY} <= entries
    assert ("10.40.0.32-10.40.0.35" in entries) == is_noted
    assert _read_ready_condition(lab)[1] == ("Ready" if is_noted else "LoadBalancerChanging")
    await run_passes(lab, replica, 3)
    assert "10.40.0.32-10.40.0.35" in list_offered_entries(tenant)
    assert _read_ready_condition(lab) == ("True", "Ready")


async def test_services_lose_their_addresses_before_a_deleted_allocation_is_released() -> None:
    lab, replica, tenant, _ = make_cilium_tenant()
    await run_passes(lab, replica, 3)
    for number in range(9):
        add_service(tenant, f"web-{number}")
    lab.server.delete("ipallocations", "team-a-lb-2", namespace=make.NAMESPACE)
    await run_passes(lab, replica, 30)
    assert not lab.server.has("ipallocations", "team-a-lb-2")
    ips = [
        ingress["ip"]
        for service in tenant.all("services")
        for ingress in service["status"]["loadBalancer"]["ingress"]
    ]
    assert "10.40.0.8" not in ips
    assert len(ips) == 8


async def test_nothing_is_left_of_a_deleted_cluster() -> None:
    lab, replica, tenant, _ = make_cilium_tenant()
    await run_passes(lab, replica, 3)
    lab.server.delete("tenantclusters", "a", namespace="team")
    await run_passes(lab, replica, 20)
    assert lab.server.all("ipallocations") == []
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert tenant.all(POOLS) == []


async def test_another_replica_finishes_a_release_that_this_one_began() -> None:
    lab, replica, _, _ = make_cilium_tenant()
    await run_passes(lab, replica, 3)
    lab.server.delete("ipallocations", "team-a-lb-2", namespace=make.NAMESPACE)
    await run_passes(lab, replica, 1)
    other = Replica(lab, kinds={"cilium": CiliumKind(lab.clock, wait=0.0)})
    other.use_real_release_check()
    await run_passes(lab, other, 20)
    assert not lab.server.has("ipallocations", "team-a-lb-2")


async def test_a_range_of_a_service_with_a_sharing_key_is_released_after_an_operator_restart() -> (
    None
):
    """The operator remembers the address for the key; the allocation notes that for its release.

    Once it is released, its cluster requests a new allocation of that name.
    """
    lab, replica, tenant, operator = make_cilium_tenant("leases")
    await run_passes(lab, replica, 3)
    add_service(tenant, "web", key="k")
    await run_passes(lab, replica, 2)
    first = lab.server.see("ipallocations", "team-a-lb", namespace=make.NAMESPACE)
    assert first["metadata"]["annotations"][names.ANNOTATION_RELEASE_NOTE] == "sharing-key"
    tenant.delete("services", "web", namespace="default")
    lab.server.delete("ipallocations", "team-a-lb", namespace=make.NAMESPACE)
    await run_passes(lab, replica, 30)
    condition = lab.find_condition(
        "ipallocations", "team-a-lb", kind="Ready", namespace=make.NAMESPACE
    )
    assert "restart the operator in the tenant" in condition["message"]
    operator.restart()
    await run_passes(lab, replica, 30)
    recreated = lab.server.see("ipallocations", "team-a-lb", namespace=make.NAMESPACE)
    assert recreated["metadata"]["uid"] != first["metadata"]["uid"]


async def test_a_condition_reports_that_no_policy_announces_addresses_until_one_exists() -> None:
    lab, replica, tenant, _ = make_cilium_tenant(L2_POLICIES)
    await run_passes(lab, replica, 3)
    condition = lab.find_condition(
        "tenantclusters", "a", kind="LoadBalancerAnnounced", namespace="team"
    )
    assert (condition["status"], condition["reason"]) == ("False", "NotAnnounced")
    assert "CiliumL2AnnouncementPolicy" in condition["message"]
    tenant.add(L2_POLICIES, {"metadata": {"name": "all"}})
    await run_passes(lab, replica, 2)
    assert (
        lab.find_condition("tenantclusters", "a", kind="LoadBalancerAnnounced", namespace="team")
        == {}
    )
    assert _read_ready_condition(lab) == ("True", "Ready")


async def test_a_metallb_that_takes_the_addresses_of_services_is_reported() -> None:
    lab, replica, tenant, _ = make_cilium_tenant("deployments", "ipaddresspools")
    tenant.add("deployments", make_metallb_deployment("--port=7472"))
    await run_passes(lab, replica, 3)
    condition = lab.find_condition(
        "tenantclusters", "a", kind="SingleLoadBalancer", namespace="team"
    )
    assert condition["reason"] == "LoadBalancersConflict"
    assert "MetalLB (Deployment metallb-system/controller)" in condition["message"]


async def test_a_metallb_that_serves_a_class_of_its_own_is_no_conflict() -> None:
    lab, replica, tenant, _ = make_cilium_tenant("deployments", "ipaddresspools")
    tenant.add("deployments", make_metallb_deployment("--lb-class=metallb"))
    await run_passes(lab, replica, 3)
    assert (
        lab.find_condition("tenantclusters", "a", kind="SingleLoadBalancer", namespace="team")
        == {}
    )


async def test_the_program_serves_cilium_to_a_tenant_that_names_it_and_metallb_to_others() -> None:
    kinds = make_load_balancer_kinds(
        SystemClock(), TenantSettings(metallb_wait=1.0, cilium_wait=2.0)
    )
    chosen = {
        kind.title: kind.wait
        for kind in map(kinds.find_chosen, (make.tenant(spec=CILIUM_SPEC), make.tenant()))
    }
    assert chosen == {"Cilium": 2.0, "MetalLB": 1.0}


async def test_only_services_that_the_service_selector_selects_make_a_tenant_grow() -> None:
    selector = {"serviceSelector": {"matchLabels": {"public": "yes"}}}
    spec = {
        "addons": {"loadBalancer": {**CILIUM_SPEC["addons"]["loadBalancer"], "cilium": selector}}
    }
    elastic = {"allocationMode": "elastic", "initialPoolSize": 8, "growthIncrement": 4}
    provider = make.provider("lab", load_balancer=elastic)
    lab, replica, tenant, _ = make_cilium_tenant(spec=spec, provider=provider)
    await run_passes(lab, replica, 3)
    for number in range(18):
        add_service(tenant, f"web-{number}")
    await run_passes(lab, replica, 60)
    assert len(lab.server.all("ipallocations")) == 2
    assert not [
        service
        for service in tenant.all("services")
        if service.get("status", {}).get("loadBalancer")
    ]
    condition = lab.find_condition(
        "tenantclusters", "a", kind="LoadBalancerDemandMet", namespace="team"
    )
    assert (condition["status"], condition["reason"]) == ("True", "NotSelected")
    assert "serviceSelector" in condition["message"]
    for number in range(18):
        labels = {"metadata": {"labels": {"public": "yes"}}}
        tenant.edit("services", f"web-{number}", labels, namespace="default")
    await run_passes(lab, replica, 60)
    assert len(lab.server.all("ipallocations")) == 3
