"""Two management clusters whose TenantClusters lead to the same tenant."""

import pytest

from controller.outcome import Blocked
from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.balancer import list_pool_entries
from tests.reconcilers.lab import Lab
from tests.reconcilers.server import Json, Server

METALLB = "metallb-system"
FIRST_ENTRIES, SECOND_ENTRIES = ["10.40.0.0-10.40.0.7"], ["10.40.0.8-10.40.0.15"]


def _make_management_cluster(
    tenant: Server | None, cluster: str, held_range: tuple[str, str], phase: str = "Ready"
) -> Lab:
    """Return a management cluster with one TenantCluster.

    Args:
        tenant: the tenant to which the kubeconfig leads; None for a new one.
        cluster: the name of the TenantCluster.
        held_range: the load-balancer addresses that the TenantCluster holds.
        phase: the phase of the TenantCluster.
    """
    lab = Lab()
    elastic = {"allocationMode": "elastic", "growthIncrement": 2}
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab", load_balancer=elastic))
    lab.use_real_release_check()
    own = lab.start_tenant_server(cluster)
    lab.tenant_servers[cluster] = tenant or own
    tenant_cluster = make.tenant(cluster, status={"phase": phase})
    lab.server.add("tenantclusters", tenant_cluster)
    lb = make.allocation(f"team-{cluster}-lb", tenant=f"team/{cluster}", held_range=held_range)
    lab.server.add("ipallocations", lb)
    return lab


async def _make_two_management_clusters(name: str) -> tuple[Lab, Lab, Server]:
    """Return two management clusters, and their shared tenant, which the first has written to.

    Args:
        name: the name of the TenantCluster in the second; in the first it is `a`.
    """
    first = _make_management_cluster(None, "a", ("10.40.0.0", "10.40.0.7"))
    tenant = first.tenant_servers["a"]
    await first.run_cluster_pass("a")
    assert list_pool_entries(tenant) == FIRST_ENTRIES
    return first, _make_management_cluster(tenant, name, ("10.40.0.8", "10.40.0.15")), tenant


def _read_pool(server: Server) -> Json:
    """Return IPAddressPool default-pool."""
    return server.see("ipaddresspools", "default-pool", namespace=METALLB)


@pytest.mark.parametrize("name", ["a", "b"], ids=["same name", "another name"])
async def test_the_second_management_cluster_waits_and_nothing_is_written_any_more(
    name: str,
) -> None:
    first, second, tenant = await _make_two_management_clusters(name)
    assert await second.run_cluster_pass(name) == Blocked("TenantShared", 30.0)
    before = (tenant.revision, first.server.revision, second.server.revision)
    for _ in range(10):
        assert await second.run_cluster_pass(name) == Blocked("TenantShared", 30.0)
        await first.run_cluster_pass("a")
        await first.clock.advance(30)
        await second.clock.advance(30)
    assert (tenant.revision, first.server.revision, second.server.revision) == before
    assert list_pool_entries(tenant) == FIRST_ENTRIES
    condition = second.find_condition(
        "tenantclusters", name, kind="LoadBalancerReady", namespace="team"
    )
    assert first.server.identity in condition["message"]
    assert names.ANNOTATION_PROJECTION_MANAGEMENT in condition["message"]


async def test_a_cluster_that_waits_for_another_management_cluster_does_not_grow() -> None:
    _, second, tenant = await _make_two_management_clusters("a")
    for number in range(9):
        meta = {"name": f"web-{number}", "namespace": "default"}
        tenant.add("services", {"metadata": meta, "spec": {"type": "LoadBalancer"}})
    for _ in range(8):
        await second.run_cluster_pass("a")
        await second.clock.advance(30)
    allocation_names = [
        allocation["metadata"]["name"] for allocation in second.server.all("ipallocations")
    ]
    assert [name for name in allocation_names if name.startswith("team-a-lb")] == ["team-a-lb"]


@pytest.mark.parametrize("name", ["a", "b"], ids=["same name", "another name"])
async def test_a_waiting_cluster_can_be_deleted_and_the_pool_of_the_first_stays(
    name: str,
) -> None:
    _, second, tenant = await _make_two_management_clusters(name)
    await second.run_cluster_pass(name)
    before = _read_pool(tenant)
    second.server.delete("tenantclusters", name, namespace="team")
    await second.run_until_at_rest()
    assert not second.server.has("tenantclusters", name, namespace="team")
    assert not second.server.has("ipallocations", f"team-{name}-lb")
    assert _read_pool(tenant) == before
    assert "TeardownGracePassed" not in second.recorded.reasons


async def test_a_waiting_cluster_whose_range_the_first_projected_can_be_deleted_at_once() -> None:
    """Both management clusters have a NetworkPool of the same CIDR, and allocated one range."""
    first = _make_management_cluster(None, "a", ("10.40.0.0", "10.40.0.7"))
    await first.run_cluster_pass("a")
    tenant = first.tenant_servers["a"]
    second = _make_management_cluster(
        tenant, "a", held_range=("10.40.0.0", "10.40.0.7"), phase="Installing"
    )
    await second.run_until_at_rest()
    condition = second.find_condition(
        "tenantclusters", "a", kind="LoadBalancerReady", namespace="team"
    )
    assert condition["reason"] == "TenantShared"
    before = _read_pool(tenant)
    second.server.delete("tenantclusters", "a", namespace="team")
    await second.run_until_at_rest()
    assert not second.server.has("tenantclusters", "a", namespace="team")
    assert _read_pool(tenant) == before


async def test_the_second_management_cluster_takes_over_a_pool_whose_annotation_is_removed() -> (
    None
):
    _, second, tenant = await _make_two_management_clusters("a")
    await second.run_cluster_pass("a")
    key = names.ANNOTATION_PROJECTION_MANAGEMENT
    tenant.edit(
        "ipaddresspools",
        "default-pool",
        {"metadata": {"annotations": {key: None}}},
        namespace=METALLB,
    )
    await second.run_cluster_pass("a")
    assert list_pool_entries(tenant) == SECOND_ENTRIES
    assert _read_pool(tenant)["metadata"]["annotations"][key] == second.server.identity


async def test_a_pool_of_an_earlier_release_gets_the_annotation_of_its_management_cluster() -> (
    None
):
    lab = _make_management_cluster(None, "a", ("10.40.0.0", "10.40.0.7"))
    tenant = lab.tenant_servers["a"]
    notes = {names.ANNOTATION_PROJECTION_BASIS: "1", names.ANNOTATION_PROJECTION_OWNER: "team/a"}
    meta = {"name": "default-pool", "namespace": METALLB, "annotations": notes}
    tenant.add("ipaddresspools", {"metadata": meta, "spec": {"addresses": FIRST_ENTRIES}})
    await lab.run_cluster_pass("a")
    noted = _read_pool(tenant)["metadata"]["annotations"]
    assert noted[names.ANNOTATION_PROJECTION_MANAGEMENT] == lab.server.identity
