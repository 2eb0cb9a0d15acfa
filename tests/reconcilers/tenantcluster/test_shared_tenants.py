"""Two TenantClusters whose kubeconfigs lead to one cluster, or to the management cluster."""

from typing import Any

import pytest

from controller.errors import Forbidden
from controller.outcome import Blocked
from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.balancer import list_pool_entries
from tests.reconcilers.lab import Lab
from tests.reconcilers.server import Json, Server

METALLB = "metallb-system"
OWNER = "butler.butlerlabs.dev/projection-owner"
IDENTITY = "butler.butlerlabs.dev/tenant-identity"
FIRST_RANGE, SECOND_RANGE = ("10.40.0.0", "10.40.0.7"), ("10.40.0.8", "10.40.0.15")
FIRST_ENTRIES, SECOND_ENTRIES = ["10.40.0.0-10.40.0.7"], ["10.40.0.8-10.40.0.15"]


def _make_lab(load_balancer: Json | None = None) -> tuple[Lab, Server]:
    """Return a lab where the kubeconfigs of clusters a and b lead to one tenant, and the tenant.

    Args:
        load_balancer: spec.network.loadBalancer of the provider; None for the defaults.
    """
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab", load_balancer=load_balancer))
    lab.use_real_release_check()
    tenant = lab.start_tenant_server("a")
    lab.start_tenant_server("b")
    lab.tenant_servers["b"] = tenant
    return lab, tenant


def _add_cluster(
    lab: Lab, name: str, held_range: tuple[str, str], phase: str = "Ready", **meta: Any
) -> None:
    """Add a TenantCluster and the range that it holds."""
    lab.server.add("tenantclusters", make.tenant(name, status={"phase": phase}, **meta))
    allocation = make.allocation(f"team-{name}-lb", tenant=f"team/{name}", held_range=held_range)
    lab.server.add("ipallocations", allocation)


async def _make_two_clusters() -> tuple[Lab, Server]:
    """Return a lab where cluster a holds the shared tenant and cluster b waits, and the tenant."""
    lab, tenant = _make_lab()
    _add_cluster(lab, "a", FIRST_RANGE)
    await lab.run_cluster_pass("a")
    _add_cluster(lab, "b", SECOND_RANGE)
    await lab.run_cluster_pass("b")
    return lab, tenant


def _read_condition(lab: Lab, name: str, kind: str = "LoadBalancerReady") -> tuple[str, str]:
    """Return status and reason of a condition of a cluster; empty strings if there is none."""
    condition = lab.find_condition("tenantclusters", name, kind=kind, namespace="team")
    return condition.get("status", ""), condition.get("reason", "")


def _read_pool(server: Server) -> Json:
    """Return IPAddressPool default-pool."""
    return server.see("ipaddresspools", "default-pool", namespace=METALLB)


def _add_pool(server: Server, *addresses: str, **annotations: str) -> Json:
    """Create IPAddressPool default-pool, as another tool or an earlier release would."""
    meta = {"name": "default-pool", "namespace": METALLB, "annotations": annotations}
    return server.add("ipaddresspools", {"metadata": meta, "spec": {"addresses": addresses}})


async def test_objects_in_a_tenant_name_their_cluster_and_the_cluster_names_its_tenant() -> None:
    lab, tenant = _make_lab()
    _add_cluster(lab, "a", FIRST_RANGE)
    await lab.run_cluster_pass("a")
    advertisement = tenant.see("l2advertisements", "default", namespace=METALLB)
    for obj in (_read_pool(tenant), advertisement):
        assert obj["metadata"]["annotations"][OWNER] == "team/a"
        assert obj["metadata"]["annotations"][f"{OWNER}-uid"] == "uid-team-a"
    cluster = lab.server.see("tenantclusters", "a", namespace="team")["metadata"]
    assert cluster["annotations"][IDENTITY] == tenant.identity


async def test_the_second_cluster_in_a_tenant_waits_and_its_condition_names_the_first() -> None:
    lab, tenant = await _make_two_clusters()
    before = (tenant.revision, lab.server.revision)
    for _ in range(20):
        assert await lab.run_cluster_pass("b") == Blocked("TenantShared", 30.0)
        await lab.run_cluster_pass("a")
        await lab.clock.advance(30)
    assert (tenant.revision, lab.server.revision) == before, "nothing is written any more"
    assert list_pool_entries(tenant) == FIRST_ENTRIES
    assert _read_condition(lab, "a") == ("True", "Ready")
    assert _read_condition(lab, "b") == ("False", "TenantShared")
    message = lab.find_condition(
        "tenantclusters", "b", kind="LoadBalancerReady", namespace="team"
    )["message"]
    assert "TenantCluster team/a leads to the same cluster" in message
    assert lab.recorded.events.count(("Warning", "TenantShared", message)) == 1


