"""Teardown of a TenantCluster that is deleted, or that vanished because it lost its finalizer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.errors import Forbidden, NoAnswer, NotFound
from controller.meta import Key
from controller.outcome import SETTLED, Again, Blocked
from reconcilers.api import names
from reconcilers.ipallocation.release import InUse, Released
from reconcilers.loadbalancers.metallb.uptake import MARKER
from reconcilers.tenantcluster.record.gate import UNRESOLVED_SECONDS
from reconcilers.tenantcluster.release.teardown import LATE_DELETION_SECONDS
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer
from tests.reconcilers.lab import SETTINGS_WITHOUT_WAITS, TENANT_KINDS, Lab, Replica
from tests.reconcilers.memorybalancer.adapter import MemoryKind
from tests.reconcilers.platform import Platform
from tests.reconcilers.server import Json, Server

CLUSTER = Key("team", "a")


def _make_lab(**cluster: Any) -> Lab:
    """Return a lab with TenantCluster team/a, on which no pass has run, and the real check."""
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant(**cluster))
    lab.use_real_release_check()
    return lab


async def _make_ready_lab(**cluster: Any) -> tuple[Lab, Server]:
    """Return a lab with cluster a, which is Ready, and its tenant's API server."""
    lab = _make_lab(**cluster)
    status = cluster.get("status") or {}
    tenant = lab.start_tenant_server("a", namespace=status.get("tenantNamespace", "team"))
    await lab.run_until_at_rest()
    assert _list_pools(tenant) == ["default-pool"]
    return lab, tenant


def _list_pools(tenant: Server) -> list[str]:
    """Return the names of the tenant's IPAddressPools."""
    return [pool["metadata"]["name"] for pool in tenant.all("ipaddresspools")]


def _remove_cluster(lab: Lab) -> None:
    """Remove the TenantCluster at once, as if it had no finalizer."""
    lab.server.vanish("tenantclusters", "a", namespace="team")


def _list_allocations(lab: Lab) -> list[str]:
    """Return the names of all allocations."""
    return [allocation["metadata"]["name"] for allocation in lab.server.all("ipallocations")]


def _list_deleted_allocations(lab: Lab) -> list[str]:
    """Return the names of the allocations that are being deleted."""
    metadata_list = [allocation["metadata"] for allocation in lab.server.all("ipallocations")]
    return [meta["name"] for meta in metadata_list if "deletionTimestamp" in meta]


async def _check(lab: Lab) -> Released | InUse:
    """Return the answer of the release check about allocation team-a-lb."""
    allocation: Any = lab.caches["ipallocations"].get(make.key("team-a-lb"))
    return await lab.tenant_gate.check(allocation, allocation.metadata.revision)


