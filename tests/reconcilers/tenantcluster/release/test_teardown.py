"""A cluster is torn down when it is deleted, and also where its finalizer did not hold it."""

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
from reconcilers.tenantcluster.release.teardown import OVERTAKEN_SECONDS
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer
from tests.reconcilers.lab import AT_ONCE, TENANT_KINDS, Lab, Replica
from tests.reconcilers.memorybalancer.adapter import MemoryKind
from tests.reconcilers.platform import Platform
from tests.reconcilers.server import Json, Server

CLUSTER = Key("team", "a")


def _begin_teardown(**cluster: Any) -> Lab:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant(**cluster))
    lab.gate.real = lab.tenant_gate
    return lab


async def _ready(**cluster: Any) -> tuple[Lab, Server]:
    """Return a cluster that is Ready, and its tenant."""
    lab = _begin_teardown(**cluster)
    status = cluster.get("status") or {}
    tenant = lab.tenant_server("a", namespace=status.get("tenantNamespace", "team"))
    await lab.rounds()
    assert _pools(tenant) == ["default-pool"]
    return lab, tenant


def _pools(tenant: Server) -> list[str]:
    return [pool["metadata"]["name"] for pool in tenant.all("ipaddresspools")]


def _vanish(lab: Lab) -> None:
    lab.server.vanish("tenantclusters", "a", namespace="team")


def _list_left_over(lab: Lab) -> list[str]:
    return [allocation["metadata"]["name"] for allocation in lab.server.all("ipallocations")]


def _going(lab: Lab) -> list[str]:
    metadata_list = [allocation["metadata"] for allocation in lab.server.all("ipallocations")]
    return [meta["name"] for meta in metadata_list if "deletionTimestamp" in meta]


async def _ask(lab: Lab) -> Released | InUse:
    allocation: Any = lab.caches["ipallocations"].get(make.key("team-a-lb"))
    return await lab.tenant_gate.check(allocation, allocation.metadata.revision)


class TestOfAClusterThatIsReady:
    """Its tenant is alive, so it is asked before anything is given to others."""

    async def test_its_ranges_are_released_only_when_they_are_withdrawn_from_its_tenant(
        self,
    ) -> None:
        lab, tenant = await _ready()
        _vanish(lab)
        await lab.orphans.sweep()
        assert _going(lab) == ["team-a-lb", "team-a-nodes"]
        await lab.allocation("team-a-lb")
        assert _list_left_over(lab) == ["team-a-lb", "team-a-nodes"]
        await lab.cluster()
        assert _pools(tenant) == []
        await lab.rounds()
        assert _list_left_over(lab) == []
        assert await lab.cluster() == SETTLED
        assert tenant.closed == 1

    async def test_a_service_that_shows_an_address_keeps_the_range(self) -> None:
        lab, tenant = await _ready()
        status: Json = {"loadBalancer": {"ingress": [{"ip": "10.40.0.1"}]}}
        meta = {"name": "web", "namespace": "default"}
        spec = {"type": "LoadBalancer"}
        tenant.add("services", {"metadata": meta, "spec": spec, "status": status})
        _vanish(lab)
        await lab.orphans.sweep()
        assert isinstance(await lab.cluster(), Blocked)
        assert isinstance(await _ask(lab), InUse)
        tenant.vanish("services", "web", namespace="default")
        assert isinstance(await _ask(lab), Released)

    async def test_its_kubeconfig_is_looked_for_where_it_said(self) -> None:
        lab, tenant = await _ready(status={"tenantNamespace": "elsewhere"})
        await lab.tenants.aclose()
        _vanish(lab)
        await lab.orphans.sweep()
        await lab.cluster()
        assert _pools(tenant) == []

    async def test_a_process_that_never_saw_it_finds_its_tenant_by_its_name(self) -> None:
        lab, tenant = await _ready()
        _vanish(lab)
        await lab.orphans.sweep()
        heir = lab.another()
        heir.gate.real = heir.tenant_gate
        await heir.allocations.reconcile(make.key("team-a-lb"))
        assert "team-a-lb" in _list_left_over(lab)
        await heir.clusters.reconcile(CLUSTER)
        assert _pools(tenant) == []
        await heir.allocations.reconcile(make.key("team-a-lb"))
        assert "team-a-lb" not in _list_left_over(lab)

    async def test_without_its_kubeconfig_it_counts_as_torn_down(self) -> None:
        lab, _ = await _ready()
        _vanish(lab)
        lab.server.vanish("secrets", "a-admin-kubeconfig", namespace="team")
        assert isinstance(await _ask(lab), Released)

    async def test_a_tenant_that_does_not_answer_is_waited_for_as_long_as_in_a_teardown(
        self,
    ) -> None:
        lab, tenant = await _ready()
        _vanish(lab)
        tenant.fail(NoAnswer("timed out"), times=99)
        assert isinstance(await _ask(lab), InUse)
        await lab.clock.advance(600)
        assert isinstance(await _ask(lab), Released)

    async def test_what_it_left_is_left_to_the_collector_of_orphans(self) -> None:
        lab, _ = await _ready()
        await lab.clock.advance(OVERTAKEN_SECONDS)
        _vanish(lab)
        await lab.cluster()
        assert _going(lab) == []


