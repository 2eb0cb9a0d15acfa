"""A tenant from its creation to its end: phases, messages, events, what is asked and projected."""

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


def _lab(*, pools: tuple[Any, ...] = (), provider: Any = None, **settings: Any) -> Lab:
    lab = Lab(Settings(tenant=replace(TenantSettings(), **settings)))
    for pool in pools or (make.pool(),):
        lab.server.add("networkpools", pool)
    lab.server.add("providerconfigs", provider or make.provider("lab"))
    return lab


def _phase(lab: Lab) -> str | None:
    return lab.see(*TENANT).get("phase")


def _read_condition(lab: Lab, kind: str) -> tuple[str, str, str]:
    condition = lab.condition("tenantclusters", "a", kind=kind, namespace="team")
    return condition.get("status", ""), condition.get("reason", ""), condition.get("message", "")


def _cidrs(lab: Lab) -> dict[str, str | None]:
    return {
        a["metadata"]["name"]: (a.get("status") or {}).get("cidr")
        for a in lab.server.all("ipallocations")
    }


async def test_a_tenant_asks_for_both_kinds_of_addresses_in_one_pass() -> None:
    lab = _lab()
    lab.server.add("tenantclusters", make.tenant(finalizers=[]))
    assert await lab.cluster() == Blocked("Reconciling", 10.0)
    meta = lab.server.see("tenantclusters", "a", namespace="team")["metadata"]
    assert meta["finalizers"] == ["butler.butlerlabs.dev/tenantcluster-ipam"]
    counts = {a["metadata"]["name"]: a["spec"]["count"] for a in lab.server.all("ipallocations")}
    assert counts == {"team-a-lb": 8, "team-a-nodes": 5}
    status = lab.see(*TENANT)
    assert status["phase"] == "Provisioning"
    assert status["lbAllocationRef"] == {"name": "team-a-lb"}
    assert status["ipAllocationRef"] == {"name": "team-a-nodes"}
    assert _read_condition(lab, "NetworkReady") == (
        "False",
        "Reconciling",
        "waiting for LB IP allocation",
    )


async def test_a_tenant_becomes_ready_with_its_addresses_in_metallb() -> None:
    lab = _lab()
    tenant = lab.tenant_server("a")
    lab.server.add("tenantclusters", make.tenant())
    await lab.rounds()
    assert _phase(lab) == "Ready"
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
    lab = _lab()
    tenant = lab.tenant_server("a")
    lab.server.add("tenantclusters", make.tenant())  # names no provider: the default is resolved
    await lab.rounds()
    lab.server.requests.clear()
    tenant.requests.clear()
    for _ in range(5):
        assert await lab.cluster() == Again(60.0)
    assert lab.server.requests == []
    assert {request.verb for request in tenant.requests} == {"get", "list"}
    assert len(tenant.requests) <= 20, "two without a watch, and one more"


@pytest.mark.parametrize(
    ("ready_for", "seconds"), [(59 * 60, 60.0), (61 * 60, 300.0), (25 * 3600, 900.0)]
)
async def test_the_longer_a_cluster_is_ready_the_less_often_it_is_looked_at(
    ready_for: float, seconds: float
) -> None:
    lab = _lab()
    lab.tenant_server("a")
    lab.server.add("tenantclusters", make.tenant())
    await lab.rounds()
    await lab.clock.advance(ready_for)
    assert await lab.cluster() == Again(seconds)


async def test_without_a_kubeconfig_it_is_provisioning_and_says_what_it_waits_for() -> None:
    lab = _lab()
    lab.server.add("tenantclusters", make.tenant(status={"tenantNamespace": "a-1234"}))
    await lab.rounds()
    assert _phase(lab) == "Provisioning"
    status, reason, message = _read_condition(lab, "LoadBalancerReady")
    assert (status, reason) == ("False", "KubeconfigMissing")
    assert message == (
        "waiting for the kubeconfig Secret; looked for a-1234/a-admin-kubeconfig,"
        " team/a-admin-kubeconfig, a-1234/a-kubeconfig, team/a-kubeconfig"
    )
    assert _read_condition(lab, "NetworkReady")[0] == "True"
    assert await lab.cluster() == Blocked("KubeconfigMissing", 30.0)