class TestOfAClusterThatIsReady:
    """A cluster that vanished while Ready: a range is released only after the tenant was read."""

    async def test_its_ranges_are_released_only_when_they_are_withdrawn_from_its_tenant(
        self,
    ) -> None:
        lab, tenant = await _make_ready_lab()
        _remove_cluster(lab)
        await lab.orphans.sweep()
        assert _list_deleted_allocations(lab) == ["team-a-lb", "team-a-nodes"]
        await lab.run_allocation_pass("team-a-lb")
        assert _list_allocations(lab) == ["team-a-lb", "team-a-nodes"]
        await lab.run_cluster_pass()
        assert _list_pools(tenant) == []
        await lab.run_until_at_rest()
        assert _list_allocations(lab) == []
        assert await lab.run_cluster_pass() == SETTLED
        assert tenant.closed == 1

    async def test_a_service_that_shows_an_address_keeps_the_range(self) -> None:
        lab, tenant = await _make_ready_lab()
        status: Json = {"loadBalancer": {"ingress": [{"ip": "10.40.0.1"}]}}
        meta = {"name": "web", "namespace": "default"}
        spec = {"type": "LoadBalancer"}
        tenant.add("services", {"metadata": meta, "spec": spec, "status": status})
        _remove_cluster(lab)
        await lab.orphans.sweep()
        assert isinstance(await lab.run_cluster_pass(), Blocked)
        assert isinstance(await _check(lab), InUse)
        tenant.vanish("services", "web", namespace="default")
        assert isinstance(await _check(lab), Released)

    async def test_its_kubeconfig_is_read_from_the_namespace_that_its_status_named(self) -> None:
        lab, tenant = await _make_ready_lab(status={"tenantNamespace": "elsewhere"})
        await lab.tenants.aclose()
        _remove_cluster(lab)
        await lab.orphans.sweep()
        await lab.run_cluster_pass()
        assert _list_pools(tenant) == []

    async def test_a_process_that_never_saw_it_finds_its_tenant_by_its_name(self) -> None:
        lab, tenant = await _make_ready_lab()
        _remove_cluster(lab)
        await lab.orphans.sweep()
        restarted = lab.make_replica()
        restarted.use_real_release_check()
        await restarted.allocations.reconcile(make.key("team-a-lb"))
        assert "team-a-lb" in _list_allocations(lab)
        await restarted.clusters.reconcile(CLUSTER)
        assert _list_pools(tenant) == []
        await restarted.allocations.reconcile(make.key("team-a-lb"))
        assert "team-a-lb" not in _list_allocations(lab)

    async def test_without_its_kubeconfig_it_counts_as_torn_down(self) -> None:
        lab, _ = await _make_ready_lab()
        _remove_cluster(lab)
        lab.server.vanish("secrets", "a-admin-kubeconfig", namespace="team")
        assert isinstance(await _check(lab), Released)

    async def test_its_ranges_are_released_after_the_teardown_grace_if_its_tenant_is_silent(
        self,
    ) -> None:
        lab, tenant = await _make_ready_lab()
        _remove_cluster(lab)
        tenant.fail(NoAnswer("timed out"), times=99)
        assert isinstance(await _check(lab), InUse)
        await lab.clock.advance(600)
        assert isinstance(await _check(lab), Released)

    async def test_a_pass_does_not_delete_its_allocations_as_the_orphan_collector_does(
        self,
    ) -> None:
        lab, _ = await _make_ready_lab()
        await lab.clock.advance(LATE_DELETION_SECONDS)
        _remove_cluster(lab)
        await lab.run_cluster_pass()
        assert _list_deleted_allocations(lab) == []


class TestOfAClusterThatVanishesSoonAfterItsFirstPass:
    """Its deletion may have arrived before our finalizer, so the next pass cleans up."""

    async def test_its_allocations_are_deleted_at_once(self) -> None:
        lab = _make_lab(finalizers=[])
        await lab.run_cluster_pass()
        assert _list_allocations(lab) == ["team-a-lb", "team-a-nodes"]
        _remove_cluster(lab)
        await lab.run_cluster_pass()
        assert _list_deleted_allocations(lab) == ["team-a-lb", "team-a-nodes"]
        await lab.run_until_at_rest()
        assert _list_allocations(lab) == []

    async def test_allocations_of_the_old_cluster_are_deleted_where_a_new_one_has_its_name(
        self,
    ) -> None:
        lab = _make_lab(finalizers=[])
        await lab.run_cluster_pass()
        _remove_cluster(lab)
        lab.server.add("tenantclusters", make.tenant(uid="uid-of-the-next", finalizers=[]))
        await lab.run_cluster_pass()
        assert _list_deleted_allocations(lab) == ["team-a-lb", "team-a-nodes"]

    async def test_nothing_is_deleted_if_no_live_read_confirms_that_it_is_gone(self) -> None:
        lab = _make_lab(finalizers=[])
        await lab.run_cluster_pass()
        _remove_cluster(lab)
        lab.server.fail(Forbidden(403, "Forbidden", "no"), plural="tenantclusters", verb="get")
        with pytest.raises(Forbidden):
            await lab.run_cluster_pass()
        lab.server.fail(NotFound(404, "", "404 page not found"), plural="tenantclusters")
        with pytest.raises(NotFound):
            await lab.run_cluster_pass()
        assert _list_deleted_allocations(lab) == []

    async def test_an_allocation_that_got_its_range_meanwhile_is_deleted_by_the_next_pass(
        self,
    ) -> None:
        lab = _make_lab(finalizers=[])
        await lab.run_cluster_pass()
        _remove_cluster(lab)
        lab.hold_events("ipallocations")
        await lab.make_replica().pools.reconcile(make.key("lab"))
        assert await lab.run_cluster_pass() == Again(1.0)
        assert _list_deleted_allocations(lab) == []
        lab.deliver_events()
        await lab.run_cluster_pass()
        assert _list_deleted_allocations(lab) == ["team-a-lb", "team-a-nodes"]

    async def test_a_cluster_that_already_had_a_phase_keeps_its_allocations(self) -> None:
        lab = _make_lab(finalizers=[], status={"phase": "Provisioning"})
        await lab.run_cluster_pass()
        _remove_cluster(lab)
        await lab.run_cluster_pass()
        assert _list_allocations(lab) != []
        assert _list_deleted_allocations(lab) == []

    async def test_a_pass_much_later_leaves_its_allocations_to_the_orphan_collector(self) -> None:
        lab = _make_lab(finalizers=[])
        await lab.run_cluster_pass()
        await lab.clock.advance(LATE_DELETION_SECONDS)
        _remove_cluster(lab)
        await lab.run_cluster_pass()
        assert _list_deleted_allocations(lab) == []


