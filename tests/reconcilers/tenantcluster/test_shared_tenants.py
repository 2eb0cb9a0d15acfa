"""Two TenantClusters whose kubeconfigs lead to one cluster, or to the management cluster."""

from typing import Any

import pytest

from controller.errors import Forbidden
from controller.outcome import Blocked
from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.balancer import pool_entries
from tests.reconcilers.lab import Lab
from tests.reconcilers.server import Json, Server

METALLB = "metallb-system"
OWNER = "butler.butlerlabs.dev/projection-owner"
IDENTITY = "butler.butlerlabs.dev/tenant-identity"
FIRST, SECOND = ("10.40.0.0", "10.40.0.7"), ("10.40.0.8", "10.40.0.15")
OF_FIRST, OF_SECOND = ["10.40.0.0-10.40.0.7"], ["10.40.0.8-10.40.0.15"]


def _lab(load_balancer: Json | None = None) -> tuple[Lab, Server]:
    """Return clusters a and b whose kubeconfigs lead to the same tenant, and that tenant."""
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab", load_balancer=load_balancer))
    lab.gate.real = lab.tenant_gate
    tenant = lab.tenant_server("a")
    lab.tenant_server("b")
    lab.tenant_servers["b"] = tenant
    return lab, tenant


def _add(
    lab: Lab, name: str, held_range: tuple[str, str], phase: str = "Ready", **meta: Any
) -> None:
    lab.server.add("tenantclusters", make.tenant(name, status={"phase": phase}, **meta))
    allocation = make.allocation(f"team-{name}-lb", tenant=f"team/{name}", held_range=held_range)
    lab.server.add("ipallocations", allocation)


async def _both() -> tuple[Lab, Server]:
    """Return the same with both at rest: a was first."""
    lab, tenant = _lab()
    _add(lab, "a", FIRST)
    await lab.cluster("a")
    _add(lab, "b", SECOND)
    await lab.cluster("b")
    return lab, tenant


def _read_condition(lab: Lab, name: str, kind: str = "LoadBalancerReady") -> tuple[str, str]:
    condition = lab.condition("tenantclusters", name, kind=kind, namespace="team")
    return condition.get("status", ""), condition.get("reason", "")


def _pool(server: Server) -> Json:
    return server.see("ipaddresspools", "default-pool", namespace=METALLB)


def _theirs(server: Server, *addresses: str, **annotations: str) -> Json:
    meta = {"name": "default-pool", "namespace": METALLB, "annotations": annotations}
    return server.add("ipaddresspools", {"metadata": meta, "spec": {"addresses": addresses}})


async def test_what_is_made_in_a_tenant_names_its_cluster_and_the_cluster_its_tenant() -> None:
    lab, tenant = _lab()
    _add(lab, "a", FIRST)
    await lab.cluster("a")
    advertisement = tenant.see("l2advertisements", "default", namespace=METALLB)
    for obj in (_pool(tenant), advertisement):
        assert obj["metadata"]["annotations"][OWNER] == "team/a"
        assert obj["metadata"]["annotations"][f"{OWNER}-uid"] == "uid-team-a"
    cluster = lab.server.see("tenantclusters", "a", namespace="team")["metadata"]
    assert cluster["annotations"][IDENTITY] == tenant.identity


async def test_of_two_clusters_in_one_tenant_the_second_waits_and_says_for_whom() -> None:
    lab, tenant = await _both()
    before = (tenant.revision, lab.server.revision)
    for _ in range(20):
        assert await lab.cluster("b") == Blocked("TenantShared", 30.0)
        await lab.cluster("a")
        await lab.clock.advance(30)
    assert (tenant.revision, lab.server.revision) == before, "nothing flaps"
    assert pool_entries(tenant) == OF_FIRST
    assert _read_condition(lab, "a") == ("True", "Ready")
    assert _read_condition(lab, "b") == ("False", "TenantShared")
    said = lab.condition("tenantclusters", "b", kind="LoadBalancerReady", namespace="team")[
        "message"
    ]
    assert "TenantCluster team/a leads to the same cluster" in said
    assert lab.recorded.events.count(("Warning", "TenantShared", said)) == 1