async def test_without_metallb_it_is_installing_and_says_so() -> None:
    lab = _lab()
    lab.tenant_server("a", served_kinds=("services",))
    lab.server.add("tenantclusters", make.tenant())
    await lab.rounds()
    assert _phase(lab) == "Installing"
    assert _read_condition(lab, "LoadBalancerReady") == (
        "False",
        "MetalLBNotInstalled",
        "MetalLB is not installed in the tenant: metallb.io is not served",
    )


async def test_a_ready_cluster_stays_ready_while_its_tenant_fails() -> None:
    lab = _lab()
    tenant = lab.tenant_server("a")
    lab.server.add("tenantclusters", make.tenant())
    await lab.rounds()
    tenant.fail(NoAnswer("connection refused"), times=1)
    assert await lab.cluster() == Blocked("TenantUnreachable", 30.0)
    assert _phase(lab) == "Ready"
    assert _read_condition(lab, "Ready")[0] == "True"
    assert _read_condition(lab, "LoadBalancerReady")[:2] == ("False", "TenantUnreachable")
    await lab.clock.advance(30)
    assert await lab.cluster() == Again(60.0)
    assert _read_condition(lab, "LoadBalancerReady")[0] == "True"


async def test_cloud_mode_bypasses_everything_and_never_touches_the_tenant() -> None:
    cloud = make.provider(spec={"network": {"mode": "cloud"}})
    lab = _lab(provider=cloud)
    tenant = lab.tenant_server("a")
    manual = {"networking": {"loadBalancerPool": {"start": "10.9.0.1", "end": "10.9.0.5"}}}
    lab.server.add("tenantclusters", make.tenant(spec=manual))
    await lab.cluster()
    assert await lab.cluster() == SETTLED
    assert _phase(lab) == "Ready"
    assert _read_condition(lab, "NetworkReady") == ("True", "Ready", "cloud networking mode")
    assert tenant.requests == []
    assert lab.server.all("ipallocations") == []


async def test_in_observe_mode_the_phase_and_ready_are_anothers() -> None:
    lab = _lab()
    tenant = lab.tenant_server("a")
    observed = {"managementPolicy": {"mode": "Observe"}}
    lab.server.add("tenantclusters", make.tenant(spec=observed, status={"phase": "Updating"}))
    await lab.rounds()
    assert _phase(lab) == "Updating"
    assert "lastTransitionTime" not in lab.see(*TENANT)
    assert _read_condition(lab, "Ready") == ("", "", "")
    assert _read_condition(lab, "NetworkReady")[0] == "True"
    assert tenant.all("ipaddresspools")
    assert "ClusterReady" not in lab.recorded.reasons


async def test_ipam_without_pools_is_a_mistake_that_is_reported() -> None:
    lab = _lab(provider=make.provider())
    lab.server.add("tenantclusters", make.tenant())
    assert await lab.cluster() == Blocked("NetworkNotReady", 30.0)
    assert _phase(lab) == "Failed"
    assert _read_condition(lab, "NetworkReady") == (
        "False",
        "NetworkNotReady",
        "IPAM mode but no poolRefs configured on provider",
    )
    assert lab.recorded.reasons == ["ClusterFailed"]


