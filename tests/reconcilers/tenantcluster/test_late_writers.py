"""Late writers, lost notes and restored backups: no range is released while it is offered."""

import base64
from typing import Any

from controller.meta import Key
from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.balancer import service
from tests.reconcilers.lab import TENANT_KINDS
from tests.reconcilers.lbipam import POOLS
from tests.reconcilers.tenantcluster.test_provider_change import (
    CILIUM,
    ENTRIES,
    METALLB,
    TENANT,
    Site,
)

NS = make.NAMESPACE
THIRD = "10.40.0.32-10.40.0.39"


async def _delete_and_watch(site: Site) -> None:
    """Delete the first allocation; fail if its range is released while Cilium offers it."""
    uid = site.lab.server.see("ipallocations", "team-a-lb", namespace=NS)["metadata"]["uid"]
    early: list[str] = []

    def hear(happened: Any) -> None:
        is_gone = happened.plural == "ipallocations" and happened.new is None
        is_offered = ENTRIES[0] in site.list_offered(CILIUM)
        if is_gone and happened.old["metadata"]["uid"] == uid and is_offered:
            early.append("released while Cilium offers it")

    site.lab.server.listeners.append(hear)
    site.lab.server.delete("ipallocations", "team-a-lb", namespace=NS)
    await site.run(60)
    assert not early


async def test_a_writer_that_froze_after_the_list_of_a_lost_history_gives_no_range_back() -> None:
    site = Site(METALLB)
    await site.run(5)
    late = site.another()
    await late.clusters.reconcile(TENANT)
    late.hold("ipallocations")
    third = make.allocation(
        "team-a-lb-3", tenant="team/a", held_range=("10.40.0.32", "10.40.0.39")
    )
    site.lab.server.add("ipallocations", third)
    await site.run(2)
    assert site.list_offered(METALLB) == sorted([*ENTRIES, THIRD])
    await late.clusters.reconcile(TENANT)  # behind
    await site.lab.clock.advance(6)
    list_all = late.client.list
    frozen = False

    async def list_then_freeze(resource: Any, **how: Any) -> Any:
        nonlocal frozen
        page = await list_all(resource, **how)
        if resource.plural == "ipallocations" and not frozen:
            frozen = True
            late.flow()
            late.hold("ipallocations")
            site.lab.server.delete("ipallocations", "team-a-lb-2", namespace=NS)
            await site.run(20)
            assert not site.lab.server.has("ipallocations", "team-a-lb-2")
            assert site.list_offered(METALLB) == [ENTRIES[0], THIRD]
        return page

    late.client.list = list_then_freeze  # type: ignore[method-assign]
    await late.clusters.reconcile(TENANT)
    assert frozen
    assert site.list_offered(METALLB) == [ENTRIES[0], THIRD]


async def test_a_stale_replica_that_takes_the_tenant_for_new_changes_no_note() -> None:
    site = Site(METALLB)
    secret = site.lab.server.see("secrets", "a-admin-kubeconfig", namespace="team")
    site.lab.server.vanish("secrets", "a-admin-kubeconfig", namespace="team")
    site.lab.server.edit("tenantclusters", "a", {"status": {"phase": "Pending"}}, namespace="team")
    await site.run(3)
    late = site.another()
    late.hold("tenantclusters")
    site.choose(CILIUM)
    meta = {"name": "a-admin-kubeconfig", "namespace": "team"}
    site.lab.server.add("secrets", {"metadata": meta, "data": secret["data"]})
    await site.run(60)
    assert site.list_offered(CILIUM) == ENTRIES
    await late.clusters.reconcile(TENANT)  # resumes; has heard of allocations, not of the cluster
    await _delete_and_watch(site)


async def test_pools_of_ranges_that_wait_for_a_restart_are_not_removed_by_a_change() -> None:
    site = Site(CILIUM)
    site.tenant.served = (*TENANT_KINDS, POOLS, "leases")
    site.cilium.restart()
    await site.run(5)
    site.metallb.paused = True
    service(site.tenant, "keyed", annotations={"lbipam.cilium.io/sharing-key": "k"})
    await site.run(3)
    assert names.ANNOTATION_RELEASE_NOTE in site.annotations("team-a-lb")
    uid = site.lab.server.see("ipallocations", "team-a-lb", namespace=NS)["metadata"]["uid"]

    def is_held() -> bool:
        return any(o["metadata"]["uid"] == uid for o in site.lab.server.all("ipallocations"))

    site.tenant.delete("services", "keyed", namespace="default")
    site.lab.server.delete("ipallocations", "team-a-lb", namespace=NS)
    await site.run(15)
    assert is_held()
    assert len(site.tenant.all(POOLS)) == 2
    site.choose(METALLB)
    await site.run(40)
    assert is_held()
    site.cilium.restart()
    await site.run(40)
    assert not is_held()


async def test_a_note_that_is_lost_releases_nothing_that_cilium_offers() -> None:
    site = Site(CILIUM)
    await site.run(5)
    site.lab.server.edit(
        "ipallocations",
        "team-a-lb",
        {"metadata": {"annotations": {names.ANNOTATION_LOAD_BALANCER: None}}},
        namespace=NS,
    )
    await _delete_and_watch(site)


async def test_a_backup_from_before_the_change_releases_nothing_early() -> None:
    site = Site(METALLB)
    await site.run(5)
    site.choose(CILIUM)
    await site.run(40)
    assert site.list_offered(CILIUM) == ENTRIES
    # The backup has the old spec and no notes.
    site.choose(METALLB)
    for name in ("team-a-lb", "team-a-lb-2"):
        site.lab.server.edit(
            "ipallocations",
            name,
            {"metadata": {"annotations": {names.ANNOTATION_LOAD_BALANCER: None}}},
            namespace=NS,
        )
    await site.run(10)
    await _delete_and_watch(site)