async def test_an_allocation_whose_owner_was_never_seen_is_released_at_once() -> None:
    lab = Lab()
    lab.server.add(
        "ipallocations", make.allocation("team-a-lb", held_range=("10.40.0.0", "10.40.0.7"))
    )
    lab.start_tenant_server("a")
    assert isinstance(await _check(lab), Released)


async def test_a_deleted_cluster_goes_after_its_balancer_range_and_before_its_node_range() -> None:
    lab = _make_lab()
    tenant = lab.start_tenant_server("a")
    await lab.run_until_at_rest()
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.run_until_at_rest()
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert lab.server.all("ipallocations") == []
    assert tenant.all("ipaddresspools") == []
    assert tenant.all("l2advertisements") == []
    assert lab.read_status("networkpools", "lab")["allocatedIPs"] == 0
    assert "ClusterDeleting" in lab.recorded.reasons
    last = [h.object["metadata"]["name"] for h in lab.server.history if h.type == "DELETED"][-3:]
    assert last == ["team-a-lb", "a", "team-a-nodes"]
    assert tenant.closed == 1


def _list_release_events(platform: Platform) -> list[tuple[str, str]]:
    """Return subject and note of each event that reports a released range."""
    return sorted(
        (f"{event['regarding']['kind']}/{event['regarding']['name']}", event["note"])
        for event in platform.server.all("events")
        if event["reason"] == "RangeReleased"
    )


RELEASE_EVENTS = [
    ("TenantCluster/a", "loadbalancer range 10.40.0.0-10.40.0.7 of NetworkPool lab (initial)"),
    ("TenantCluster/a", "nodes range 10.40.0.8-10.40.0.12 of NetworkPool lab (initial)"),
]


@asynccontextmanager
async def _run_ready_platform() -> AsyncIterator[Platform]:
    """Run a platform, and yield it once its cluster is Ready."""
    platform = Platform(SETTINGS_WITHOUT_WAITS)
    platform.server.add("networkpools", make.pool())
    platform.server.add("providerconfigs", make.provider("lab"))
    platform.server.add("tenantclusters", make.tenant())
    Balancer(platform.tenant("a"))
    async with platform.running():
        await platform.clock.advance(60)
        assert platform.phase("tenantclusters", "a", "team") == "Ready"
        assert _list_release_events(platform) == []
        yield platform


async def test_each_range_of_a_deleted_cluster_gets_an_event() -> None:
    async with _run_ready_platform() as platform:
        platform.server.delete("tenantclusters", "a", namespace="team")
        await platform.clock.advance(300)
        assert platform.server.all("ipallocations") == []
        assert _list_release_events(platform) == RELEASE_EVENTS


async def test_each_range_of_a_cluster_that_lost_its_finalizer_gets_an_event() -> None:
    async with _run_ready_platform() as platform:
        platform.server.vanish("tenantclusters", "a", namespace="team")
        await platform.clock.advance(1200)
        assert platform.server.all("ipallocations") == []
        assert _list_release_events(platform) == RELEASE_EVENTS


async def test_each_range_of_a_vanished_cluster_gets_an_event_though_another_has_its_name() -> (
    None
):
    async with _run_ready_platform() as platform:
        platform.server.vanish("tenantclusters", "a", namespace="team")
        platform.server.add("tenantclusters", make.tenant(uid="uid-of-the-next"))
        await platform.clock.advance(1200)
        assert _list_release_events(platform) == RELEASE_EVENTS