async def test_which_cluster_goes_first_is_decided_without_a_list_of_the_tenants_pools() -> None:
    lab, tenant = await _both()
    asked = len(tenant.requests)
    assert await lab.cluster("b") == Blocked("TenantShared", 30.0)
    reads = [r for r in tenant.requests[asked:] if r.fits(plural="ipaddresspools")]
    assert {request.verb for request in reads} == {"get"}


async def test_the_second_waits_where_metallb_is_missing_too() -> None:
    lab, tenant = _lab()
    tenant.served = ("services", "namespaces")
    for name, held_range in (("a", FIRST), ("b", SECOND)):
        _add(lab, name, held_range=held_range, phase="Installing")
        nodes = make.allocation(
            f"team-{name}-nodes",
            tenant=f"team/{name}",
            kind="nodes",
            held_range=("10.40.0.16",) * 2,
        )
        lab.server.add("ipallocations", nodes)
        await lab.cluster(name)
    assert _read_condition(lab, "a") == ("False", "MetalLBNotInstalled")
    assert _read_condition(lab, "b") == ("False", "TenantShared")


async def test_an_elastic_cluster_that_waits_does_not_grow_for_services_of_the_other() -> None:
    lab, tenant = _lab({"allocationMode": "elastic", "growthIncrement": 2})
    _add(lab, "a", FIRST)
    await lab.cluster("a")
    _add(lab, "b", SECOND)
    for number in range(9):
        meta = {"name": f"web-{number}", "namespace": "default"}
        tenant.add("services", {"metadata": meta, "spec": {"type": "LoadBalancer"}})
    for _ in range(8):
        await lab.cluster("b")
        await lab.clock.advance(30)
    allocation_names = [
        allocation["metadata"]["name"] for allocation in lab.server.all("ipallocations")
    ]
    assert [name for name in allocation_names if name.startswith("team-b-lb")] == ["team-b-lb"]


async def test_a_cluster_that_waits_is_deleted_at_once_and_the_pool_of_the_first_stays() -> None:
    lab, tenant = await _both()
    before = _pool(tenant)
    lab.server.delete("tenantclusters", "b", namespace="team")
    await lab.rounds()
    assert not lab.server.has("tenantclusters", "b", namespace="team")
    assert not lab.server.has("ipallocations", "team-b-lb")
    assert _pool(tenant) == before
    assert "TeardownGracePassed" not in lab.recorded.reasons


async def test_when_the_first_is_gone_the_second_gets_the_tenant() -> None:
    lab, tenant = await _both()
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.rounds()
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    await lab.cluster("b")
    assert pool_entries(tenant) == OF_SECOND
    assert _read_condition(lab, "b") == ("True", "Ready")


async def test_a_range_of_the_second_that_an_earlier_release_projected_is_waited_for() -> None:
    lab, tenant = _lab()
    begun = {names.ANNOTATION_PROJECTION_BEGUN: "2026-01-01T00:00:00Z"}
    _add(lab, "a", FIRST, annotations=begun)
    _add(lab, "b", SECOND, annotations=begun)
    _theirs(tenant, *OF_FIRST, *OF_SECOND, **{names.ANNOTATION_PROJECTION_BASIS: "1"})
    lab.server.delete("tenantclusters", "b", namespace="team")
    await lab.allocation("team-b-lb")
    assert lab.server.has("ipallocations", "team-b-lb"), "its pool there has the range"
    await lab.cluster("a")
    await lab.rounds()
    assert pool_entries(tenant) == OF_FIRST
    assert not lab.server.has("ipallocations", "team-b-lb")
    assert "TeardownGracePassed" not in lab.recorded.reasons


