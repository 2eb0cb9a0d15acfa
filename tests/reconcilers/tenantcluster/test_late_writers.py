"""Stale replicas, lost annotations, backups: no range is released while a balancer has it."""

import base64
from typing import Any

from controller.meta import Key
from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.balancer import add_service
from tests.reconcilers.lab import TENANT_KINDS
from tests.reconcilers.lbipam import POOLS
from tests.reconcilers.tenantcluster.test_provider_change import (
    CILIUM,
    ENTRIES,
    METALLB,
    TENANT,
    TwoBalancerSite,
)

NAMESPACE = make.NAMESPACE
THIRD_ENTRY = "10.40.0.32-10.40.0.39"


async def _delete_and_check_release(site: TwoBalancerSite) -> None:
    """Delete team-a-lb; fail if it is released while Cilium's pools still have its range."""
    uid = site.lab.server.see("ipallocations", "team-a-lb", namespace=NAMESPACE)["metadata"]["uid"]
    early_releases: list[str] = []

    def check_event(happened: Any) -> None:
        is_gone = happened.plural == "ipallocations" and happened.new is None
        is_offered = ENTRIES[0] in site.list_ranges_in(CILIUM)
        if is_gone and happened.old["metadata"]["uid"] == uid and is_offered:
            early_releases.append("released while Cilium offers it")

    site.lab.server.listeners.append(check_event)
    site.lab.server.delete("ipallocations", "team-a-lb", namespace=NAMESPACE)
    await site.run_passes(60)
    assert not early_releases


async def test_a_replica_that_froze_after_its_list_does_not_project_a_released_range_again() -> (
    None
):
    site = TwoBalancerSite(METALLB)
    await site.run_passes(5)
    stale = site.make_replica()
    await stale.clusters.reconcile(TENANT)
    stale.hold_events("ipallocations")
    third = make.allocation(
        "team-a-lb-3", tenant="team/a", held_range=("10.40.0.32", "10.40.0.39")
    )
    site.lab.server.add("ipallocations", third)
    await site.run_passes(2)
    assert site.list_ranges_in(METALLB) == sorted([*ENTRIES, THIRD_ENTRY])
    await stale.clusters.reconcile(TENANT)  # its cache is behind the tenant's pool
    await site.lab.clock.advance(6)
    list_all = stale.client.list
    has_frozen = False

    async def list_then_freeze(resource: Any, **options: Any) -> Any:
        """Answer the list, but only after the other replica has worked for 20 seconds."""
        nonlocal has_frozen
        page = await list_all(resource, **options)
        if resource.plural == "ipallocations" and not has_frozen:
            has_frozen = True
            stale.deliver_events()
            stale.hold_events("ipallocations")
            site.lab.server.delete("ipallocations", "team-a-lb-2", namespace=NAMESPACE)
            await site.run_passes(20)
            assert not site.lab.server.has("ipallocations", "team-a-lb-2")
            assert site.list_ranges_in(METALLB) == [ENTRIES[0], THIRD_ENTRY]
        return page

    stale.client.list = list_then_freeze  # type: ignore[method-assign]
    await stale.clusters.reconcile(TENANT)
    assert has_frozen
    assert site.list_ranges_in(METALLB) == [ENTRIES[0], THIRD_ENTRY]


async def test_a_stale_replica_that_takes_the_tenant_for_new_causes_no_early_release() -> None:
    site = TwoBalancerSite(METALLB)
    secret = site.lab.server.see("secrets", "a-admin-kubeconfig", namespace="team")
    site.lab.server.vanish("secrets", "a-admin-kubeconfig", namespace="team")
    site.lab.server.edit("tenantclusters", "a", {"status": {"phase": "Pending"}}, namespace="team")
    await site.run_passes(3)
    stale = site.make_replica()
    stale.hold_events("tenantclusters")
    site.set_provider(CILIUM)
    meta = {"name": "a-admin-kubeconfig", "namespace": "team"}
    site.lab.server.add("secrets", {"metadata": meta, "data": secret["data"]})
    await site.run_passes(60)
    assert site.list_ranges_in(CILIUM) == ENTRIES
    await stale.clusters.reconcile(TENANT)  # its cache lacks the change of the cluster
    await _delete_and_check_release(site)