async def test_the_cluster_that_gets_a_tenant_is_decided_without_a_list_of_its_pools() -> None:
    lab, tenant = await _make_two_clusters()
    requests_before = len(tenant.requests)
    assert await lab.run_cluster_pass("b") == Blocked("TenantShared", 30.0)
    reads = [r for r in tenant.requests[requests_before:] if r.matches(plural="ipaddresspools")]
    assert {request.verb for request in reads} == {"get"}


async def test_the_second_cluster_waits_even_if_the_tenant_lacks_metallb() -> None:
    lab, tenant = _make_lab()
    tenant.served = ("services", "namespaces")
    for name, held_range in (("a", FIRST_RANGE), ("b", SECOND_RANGE)):
        _add_cluster(lab, name, held_range=held_range, phase="Installing")
        nodes = make.allocation(
            f"team-{name}-nodes",
            tenant=f"team/{name}",
            kind="nodes",
            held_range=("10.40.0.16",) * 2,
        )
        lab.server.add("ipallocations", nodes)
        await lab.run_cluster_pass(name)
    assert _read_condition(lab, "a") == ("False", "MetalLBNotInstalled")
    assert _read_condition(lab, "b") == ("False", "TenantShared")


async def test_an_elastic_cluster_that_waits_does_not_grow_for_services_of_the_other() -> None:
    lab, tenant = _make_lab({"allocationMode": "elastic", "growthIncrement": 2})
    _add_cluster(lab, "a", FIRST_RANGE)
    await lab.run_cluster_pass("a")
    _add_cluster(lab, "b", SECOND_RANGE)
    for number in range(9):
        meta = {"name": f"web-{number}", "namespace": "default"}
        tenant.add("services", {"metadata": meta, "spec": {"type": "LoadBalancer"}})
    for _ in range(8):
        await lab.run_cluster_pass("b")
        await lab.clock.advance(30)
    allocation_names = [
        allocation["metadata"]["name"] for allocation in lab.server.all("ipallocations")
    ]
    assert [name for name in allocation_names if name.startswith("team-b-lb")] == ["team-b-lb"]


async def test_a_waiting_cluster_can_be_deleted_at_once_and_the_pool_of_the_first_stays() -> None:
    lab, tenant = await _make_two_clusters()
    before = _read_pool(tenant)
    lab.server.delete("tenantclusters", "b", namespace="team")
    await lab.run_until_at_rest()
    assert not lab.server.has("tenantclusters", "b", namespace="team")
    assert not lab.server.has("ipallocations", "team-b-lb")
    assert _read_pool(tenant) == before
    assert "TeardownGracePassed" not in lab.recorded.reasons


async def test_the_second_cluster_gets_the_tenant_once_the_first_is_gone() -> None:
    lab, tenant = await _make_two_clusters()
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.run_until_at_rest()
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    await lab.run_cluster_pass("b")
    assert list_pool_entries(tenant) == SECOND_ENTRIES
    assert _read_condition(lab, "b") == ("True", "Ready")


async def test_a_deleted_range_of_the_second_is_in_use_while_an_older_pool_still_has_it() -> None:
    """Earlier releases of the controller wrote the ranges of both clusters into one pool."""
    lab, tenant = _make_lab()
    begun = {names.ANNOTATION_PROJECTION_BEGUN: "2026-01-01T00:00:00Z"}
    _add_cluster(lab, "a", FIRST_RANGE, annotations=begun)
    _add_cluster(lab, "b", SECOND_RANGE, annotations=begun)
    _add_pool(tenant, *FIRST_ENTRIES, *SECOND_ENTRIES, **{names.ANNOTATION_PROJECTION_BASIS: "1"})
    lab.server.delete("tenantclusters", "b", namespace="team")
    await lab.run_allocation_pass("team-b-lb")
    assert lab.server.has("ipallocations", "team-b-lb"), "the pool still has the range"
    await lab.run_cluster_pass("a")
    await lab.run_until_at_rest()
    assert list_pool_entries(tenant) == FIRST_ENTRIES
    assert not lab.server.has("ipallocations", "team-b-lb")
    assert "TeardownGracePassed" not in lab.recorded.reasons


