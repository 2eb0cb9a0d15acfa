"""The pass over a TenantCluster: its phases, conditions, events, allocations and projections."""

from dataclasses import replace
from typing import Any

import anyio
import pytest

from controller.errors import Forbidden, NoAnswer
from controller.outcome import SETTLED, Again, Blocked
from reconcilers.api import names
from reconcilers.configuration.settings import Settings, TenantSettings
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

TENANT = ("tenantclusters", "a", "team")


def _make_lab(*, pools: tuple[Any, ...] = (), provider: Any = None, **settings: Any) -> Lab:
    """Return a lab without TenantClusters.

    Args:
        pools: its NetworkPools; none for one of default size.
        provider: its ProviderConfig; None for one with pool `lab`.
        settings: fields of TenantSettings that are not the default.
    """
    lab = Lab(Settings(tenant=replace(TenantSettings(), **settings)))
    for pool in pools or (make.pool(),):
        lab.server.add("networkpools", pool)
    lab.server.add("providerconfigs", provider or make.provider("lab"))
    return lab


def _read_phase(lab: Lab) -> str | None:
    """Return the phase of cluster team/a."""
    return lab.read_status(*TENANT).get("phase")


def _read_condition(lab: Lab, kind: str) -> tuple[str, str, str]:
    """Return status, reason and message of a condition; empty strings if there is none."""
    condition = lab.find_condition("tenantclusters", "a", kind=kind, namespace="team")
    return condition.get("status", ""), condition.get("reason", ""), condition.get("message", "")


def _read_cidrs(lab: Lab) -> dict[str, str | None]:
    """Return the CIDR of each allocation by name; None while it has no range."""
    return {
        a["metadata"]["name"]: (a.get("status") or {}).get("cidr")
        for a in lab.server.all("ipallocations")
    }


async def test_one_pass_requests_balancer_and_node_addresses() -> None:
    lab = _make_lab()
    lab.server.add("tenantclusters", make.tenant(finalizers=[]))
    assert await lab.run_cluster_pass() == Blocked("Reconciling", 10.0)
    meta = lab.server.see("tenantclusters", "a", namespace="team")["metadata"]
    assert meta["finalizers"] == ["butler.butlerlabs.dev/tenantcluster-ipam"]
    counts = {a["metadata"]["name"]: a["spec"]["count"] for a in lab.server.all("ipallocations")}
    assert counts == {"team-a-lb": 8, "team-a-nodes": 5}
    status = lab.read_status(*TENANT)
    assert status["phase"] == "Provisioning"
    assert status["lbAllocationRef"] == {"name": "team-a-lb"}
    assert status["ipAllocationRef"] == {"name": "team-a-nodes"}
    assert _read_condition(lab, "NetworkReady") == (
        "False",
        "Reconciling",
        "waiting for LB IP allocation",
    )


async def test_a_tenant_becomes_ready_with_its_addresses_in_metallb() -> None:
    lab = _make_lab()
    tenant = lab.start_tenant_server("a")
    lab.server.add("tenantclusters", make.tenant())
    await lab.run_until_at_rest()
    assert _read_phase(lab) == "Ready"
    assert _read_condition(lab, "NetworkReady") == (
        "True",
        "Ready",
        "LB IPs allocated: 10.40.0.0/29",
    )
    assert _read_condition(lab, "LoadBalancerReady")[0] == "True"
    assert _read_condition(lab, "Ready") == ("True", "Ready", "Cluster is ready")
    pool = tenant.see("ipaddresspools", "default-pool", namespace="metallb-system")
    assert pool["spec"]["addresses"] == ["10.40.0.0-10.40.0.7"]
    assert lab.recorded.reasons.count("ClusterProvisioning") == 1
    assert lab.recorded.reasons.count("ClusterReady") == 1


async def test_at_rest_the_management_cluster_gets_no_requests_and_the_tenant_only_reads() -> None:
    lab = _make_lab()
    tenant = lab.start_tenant_server("a")
    lab.server.add("tenantclusters", make.tenant())  # names no provider: the default is resolved
    await lab.run_until_at_rest()
    lab.server.requests.clear()
    tenant.requests.clear()
    for _ in range(5):
        assert await lab.run_cluster_pass() == Again(60.0)
    assert lab.server.requests == []
    assert {request.verb for request in tenant.requests} == {"get", "list"}
    assert len(tenant.requests) <= 20, "at most four reads in each of the five passes"