async def test_a_range_that_waits_for_a_cilium_restart_waits_through_a_change_of_balancer() -> (
    None
):
    site = TwoBalancerSite(CILIUM)
    site.tenant.served = (*TENANT_KINDS, POOLS, "leases")
    site.cilium.restart()
    await site.run_passes(5)
    site.metallb.paused = True
    add_service(site.tenant, "keyed", annotations={"lbipam.cilium.io/sharing-key": "k"})
    await site.run_passes(3)
    assert names.ANNOTATION_RELEASE_NOTE in site.read_annotations("team-a-lb")
    uid = site.lab.server.see("ipallocations", "team-a-lb", namespace=NAMESPACE)["metadata"]["uid"]

    def is_held() -> bool:
        return any(o["metadata"]["uid"] == uid for o in site.lab.server.all("ipallocations"))

    site.tenant.delete("services", "keyed", namespace="default")
    site.lab.server.delete("ipallocations", "team-a-lb", namespace=NAMESPACE)
    await site.run_passes(15)
    assert is_held()
    assert len(site.tenant.all(POOLS)) == 2
    site.set_provider(METALLB)
    await site.run_passes(40)
    assert is_held()
    site.cilium.restart()
    await site.run_passes(40)
    assert not is_held()


async def test_an_allocation_that_lost_its_balancer_annotation_is_not_released_early() -> None:
    site = TwoBalancerSite(CILIUM)
    await site.run_passes(5)
    site.lab.server.edit(
        "ipallocations",
        "team-a-lb",
        {"metadata": {"annotations": {names.ANNOTATION_LOAD_BALANCER: None}}},
        namespace=NAMESPACE,
    )
    await _delete_and_check_release(site)


async def test_a_backup_from_before_the_change_releases_nothing_early() -> None:
    site = TwoBalancerSite(METALLB)
    await site.run_passes(5)
    site.set_provider(CILIUM)
    await site.run_passes(40)
    assert site.list_ranges_in(CILIUM) == ENTRIES
    # The backup has the old spec and no notes.
    site.set_provider(METALLB)
    for name in ("team-a-lb", "team-a-lb-2"):
        site.lab.server.edit(
            "ipallocations",
            name,
            {"metadata": {"annotations": {names.ANNOTATION_LOAD_BALANCER: None}}},
            namespace=NAMESPACE,
        )
    await site.run_passes(10)
    await _delete_and_check_release(site)


async def test_a_range_is_not_released_while_its_cilium_pool_cannot_be_parsed() -> None:
    site = TwoBalancerSite(CILIUM)
    await site.run_passes(5)
    pool = next(
        p for p in site.tenant.all(POOLS) if p["spec"]["blocks"][0]["start"] == "10.40.0.0"
    )
    site.cilium.paused = True  # it keeps the block that it has read
    blocks = [{"start": "10.40.0.0", "stop": 5}]
    site.tenant.edit(POOLS, pool["metadata"]["name"], {"spec": {"blocks": blocks}}, namespace="")
    uid = site.lab.server.see("ipallocations", "team-a-lb", namespace=NAMESPACE)["metadata"]["uid"]
    site.lab.server.delete("ipallocations", "team-a-lb", namespace=NAMESPACE)
    await site.run_passes(40)
    assert any(o["metadata"]["uid"] == uid for o in site.lab.server.all("ipallocations"))


async def test_a_change_of_balancer_ends_although_the_pool_has_a_basis_of_the_future() -> None:
    """A restored etcd leaves pools whose basis is above the current revision."""
    site = TwoBalancerSite(METALLB)
    await site.run_passes(5)
    site.tenant.edit(
        "ipaddresspools",
        "default-pool",
        {"metadata": {"annotations": {names.ANNOTATION_PROJECTION_BASIS: "100000"}}},
        namespace="metallb-system",
    )
    site.set_provider(CILIUM)
    await site.run_passes(200)
    assert site.list_ranges_in(CILIUM) == ENTRIES