@pytest.mark.parametrize(
    ("pool_ranges", "first"),
    [
        (FIRST_ENTRIES, "a"),
        (SECOND_ENTRIES, "b"),
        (["192.0.2.0-192.0.2.0"], "a"),
        (["10.9.9.9/32"], "a"),
    ],
    ids=["range of a", "range of b", "the empty pool's placeholder", "edited by hand"],
)
async def test_a_pool_of_an_earlier_release_goes_to_the_cluster_whose_addresses_it_has(
    pool_ranges: list[str], first: str
) -> None:
    lab, tenant = _make_lab()
    _add_cluster(lab, "a", FIRST_RANGE)
    _add_cluster(lab, "b", SECOND_RANGE)
    _add_pool(tenant, *pool_ranges, **{names.ANNOTATION_PROJECTION_BASIS: "1"})
    for _ in range(3):
        await lab.run_cluster_pass("a")
        await lab.run_cluster_pass("b")
    assert _read_pool(tenant)["metadata"]["annotations"][OWNER] == f"team/{first}"
    assert list_pool_entries(tenant) == {"a": FIRST_ENTRIES, "b": SECOND_ENTRIES}[first]


async def test_the_oldest_cluster_gets_a_tenant_that_has_no_pool() -> None:
    lab, tenant = _make_lab()
    noted = {IDENTITY: tenant.identity}
    _add_cluster(
        lab, "a", FIRST_RANGE, annotations=noted, creationTimestamp="2026-01-01T00:00:09Z"
    )
    _add_cluster(
        lab, "b", SECOND_RANGE, annotations=noted, creationTimestamp="2026-01-01T00:00:08Z"
    )
    await lab.run_cluster_pass("a")
    assert tenant.all("ipaddresspools") == []
    await lab.run_cluster_pass("b")
    await lab.run_cluster_pass("a")
    assert list_pool_entries(tenant) == SECOND_ENTRIES
    assert _read_condition(lab, "a") == ("False", "TenantShared")


async def test_a_pool_of_a_cluster_that_does_not_exist_any_more_is_taken_over() -> None:
    lab, tenant = _make_lab()
    _add_cluster(lab, "a", FIRST_RANGE)
    notes = {names.ANNOTATION_PROJECTION_BASIS: "1", OWNER: "team/renamed"}
    _add_pool(tenant, "10.40.0.16-10.40.0.23", **notes)
    lab.server.fail(Forbidden(403, "Forbidden", "no"), verb="get", plural="tenantclusters")
    with pytest.raises(Forbidden):
        await lab.run_cluster_pass("a")
    assert list_pool_entries(tenant) == ["10.40.0.16-10.40.0.23"]
    await lab.run_cluster_pass("a")
    assert list_pool_entries(tenant) == FIRST_ENTRIES


async def test_a_pool_that_others_made_is_neither_overwritten_nor_deleted() -> None:
    lab, tenant = _make_lab()
    _add_cluster(lab, "a", FIRST_RANGE)
    _add_pool(tenant, "10.9.0.0/24")
    assert await lab.run_cluster_pass("a") == Blocked("PoolMadeByOthers", 30.0)
    message = lab.find_condition(
        "tenantclusters", "a", kind="LoadBalancerReady", namespace="team"
    )["message"]
    assert "move them to an IPAddressPool of another name" in message
    assert ("Warning", "PoolMadeByOthers", message) in lab.recorded.events
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.run_until_at_rest()
    assert list_pool_entries(tenant) == ["10.9.0.0/24"]
    assert not lab.server.has("tenantclusters", "a", namespace="team")


async def test_a_marker_that_others_made_is_left_alone_and_named() -> None:
    lab, tenant = _make_lab()
    tenant.served = (*tenant.served, "servicebgpstatuses")
    _add_cluster(lab, "a", FIRST_RANGE)
    await lab.run_cluster_pass("a")
    meta = {"name": "butler-ipam-marker", "namespace": METALLB}
    theirs = {"metadata": meta, "spec": {"addresses": ["10.9.0.0/24"]}}
    before = tenant.add("ipaddresspools", theirs)
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.run_rounds("a", 3)
    condition = lab.find_condition("ipallocations", "team-a-lb", "Ready")
    assert "butler-ipam-marker was not created by this controller" in condition["message"]
    await lab.clock.advance(600)
    await lab.run_rounds("a", 3)
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert tenant.see("ipaddresspools", "butler-ipam-marker", namespace=METALLB) == before