@pytest.mark.parametrize(
    ("ready_seconds", "delay_seconds"), [(59 * 60, 60.0), (61 * 60, 300.0), (25 * 3600, 900.0)]
)
async def test_the_longer_a_cluster_is_ready_the_later_its_next_pass_is_due(
    ready_seconds: float, delay_seconds: float
) -> None:
    lab = _make_lab()
    lab.start_tenant_server("a")
    lab.server.add("tenantclusters", make.tenant())
    await lab.run_until_at_rest()
    await lab.clock.advance(ready_seconds)
    assert await lab.run_cluster_pass() == Again(delay_seconds)


async def test_a_cluster_without_a_kubeconfig_is_provisioning_and_names_the_missing_secrets() -> (
    None
):
    lab = _make_lab()
    lab.server.add("tenantclusters", make.tenant(status={"tenantNamespace": "a-1234"}))
    await lab.run_until_at_rest()
    assert _read_phase(lab) == "Provisioning"
    status, reason, message = _read_condition(lab, "LoadBalancerReady")
    assert (status, reason) == ("False", "KubeconfigMissing")
    assert message == (
        "waiting for the kubeconfig Secret; looked for a-1234/a-admin-kubeconfig,"
        " team/a-admin-kubeconfig, a-1234/a-kubeconfig, team/a-kubeconfig"
    )
    assert _read_condition(lab, "NetworkReady")[0] == "True"
    assert await lab.run_cluster_pass() == Blocked("KubeconfigMissing", 30.0)


async def test_a_cluster_whose_tenant_lacks_metallb_is_installing() -> None:
    lab = _make_lab()
    lab.start_tenant_server("a", served_kinds=("services",))
    lab.server.add("tenantclusters", make.tenant())
    await lab.run_until_at_rest()
    assert _read_phase(lab) == "Installing"
    assert _read_condition(lab, "LoadBalancerReady") == (
        "False",
        "MetalLBNotInstalled",
        "MetalLB is not installed in the tenant: metallb.io is not served",
    )


async def test_a_ready_cluster_stays_ready_while_its_tenant_fails() -> None:
    lab = _make_lab()
    tenant = lab.start_tenant_server("a")
    lab.server.add("tenantclusters", make.tenant())
    await lab.run_until_at_rest()
    tenant.fail(NoAnswer("connection refused"), times=1)
    assert await lab.run_cluster_pass() == Blocked("TenantUnreachable", 30.0)
    assert _read_phase(lab) == "Ready"
    assert _read_condition(lab, "Ready")[0] == "True"
    assert _read_condition(lab, "LoadBalancerReady")[:2] == ("False", "TenantUnreachable")
    await lab.clock.advance(30)
    assert await lab.run_cluster_pass() == Again(60.0)
    assert _read_condition(lab, "LoadBalancerReady")[0] == "True"


async def test_in_cloud_mode_nothing_is_allocated_and_the_tenant_gets_no_requests() -> None:
    cloud = make.provider(spec={"network": {"mode": "cloud"}})
    lab = _make_lab(provider=cloud)
    tenant = lab.start_tenant_server("a")
    manual = {"networking": {"loadBalancerPool": {"start": "10.9.0.1", "end": "10.9.0.5"}}}
    lab.server.add("tenantclusters", make.tenant(spec=manual))
    await lab.run_cluster_pass()
    assert await lab.run_cluster_pass() == SETTLED
    assert _read_phase(lab) == "Ready"
    assert _read_condition(lab, "NetworkReady") == ("True", "Ready", "cloud networking mode")
    assert tenant.requests == []
    assert lab.server.all("ipallocations") == []


async def test_in_observe_mode_phase_and_ready_are_not_written() -> None:
    lab = _make_lab()
    tenant = lab.start_tenant_server("a")
    observed = {"managementPolicy": {"mode": "Observe"}}
    lab.server.add("tenantclusters", make.tenant(spec=observed, status={"phase": "Updating"}))
    await lab.run_until_at_rest()
    assert _read_phase(lab) == "Updating"
    assert "lastTransitionTime" not in lab.read_status(*TENANT)
    assert _read_condition(lab, "Ready") == ("", "", "")
    assert _read_condition(lab, "NetworkReady")[0] == "True"
    assert tenant.all("ipaddresspools")
    assert "ClusterReady" not in lab.recorded.reasons


