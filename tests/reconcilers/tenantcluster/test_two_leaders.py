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
from tests.reconcilers.balancer import Balancer, service
from tests.reconcilers.lab import TENANT_KINDS, Lab, Replica
from tests.reconcilers.server import Server

CLUSTER = make.key("a", "team")
BOTH = 30
"""How often both replicas look at the cluster while its tenant is away."""


async def _served_lab() -> Lab:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.tenant_server("a")
    lab.server.add("tenantclusters", make.tenant())
    await lab.rounds()
    assert lab.see("tenantclusters", "a", "team")["phase"] == "Ready"
    return lab


async def _both_pass(lab: Lab, other: Replica, times: int) -> int:
    """Let both replicas reconcile the cluster in turn; return how often its status was written."""
    before = lab.server.count(verb="patch", plural="tenantclusters")
    for _ in range(times):
        await lab.cluster()
        await other.clusters.reconcile(CLUSTER)
        await lab.clock.advance(0.1)
    return lab.server.count(verb="patch", plural="tenantclusters") - before


async def test_two_leaders_that_met_different_failures_of_a_tenant_write_one_each() -> None:
    lab = await _served_lab()
    other = lab.another()
    lab.tenant_servers["a"].fail(NoAnswer("timed out"), times=1)
    await lab.cluster()
    lab.tenant_servers["a"].fail(ServerFailure(503, "", "starting"), times=1)
    await other.clusters.reconcile(CLUSTER)
    assert await _both_pass(lab, other, BOTH) == 0
    condition = lab.condition("tenantclusters", "a", kind="LoadBalancerReady", namespace="team")
    assert condition["reason"] == "TenantUnreachable"


async def test_a_leader_that_does_not_try_a_tenant_keeps_what_another_has_seen_since() -> None:
    lab = await _served_lab()
    other = lab.another()
    lab.tenant_servers["a"].fail(NoAnswer("timed out"), times=1)
    await lab.cluster()
    assert await _both_pass(lab, other, BOTH) == 1
    condition = lab.condition("tenantclusters", "a", kind="LoadBalancerReady", namespace="team")
    assert condition["status"] == "True"


@pytest.mark.parametrize("local", ["10.0.0.1:43210", "[fd00::1]:43210"])
async def test_the_local_end_of_a_connection_is_in_no_condition(local: str) -> None:
    lab = await _served_lab()
    failure = ServerFailure(500, "InternalError", f"read tcp {local}->10.0.0.2:2379: reset")
    lab.tenant_servers["a"].fail(failure, times=1)
    await lab.cluster()
    message = lab.condition("tenantclusters", "a", kind="LoadBalancerReady", namespace="team")[
        "message"
    ]
    assert "read tcp 10.0.0.2:2379: reset" in message


async def test_two_leaders_do_not_overwrite_why_an_allocation_waits_for_its_tenant() -> None:
    lab = await _served_lab()
    other = lab.another()
    lab.gate.real, other.gate.real = lab.tenant_gate, other.tenant_gate
    name = "team-a-lb"
    lab.server.delete("ipallocations", name)
    lab.tenant_servers["a"].fail(NoAnswer("timed out"), times=1)
    await lab.allocation(name)
    lab.tenant_servers["a"].fail(ServerFailure(503, "", "starting"), times=1)
    await other.allocations.reconcile(make.key(name))
    before = lab.server.count(verb="patch", plural="ipallocations")
    for _ in range(BOTH):
        await lab.allocation(name)
        await other.allocations.reconcile(make.key(name))
        await lab.clock.advance(0.1)
    assert lab.server.count(verb="patch", plural="ipallocations") == before


async def _deleting_lab() -> tuple[Lab, Replica, Server]:
    """Return a lab and a second leader; its cluster is being deleted, its MetalLB is read."""
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    tenant = lab.tenant_server("a", (*TENANT_KINDS, "servicebgpstatuses"))
    lab.server.add("tenantclusters", make.tenant())
    await lab.rounds()
    other = lab.another()
    other.gate.real = other.tenant_gate
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.cluster()
    return lab, other, tenant


def _has_marker(tenant: Server) -> bool:
    return tenant.has("ipaddresspools", MARKER, namespace="metallb-system")


async def test_a_leader_that_lags_does_not_create_the_marker_again_after_the_teardown() -> None:
    lab, other, tenant = await _deleting_lab()
    other.hold(*other.caches)
    await lab.rounds_of("a", 3)
    assert _has_marker(tenant)
    await lab.clock.advance(600)
    await lab.rounds_of("a", 3)
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert not _has_marker(tenant)
    await other.allocations.reconcile(make.key("team-a-lb"))
    assert not _has_marker(tenant)


