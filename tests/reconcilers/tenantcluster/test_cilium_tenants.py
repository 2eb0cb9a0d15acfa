"""The pass and the release check with Cilium's adapter."""

from typing import Any

from controller.clock import SystemClock
from controller.meta import Key
from reconcilers.api import names
from reconcilers.configuration.settings import TenantSettings
from reconcilers.loadbalancers.cilium.adapter import CiliumKind
from reconcilers.wiring.loadbalancers import load_balancer_kinds
from tests.reconcilers import make
from tests.reconcilers.lab import Lab, Replica
from tests.reconcilers.lbipam import POOLS, LbIpam, offered_entries
from tests.reconcilers.server import Json, Server

SPEC: Json = {"addons": {"loadBalancer": {"version": "1", "provider": "cilium"}}}
FIRST, SECOND = ("10.40.0.0", "10.40.0.7"), ("10.40.0.8", "10.40.0.15")
OF_FIRST, OF_SECOND = "10.40.0.0-10.40.0.7", "10.40.0.8-10.40.0.15"
L2_POLICIES = "ciliuml2announcementpolicies"
TENANT = Key("team", "a")


def _platform(*more_kinds: str) -> tuple[Lab, Replica, Server, LbIpam]:
    """Return a Ready tenant with Cilium and two allocations."""
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant(spec=SPEC, status={"phase": "Ready"}))
    for name, held in (("team-a-lb", FIRST), ("team-a-lb-2", SECOND)):
        note = {names.ANNOTATION_LOAD_BALANCER: "cilium"}
        allocation = make.allocation(name, tenant="team/a", held=held, annotations=note)
        lab.server.add("ipallocations", allocation)
    tenant = lab.tenant_server("a", ("services", "namespaces", POOLS, *more_kinds))
    operator = LbIpam(tenant)
    replica = Replica(lab, kinds={"cilium": CiliumKind(lab.clock, wait=0.0)})
    replica.gate.real = replica.tenant_gate
    return lab, replica, tenant, operator


async def _run(lab: Lab, replica: Replica, seconds: int = 12) -> None:
    """Run passes over the tenant and its allocations, a second apart."""
    for _ in range(seconds):
        await replica.clusters.reconcile(TENANT)
        for allocation in list(replica.caches["ipallocations"]):
            await replica.allocations.reconcile(allocation.metadata.key)
        await lab.clock.advance(1)


def _add_service(tenant: Server, name: str = "web", key: str = "", **spec: Any) -> None:
    annotations = {"lbipam.cilium.io/sharing-key": key} if key else {}
    body = {"metadata": {"name": name, "namespace": "default", "annotations": annotations}}
    tenant.add("services", body | {"spec": {"type": "LoadBalancer"} | spec})


def _condition(lab: Lab) -> tuple[str, str]:
    shown = lab.condition("tenantclusters", "a", "LoadBalancerReady", "team")
    return shown["status"], shown["reason"]


async def test_a_tenant_is_given_a_pool_for_each_allocation_and_is_ready() -> None:
    lab, replica, tenant, _ = _platform()
    await _run(lab, replica, 3)
    assert sorted(offered_entries(tenant)) == [OF_FIRST, OF_SECOND]
    assert _condition(lab) == ("True", "Ready")


async def test_a_tenant_whose_operator_stands_still_is_not_ready() -> None:
    lab, replica, _, operator = _platform()
    operator.paused = True
    await _run(lab, replica, 3)
    assert _condition(lab) == ("False", "CiliumNotRunning")
    operator.resume()
    await _run(lab, replica, 3)
    assert _condition(lab) == ("True", "Ready")


async def test_a_deleted_allocation_is_released_once_the_operator_has_let_go() -> None:
    lab, replica, tenant, operator = _platform()
    await _run(lab, replica, 3)
    operator.paused = True
    lab.server.delete("ipallocations", "team-a-lb-2", namespace=make.NAMESPACE)
    await _run(lab, replica)
    assert lab.server.has("ipallocations", "team-a-lb-2")
    operator.resume()
    await _run(lab, replica)
    assert not lab.server.has("ipallocations", "team-a-lb-2")
    assert offered_entries(tenant) == [OF_FIRST]
    assert len(tenant.all(POOLS)) == 1, "the emptied pool is deleted"


async def test_services_lose_their_addresses_before_a_deleted_allocation_is_released() -> None:
    lab, replica, tenant, _ = _platform()
    await _run(lab, replica, 3)
    for number in range(9):
        _add_service(tenant, f"web-{number}")
    lab.server.delete("ipallocations", "team-a-lb-2", namespace=make.NAMESPACE)
    await _run(lab, replica, 30)
    assert not lab.server.has("ipallocations", "team-a-lb-2")
    shown = [
        ingress["ip"]
        for service in tenant.all("services")
        for ingress in service["status"]["loadBalancer"]["ingress"]
    ]
    assert "10.40.0.8" not in shown
    assert len(shown) == 8