async def test_a_pool_of_ours_that_cannot_be_read_does_not_count_as_absent() -> None:
    site = Site(CILIUM)
    await site.run(5)
    pool = next(
        p for p in site.tenant.all(POOLS) if p["spec"]["blocks"][0]["start"] == "10.40.0.0"
    )
    site.cilium.paused = True  # it keeps the block that it has read
    blocks = [{"start": "10.40.0.0", "stop": 5}]
    site.tenant.edit(POOLS, pool["metadata"]["name"], {"spec": {"blocks": blocks}}, namespace="")
    uid = site.lab.server.see("ipallocations", "team-a-lb", namespace=NS)["metadata"]["uid"]
    site.lab.server.delete("ipallocations", "team-a-lb", namespace=NS)
    await site.run(40)
    assert any(o["metadata"]["uid"] == uid for o in site.lab.server.all("ipallocations"))


async def test_a_change_after_a_lost_history_ends() -> None:
    site = Site(METALLB)
    await site.run(5)
    site.tenant.edit(
        "ipaddresspools",
        "default-pool",
        {"metadata": {"annotations": {names.ANNOTATION_PROJECTION_BASIS: "100000"}}},
        namespace="metallb-system",
    )
    site.choose(CILIUM)
    await site.run(200)
    assert site.list_offered(CILIUM) == ENTRIES


async def test_a_deleted_range_of_the_new_balancer_does_not_wait_for_the_old_one() -> None:
    site = Site(METALLB)
    site.lab.server.edit(
        "ipallocations",
        "team-a-lb-2",
        {"metadata": {"annotations": {names.ANNOTATION_LOAD_BALANCER: CILIUM}}},
        namespace=NS,
    )
    site.choose(CILIUM)  # as if this one had been changed already
    await site.run(10)
    # Cilium has both. Now a person makes one by hand, and MetalLB's answer never comes.
    site.metallb.paused = site.cilium.paused = True
    third = make.allocation("by-hand", tenant="team/a", held_range=("10.40.0.32", "10.40.0.39"))
    site.lab.server.add("ipallocations", third)
    service(
        site.tenant,
        "stuck",
        status={"loadBalancer": {"ingress": [{"ip": "10.40.0.33"}]}},
    )
    await site.run(5)
    uid = site.lab.server.see("ipallocations", "team-a-lb-2", namespace=NS)["metadata"]["uid"]
    site.lab.server.delete("ipallocations", "team-a-lb-2", namespace=NS)
    site.cilium.resume()
    await site.run(60)
    assert all(o["metadata"]["uid"] != uid for o in site.lab.server.all("ipallocations"))


async def test_a_provider_that_was_misspelt_for_a_while_leaves_no_tenant_stuck() -> None:
    site = Site(METALLB)
    await site.run(5)
    site.choose("metalb")
    third = make.allocation(
        "grown",
        tenant="team/a",
        held_range=("10.40.0.32", "10.40.0.39"),
        annotations={names.ANNOTATION_LOAD_BALANCER: "metalb"},
    )
    site.lab.server.add("ipallocations", third)
    await site.run(3)
    site.choose(METALLB)
    await site.run(60)
    assert site.condition()[0] == "True"


async def test_a_stale_view_of_the_cluster_does_not_release_what_its_earlier_tenant_has() -> None:
    site = Site(METALLB)
    secret = site.lab.server.see("secrets", "a-admin-kubeconfig", namespace="team")
    site.lab.server.vanish("secrets", "a-admin-kubeconfig", namespace="team")
    site.lab.server.edit("tenantclusters", "a", {"status": {"phase": "Pending"}}, namespace="team")
    await site.run(3)
    late = site.another()
    late.hold("tenantclusters")
    meta = {"name": "a-admin-kubeconfig", "namespace": "team"}
    site.lab.server.add("secrets", {"metadata": meta, "data": secret["data"]})
    await site.run(40)
    assert site.list_offered(METALLB) == ENTRIES
    site.lab.tenant_server("b", TENANT_KINDS)
    site.lab.server.edit(
        "secrets",
        "a-admin-kubeconfig",
        {"data": {"admin.conf": base64.b64encode(b"b").decode()}},
        namespace="team",
    )
    uid = site.lab.server.see("ipallocations", "team-a-lb", namespace=NS)["metadata"]["uid"]
    site.lab.server.delete("ipallocations", "team-a-lb", namespace=NS)
    for _ in range(5):
        await late.allocations.reconcile(Key(NS, "team-a-lb"))
        await site.lab.clock.advance(1)
    assert any(o["metadata"]["uid"] == uid for o in site.lab.server.all("ipallocations"))


async def test_a_change_to_a_balancer_that_the_tenant_does_not_serve_takes_nothing_away() -> None:
    site = Site(METALLB)
    await site.run(5)
    site.tenant.served = TENANT_KINDS
    site.choose(CILIUM)
    await site.run(40)
    assert site.list_offered(METALLB) == ENTRIES


async def test_a_change_ends_beside_pools_of_another_management_cluster() -> None:
    site = Site(CILIUM)
    await site.run(5)
    pool = site.tenant.all(POOLS)[0]
    notes = pool["metadata"]["annotations"] | {
        names.ANNOTATION_PROJECTION_MANAGEMENT: "another",
        names.ANNOTATION_ALLOCATION_UID: "theirs",
    }
    other = {"metadata": {"name": "theirs", "annotations": notes}, "spec": {"blocks": []}}
    site.tenant.add(POOLS, other)
    site.choose(METALLB)
    await site.run(60)
    assert site.list_offered(METALLB) == ENTRIES
