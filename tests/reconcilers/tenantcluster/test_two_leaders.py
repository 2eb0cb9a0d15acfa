"""Two replicas that both believe they lead do not overwrite each other's conditions."""

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from controller.errors import NoAnswer, ServerFailure
from controller.testing import WriteRecord
from reconcilers.api import names
from reconcilers.loadbalancers.metallb.uptake import MARKER
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, add_service
from tests.reconcilers.lab import TENANT_KINDS, Lab, Replica
from tests.reconcilers.server import Server

CLUSTER = make.key("a", "team")
PASSES = 30
"""How often each of two replicas reconciles an object, a tenth of a second apart."""


async def _make_ready_lab() -> Lab:
    """Return a lab with a Ready cluster."""
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.start_tenant_server("a")
    lab.server.add("tenantclusters", make.tenant())
    await lab.run_until_at_rest()
    assert lab.read_status("tenantclusters", "a", "team")["phase"] == "Ready"
    return lab


async def _count_writes_of_both(lab: Lab, other: Replica, times: int) -> int:
    """Run passes of both replicas in turn; return how often the cluster was written."""
    before = lab.server.count(verb="patch", plural="tenantclusters")
    for _ in range(times):
        await lab.run_cluster_pass()
        await other.clusters.reconcile(CLUSTER)
        await lab.clock.advance(0.1)
    return lab.server.count(verb="patch", plural="tenantclusters") - before


async def test_two_leaders_that_saw_different_failures_do_not_overwrite_each_others_condition() -> (  # noqa: E501
    None
):
    lab = await _make_ready_lab()
    other = lab.make_replica()
    lab.tenant_servers["a"].fail(NoAnswer("timed out"), times=1)
    await lab.run_cluster_pass()
    lab.tenant_servers["a"].fail(ServerFailure(503, "", "starting"), times=1)
    await other.clusters.reconcile(CLUSTER)
    assert await _count_writes_of_both(lab, other, PASSES) == 0
    condition = lab.find_condition(
        "tenantclusters", "a", kind="LoadBalancerReady", namespace="team"
    )
    assert condition["reason"] == "TenantUnreachable"


async def test_a_leader_that_pauses_after_a_failure_keeps_the_success_another_has_written() -> (
    None
):
    lab = await _make_ready_lab()
    other = lab.make_replica()
    lab.tenant_servers["a"].fail(NoAnswer("timed out"), times=1)
    await lab.run_cluster_pass()
    assert await _count_writes_of_both(lab, other, PASSES) == 1
    condition = lab.find_condition(
        "tenantclusters", "a", kind="LoadBalancerReady", namespace="team"
    )
    assert condition["status"] == "True"


@pytest.mark.parametrize("local", ["10.0.0.1:43210", "[fd00::1]:43210"])
async def test_a_condition_does_not_contain_the_local_port_of_a_connection(local: str) -> None:
    """The port differs between replicas, so they would overwrite each other's message."""
    lab = await _make_ready_lab()
    failure = ServerFailure(500, "InternalError", f"read tcp {local}->10.0.0.2:2379: reset")
    lab.tenant_servers["a"].fail(failure, times=1)
    await lab.run_cluster_pass()
    message = lab.find_condition(
        "tenantclusters", "a", kind="LoadBalancerReady", namespace="team"
    )["message"]
    assert "read tcp 10.0.0.2:2379: reset" in message


async def test_two_leaders_do_not_overwrite_why_an_allocation_waits_for_its_tenant() -> None:
    lab = await _make_ready_lab()
    other = lab.make_replica()
    lab.use_real_release_check()
    other.use_real_release_check()
    name = "team-a-lb"
    lab.server.delete("ipallocations", name)
    lab.tenant_servers["a"].fail(NoAnswer("timed out"), times=1)
    await lab.run_allocation_pass(name)
    lab.tenant_servers["a"].fail(ServerFailure(503, "", "starting"), times=1)
    await other.allocations.reconcile(make.key(name))
    before = lab.server.count(verb="patch", plural="ipallocations")
    for _ in range(PASSES):
        await lab.run_allocation_pass(name)
        await other.allocations.reconcile(make.key(name))
        await lab.clock.advance(0.1)
    assert lab.server.count(verb="patch", plural="ipallocations") == before