async def test_a_deleted_range_of_the_new_balancer_does_not_wait_for_the_old_one() -> None:
    site = TwoBalancerSite(METALLB)
    site.lab.server.edit(
        "ipallocations",
        "team-a-lb-2",
        {"metadata": {"annotations": {names.ANNOTATION_LOAD_BALANCER: CILIUM}}},
        namespace=NAMESPACE,
    )
    site.set_provider(CILIUM)  # the annotation says that team-a-lb-2 has already changed
    await site.run_passes(10)
    # Cilium has both ranges. Now a user creates a third, which MetalLB never releases.
    site.metallb.paused = site.cilium.paused = True
    third = make.allocation("by-hand", tenant="team/a", held_range=("10.40.0.32", "10.40.0.39"))
    site.lab.server.add("ipallocations", third)
    add_service(
        site.tenant,
        "stuck",
        status={"loadBalancer": {"ingress": [{"ip": "10.40.0.33"}]}},
    )
    await site.run_passes(5)
    uid = site.lab.server.see("ipallocations", "team-a-lb-2", namespace=NAMESPACE)["metadata"][
        "uid"
    ]
    site.lab.server.delete("ipallocations", "team-a-lb-2", namespace=NAMESPACE)
    site.cilium.resume()
    await site.run_passes(60)
    assert all(o["metadata"]["uid"] != uid for o in site.lab.server.all("ipallocations"))


async def test_a_tenant_becomes_ready_again_after_its_misspelt_provider_is_corrected() -> None:
    site = TwoBalancerSite(METALLB)
    await site.run_passes(5)
    site.set_provider("metalb")
    third = make.allocation(
        "grown",
        tenant="team/a",
        held_range=("10.40.0.32", "10.40.0.39"),
        annotations={names.ANNOTATION_LOAD_BALANCER: "metalb"},
    )
    site.lab.server.add("ipallocations", third)
    await site.run_passes(3)
    site.set_provider(METALLB)
    await site.run_passes(60)
    assert site.read_condition()[0] == "True"


async def test_a_stale_replica_does_not_release_a_range_that_the_earlier_tenant_has() -> None:
    site = TwoBalancerSite(METALLB)
    secret = site.lab.server.see("secrets", "a-admin-kubeconfig", namespace="team")
    site.lab.server.vanish("secrets", "a-admin-kubeconfig", namespace="team")
    site.lab.server.edit("tenantclusters", "a", {"status": {"phase": "Pending"}}, namespace="team")
    await site.run_passes(3)
    stale = site.make_replica()
    stale.hold_events("tenantclusters")
    meta = {"name": "a-admin-kubeconfig", "namespace": "team"}
    site.lab.server.add("secrets", {"metadata": meta, "data": secret["data"]})
    await site.run_passes(40)
    assert site.list_ranges_in(METALLB) == ENTRIES
    site.lab.start_tenant_server("b", TENANT_KINDS)
    site.lab.server.edit(
        "secrets",
        "a-admin-kubeconfig",
        {"data": {"admin.conf": base64.b64encode(b"b").decode()}},
        namespace="team",
    )
    uid = site.lab.server.see("ipallocations", "team-a-lb", namespace=NAMESPACE)["metadata"]["uid"]
    site.lab.server.delete("ipallocations", "team-a-lb", namespace=NAMESPACE)
    for _ in range(5):
        await stale.allocations.reconcile(Key(NAMESPACE, "team-a-lb"))
        await site.lab.clock.advance(1)
    assert any(o["metadata"]["uid"] == uid for o in site.lab.server.all("ipallocations"))


async def test_ranges_stay_in_metallb_if_the_tenant_does_not_serve_the_kinds_of_cilium() -> None:
    site = TwoBalancerSite(METALLB)
    await site.run_passes(5)
    site.tenant.served = TENANT_KINDS
    site.set_provider(CILIUM)
    await site.run_passes(40)
    assert site.list_ranges_in(METALLB) == ENTRIES


async def test_a_change_of_balancer_does_not_wait_for_pools_of_another_management_cluster() -> (
    None
):
    site = TwoBalancerSite(CILIUM)
    await site.run_passes(5)
    pool = site.tenant.all(POOLS)[0]
    notes = pool["metadata"]["annotations"] | {
        names.ANNOTATION_PROJECTION_MANAGEMENT: "another",
        names.ANNOTATION_ALLOCATION_UID: "theirs",
    }
    other = {"metadata": {"name": "theirs", "annotations": notes}, "spec": {"blocks": []}}
    site.tenant.add(POOLS, other)
    site.set_provider(METALLB)
    await site.run_passes(60)
    assert site.list_ranges_in(METALLB) == ENTRIES