@pytest.mark.parametrize(
    ("stands", "first"),
    [(OF_FIRST, "a"), (OF_SECOND, "b"), (["192.0.2.0-192.0.2.0"], "a"), (["10.9.9.9/32"], "a")],
    ids=["of a", "of b", "without effect", "edited by hand"],
)
async def test_a_pool_of_an_earlier_release_goes_to_the_cluster_whose_addresses_it_has(
    stands: list[str], first: str
) -> None:
    lab, tenant = _lab()
    _add(lab, "a", FIRST)
    _add(lab, "b", SECOND)
    _theirs(tenant, *stands, **{names.ANNOTATION_PROJECTION_BASIS: "1"})
    for _ in range(3):
        await lab.cluster("a")
        await lab.cluster("b")
    assert _pool(tenant)["metadata"]["annotations"][OWNER] == f"team/{first}"
    assert pool_entries(tenant) == {"a": OF_FIRST, "b": OF_SECOND}[first]


async def test_where_the_tenant_has_no_pool_the_oldest_cluster_gets_it() -> None:
    lab, tenant = _lab()
    noted = {IDENTITY: tenant.identity}
    _add(lab, "a", FIRST, annotations=noted, creationTimestamp="2026-01-01T00:00:09Z")
    _add(lab, "b", SECOND, annotations=noted, creationTimestamp="2026-01-01T00:00:08Z")
    await lab.cluster("a")
    assert tenant.all("ipaddresspools") == []
    await lab.cluster("b")
    await lab.cluster("a")
    assert pool_entries(tenant) == OF_SECOND
    assert _read_condition(lab, "a") == ("False", "TenantShared")


async def test_a_pool_that_names_a_cluster_of_which_nothing_is_left_is_taken_over() -> None:
    lab, tenant = _lab()
    _add(lab, "a", FIRST)
    notes = {names.ANNOTATION_PROJECTION_BASIS: "1", OWNER: "team/renamed"}
    _theirs(tenant, "10.40.0.16-10.40.0.23", **notes)
    lab.server.fail(Forbidden(403, "Forbidden", "no"), verb="get", plural="tenantclusters")
    with pytest.raises(Forbidden):
        await lab.cluster("a")
    assert pool_entries(tenant) == ["10.40.0.16-10.40.0.23"]
    await lab.cluster("a")
    assert pool_entries(tenant) == OF_FIRST


async def test_a_pool_that_others_made_is_neither_overwritten_nor_deleted() -> None:
    lab, tenant = _lab()
    _add(lab, "a", FIRST)
    _theirs(tenant, "10.9.0.0/24")
    assert await lab.cluster("a") == Blocked("PoolMadeByOthers", 30.0)
    said = lab.condition("tenantclusters", "a", kind="LoadBalancerReady", namespace="team")[
        "message"
    ]
    assert "move them to an IPAddressPool of another name" in said
    assert ("Warning", "PoolMadeByOthers", said) in lab.recorded.events
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.rounds()
    assert pool_entries(tenant) == ["10.9.0.0/24"]
    assert not lab.server.has("tenantclusters", "a", namespace="team")


async def test_a_marker_that_others_made_is_left_alone_and_named() -> None:
    lab, tenant = _lab()
    tenant.served = (*tenant.served, "servicebgpstatuses")
    _add(lab, "a", FIRST)
    await lab.cluster("a")
    meta = {"name": "butler-ipam-marker", "namespace": METALLB}
    theirs = {"metadata": meta, "spec": {"addresses": ["10.9.0.0/24"]}}
    before = tenant.add("ipaddresspools", theirs)
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.rounds_of("a", 3)
    condition = lab.condition("ipallocations", "team-a-lb", "Ready")
    assert "butler-ipam-marker was not created by this controller" in condition["message"]
    await lab.clock.advance(600)
    await lab.rounds_of("a", 3)
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert tenant.see("ipaddresspools", "butler-ipam-marker", namespace=METALLB) == before