async def test_a_provider_in_ipam_mode_without_pools_makes_the_cluster_failed() -> None:
    lab = _make_lab(provider=make.provider())
    lab.server.add("tenantclusters", make.tenant())
    assert await lab.run_cluster_pass() == Blocked("NetworkNotReady", 30.0)
    assert _read_phase(lab) == "Failed"
    assert _read_condition(lab, "NetworkReady") == (
        "False",
        "NetworkNotReady",
        "IPAM mode but no poolRefs configured on provider",
    )
    assert lab.recorded.reasons == ["ClusterFailed"]


async def test_a_cluster_waits_while_reading_the_platforms_default_provider_is_forbidden() -> None:
    lab = _make_lab()
    lab.server.served = (*lab.server.served, "butlerconfigs")
    platform = {"defaultProviderConfigRef": {"name": "platform"}}
    lab.server.add("butlerconfigs", {"metadata": {"name": "butler"}, "spec": platform})
    lab.server.add("networkpools", make.pool(name="own"))
    lab.server.add("providerconfigs", make.provider("own", name="platform"))
    lab.server.add("tenantclusters", make.tenant())
    lab.server.fail(Forbidden(403, "Forbidden", "no role"), times=100, plural="butlerconfigs")
    assert await lab.run_cluster_pass() == Blocked("ProviderConfigUnknown", 10.0)
    assert lab.server.all("ipallocations") == []
    assert _read_phase(lab) == "Provisioning"
    status, reason, message = _read_condition(lab, "NetworkReady")
    assert (status, reason) == ("False", "ProviderConfigUnknown")
    assert "let a role grant get of butlerconfigs.butler.butlerlabs.dev" in message
    lab.server.recover()
    await lab.clock.advance(10)
    await lab.run_cluster_pass()
    pools = {
        allocation["spec"]["poolRef"]["name"] for allocation in lab.server.all("ipallocations")
    }
    assert pools == {"own"}


async def test_a_request_that_no_pool_has_room_for_is_reported_and_retried() -> None:
    lab = _make_lab(pools=(make.pool(cidr="10.40.0.0/30"),))
    lab.server.add("tenantclusters", make.tenant())
    assert await lab.run_cluster_pass() == Blocked("PoolExhausted", 10.0)
    assert _read_condition(lab, "NetworkReady") == (
        "False",
        "PoolExhausted",
        (
            "no pool of ProviderConfig butler-system/default has room: needs 8 load-balancer"
            " addresses in a row; lab: largest free block 4"
        ),
    )
    assert "lbAllocationRef" not in lab.read_status(*TENANT)
    lab.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/24"}})
    lab.start_tenant_server("a")
    await lab.run_until_at_rest()
    assert _read_phase(lab) == "Ready"


async def test_ten_clusters_created_at_once_do_not_overcommit_a_pool() -> None:
    first = make.pool("first", "10.40.0.0/26")  # room for four tenants of 8 + 5
    second = make.pool("second", "10.41.0.0/24")
    lab = _make_lab(pools=(first, second), provider=make.provider(("first", 0), ("second", 1)))
    for number in range(10):
        lab.server.add("tenantclusters", make.tenant(f"t{number}"))
    for number in range(10):
        await lab.run_cluster_pass(f"t{number}")
    for pool in ("first", "second"):
        await lab.run_pool_pass(pool)
    assert all(_read_cidrs(lab).values())
    assert len(_read_cidrs(lab)) == 20
    used = [a["spec"]["poolRef"]["name"] for a in lab.server.all("ipallocations")]
    assert used.count("second") >= 10


async def test_ten_concurrent_passes_over_clusters_do_not_overcommit_a_pool() -> None:
    first = make.pool("first", "10.40.0.0/26")
    second = make.pool("second", "10.41.0.0/24")
    lab = _make_lab(pools=(first, second), provider=make.provider(("first", 0), ("second", 1)))
    for number in range(10):
        lab.server.add("tenantclusters", make.tenant(f"t{number}"))
    async with anyio.create_task_group() as group:
        for number in range(10):
            group.start_soon(lab.run_cluster_pass, f"t{number}")
    for pool in ("first", "second"):
        await lab.run_pool_pass(pool)
    assert len(_read_cidrs(lab)) == 20
    assert all(_read_cidrs(lab).values()), "a request chose a pool without room"