async def test_nothing_is_left_of_a_deleted_cluster() -> None:
    lab, replica, tenant, _ = _platform()
    await _run(lab, replica, 3)
    lab.server.delete("tenantclusters", "a", namespace="team")
    await _run(lab, replica, 20)
    assert lab.server.all("ipallocations") == []
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert tenant.all(POOLS) == []


async def test_another_replica_finishes_a_release_that_this_one_began() -> None:
    lab, replica, _, _ = _platform()
    await _run(lab, replica, 3)
    lab.server.delete("ipallocations", "team-a-lb-2", namespace=make.NAMESPACE)
    await _run(lab, replica, 1)
    other = Replica(lab, kinds={"cilium": CiliumKind(lab.clock, wait=0.0)})
    other.gate.real = other.tenant_gate
    await _run(lab, other, 20)
    assert not lab.server.has("ipallocations", "team-a-lb-2")


async def test_a_service_with_a_sharing_key_is_noted_and_its_range_waits_for_a_restart() -> None:
    lab, replica, tenant, operator = _platform("leases")
    await _run(lab, replica, 3)
    _add_service(tenant, "web", key="k")
    await _run(lab, replica, 2)
    first = lab.server.see("ipallocations", "team-a-lb", namespace=make.NAMESPACE)
    assert first["metadata"]["annotations"][names.ANNOTATION_RELEASE_NOTE] == "sharing-key"
    tenant.delete("services", "web", namespace="default")
    lab.server.delete("ipallocations", "team-a-lb", namespace=make.NAMESPACE)
    await _run(lab, replica, 30)
    shown = lab.condition("ipallocations", "team-a-lb", "Ready", make.NAMESPACE)
    assert "restart the operator in the tenant" in shown["message"]
    operator.restart()
    await _run(lab, replica, 30)
    recreated = lab.server.see("ipallocations", "team-a-lb", namespace=make.NAMESPACE)
    assert recreated["metadata"]["uid"] != first["metadata"]["uid"]


async def test_a_tenant_in_which_nothing_announces_addresses_says_so_until_something_does() -> (
    None
):
    lab, replica, tenant, _ = _platform(L2_POLICIES)
    await _run(lab, replica, 3)
    shown = lab.condition("tenantclusters", "a", "LoadBalancerAnnounced", "team")
    assert (shown["status"], shown["reason"]) == ("False", "NotAnnounced")
    assert "CiliumL2AnnouncementPolicy" in shown["message"]
    tenant.add(L2_POLICIES, {"metadata": {"name": "all"}})
    await _run(lab, replica, 2)
    assert lab.condition("tenantclusters", "a", "LoadBalancerAnnounced", "team") == {}
    assert _condition(lab) == ("True", "Ready")


async def test_a_metallb_that_takes_the_addresses_of_services_is_reported() -> None:
    lab, replica, tenant, _ = _platform("deployments", "ipaddresspools")
    tenant.add("deployments", _metallb("--port=7472"))
    await _run(lab, replica, 3)
    shown = lab.condition("tenantclusters", "a", "SingleLoadBalancer", "team")
    assert shown["reason"] == "LoadBalancersConflict"
    assert "MetalLB (Deployment metallb-system/controller)" in shown["message"]


async def test_a_metallb_that_serves_a_class_of_its_own_is_no_conflict() -> None:
    lab, replica, tenant, _ = _platform("deployments", "ipaddresspools")
    tenant.add("deployments", _metallb("--lb-class=metallb"))
    await _run(lab, replica, 3)
    assert lab.condition("tenantclusters", "a", "SingleLoadBalancer", "team") == {}


def _metallb(argument: str) -> Json:
    """Return the Deployment of MetalLB's controller."""
    labels = {"app": "metallb", "component": "controller"}
    meta = {"name": "controller", "namespace": "metallb-system", "labels": labels}
    containers = [{"name": "controller", "args": [argument]}]
    return {"metadata": meta, "spec": {"template": {"spec": {"containers": containers}}}}


async def test_the_program_serves_cilium_to_a_tenant_that_names_it_and_metallb_to_others() -> None:
    kinds = load_balancer_kinds(SystemClock(), TenantSettings(metallb_wait=1.0, cilium_wait=2.0))
    chosen = {
        kind.title: kind.wait for kind in map(kinds.of, (make.tenant(spec=SPEC), make.tenant()))
    }
    assert chosen == {"Cilium": 2.0, "MetalLB": 1.0}