async def test_a_default_provider_that_may_not_be_read_is_waited_for_and_not_replaced() -> None:
    lab = _lab()
    lab.server.served = (*lab.server.served, "butlerconfigs")
    platform = {"defaultProviderConfigRef": {"name": "platform"}}
    lab.server.add("butlerconfigs", {"metadata": {"name": "butler"}, "spec": platform})
    lab.server.add("networkpools", make.pool(name="own"))
    lab.server.add("providerconfigs", make.provider("own", name="platform"))
    lab.server.add("tenantclusters", make.tenant())
    lab.server.fail(Forbidden(403, "Forbidden", "no role"), times=100, plural="butlerconfigs")
    assert await lab.cluster() == Blocked("ProviderConfigUnknown", 10.0)
    assert lab.server.all("ipallocations") == []
    assert _phase(lab) == "Provisioning"
    status, reason, message = _read_condition(lab, "NetworkReady")
    assert (status, reason) == ("False", "ProviderConfigUnknown")
    assert "let a role grant get of butlerconfigs.butler.butlerlabs.dev" in message
    lab.server.recover()
    await lab.clock.advance(10)
    await lab.cluster()
    pools = {
        allocation["spec"]["poolRef"]["name"] for allocation in lab.server.all("ipallocations")
    }
    assert pools == {"own"}


async def test_no_pool_with_room_is_reported_and_retried() -> None:
    lab = _lab(pools=(make.pool(cidr="10.40.0.0/30"),))
    lab.server.add("tenantclusters", make.tenant())
    assert await lab.cluster() == Blocked("PoolExhausted", 10.0)
    assert _read_condition(lab, "NetworkReady") == (
        "False",
        "PoolExhausted",
        (
            "no pool of ProviderConfig butler-system/default has room: needs 8 load-balancer"
            " addresses in a row; lab: largest free block 4"
        ),
    )
    assert "lbAllocationRef" not in lab.see(*TENANT)
    lab.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/24"}})
    lab.tenant_server("a")
    await lab.rounds()
    assert _phase(lab) == "Ready"


async def test_ten_clusters_created_at_once_do_not_overcommit_a_pool() -> None:
    first = make.pool("first", "10.40.0.0/26")  # room for four tenants of 8 + 5
    second = make.pool("second", "10.41.0.0/24")
    lab = _lab(pools=(first, second), provider=make.provider(("first", 0), ("second", 1)))
    for number in range(10):
        lab.server.add("tenantclusters", make.tenant(f"t{number}"))
    for number in range(10):
        await lab.cluster(f"t{number}")
    for pool in ("first", "second"):
        await lab.pool(pool)
    assert all(_cidrs(lab).values())
    assert len(_cidrs(lab)) == 20
    used = [a["spec"]["poolRef"]["name"] for a in lab.server.all("ipallocations")]
    assert used.count("second") >= 10


async def test_ten_clusters_worked_on_at_the_same_moment_do_not_overcommit_a_pool() -> None:
    first = make.pool("first", "10.40.0.0/26")
    second = make.pool("second", "10.41.0.0/24")
    lab = _lab(pools=(first, second), provider=make.provider(("first", 0), ("second", 1)))
    for number in range(10):
        lab.server.add("tenantclusters", make.tenant(f"t{number}"))
    async with anyio.create_task_group() as group:
        for number in range(10):
            group.start_soon(lab.cluster, f"t{number}")
    for pool in ("first", "second"):
        await lab.pool(pool)
    assert len(_cidrs(lab)) == 20
    assert all(_cidrs(lab).values()), "one of them had chosen a pool that was full by then"


async def test_a_failed_request_moves_on_to_a_pool_that_fits_and_keeps_its_age() -> None:
    lab = _lab(
        pools=(make.pool("one", "10.40.0.0/29"), make.pool("two", "10.41.0.0/24")),
        provider=make.provider("one", "two"),
        backfill_nodes=False,
    )
    stamp = {names.ANNOTATION_TENANT_UID: "uid-team-a"}
    lab.server.add("tenantclusters", make.tenant(status={"phase": "Ready"}))
    lab.server.add("ipallocations", make.allocation("taken", of="one", tenant="x/y", size=8))
    allocation = make.allocation(
        "team-a-lb", of="one", size=8, phase="Failed", age=100, annotations=stamp
    )
    await lab.pool("one")
    lab.server.add("ipallocations", allocation)
    lab.tenant_server("a")
    await lab.rounds()
    moved = lab.server.see("ipallocations", "team-a-lb")
    assert moved["spec"]["poolRef"] == {"name": "two"}
    asked = moved["metadata"]["annotations"]["butler.butlerlabs.dev/requested-at"]
    assert asked == "2025-12-31T23:58:20+00:00"
    assert _cidrs(lab)["team-a-lb"] == "10.41.0.0/29"