class TestOfAClusterThatIsOnlyJustBegun:
    """A deletion that had read it before may have overtaken the finalizer."""

    async def test_what_was_made_for_the_tenant_is_deleted_at_once(self) -> None:
        lab = _begin_teardown(finalizers=[])
        await lab.cluster()
        assert _list_left_over(lab) == ["team-a-lb", "team-a-nodes"]
        _vanish(lab)
        await lab.cluster()
        assert _going(lab) == ["team-a-lb", "team-a-nodes"]
        await lab.rounds()
        assert _list_left_over(lab) == []

    async def test_allocations_of_the_old_cluster_are_deleted_where_a_new_one_has_its_name(
        self,
    ) -> None:
        lab = _begin_teardown(finalizers=[])
        await lab.cluster()
        _vanish(lab)
        lab.server.add("tenantclusters", make.tenant(uid="uid-of-the-next", finalizers=[]))
        await lab.cluster()
        assert _going(lab) == ["team-a-lb", "team-a-nodes"]

    async def test_only_a_live_read_says_that_it_is_gone(self) -> None:
        lab = _begin_teardown(finalizers=[])
        await lab.cluster()
        _vanish(lab)
        lab.server.fail(Forbidden(403, "Forbidden", "no"), plural="tenantclusters", verb="get")
        with pytest.raises(Forbidden):
            await lab.cluster()
        lab.server.fail(NotFound(404, "", "404 page not found"), plural="tenantclusters")
        with pytest.raises(NotFound):
            await lab.cluster()
        assert _going(lab) == []

    async def test_a_range_that_was_given_meanwhile_is_taken_back_with_the_next_pass(self) -> None:
        lab = _begin_teardown(finalizers=[])
        await lab.cluster()
        _vanish(lab)
        lab.hold("ipallocations")
        await lab.another().pools.reconcile(make.key("lab"))
        assert await lab.cluster() == Again(1.0)
        assert _going(lab) == []
        lab.flow()
        await lab.cluster()
        assert _going(lab) == ["team-a-lb", "team-a-nodes"]

    async def test_one_that_was_there_before_us_is_not_taken_for_new(self) -> None:
        lab = _begin_teardown(finalizers=[], status={"phase": "Provisioning"})
        await lab.cluster()
        _vanish(lab)
        await lab.cluster()
        assert _list_left_over(lab) != []
        assert _going(lab) == []

    async def test_later_it_is_left_to_the_collector_of_orphans(self) -> None:
        lab = _begin_teardown(finalizers=[])
        await lab.cluster()
        await lab.clock.advance(OVERTAKEN_SECONDS)
        _vanish(lab)
        await lab.cluster()
        assert _going(lab) == []


async def test_an_allocation_whose_owner_was_never_seen_is_released_at_once() -> None:
    lab = Lab()
    lab.server.add(
        "ipallocations", make.allocation("team-a-lb", held_range=("10.40.0.0", "10.40.0.7"))
    )
    lab.tenant_server("a")
    assert isinstance(await _ask(lab), Released)


async def test_deletion_gives_everything_back_and_then_the_cluster_goes() -> None:
    lab = _begin_teardown()
    tenant = lab.tenant_server("a")
    await lab.rounds()
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.rounds()
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert lab.server.all("ipallocations") == []
    assert tenant.all("ipaddresspools") == []
    assert tenant.all("l2advertisements") == []
    assert lab.see("networkpools", "lab")["allocatedIPs"] == 0
    assert "ClusterDeleting" in lab.recorded.reasons
    last = [h.object["metadata"]["name"] for h in lab.server.history if h.type == "DELETED"][-3:]
    assert last == ["team-a-lb", "a", "team-a-nodes"]
    assert tenant.closed == 1


def _released_ranges(platform: Platform) -> list[tuple[str, str]]:
    """Return subject and note of each event that reports a released range."""
    return sorted(
        (f"{event['regarding']['kind']}/{event['regarding']['name']}", event["note"])
        for event in platform.server.all("events")
        if event["reason"] == "RangeReleased"
    )


RELEASED_RANGES = [
    ("TenantCluster/a", "loadbalancer range 10.40.0.0-10.40.0.7 of NetworkPool lab (initial)"),
    ("TenantCluster/a", "nodes range 10.40.0.8-10.40.0.12 of NetworkPool lab (initial)"),
]