async def _make_deleting_lab() -> tuple[Lab, Replica, Server]:
    """Return a lab whose cluster is being deleted, a second leader, and the tenant's API server.

    A MetalLB that counts addresses is installed in the tenant, but nothing plays it.
    """
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    tenant = lab.start_tenant_server("a", (*TENANT_KINDS, "servicebgpstatuses"))
    lab.server.add("tenantclusters", make.tenant())
    await lab.run_until_at_rest()
    other = lab.make_replica()
    other.use_real_release_check()
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.run_cluster_pass()
    return lab, other, tenant


def _has_marker(tenant: Server) -> bool:
    """Return whether the tenant has the marker pool, whose count proves what MetalLB has read."""
    return tenant.has("ipaddresspools", MARKER, namespace="metallb-system")


async def test_a_leader_that_lags_does_not_create_the_marker_again_after_the_teardown() -> None:
    lab, other, tenant = await _make_deleting_lab()
    other.hold_events(*other.caches)
    await lab.run_rounds("a", 3)
    assert _has_marker(tenant)
    await lab.clock.advance(600)
    await lab.run_rounds("a", 3)
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert not _has_marker(tenant)
    await other.allocations.reconcile(make.key("team-a-lb"))
    assert not _has_marker(tenant)


async def test_a_marker_that_is_created_while_its_cluster_is_torn_down_is_deleted() -> None:
    lab, other, tenant = await _make_deleting_lab()
    other.hold_events(*other.caches)

    def finish_teardown(happening: WriteRecord) -> None:
        if happening.object["metadata"]["name"] == MARKER and happening.type == "ADDED":
            lab.server.vanish("ipallocations", "team-a-lb")

    await lab.clusters.reconcile(CLUSTER)
    tenant.listeners.append(finish_teardown)
    await other.allocations.reconcile(make.key("team-a-lb"))
    assert not lab.server.has("ipallocations", "team-a-lb")
    assert tenant.count(verb="post", plural="ipaddresspools") == 2, "the pool, and the marker"
    assert not _has_marker(tenant)


def _count_marker_addresses(tenant: Server) -> None:
    """Write the count of the marker pool as MetalLB does, if the marker exists."""
    if _has_marker(tenant):
        pool = tenant.see("ipaddresspools", MARKER, namespace="metallb-system")
        size = int(pool["spec"]["addresses"][0].rpartition(".")[2])
        status = {"status": {"assignedIPv4": 0, "availableIPv4": size}}
        tenant.edit("ipaddresspools", MARKER, status, namespace="metallb-system")


async def _tear_down(lab: Lab, tenant: Server, seconds: int) -> None:
    """Run the first leader's passes once a second, with a MetalLB that counts the marker."""
    for _ in range(seconds):
        await lab.run_rounds("a", 1)
        _count_marker_addresses(tenant)


async def test_a_marker_whose_creator_died_after_creating_it_late_is_deleted_with_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab, other, tenant = await _make_deleting_lab()
    other.hold_events(*other.caches)
    await lab.clusters.reconcile(CLUSTER)
    request, dying = tenant.request, anyio.CancelScope()

    # The other leader's POST arrives after 40 seconds of teardown; then that leader dies.
    async def request_late(method: str, path: str, **options: Any) -> bytes:
        if method != "POST":
            return await request(method, path, **options)
        monkeypatch.setattr(tenant, "request", request)
        await _tear_down(lab, tenant, 40)
        answer = await request(method, path, **options)
        dying.cancel()
        await checkpoint()
        return answer

    monkeypatch.setattr(tenant, "request", request_late)
    with dying:
        await other.allocations.reconcile(make.key("team-a-lb"))
    assert dying.cancelled_caught, "the other leader died during its request"
    assert _has_marker(tenant)
    await _tear_down(lab, tenant, 200)
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert not _has_marker(tenant)