@pytest.mark.parametrize(
    "theirs", [["10.9.0.0/24"], FIRST_ENTRIES, []], ids=["other", "same", "none"]
)
async def test_nothing_is_written_or_deleted_in_the_management_cluster(theirs: list[str]) -> None:
    lab, _ = _make_lab()
    lab.tenant_servers["a"] = lab.server
    _add_cluster(lab, "a", held_range=FIRST_RANGE, phase="Provisioning")
    nodes = make.allocation("team-a-nodes", kind="nodes", held_range=("10.40.0.16", "10.40.0.20"))
    lab.server.add("ipallocations", nodes)
    if theirs:
        _add_pool(lab.server, *theirs)
    before = lab.server.all("ipaddresspools")
    assert await lab.run_cluster_pass("a") == Blocked("TenantIsManagementCluster", 30.0)
    assert "TenantIsManagementCluster" in lab.recorded.reasons
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.run_until_at_rest()
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert lab.server.all("ipaddresspools") == before
    assert lab.server.all("l2advertisements") == []


async def test_the_identity_of_the_management_cluster_is_read_again_after_a_failure() -> None:
    lab, _ = _make_lab()
    lab.tenant_servers["a"] = lab.server
    _add_cluster(lab, "a", FIRST_RANGE)
    lab.server.fail(Forbidden(403, "Forbidden", "no"), plural="namespaces", times=2)
    assert await lab.run_cluster_pass("a") != Blocked("TenantIsManagementCluster", 30.0)
    await lab.clock.advance(300)
    assert await lab.run_cluster_pass("a") == Blocked("TenantIsManagementCluster", 30.0)


async def test_a_range_is_in_use_if_the_kubeconfig_leads_to_another_tenant_than_before() -> None:
    lab, _ = await _make_two_clusters()
    own = lab.tenant_servers["b"] = Server(lab.clock, ("services", "namespaces"))
    noted = {IDENTITY: own.identity, names.ANNOTATION_PROJECTION_BEGUN: "2026-01-01T00:00:00Z"}
    lab.server.edit("tenantclusters", "b", {"metadata": {"annotations": noted}}, namespace="team")
    lab.server.delete("tenantclusters", "b", namespace="team")
    await lab.run_rounds("b", 5)
    assert lab.server.has("ipallocations", "team-b-lb")
    await lab.clock.advance(600)
    await lab.run_rounds("b", 3)
    assert not lab.server.has("ipallocations", "team-b-lb")
    assert "TeardownGracePassed" in lab.recorded.reasons


async def test_a_tenant_whose_identity_cannot_be_read_is_used_and_a_condition_reports_it() -> None:
    lab, tenant = _make_lab()
    _add_cluster(lab, "a", FIRST_RANGE)
    tenant.fail(Forbidden(403, "Forbidden", "no"), plural="namespaces")
    await lab.run_cluster_pass("a")
    assert list_pool_entries(tenant) == FIRST_ENTRIES
    assert _read_condition(lab, "a", "TenantIdentified") == ("False", "IdentityForbidden")
    assert _read_condition(lab, "a") == ("True", "Ready")
    await lab.clock.advance(300)
    await lab.run_cluster_pass("a")
    assert _read_condition(lab, "a", "TenantIdentified") == ("", "")
    cluster = lab.server.see("tenantclusters", "a", namespace="team")["metadata"]
    assert cluster["annotations"][IDENTITY] == tenant.identity


async def test_the_pools_owner_makes_the_second_cluster_wait_if_the_identity_is_unreadable() -> (
    None
):
    lab, tenant = _make_lab()
    tenant.fail(Forbidden(403, "Forbidden", "no"), plural="namespaces", times=99)
    _add_cluster(lab, "a", FIRST_RANGE)
    _add_cluster(lab, "b", SECOND_RANGE)
    for _ in range(3):
        await lab.run_cluster_pass("a")
        await lab.run_cluster_pass("b")
    assert list_pool_entries(tenant) == FIRST_ENTRIES
    assert _read_condition(lab, "b") == ("False", "TenantShared")