@asynccontextmanager
async def _ready_platform() -> AsyncIterator[Platform]:
    """Run a platform whose cluster is Ready."""
    platform = Platform(AT_ONCE)
    platform.server.add("networkpools", make.pool())
    platform.server.add("providerconfigs", make.provider("lab"))
    platform.server.add("tenantclusters", make.tenant())
    Balancer(platform.tenant("a"))
    async with platform.running():
        await platform.clock.advance(60)
        assert platform.phase("tenantclusters", "a", "team") == "Ready"
        assert _released_ranges(platform) == []
        yield platform


async def test_each_range_of_a_deleted_cluster_gets_an_event() -> None:
    async with _ready_platform() as platform:
        platform.server.delete("tenantclusters", "a", namespace="team")
        await platform.clock.advance(300)
        assert platform.server.all("ipallocations") == []
        assert _released_ranges(platform) == RELEASED_RANGES


async def test_each_range_of_a_cluster_that_lost_its_finalizer_gets_an_event() -> None:
    async with _ready_platform() as platform:
        platform.server.vanish("tenantclusters", "a", namespace="team")
        await platform.clock.advance(1200)
        assert platform.server.all("ipallocations") == []
        assert _released_ranges(platform) == RELEASED_RANGES


async def test_each_range_of_a_vanished_cluster_gets_an_event_though_another_has_its_name() -> (
    None
):
    async with _ready_platform() as platform:
        platform.server.vanish("tenantclusters", "a", namespace="team")
        platform.server.add("tenantclusters", make.tenant(uid="uid-of-the-next"))
        await platform.clock.advance(1200)
        assert _released_ranges(platform) == RELEASED_RANGES


async def test_a_cluster_goes_though_its_tenant_does_not_serve_the_kinds_of_the_balancer() -> None:
    lab = _begin_teardown(annotations={names.ANNOTATION_PROJECTION_BEGUN: "2026-01-01T00:00:00Z"})
    lab.tenant_server("a", ("services", "namespaces"))
    replica = Replica(lab, MemoryKind(lab.clock))
    lab.server.delete("tenantclusters", "a", namespace="team")
    assert await replica.clusters.reconcile(CLUSTER) == SETTLED
    assert not lab.server.has("tenantclusters", "a", namespace="team")


async def test_one_delete_that_fails_does_not_stop_the_others() -> None:
    lab = _begin_teardown()
    await lab.rounds()
    lab.server.delete("tenantclusters", "a", namespace="team")
    lab.server.fail(NoAnswer("timed out"), verb="delete", name="team-a-lb")
    with pytest.raises(NoAnswer):
        await lab.cluster()
    nodes = lab.server.see("ipallocations", "team-a-nodes")["metadata"]
    assert "deletionTimestamp" in nodes


async def test_a_cluster_whose_cache_has_read_its_deletion_costs_no_list() -> None:
    lab, _ = await _ready()
    lab.server.delete("tenantclusters", "a", namespace="team")
    lab.server.requests.clear()
    await lab.rounds()
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert lab.server.count(verb="list", plural="ipallocations") == 0


async def test_an_allocation_that_the_cache_has_not_read_yet_keeps_the_finalizer() -> None:
    lab, _ = await _ready()
    lab.server.vanish("ipallocations", "team-a-lb")
    lab.server.vanish("ipallocations", "team-a-nodes")
    lab.hold("ipallocations")
    unseen = make.allocation("by-hand", tenant="team/a", held_range=("10.40.0.64", "10.40.0.71"))
    lab.server.add("ipallocations", unseen)
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.cluster()
    assert lab.server.has("tenantclusters", "a", namespace="team")
    lab.flow()
    await lab.rounds()
    assert not lab.server.has("tenantclusters", "a", namespace="team")
    assert lab.server.all("ipallocations") == []


async def test_a_cluster_that_was_ready_before_us_may_have_been_projected_by_others() -> None:
    lab = _begin_teardown(status={"phase": "Ready"})
    lab.server.add(
        "ipallocations", make.allocation("team-a-lb", held_range=("10.40.0.0", "10.40.0.7"))
    )
    tenant = lab.tenant_server("a")
    tenant.fail(NoAnswer("timed out"), times=10_000)
    await lab.cluster()
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.rounds_of("a", 5)
    assert "team-a-lb" in _list_left_over(lab)
    await lab.clock.advance(600)
    await lab.rounds_of("a", 3)
    assert "team-a-lb" not in _list_left_over(lab)
    assert "TeardownGracePassed" in lab.recorded.reasons