async def test_a_failed_request_moves_to_a_pool_with_room_and_keeps_its_age() -> None:
    lab = _make_lab(
        pools=(make.pool("one", "10.40.0.0/29"), make.pool("two", "10.41.0.0/24")),
        provider=make.provider("one", "two"),
        backfill_nodes=False,
    )
    owner = {names.ANNOTATION_TENANT_UID: "uid-team-a"}
    lab.server.add("tenantclusters", make.tenant(status={"phase": "Ready"}))
    lab.server.add("ipallocations", make.allocation("taken", of="one", tenant="x/y", size=8))
    allocation = make.allocation(
        "team-a-lb", of="one", size=8, phase="Failed", age=100, annotations=owner
    )
    await lab.run_pool_pass("one")
    lab.server.add("ipallocations", allocation)
    lab.start_tenant_server("a")
    await lab.run_until_at_rest()
    moved = lab.server.see("ipallocations", "team-a-lb")
    assert moved["spec"]["poolRef"] == {"name": "two"}
    asked = moved["metadata"]["annotations"]["butler.butlerlabs.dev/requested-at"]
    assert asked == "2025-12-31T23:58:20+00:00"
    assert _read_cidrs(lab)["team-a-lb"] == "10.41.0.0/29"


async def test_a_failed_request_is_not_moved_if_no_other_pool_has_room() -> None:
    lab = _make_lab(pools=(make.pool("one", "10.40.0.0/30"),), provider=make.provider("one"))
    owner = {names.ANNOTATION_TENANT_UID: "uid-team-a"}
    failed = make.allocation("team-a-lb", of="one", phase="Failed", annotations=owner)
    lab.server.add("tenantclusters", make.tenant())
    uid = lab.server.add("ipallocations", failed)["metadata"]["uid"]
    await lab.run_until_at_rest()
    assert lab.server.see("ipallocations", "team-a-lb")["metadata"]["uid"] == uid


async def test_a_failed_request_made_by_hand_is_not_moved() -> None:
    lab = _make_lab(
        pools=(make.pool("one", "10.40.0.0/30"), make.pool("two", "10.41.0.0/24")),
        provider=make.provider("one", "two"),
    )
    failed = make.allocation("team-a-lb", of="one", phase="Failed", size=8)
    lab.server.add("tenantclusters", make.tenant())
    uid = lab.server.add("ipallocations", failed)["metadata"]["uid"]
    await lab.run_until_at_rest()
    assert lab.server.see("ipallocations", "team-a-lb")["metadata"]["uid"] == uid
    assert _read_condition(lab, "NetworkReady")[:2] == ("False", "PoolExhausted")


async def test_a_request_whose_pool_does_not_exist_moves_to_a_pool_with_room() -> None:
    lab = _make_lab(
        pools=(make.pool("two", "10.41.0.0/24"),), provider=make.provider("one", "two")
    )
    owner = {names.ANNOTATION_TENANT_UID: "uid-team-a"}
    waiting = make.allocation("team-a-lb", of="one", phase="Pending", annotations=owner)
    lab.server.add("tenantclusters", make.tenant())
    lab.server.add("ipallocations", waiting)
    await lab.run_until_at_rest()
    assert lab.server.see("ipallocations", "team-a-lb")["spec"]["poolRef"] == {"name": "two"}
    assert _read_cidrs(lab)["team-a-lb"] is not None


async def test_a_cluster_that_was_ready_before_gets_no_node_addresses_by_default() -> None:
    lab = _make_lab()
    lab.start_tenant_server("a")
    lab.server.add("tenantclusters", make.tenant(status={"phase": "Ready"}))
    await lab.run_until_at_rest()
    assert list(_read_cidrs(lab)) == ["team-a-lb"]


async def test_a_cluster_that_was_ready_before_gets_node_addresses_with_backfill_nodes() -> None:
    lab = _make_lab(backfill_nodes=True)
    lab.start_tenant_server("a")
    lab.server.add("tenantclusters", make.tenant(status={"phase": "Ready"}))
    await lab.run_until_at_rest()
    assert list(_read_cidrs(lab)) == ["team-a-lb", "team-a-nodes"]


async def test_an_elastic_tenant_without_ingress_starts_with_no_balancer_addresses() -> None:
    lab = _make_lab(provider=make.provider("lab", load_balancer={"allocationMode": "elastic"}))
    lab.start_tenant_server("a")
    spec = {"addons": {"ingress": {"enabled": False}}}
    lab.server.add("tenantclusters", make.tenant(spec=spec))
    await lab.run_until_at_rest()
    assert list(_read_cidrs(lab)) == ["team-a-nodes"]
    assert _read_phase(lab) == "Ready"
    assert _read_condition(lab, "NetworkReady")[0] == "True"


