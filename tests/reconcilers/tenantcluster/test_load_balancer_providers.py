"""Tenants of several load balancers in one process: the TenantCluster names which one."""

from typing import Any

import pytest

from controller.meta import Key, ObjectMeta
from reconcilers.api import names
from reconcilers.api.services import Service
from reconcilers.ipallocation.release import InUse, Released
from reconcilers.loadbalancers.choice import LoadBalancerKinds
from reconcilers.tenantcluster.allocations.membership import build_request, make_repair_patch
from tests.reconcilers import make
from tests.reconcilers.lab import TENANT_KINDS, Lab, Replica
from tests.reconcilers.memorybalancer.adapter import MemoryKind
from tests.reconcilers.memorybalancer.offers import OfferBalancer, list_offered_entries
from tests.reconcilers.server import Json, Server

METALLB = "metallb-system"
KINDS = (*TENANT_KINDS, "addressoffers")
FIRST_RANGE, SECOND_RANGE = ("10.40.0.0", "10.40.0.7"), ("10.40.0.8", "10.40.0.15")
FIRST_ENTRIES, SECOND_ENTRIES = ["10.40.0.0-10.40.0.7"], ["10.40.0.8-10.40.0.15"]
PROJECTION_BEGUN = {names.ANNOTATION_PROJECTION_BEGUN: "2026-01-01T00:00:00Z"}


def _make_spec(provider: str) -> Json:
    """Return the spec of a TenantCluster that names a load balancer."""
    return {"addons": {"loadBalancer": {"version": "1", "provider": provider}}}


def _add_cluster(
    lab: Lab, name: str, held_range: tuple[str, str], provider: str, **meta: Any
) -> None:
    """Add a cluster that is Ready, and the allocation that it holds."""
    cluster = make.tenant(name, spec=_make_spec(provider), status={"phase": "Ready"}, **meta)
    lab.server.add("tenantclusters", cluster)
    note = {} if provider == "metallb" else {names.ANNOTATION_LOAD_BALANCER: provider}
    allocation = make.allocation(
        f"team-{name}-lb", tenant=f"team/{name}", held_range=held_range, annotations=note
    )
    lab.server.add("ipallocations", allocation)


def _make_lab() -> tuple[Lab, Replica]:
    """Return a lab, and a replica with MetalLB and the balancer of tests, `memory`."""
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    return lab, _make_replica(lab)


def _make_replica(lab: Lab) -> Replica:
    """Return a replica with MetalLB and `memory`, whose release check asks tenants."""
    replica = Replica(lab, kinds={"memory": MemoryKind(lab.clock)})
    replica.use_real_release_check()
    return replica


def _list_pool_entries(tenant: Server) -> list[str]:
    """Return the ranges in our IPAddressPool; empty if there is none."""
    if not tenant.has("ipaddresspools", "default-pool", namespace=METALLB):
        return []
    pool = tenant.see("ipaddresspools", "default-pool", namespace=METALLB)
    return list(pool["spec"]["addresses"])


def _read_condition(lab: Lab, name: str) -> tuple[str, str, str]:
    """Return status, reason and message of a cluster's condition LoadBalancerReady."""
    condition = lab.find_condition(
        "tenantclusters", name, kind="LoadBalancerReady", namespace="team"
    )
    return condition["status"], condition["reason"], condition["message"]


async def _reconcile(replica: Replica, name: str) -> None:
    """Run two passes: the first creates an offer, the second fills it once it is acknowledged."""
    for _ in range(2):
        await replica.clusters.reconcile(Key("team", name))


async def test_each_tenant_is_given_its_ranges_by_the_provider_that_it_names() -> None:
    lab, replica = _make_lab()
    first, second = (lab.start_tenant_server(name, KINDS) for name in ("a", "b"))
    OfferBalancer(second)
    _add_cluster(lab, "a", held_range=FIRST_RANGE, provider="metallb")
    _add_cluster(lab, "b", held_range=SECOND_RANGE, provider="memory")
    for name in ("a", "b"):
        await _reconcile(replica, name)
    assert (_list_pool_entries(first), list_offered_entries(first)) == (FIRST_ENTRIES, [])
    assert (_list_pool_entries(second), list_offered_entries(second)) == ([], SECOND_ENTRIES)
    assert _read_condition(lab, "a") == ("True", "Ready", f"MetalLB holds {FIRST_ENTRIES[0]}")
    assert _read_condition(lab, "b") == (
        "True",
        "Ready",
        f"the balancer of tests holds {SECOND_ENTRIES[0]}",
    )


async def test_a_tenant_that_lacks_the_kinds_of_its_provider_is_not_given_another() -> None:
    lab, replica = _make_lab()
    tenant = lab.start_tenant_server("a", TENANT_KINDS)
    _add_cluster(lab, "a", held_range=FIRST_RANGE, provider="memory")
    await _reconcile(replica, "a")
    assert _read_condition(lab, "a")[:2] == ("False", "OffersNotServed")
    assert tenant.all("ipaddresspools") == []


