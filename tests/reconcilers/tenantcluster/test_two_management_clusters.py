"""Two management clusters whose TenantClusters lead to the same tenant."""

import pytest

from controller.outcome import Blocked
from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.balancer import pool_entries
from tests.reconcilers.lab import Lab
from tests.reconcilers.server import Json, Server

METALLB = "metallb-system"
OF_FIRST, OF_SECOND = ["10.40.0.0-10.40.0.7"], ["10.40.0.8-10.40.0.15"]


def _management(
    tenant: Server | None, cluster: str, held_range: tuple[str, str], phase: str = "Ready"
) -> Lab:
    """Return a management cluster with a TenantCluster that leads to a tenant of its own, or one.

    Args:
        tenant: whose kubeconfig its TenantCluster has; None for a new one.
        cluster: the name of the TenantCluster.
        held_range: its load-balancer addresses.
        phase: of the TenantCluster.
    """
    lab = Lab()
    elastic = {"allocationMode": "elastic", "growthIncrement": 2}
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab", load_balancer=elastic))
    lab.gate.real = lab.tenant_gate
    own = lab.tenant_server(cluster)
    lab.tenant_servers[cluster] = tenant or own
    tenant_cluster = make.tenant(cluster, status={"phase": phase})
    lab.server.add("tenantclusters", tenant_cluster)
    lb = make.allocation(f"team-{cluster}-lb", tenant=f"team/{cluster}", held_range=held_range)
    lab.server.add("ipallocations", lb)
    return lab


async def _both(name: str) -> tuple[Lab, Lab, Server]:
    """Return two management clusters, and the tenant that the first has written to."""
    first = _management(None, "a", ("10.40.0.0", "10.40.0.7"))
    tenant = first.tenant_servers["a"]
    await first.cluster("a")
    assert pool_entries(tenant) == OF_FIRST
    return first, _management(tenant, name, ("10.40.0.8", "10.40.0.15")), tenant


def _pool(server: Server) -> Json:
    return server.see("ipaddresspools", "default-pool", namespace=METALLB)


@pytest.mark.parametrize("name", ["a", "b"], ids=["same name", "another name"])
async def test_of_two_management_clusters_the_second_waits_and_nothing_flaps(name: str) -> None:
    first, second, tenant = await _both(name)
    assert await second.cluster(name) == Blocked("TenantShared", 30.0)
    before = (tenant.revision, first.server.revision, second.server.revision)
    for _ in range(10):
        assert await second.cluster(name) == Blocked("TenantShared", 30.0)
        await first.cluster("a")
        await first.clock.advance(30)
        await second.clock.advance(30)
    assert (tenant.revision, first.server.revision, second.server.revision) == before
    assert pool_entries(tenant) == OF_FIRST
    condition = second.condition(
        "tenantclusters", name, kind="LoadBalancerReady", namespace="team"
    )
    assert first.server.identity in condition["message"]
    assert names.ANNOTATION_PROJECTION_MANAGEMENT in condition["message"]


async def test_a_cluster_that_waits_for_another_management_cluster_does_not_grow() -> None:
    _, second, tenant = await _both("a")
    for number in range(9):
        meta = {"name": f"web-{number}", "namespace": "default"}
        tenant.add("services", {"metadata": meta, "spec": {"type": "LoadBalancer"}})
    for _ in range(8):
        await second.cluster("a")
        await second.clock.advance(30)
    allocation_names = [
        allocation["metadata"]["name"] for allocation in second.server.all("ipallocations")
    ]
    assert [name for name in allocation_names if name.startswith("team-a-lb")] == ["team-a-lb"]


@pytest.mark.parametrize("name", ["a", "b"], ids=["same name", "another name"])
async def test_one_that_waits_is_deleted_and_the_pool_of_the_other_management_stays(
    name: str,
) -> None:
    _, second, tenant = await _both(name)
    await second.cluster(name)
    before = _pool(tenant)
    second.server.delete("tenantclusters", name, namespace="team")
    await second.rounds()
    assert not second.server.has("tenantclusters", name, namespace="team")
    assert not second.server.has("ipallocations", f"team-{name}-lb")
    assert _pool(tenant) == before
    assert "TeardownGracePassed" not in second.recorded.reasons


async def test_one_that_was_never_let_in_is_deleted_at_once_though_its_addresses_are_there() -> (
    None
):
    """Both management clusters have a pool of the same block, and gave the same addresses."""
    first = _management(None, "a", ("10.40.0.0", "10.40.0.7"))
    await first.cluster("a")
    tenant = first.tenant_servers["a"]
    second = _management(tenant, "a", held_range=("10.40.0.0", "10.40.0.7"), phase="Installing")
    await second.rounds()
    said = second.condition("tenantclusters", "a", kind="LoadBalancerReady", namespace="team")
    assert said["reason"] == "TenantShared"
    before = _pool(tenant)
    second.server.delete("tenantclusters", "a", namespace="team")
    await second.rounds()
    assert not second.server.has("tenantclusters", "a", namespace="team")
    assert _pool(tenant) == before


async def test_a_person_lets_a_restored_management_cluster_take_over_by_the_annotation() -> None:
    _, second, tenant = await _both("a")
    await second.cluster("a")
    key = names.ANNOTATION_PROJECTION_MANAGEMENT
    tenant.edit(
        "ipaddresspools",
        "default-pool",
        {"metadata": {"annotations": {key: None}}},
        namespace=METALLB,
    )
    await second.cluster("a")
    assert pool_entries(tenant) == OF_SECOND
    assert _pool(tenant)["metadata"]["annotations"][key] == second.server.identity


async def test_a_pool_of_an_earlier_release_gets_the_name_of_its_management_cluster() -> None:
    lab = _management(None, "a", ("10.40.0.0", "10.40.0.7"))
    tenant = lab.tenant_servers["a"]
    notes = {names.ANNOTATION_PROJECTION_BASIS: "1", names.ANNOTATION_PROJECTION_OWNER: "team/a"}
    meta = {"name": "default-pool", "namespace": METALLB, "annotations": notes}
    tenant.add("ipaddresspools", {"metadata": meta, "spec": {"addresses": OF_FIRST}})
    await lab.cluster("a")
    noted = _pool(tenant)["metadata"]["annotations"]
    assert noted[names.ANNOTATION_PROJECTION_MANAGEMENT] == lab.server.identity