async def test_a_failed_request_stays_where_no_other_pool_fits() -> None:
    lab = _lab(pools=(make.pool("one", "10.40.0.0/30"),), provider=make.provider("one"))
    stamp = {names.ANNOTATION_TENANT_UID: "uid-team-a"}
    failed = make.allocation("team-a-lb", of="one", phase="Failed", annotations=stamp)
    lab.server.add("tenantclusters", make.tenant())
    uid = lab.server.add("ipallocations", failed)["metadata"]["uid"]
    await lab.rounds()
    assert lab.server.see("ipallocations", "team-a-lb")["metadata"]["uid"] == uid


async def test_a_failed_request_that_we_did_not_make_is_left_alone() -> None:
    lab = _lab(
        pools=(make.pool("one", "10.40.0.0/30"), make.pool("two", "10.41.0.0/24")),
        provider=make.provider("one", "two"),
    )
    failed = make.allocation("team-a-lb", of="one", phase="Failed", size=8)
    lab.server.add("tenantclusters", make.tenant())
    uid = lab.server.add("ipallocations", failed)["metadata"]["uid"]
    await lab.rounds()
    assert lab.server.see("ipallocations", "team-a-lb")["metadata"]["uid"] == uid
    assert _read_condition(lab, "NetworkReady")[:2] == ("False", "PoolExhausted")


async def test_a_request_whose_pool_is_gone_moves_on() -> None:
    lab = _lab(pools=(make.pool("two", "10.41.0.0/24"),), provider=make.provider("one", "two"))
    stamp = {names.ANNOTATION_TENANT_UID: "uid-team-a"}
    waiting = make.allocation("team-a-lb", of="one", phase="Pending", annotations=stamp)
    lab.server.add("tenantclusters", make.tenant())
    lab.server.add("ipallocations", waiting)
    await lab.rounds()
    assert lab.server.see("ipallocations", "team-a-lb")["spec"]["poolRef"] == {"name": "two"}
    assert _cidrs(lab)["team-a-lb"] is not None


async def test_an_adopted_ready_cluster_gets_no_node_addresses_by_surprise() -> None:
    lab = _lab()
    lab.tenant_server("a")
    lab.server.add("tenantclusters", make.tenant(status={"phase": "Ready"}))
    await lab.rounds()
    assert list(_cidrs(lab)) == ["team-a-lb"]


async def test_with_backfill_an_adopted_cluster_gets_node_addresses() -> None:
    lab = _lab(backfill_nodes=True)
    lab.tenant_server("a")
    lab.server.add("tenantclusters", make.tenant(status={"phase": "Ready"}))
    await lab.rounds()
    assert list(_cidrs(lab)) == ["team-a-lb", "team-a-nodes"]


async def test_an_elastic_tenant_without_ingress_starts_with_no_balancer_addresses() -> None:
    lab = _lab(provider=make.provider("lab", load_balancer={"allocationMode": "elastic"}))
    lab.tenant_server("a")
    spec = {"addons": {"ingress": {"enabled": False}}}
    lab.server.add("tenantclusters", make.tenant(spec=spec))
    await lab.rounds()
    assert list(_cidrs(lab)) == ["team-a-nodes"]
    assert _phase(lab) == "Ready"
    assert _read_condition(lab, "NetworkReady")[0] == "True"