async def test_a_range_is_released_when_the_process_of_its_own_provider_acknowledges() -> None:
    lab, replica = _make_lab()
    tenant = lab.start_tenant_server("b", KINDS)
    balancer = OfferBalancer(tenant)
    _add_cluster(lab, "b", held_range=SECOND_RANGE, provider="memory")
    await _reconcile(replica, "b")
    balancer.paused = True
    lab.server.delete("ipallocations", "team-b-lb", namespace=make.NAMESPACE)
    await _reconcile(replica, "b")
    assert "not acknowledged" in _get_reason(await _check(replica, "team-b-lb"))
    balancer.resume()
    assert isinstance(await _check(replica, "team-b-lb"), Released)


async def test_the_noted_provider_is_asked_for_a_cluster_that_vanished_before_a_restart() -> None:
    lab, replica = _make_lab()
    tenant = lab.start_tenant_server("b", KINDS)
    OfferBalancer(tenant)
    _add_cluster(lab, "b", held_range=SECOND_RANGE, provider="memory")
    await _reconcile(replica, "b")
    lab.server.vanish("tenantclusters", "b", namespace="team")
    restarted = _make_replica(lab)
    await restarted.clusters.reconcile(Key("team", "b"))  # deletes the range
    assert list_offered_entries(tenant) == SECOND_ENTRIES
    assert "the offer" in _get_reason(await _check(restarted, "team-b-lb"))


async def test_an_allocation_carries_the_provider_of_its_cluster_unless_that_is_the_default() -> (
    None
):
    for provider, note in (("memory", "memory"), ("metallb", None)):
        cluster = make.tenant("b", spec=_make_spec(provider))
        created = build_request(
            cluster, names.TYPE_LOADBALANCER, name="team-b-lb", pool="lab", size=8
        )
        assert created["metadata"]["annotations"].get(names.ANNOTATION_LOAD_BALANCER) == note
        nodes = build_request(cluster, names.TYPE_NODES, name="team-b-nodes", pool="lab", size=8)
        assert names.ANNOTATION_LOAD_BALANCER not in nodes["metadata"]["annotations"]


async def test_an_adopted_allocation_keeps_the_load_balancer_that_may_have_its_range() -> None:
    allocation = make.allocation("team-b-lb", tenant="team/b", held_range=SECOND_RANGE)
    patch = make_repair_patch(allocation, make.tenant("b", spec=_make_spec("memory")), "uid")
    assert names.ANNOTATION_LOAD_BALANCER not in patch["metadata"]["annotations"]


async def test_an_unknown_provider_is_reported_and_nothing_is_written_to_the_tenant() -> None:
    lab, replica = _make_lab()
    tenant = lab.start_tenant_server("a", KINDS)
    _add_cluster(lab, "a", held_range=FIRST_RANGE, provider="other")
    await _reconcile(replica, "a")
    status, reason, message = _read_condition(lab, "a")
    assert (status, reason) == ("False", "LoadBalancerNotSupported")
    assert "set it to memory or metallb" in message
    assert tenant.all("ipaddresspools") == tenant.all("addressoffers") == []


async def test_no_range_is_released_while_the_provider_is_not_known() -> None:
    lab, replica = _make_lab()
    lab.start_tenant_server("a", KINDS)
    _add_cluster(lab, "a", held_range=FIRST_RANGE, provider="other", annotations=PROJECTION_BEGUN)
    lab.server.delete("ipallocations", "team-a-lb", namespace=make.NAMESPACE)
    await lab.clock.advance(3600)
    assert "not supported by this release" in _get_reason(await _check(replica, "team-a-lb"))


@pytest.mark.parametrize("holder", ["a", "b"])
async def test_the_cluster_that_was_first_keeps_a_tenant_whichever_balancer_the_second_names(
    holder: str,
) -> None:
    lab, replica = _make_lab()
    tenant = lab.start_tenant_server("a", KINDS)
    OfferBalancer(tenant)
    lab.start_tenant_server("b", KINDS)
    lab.tenant_servers["b"] = tenant
    other = "b" if holder == "a" else "a"
    clusters = {"a": (FIRST_RANGE, "metallb"), "b": (SECOND_RANGE, "memory")}
    for name in (holder, other, holder):
        if not lab.server.has("tenantclusters", name, namespace="team"):
            _add_cluster(lab, name, *clusters[name])
        await _reconcile(replica, name)
    assert _read_condition(lab, holder)[0] == "True"
    assert _read_condition(lab, other)[1] == "TenantShared"
    assert not (_list_pool_entries(tenant) and list_offered_entries(tenant))


async def test_an_address_that_a_service_shows_keeps_its_range_while_the_provider_is_unknown() -> (
    None
):
    kind = LoadBalancerKinds({}).find_chosen(make.tenant("a"))
    service_view = kind.view_service(Service(ObjectMeta("web", "default")))
    assert service_view.keeps_range
    assert service_view.obstacle is not None


async def _check(replica: Replica, name: str) -> Released | InUse:
    """Ask the release check about an allocation as it is stored."""
    allocation = replica.caches["ipallocations"].get(Key(make.NAMESPACE, name))
    assert allocation is not None
    return await replica.tenant_gate.check(allocation, allocation.metadata.revision)


def _get_reason(answer: Released | InUse) -> str:
    """Return why a range is still in use."""
    assert isinstance(answer, InUse), answer
    return answer.why