async def test_a_cluster_can_be_deleted_if_its_tenant_does_not_serve_the_balancers_kinds() -> None:
    lab = _make_lab(annotations={names.ANNOTATION_PROJECTION_BEGUN: "2026-01-01T00:00:00Z"})
    lab.start_tenant_server("a", ("services", "namespaces"))
    replica = Replica(lab, MemoryKind(lab.clock))
    lab.server.delete("tenantclusters", "a", namespace="team")
    assert await replica.clusters.reconcile(CLUSTER) == SETTLED
    assert not lab.server.has("tenantclusters", "a", namespace="team")


async def test_one_delete_that_fails_does_not_stop_the_others() -> None:
    lab = _make_lab()
    await lab.run_until_at_rest()
    lab.server.delete("tenantclusters", "a", namespace="team")
    lab.server.fail(NoAnswer("timed out"), verb="delete", name="team-a-lb")
    with pytest.raises(NoAnswer):
        await lab.run_cluster_pass()
    nodes = lab.server.see("ipallocations", "team-a-nodes")["metadata"]
    assert "deletionTimestamp" in nodes


async def test_a_cluster_whose_cache_has_read_its_deletion_costs_no_list() -> None:
    lab, _ = await _make_ready_lab()
    lab.server.delete("tenantclusters", "a", namespace="team")
    lab.server.requests.clear()
    await lab.run_until_at_rest()
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert lab.server.count(verb="list", plural="ipallocations") == 0


async def test_an_allocation_that_the_cache_has_not_read_yet_keeps_the_finalizer() -> None:
    lab, _ = await _make_ready_lab()
    lab.server.vanish("ipallocations", "team-a-lb")
    lab.server.vanish("ipallocations", "team-a-nodes")
    lab.hold_events("ipallocations")
    unseen = make.allocation("by-hand", tenant="team/a", held_range=("10.40.0.64", "10.40.0.71"))
    lab.server.add("ipallocations", unseen)
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.run_cluster_pass()
    assert lab.server.has("tenantclusters", "a", namespace="team")
    lab.deliver_events()
    await lab.run_until_at_rest()
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert lab.server.all("ipallocations") == []


async def test_a_cluster_that_was_already_ready_waits_for_the_teardown_grace() -> None:
    """An earlier controller may have projected ranges to its tenant, which does not answer."""
    lab = _make_lab(status={"phase": "Ready"})
    lab.server.add(
        "ipallocations", make.allocation("team-a-lb", held_range=("10.40.0.0", "10.40.0.7"))
    )
    tenant = lab.start_tenant_server("a")
    tenant.fail(NoAnswer("timed out"), times=10_000)
    await lab.run_cluster_pass()
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.run_rounds("a", 5)
    assert "team-a-lb" in _list_allocations(lab)
    await lab.clock.advance(600)
    await lab.run_rounds("a", 3)
    assert "team-a-lb" not in _list_allocations(lab)
    assert "TeardownGracePassed" in lab.recorded.reasons


async def test_a_cluster_that_lost_its_annotations_is_still_withdrawn_from_its_tenant() -> None:
    """`kubectl replace` with an object from before the first pass removes the annotations."""
    lab, tenant = await _make_ready_lab()
    lab.server.edit("tenantclusters", "a", {"metadata": {"annotations": None}}, namespace="team")
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.run_until_at_rest()
    assert _list_pools(tenant) == [], "no range is free that its MetalLB still hands out"
    assert _list_allocations(lab) == []


async def test_the_annotation_projection_begun_is_restored_on_a_cluster_that_lost_it() -> None:
    lab, _ = await _make_ready_lab()
    lab.server.edit("tenantclusters", "a", {"metadata": {"annotations": None}}, namespace="team")
    await lab.run_until_at_rest()
    noted = lab.server.see("tenantclusters", "a", namespace="team")["metadata"]["annotations"]
    assert names.ANNOTATION_PROJECTION_BEGUN in noted