async def test_a_reference_to_an_allocation_that_is_gone_is_cleared() -> None:
    lab = _make_lab(pools=(make.pool(cidr="10.40.0.0/30"),))
    status = {"lbAllocationRef": {"name": "gone"}}
    lab.server.add("tenantclusters", make.tenant(status=status))
    await lab.run_cluster_pass()
    assert "lbAllocationRef" not in lab.read_status(*TENANT)


async def test_a_pass_ends_if_the_name_of_its_new_allocation_exists_beyond_the_cache() -> None:
    lab = _make_lab()
    lab.hold_events("ipallocations")
    lab.server.add("ipallocations", make.allocation("team-a-lb"))
    lab.server.add("tenantclusters", make.tenant())
    assert await lab.run_cluster_pass() == Again(1.0)
    lab.deliver_events()
    await lab.run_cluster_pass()
    assert list(_read_cidrs(lab)) == ["team-a-lb", "team-a-nodes"]


async def test_a_cluster_becomes_ready_although_an_earlier_one_left_allocations_of_its_names() -> (
    None
):
    lab = _make_lab()
    lab.start_tenant_server("a")
    owner = {names.ANNOTATION_TENANT_UID: "uid-of-the-earlier-one"}
    digest = names.compute_short_hash("team/a")
    remaining = [f"team-a-{kind}{tail}" for kind in ("lb", "nodes") for tail in ("", f"-{digest}")]
    for name in remaining:
        lab.server.add("ipallocations", make.allocation(name, size=1, annotations=owner))
    lab.server.add("tenantclusters", make.tenant())
    await lab.run_until_at_rest()
    assert _read_phase(lab) == "Ready"
    assert len(_read_cidrs(lab)) == len(remaining) + 2
    refs = {
        lab.read_status(*TENANT)[ref]["name"] for ref in ("lbAllocationRef", "ipAllocationRef")
    }
    assert len(refs) == 2
    assert not refs & set(remaining)


async def test_a_pass_over_a_cluster_that_has_vanished_does_not_fail() -> None:
    lab = _make_lab()
    lab.server.add("tenantclusters", make.tenant())
    lab.hold_events("tenantclusters")
    lab.server.vanish("tenantclusters", "a", namespace="team")
    assert isinstance(await lab.run_cluster_pass(), Again)
    lab.deliver_events()
    assert await lab.run_cluster_pass() == SETTLED


async def test_a_ready_cluster_stays_ready_while_its_provider_lists_no_pools() -> None:
    lab = _make_lab()
    lab.server.add("tenantclusters", make.tenant(status={"phase": "Ready"}))
    lab.server.add(
        "ipallocations", make.allocation("team-a-lb", held_range=("10.40.0.0", "10.40.0.7"))
    )
    lab.start_tenant_server("a")
    await lab.run_cluster_pass()
    refs = lab.server.see("providerconfigs", "default")["spec"]["network"]["poolRefs"]
    no_pools: list[Any] = []
    for pool_refs in (no_pools, refs):
        lab.server.edit(
            "providerconfigs", "default", {"spec": {"network": {"poolRefs": pool_refs}}}
        )
        await lab.run_cluster_pass()
        assert _read_phase(lab) == "Ready"
    assert [a["metadata"]["name"] for a in lab.server.all("ipallocations")] == ["team-a-lb"]


@pytest.mark.parametrize(
    ("team", "is_served"), [("platform", True), ("other", False), (None, True)], ids=str
)
async def test_a_provider_of_a_team_does_not_serve_clusters_of_another_team(
    team: str | None, is_served: bool
) -> None:
    scope = {"type": "team", "teamRef": {"name": "platform"}}
    provider = make.provider("lab")
    lab = _make_lab(provider=provider)
    lab.server.edit("providerconfigs", "default", {"spec": {"scope": scope}})
    spec = {"teamRef": {"name": team}} if team else {}
    lab.server.add("tenantclusters", make.tenant(spec=spec))
    await lab.run_cluster_pass()
    assert bool(lab.server.all("ipallocations")) is is_served
    reason = _read_condition(lab, "NetworkReady")[1]
    assert reason == ("Reconciling" if is_served else "ProviderAccessDenied")