async def test_a_reference_to_an_allocation_that_is_gone_is_cleared() -> None:
    lab = _lab(pools=(make.pool(cidr="10.40.0.0/30"),))
    status = {"lbAllocationRef": {"name": "gone"}}
    lab.server.add("tenantclusters", make.tenant(status=status))
    await lab.cluster()
    assert "lbAllocationRef" not in lab.see(*TENANT)


async def test_a_name_that_the_cache_does_not_show_yet_ends_the_pass() -> None:
    lab = _lab()
    lab.hold("ipallocations")
    lab.server.add("ipallocations", make.allocation("team-a-lb"))
    lab.server.add("tenantclusters", make.tenant())
    assert await lab.cluster() == Again(1.0)
    lab.flow()
    await lab.cluster()
    assert list(_cidrs(lab)) == ["team-a-lb", "team-a-nodes"]


async def test_what_an_earlier_cluster_left_under_every_name_does_not_stop_a_new_one() -> None:
    lab = _lab()
    lab.tenant_server("a")
    stamp = {names.ANNOTATION_TENANT_UID: "uid-of-the-earlier-one"}
    digest = names.short_hash("team/a")
    remaining = [f"team-a-{kind}{tail}" for kind in ("lb", "nodes") for tail in ("", f"-{digest}")]
    for name in remaining:
        lab.server.add("ipallocations", make.allocation(name, size=1, annotations=stamp))
    lab.server.add("tenantclusters", make.tenant())
    await lab.rounds()
    assert _phase(lab) == "Ready"
    assert len(_cidrs(lab)) == len(remaining) + 2
    refs = {lab.see(*TENANT)[ref]["name"] for ref in ("lbAllocationRef", "ipAllocationRef")}
    assert len(refs) == 2
    assert not refs & set(remaining)


async def test_a_cluster_that_vanished_before_the_cache_knew_it_is_no_error() -> None:
    lab = _lab()
    lab.server.add("tenantclusters", make.tenant())
    lab.hold("tenantclusters")
    lab.server.vanish("tenantclusters", "a", namespace="team")
    assert isinstance(await lab.cluster(), Again)
    lab.flow()
    assert await lab.cluster() == SETTLED


async def test_a_ready_cluster_outlives_a_mistake_in_its_provider_and_asks_for_nothing_new() -> (
    None
):
    lab = _lab()
    lab.server.add("tenantclusters", make.tenant(status={"phase": "Ready"}))
    lab.server.add(
        "ipallocations", make.allocation("team-a-lb", held_range=("10.40.0.0", "10.40.0.7"))
    )
    lab.tenant_server("a")
    await lab.cluster()
    refs = lab.server.see("providerconfigs", "default")["spec"]["network"]["poolRefs"]
    no_pools: list[Any] = []
    for provider_problem in (no_pools, refs):
        lab.server.edit(
            "providerconfigs", "default", {"spec": {"network": {"poolRefs": provider_problem}}}
        )
        await lab.cluster()
        assert _phase(lab) == "Ready"
    assert [a["metadata"]["name"] for a in lab.server.all("ipallocations")] == ["team-a-lb"]


@pytest.mark.parametrize(
    ("team", "expected"), [("platform", True), ("other", False), (None, True)], ids=str
)
async def test_a_providers_team_alone_is_served(team: str | None, expected: bool) -> None:
    scope = {"type": "team", "teamRef": {"name": "platform"}}
    provider = make.provider("lab")
    lab = _lab(provider=provider)
    lab.server.edit("providerconfigs", "default", {"spec": {"scope": scope}})
    spec = {"teamRef": {"name": team}} if team else {}
    lab.server.add("tenantclusters", make.tenant(spec=spec))
    await lab.cluster()
    assert bool(lab.server.all("ipallocations")) is expected
    reason = _read_condition(lab, "NetworkReady")[1]
    assert reason == ("Reconciling" if expected else "ProviderAccessDenied")