async def test_an_unreadable_allocation_that_the_cache_lacks_keeps_the_finalizer() -> None:
    lab, _ = await _make_ready_lab()
    lab.server.vanish("ipallocations", "team-a-lb")
    lab.server.vanish("ipallocations", "team-a-nodes")
    lab.hold_events("ipallocations")
    lab.server.add("ipallocations", make.allocation("by-hand", tenant="team/a"))
    lab.server.edit("ipallocations", "by-hand", {"spec": {"count": "many"}})
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.run_cluster_pass()
    assert lab.server.has("tenantclusters", "a", namespace="team")
    lab.server.vanish("ipallocations", "by-hand")
    lab.deliver_events()
    await lab.run_until_at_rest()
    assert not lab.server.has("tenantclusters", "a", namespace="team")


class TestOfAnAllocationThatIsCreatedAfterTheTeardown:
    """A replica that was frozen creates it for a cluster that is gone by then."""

    async def test_it_is_released_as_soon_as_its_tenant_has_confirmed_it(self) -> None:
        lab, _ = await _make_late_allocation()
        await _sweep_and_release(lab, lab)
        assert _list_allocations(lab) == []

    async def test_a_process_that_never_saw_the_cluster_releases_it_just_as_fast(self) -> None:
        lab, _ = await _make_late_allocation()
        await _sweep_and_release(lab, lab.make_replica())
        assert _list_allocations(lab) == []

    async def test_the_record_of_a_creation_delays_it_for_as_long_as_a_request_may_arrive(
        self,
    ) -> None:
        lab, _ = await _make_late_allocation(annotations={names.ANNOTATION_MARKER_CREATION: "7"})
        await _sweep_and_release(lab, lab)
        assert _list_allocations(lab) == ["team-a-lb-late"]
        await _release(lab, lab, UNRESOLVED_SECONDS)
        assert _list_allocations(lab) == []

    async def test_nothing_of_ours_is_left_in_the_tenant(self) -> None:
        lab, tenant = await _make_late_allocation()
        await _sweep_and_release(lab, lab)
        assert _list_pools(tenant) == []
        assert tenant.closed == 2, "the client of the teardown, and the one of the late allocation"

    async def test_the_marker_stays_while_a_cluster_of_that_name_uses_the_tenant(self) -> None:
        lab, tenant = await _make_late_allocation()
        lab.server.add("tenantclusters", make.tenant(uid="uid-of-the-next"))
        await _sweep_and_release(lab, lab)
        assert "team-a-lb-late" not in _list_allocations(lab)
        assert MARKER in _list_pools(tenant)


async def _make_late_allocation(annotations: Json | None = None) -> tuple[Lab, Server]:
    """Return a lab in which an allocation was created for a cluster after its teardown.

    Args:
        annotations: of the allocation, beside the uid of its cluster.

    Returns:
        the lab, and the API server of the cluster's tenant.
    """
    lab = _make_lab()
    tenant = lab.start_tenant_server("a", (*TENANT_KINDS, "servicebgpstatuses"))
    Balancer(tenant, counts_addresses=True)
    await lab.run_until_at_rest()
    uid = lab.server.see("tenantclusters", "a", namespace="team")["metadata"]["uid"]
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.run_until_at_rest()
    await lab.clock.advance(LATE_DELETION_SECONDS)
    assert _list_allocations(lab) == []
    noted = {names.ANNOTATION_TENANT_UID: uid} | (annotations or {})
    held_range = ("10.40.0.0", "10.40.0.7")
    lab.server.add(
        "ipallocations",
        make.allocation("team-a-lb-late", held_range=held_range, annotations=noted),
    )
    return lab, tenant


async def _sweep_and_release(lab: Lab, replica: Replica) -> None:
    """Let a replica collect orphans, and then run its passes for ten seconds."""
    await replica.clusters.reconcile(CLUSTER)
    await replica.orphans.sweep()
    await _release(lab, replica, 10)


async def _release(lab: Lab, replica: Replica, seconds: float) -> None:
    """Run a replica's passes over the cluster and all allocations once a second."""
    replica.use_real_release_check()
    for _ in range(int(seconds)):
        await replica.clusters.reconcile(CLUSTER)
        for allocation in list(replica.caches["ipallocations"]):
            await replica.allocations.reconcile(allocation.metadata.key)
        await lab.clock.advance(1)
    await replica.clusters.reconcile(CLUSTER)