async def test_a_marker_that_is_created_while_its_cluster_is_torn_down_is_deleted() -> None:
    lab, other, tenant = await _deleting_lab()
    other.hold(*other.caches)

    def finish_teardown(happening: WriteRecord) -> None:
        if happening.object["metadata"]["name"] == MARKER and happening.type == "ADDED":
            lab.server.vanish("ipallocations", "team-a-lb")

    await lab.clusters.reconcile(CLUSTER)
    tenant.listeners.append(finish_teardown)
    await other.allocations.reconcile(make.key("team-a-lb"))
    assert not lab.server.has("ipallocations", "team-a-lb")
    assert tenant.count(verb="post", plural="ipaddresspools") == 2, "the pool, and the marker"
    assert not _has_marker(tenant)


def _count_marker(tenant: Server) -> None:
    """Let MetalLB count the marker's addresses, if the marker exists."""
    if _has_marker(tenant):
        pool = tenant.see("ipaddresspools", MARKER, namespace="metallb-system")
        size = int(pool["spec"]["addresses"][0].rpartition(".")[2])
        status = {"status": {"assignedIPv4": 0, "availableIPv4": size}}
        tenant.edit("ipaddresspools", MARKER, status, namespace="metallb-system")


async def _tear_down(lab: Lab, tenant: Server, seconds: int) -> None:
    """Let the first leader tear down the cluster for so long, while MetalLB counts."""
    for _ in range(seconds):
        await lab.rounds_of("a", 1)
        _count_marker(tenant)


async def test_a_marker_whose_creator_dies_before_its_second_look_goes_with_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab, other, tenant = await _deleting_lab()
    other.hold(*other.caches)
    await lab.clusters.reconcile(CLUSTER)
    request, dying = tenant.request, anyio.CancelScope()

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
    assert dying.cancelled_caught, "the process died with its request under way"
    assert _has_marker(tenant)
    await _tear_down(lab, tenant, 200)
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert not _has_marker(tenant)


async def test_the_record_of_a_marker_is_gone_once_the_marker_is_made() -> None:
    lab, _, tenant = await _deleting_lab()
    await lab.rounds_of("a", 2)
    assert _has_marker(tenant)
    allocation = lab.server.see("ipallocations", "team-a-lb")
    assert names.ANNOTATION_MARKER_CREATION not in allocation["metadata"].get("annotations", {})
    await _tear_down(lab, tenant, 30)
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert not _has_marker(tenant)


async def test_the_record_of_a_marker_goes_though_the_allocation_is_written_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab, _, tenant = await _deleting_lab()
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
    await lab.rounds_of("a", 2)
    assert removals > 1, "the first removal met an edit"
    allocation = lab.server.see("ipallocations", "team-a-lb")
    assert names.ANNOTATION_MARKER_CREATION not in allocation["metadata"].get("annotations", {})
    await _tear_down(lab, tenant, 30)
    assert not lab.server.has("tenantclusters", "a", namespace="team")


async def _static_lab(*services: str, size: int, cidr: str = "10.40.0.0/27") -> Lab:
    """Return a lab with a Ready static cluster that asks for another size."""
    lab = Lab()
    lab.server.add("networkpools", make.pool(cidr=cidr))
    sizing = {"allocationMode": "static", "defaultPoolSize": 4}
    lab.server.add("providerconfigs", make.provider("lab", load_balancer=sizing))
    tenant = lab.tenant_server("a")
    Balancer(tenant)
    lab.server.add("tenantclusters", make.tenant())
    await lab.rounds()
    for name in services:
        service(tenant, name)
    await lab.clock.advance(60)
    resized = {"spec": {"networking": {"lbPoolSize": size}}}
    lab.server.edit("tenantclusters", "a", resized, namespace="team")
    await lab.rounds()
    return lab


def _network(lab: Lab) -> dict[str, Any]:
    network: dict[str, Any] = lab.see("tenantclusters", "a", "team")["network"]
    return network


async def test_two_leaders_agree_on_a_static_cluster_that_cannot_grow() -> None:
    lab = await _static_lab("a", "b", "c", "d", "e", size=40)
    other = lab.another()
    await _both_pass(lab, other, 3)
    assert _network(lab)["waiting"][0]["addresses"] == 36
    assert _network(lab)["loadBalancer"]["servicesWaiting"] == 1
    assert await _both_pass(lab, other, BOTH) == 0


async def test_two_leaders_agree_on_a_cluster_that_waits_for_addresses() -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool(cidr="10.40.0.0/28"))
    lab.server.add("providerconfigs", make.provider("lab", load_balancer={"defaultPoolSize": 30}))
    lab.server.add("tenantclusters", make.tenant())
    await lab.rounds()
    other = lab.another()
    assert {request["type"] for request in _network(lab)["waiting"]} == {"nodes", "loadbalancer"}
    assert await _both_pass(lab, other, BOTH) == 0


async def test_a_leader_that_cannot_read_services_keeps_the_growth_that_is_refused() -> None:
    lab = await _static_lab(size=40)
    other = lab.another()
    waiting = _network(lab)["waiting"]
    assert [request["role"] for request in waiting] == ["growth"]
    lab.tenant_servers["a"].fail(NoAnswer("timed out"), times=1)
    await other.clusters.reconcile(CLUSTER)
    assert await _both_pass(lab, other, BOTH) <= 1
    assert _network(lab)["waiting"] == waiting