async def test_the_annotation_about_a_markers_creation_is_removed_once_it_is_created() -> None:
    lab, _, tenant = await _make_deleting_lab()
    await lab.run_rounds("a", 2)
    assert _has_marker(tenant)
    allocation = lab.server.see("ipallocations", "team-a-lb")
    assert names.ANNOTATION_MARKER_CREATION not in allocation["metadata"].get("annotations", {})
    await _tear_down(lab, tenant, 30)
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert not _has_marker(tenant)


async def test_the_annotation_about_a_markers_creation_is_removed_despite_a_conflict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab, _, tenant = await _make_deleting_lab()
    request, removals = lab.server.request, 0

    async def request_beside_an_edit(method: str, path: str, **options: Any) -> bytes:
        nonlocal removals
        patch = str(options)
        if method == "PATCH" and names.ANNOTATION_MARKER_CREATION in patch and "null" in patch:
            removals += 1
            if removals == 1:
                edit = {"metadata": {"labels": {"edited": "yes"}}}
                lab.server.edit("ipallocations", "team-a-lb", edit)
        return await request(method, path, **options)

    monkeypatch.setattr(lab.server, "request", request_beside_an_edit)
    await lab.run_rounds("a", 2)
    assert removals > 1, "the first removal met an edit"
    allocation = lab.server.see("ipallocations", "team-a-lb")
    assert names.ANNOTATION_MARKER_CREATION not in allocation["metadata"].get("annotations", {})
    await _tear_down(lab, tenant, 30)
    assert not lab.server.has("tenantclusters", "a", namespace="team")


async def _make_static_lab(*services: str, size: int, cidr: str = "10.40.0.0/27") -> Lab:
    """Return a lab with a Ready static cluster of four addresses that requests another size.

    Args:
        services: names of Services in its tenant.
        size: the new spec.networking.lbPoolSize.
        cidr: of its NetworkPool.
    """
    lab = Lab()
    lab.server.add("networkpools", make.pool(cidr=cidr))
    sizing = {"allocationMode": "static", "defaultPoolSize": 4}
    lab.server.add("providerconfigs", make.provider("lab", load_balancer=sizing))
    tenant = lab.start_tenant_server("a")
    Balancer(tenant)
    lab.server.add("tenantclusters", make.tenant())
    await lab.run_until_at_rest()
    for name in services:
        add_service(tenant, name)
    await lab.clock.advance(60)
    resized = {"spec": {"networking": {"lbPoolSize": size}}}
    lab.server.edit("tenantclusters", "a", resized, namespace="team")
    await lab.run_until_at_rest()
    return lab


def _read_network(lab: Lab) -> dict[str, Any]:
    """Return status.network of the cluster."""
    network: dict[str, Any] = lab.read_status("tenantclusters", "a", "team")["network"]
    return network


async def test_two_leaders_agree_on_a_static_cluster_that_cannot_grow() -> None:
    lab = await _make_static_lab("a", "b", "c", "d", "e", size=40)
    other = lab.make_replica()
    await _count_writes_of_both(lab, other, 3)
    assert _read_network(lab)["waiting"][0]["addresses"] == 36
    assert _read_network(lab)["loadBalancer"]["servicesWaiting"] == 1
    assert await _count_writes_of_both(lab, other, PASSES) == 0


async def test_two_leaders_agree_on_a_cluster_that_waits_for_addresses() -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool(cidr="10.40.0.0/28"))
    lab.server.add("providerconfigs", make.provider("lab", load_balancer={"defaultPoolSize": 30}))
    lab.server.add("tenantclusters", make.tenant())
    await lab.run_until_at_rest()
    other = lab.make_replica()
    assert {request["type"] for request in _read_network(lab)["waiting"]} == {
        "nodes",
        "loadbalancer",
    }
    assert await _count_writes_of_both(lab, other, PASSES) == 0


async def test_a_leader_that_cannot_read_services_keeps_the_refused_growth_in_the_status() -> None:
    lab = await _make_static_lab(size=40)
    other = lab.make_replica()
    waiting = _read_network(lab)["waiting"]
    assert [request["role"] for request in waiting] == ["growth"]
    lab.tenant_servers["a"].fail(NoAnswer("timed out"), times=1)
    await other.clusters.reconcile(CLUSTER)
    assert await _count_writes_of_both(lab, other, PASSES) <= 1
    assert _read_network(lab)["waiting"] == waiting