async def test_a_cluster_that_lost_its_annotations_still_gives_back_what_its_tenant_has() -> None:
    """As by `kubectl replace` with what was read before the controller came."""
    lab, tenant = await _ready()
    lab.server.edit("tenantclusters", "a", {"metadata": {"annotations": None}}, namespace="team")
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.rounds()
    assert _pools(tenant) == [], "no range is free that its MetalLB still hands out"
    assert _list_left_over(lab) == []


async def test_that_something_was_projected_is_noted_anew_on_a_cluster_that_lost_it() -> None:
    lab, _ = await _ready()
    lab.server.edit("tenantclusters", "a", {"metadata": {"annotations": None}}, namespace="team")
    await lab.rounds()
    noted = lab.server.see("tenantclusters", "a", namespace="team")["metadata"]["annotations"]
    assert names.ANNOTATION_PROJECTION_BEGUN in noted


async def test_an_unreadable_allocation_that_the_cache_lacks_keeps_the_finalizer() -> None:
    lab, _ = await _ready()
    lab.server.vanish("ipallocations", "team-a-lb")
    lab.server.vanish("ipallocations", "team-a-nodes")
    lab.hold("ipallocations")
    lab.server.add("ipallocations", make.allocation("by-hand", tenant="team/a"))
    lab.server.edit("ipallocations", "by-hand", {"spec": {"count": "many"}})
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.cluster()
    assert lab.server.has("tenantclusters", "a", namespace="team")
    lab.server.vanish("ipallocations", "by-hand")
    lab.flow()
    await lab.rounds()
    assert not lab.server.has("tenantclusters", "a", namespace="team")


class TestOfAnAllocationThatIsCreatedAfterTheTeardown:
    """A replica that was frozen creates it for a cluster that is gone by then."""

    async def test_it_is_released_as_soon_as_its_tenant_has_confirmed_it(self) -> None:
        lab, _ = await _late()
        await _sweep_and_release(lab, lab)
        assert _list_left_over(lab) == []

    async def test_a_process_that_never_saw_the_cluster_releases_it_as_soon(self) -> None:
        lab, _ = await _late()
        await _sweep_and_release(lab, lab.another())
        assert _list_left_over(lab) == []

    async def test_the_record_of_a_creation_delays_it_for_as_long_as_a_request_may_arrive(
        self,
    ) -> None:
        lab, _ = await _late(annotations={names.ANNOTATION_MARKER_CREATION: "7"})
        await _sweep_and_release(lab, lab)
        assert _list_left_over(lab) == ["team-a-lb-late"]
        await _release(lab, lab, UNRESOLVED_SECONDS)
        assert _list_left_over(lab) == []

    async def test_nothing_of_ours_is_left_in_the_tenant(self) -> None:
        lab, tenant = await _late()
        await _sweep_and_release(lab, lab)
        assert _pools(tenant) == []
        assert tenant.closed == 2, "the client of the teardown, and the one of the late allocation"

    async def test_the_marker_stays_while_a_cluster_of_that_name_uses_the_tenant(self) -> None:
        lab, tenant = await _late()
        lab.server.add("tenantclusters", make.tenant(uid="uid-of-the-next"))
        await _sweep_and_release(lab, lab)
        assert "team-a-lb-late" not in _list_left_over(lab)
        assert MARKER in _pools(tenant)


async def _late(annotations: Json | None = None) -> tuple[Lab, Server]:
    """Return a lab whose cluster is gone, with a new allocation of it, and its tenant."""
    lab = _begin_teardown()
    tenant = lab.tenant_server("a", (*TENANT_KINDS, "servicebgpstatuses"))
    Balancer(tenant, counts=True)
    await lab.rounds()
    uid = lab.server.see("tenantclusters", "a", namespace="team")["metadata"]["uid"]
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.rounds()
    await lab.clock.advance(OVERTAKEN_SECONDS)
    assert _list_left_over(lab) == []
    noted = {names.ANNOTATION_TENANT_UID: uid} | (annotations or {})
    held_range = ("10.40.0.0", "10.40.0.7")
    lab.server.add(
        "ipallocations",
        make.allocation("team-a-lb-late", held_range=held_range, annotations=noted),
    )
    return lab, tenant


async def _sweep_and_release(lab: Lab, replica: Replica) -> None:
    """Collect orphans once, then let a replica release them within ten seconds."""
    await replica.clusters.reconcile(CLUSTER)
    await replica.orphans.sweep()
    await _release(lab, replica, 10)


async def _release(lab: Lab, replica: Replica, seconds: float) -> None:
    """Let a replica look at the cluster and at its allocations once a second."""
    replica.gate.real = replica.tenant_gate
    for _ in range(int(seconds)):
        await replica.clusters.reconcile(CLUSTER)
        for allocation in list(replica.caches["ipallocations"]):
            await replica.allocations.reconcile(allocation.metadata.key)
        await lab.clock.advance(1)
    await replica.clusters.reconcile(CLUSTER)