@pytest.mark.parametrize("theirs", [["10.9.0.0/24"], OF_FIRST, []], ids=["other", "same", "none"])
async def test_nothing_is_written_or_deleted_in_the_management_cluster(theirs: list[str]) -> None:
    lab, _ = _lab()
    lab.tenant_servers["a"] = lab.server
    _add(lab, "a", held_range=FIRST, phase="Provisioning")
    nodes = make.allocation("team-a-nodes", kind="nodes", held_range=("10.40.0.16", "10.40.0.20"))
    lab.server.add("ipallocations", nodes)
    if theirs:
        _theirs(lab.server, *theirs)
    before = lab.server.all("ipaddresspools")
    assert await lab.cluster("a") == Blocked("TenantIsManagementCluster", 30.0)
    assert "TenantIsManagementCluster" in lab.recorded.reasons
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.rounds()
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert lab.server.all("ipaddresspools") == before
    assert lab.server.all("l2advertisements") == []


async def test_a_management_cluster_that_could_not_be_read_is_read_again_and_recognised() -> None:
    lab, _ = _lab()
    lab.tenant_servers["a"] = lab.server
    _add(lab, "a", FIRST)
    lab.server.fail(Forbidden(403, "Forbidden", "no"), plural="namespaces", times=2)
    assert await lab.cluster("a") != Blocked("TenantIsManagementCluster", 30.0)
    await lab.clock.advance(300)
    assert await lab.cluster("a") == Blocked("TenantIsManagementCluster", 30.0)


async def test_a_kubeconfig_that_leads_elsewhere_now_does_not_say_that_a_range_is_free() -> None:
    lab, _ = await _both()
    own = lab.tenant_servers["b"] = Server(lab.clock, ("services", "namespaces"))
    noted = {IDENTITY: own.identity, names.ANNOTATION_PROJECTION_BEGUN: "2026-01-01T00:00:00Z"}
    lab.server.edit("tenantclusters", "b", {"metadata": {"annotations": noted}}, namespace="team")
    lab.server.delete("tenantclusters", "b", namespace="team")
    await lab.rounds_of("b", 5)
    assert lab.server.has("ipallocations", "team-b-lb")
    await lab.clock.advance(600)
    await lab.rounds_of("b", 3)
    assert not lab.server.has("ipallocations", "team-b-lb")
    assert "TeardownGracePassed" in lab.recorded.reasons


async def test_a_tenant_that_hides_what_it_is_is_used_and_the_cluster_says_what_is_not_known() -> (
    None
):
    lab, tenant = _lab()
    _add(lab, "a", FIRST)
    tenant.fail(Forbidden(403, "Forbidden", "no"), plural="namespaces")
    await lab.cluster("a")
    assert pool_entries(tenant) == OF_FIRST
    assert _read_condition(lab, "a", "TenantIdentified") == ("False", "IdentityForbidden")
    assert _read_condition(lab, "a") == ("True", "Ready")
    await lab.clock.advance(300)
    await lab.cluster("a")
    assert _read_condition(lab, "a", "TenantIdentified") == ("", "")
    cluster = lab.server.see("tenantclusters", "a", namespace="team")["metadata"]
    assert cluster["annotations"][IDENTITY] == tenant.identity


async def test_a_second_cluster_is_kept_off_by_the_pool_where_the_tenant_hides_what_it_is() -> (
    None
):
    lab, tenant = _lab()
    tenant.fail(Forbidden(403, "Forbidden", "no"), plural="namespaces", times=99)
    _add(lab, "a", FIRST)
    _add(lab, "b", SECOND)
    for _ in range(3):
        await lab.cluster("a")
        await lab.cluster("b")
    assert pool_entries(tenant) == OF_FIRST
    assert _read_condition(lab, "b") == ("False", "TenantShared")
