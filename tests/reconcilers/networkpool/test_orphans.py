"""An allocation is deleted if its TenantCluster is gone, and not if it was never seen."""

from typing import Any

import pytest

from controller.errors import Forbidden, NotFound, ServerFailure
from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.lab import Lab
from tests.reconcilers.platform import Platform

OWNER = "uid-team-a"
STAMPED = {names.ANNOTATION_TENANT_UID: OWNER}
LABELS = {
    names.LABEL_POOL: "lab",
    names.LABEL_TEAM: "team",
    names.LABEL_TENANT: "a",
    names.LABEL_TYPE: "loadbalancer",
    names.LABEL_MANAGED_BY: "butler",
}


def make_orphan(name: str = "lb", number: int = 0, **more: Any) -> Any:
    """Return an allocation that was adopted by the TenantCluster team/a, which a lab lacks."""
    if more.get("phase", "Allocated") == "Allocated":
        more["held_range"] = (f"10.40.0.{number}", f"10.40.0.{number}")
    return make.allocation(name, **({"annotations": STAMPED, "labels": LABELS} | more))


def _make_orphan_of_own_cluster(name: str) -> Any:
    """Return the only allocation of a TenantCluster, which has the allocation's name."""
    return make_orphan(name, phase="Failed", tenant=f"team/{name}")


def make_lab(*allocations: Any, owner: Any = None) -> Lab:
    """Return a lab with these allocations, and with the TenantCluster `owner` if there is one."""
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    if owner is not None:
        lab.server.add("tenantclusters", owner)
    for allocation in allocations:
        lab.server.add("ipallocations", allocation)
    lab.server.requests.clear()
    return lab


def _list_deleted(lab: Lab) -> list[str]:
    """Return the names of the allocations that are being deleted."""
    metadata_list = [obj["metadata"] for obj in lab.server.all("ipallocations")]
    return [meta["name"] for meta in metadata_list if "deletionTimestamp" in meta]


@pytest.mark.parametrize("phase", ["Allocated", "Pending", "Failed"])
async def test_an_allocation_whose_cluster_is_gone_is_deleted_in_whatever_phase(
    phase: str,
) -> None:
    lab = make_lab(make_orphan(phase=phase))
    await lab.orphans.sweep()
    assert _list_deleted(lab) == ["lb"]
    reported = "Garbage collected IPAllocation lb (TenantCluster team/a no longer exists)"
    assert lab.recorded.events == [("Normal", "OrphanedAllocationGC", reported)]
    assert lab.recorded.related == ["lb"]


async def test_a_cluster_of_the_same_name_but_another_uid_is_no_owner() -> None:
    lab = make_lab(make_orphan(), owner=make.tenant(uid="uid-of-another"))
    await lab.orphans.sweep()
    assert _list_deleted(lab) == ["lb"]


async def test_a_sweep_requests_nothing_if_the_owner_exists() -> None:
    lab = make_lab(make_orphan(), owner=make.tenant())
    await lab.orphans.sweep()
    assert _list_deleted(lab) == []
    assert lab.server.requests == []


async def test_the_cache_finds_candidates_and_a_live_read_decides() -> None:
    lab = make_lab(make_orphan())
    lab.hold_events("tenantclusters")
    lab.server.add("tenantclusters", make.tenant())
    await lab.orphans.sweep()
    assert lab.server.count(verb="get", plural="tenantclusters") == 1
    assert _list_deleted(lab) == []


async def test_orphans_are_collected_though_the_cache_lacks_their_new_owner() -> None:
    lab = make_lab(make_orphan(), owner=make.tenant())
    lab.server.vanish("tenantclusters", "a", namespace="team")
    lab.hold_events("tenantclusters")
    lab.server.add("tenantclusters", make.tenant(uid="uid-of-another"))
    await lab.orphans.sweep()
    assert _list_deleted(lab) == ["lb"]


async def test_an_allocation_that_changed_meanwhile_is_deleted_only_by_a_later_sweep() -> None:
    lab = make_lab(make_orphan())
    lab.hold_events("ipallocations")
    lab.server.edit("ipallocations", "lb", {"metadata": {"annotations": {"x": "y"}}})
    await lab.orphans.sweep()
    assert _list_deleted(lab) == []
    lab.deliver_events()
    await lab.orphans.sweep()
    assert _list_deleted(lab) == ["lb"]


@pytest.mark.parametrize(
    "error",
    [
        NotFound(404, "", "404 page not found"),
        Forbidden(403, "Forbidden", "no"),
        ServerFailure(500, "InternalError", "no"),
    ],
    ids=["the kind is not served", "may not be read", "no good answer"],
)
async def test_failed_reads_delete_nothing(error: Any) -> None:
    lab = make_lab(make_orphan("one"), make_orphan("two", 1))
    lab.server.fail(error, times=9, plural="tenantclusters")
    await lab.orphans.sweep()
    assert _list_deleted(lab) == []


async def test_nothing_is_deleted_while_the_kind_of_owners_is_not_served() -> None:
    lab = make_lab(make_orphan())
    lab.server.served = tuple(k for k in lab.server.served if k != "tenantclusters")
    missing = NotFound(404, "NotFound", "tenantclusters 'a' not found")
    lab.server.fail(missing, times=9, plural="tenantclusters")
    await lab.orphans.sweep()
    assert _list_deleted(lab) == []


async def test_an_owner_that_cannot_be_decoded_counts_as_existing() -> None:
    lab = make_lab(make_orphan())
    odd = {"metadata": {"name": "a", "namespace": "team"}, "spec": {"workers": "many"}}
    lab.hold_events("tenantclusters")
    lab.server.add("tenantclusters", odd)
    await lab.orphans.sweep()
    assert _list_deleted(lab) == []


async def test_an_owner_never_seen_gets_a_condition_and_not_a_deletion() -> None:
    lab = make_lab(make_orphan(annotations={}))
    for _ in range(3):
        await lab.orphans.sweep()
    assert _list_deleted(lab) == []
    condition = lab.find_condition("ipallocations", "lb", "OwnerFound")
    assert (condition["status"], condition["reason"]) == ("False", "TenantClusterNeverSeen")
    assert condition["message"].startswith("TenantCluster team/a was never seen")
    assert len(lab.server.requests) == 1, "the condition is written once"
    assert lab.read_status("ipallocations", "lb")["phase"] == "Allocated"


async def test_an_owner_is_adopted_once_when_it_is_first_seen() -> None:
    lab = make_lab(make_orphan(annotations={}))
    await lab.orphans.sweep()
    lab.server.add("tenantclusters", make.tenant())
    await lab.orphans.sweep()
    meta = lab.server.see("ipallocations", "lb")["metadata"]
    assert meta["annotations"] == STAMPED
    assert lab.find_condition("ipallocations", "lb", "OwnerFound")["status"] == "True"
    lab.server.requests.clear()
    await lab.orphans.sweep()
    assert lab.server.requests == []
    lab.server.vanish("tenantclusters", "a", namespace="team")
    await lab.orphans.sweep()
    assert _list_deleted(lab) == ["lb"]


async def test_the_uid_that_is_adopted_is_read_live() -> None:
    lab = make_lab(make_orphan(annotations={}), owner=make.tenant())
    lab.hold_events("tenantclusters")
    lab.server.vanish("tenantclusters", "a", namespace="team")
    lab.server.add("tenantclusters", make.tenant(uid="uid-of-the-next"))
    await lab.orphans.sweep()
    meta = lab.server.see("ipallocations", "lb")["metadata"]
    assert meta["annotations"] == {names.ANNOTATION_TENANT_UID: "uid-of-the-next"}


async def test_a_cluster_that_is_being_deleted_adopts_nothing() -> None:
    gone = make.tenant(deletionTimestamp="2026-01-01T00:00:00Z")
    lab = make_lab(make_orphan(annotations={}), owner=gone)
    await lab.orphans.sweep()
    assert "annotations" not in lab.server.see("ipallocations", "lb")["metadata"]


async def test_labels_are_repaired_from_the_spec() -> None:
    wrong = {names.LABEL_TENANT: "another-tenant", "theirs": "stays"}
    lab = make_lab(make_orphan(labels=wrong), owner=make.tenant())
    await lab.orphans.sweep()
    assert lab.server.see("ipallocations", "lb")["metadata"]["labels"] == LABELS | {
        "theirs": "stays"
    }
    lab.server.requests.clear()
    await lab.orphans.sweep()
    assert lab.server.requests == []


async def test_the_labels_of_the_role_and_of_another_managing_tool_are_kept() -> None:
    kept = {names.LABEL_MANAGED_BY: "Helm", names.LABEL_ROLE: "growth"}
    lab = make_lab(make_orphan(labels=kept), owner=make.tenant())
    await lab.orphans.sweep()
    assert lab.server.see("ipallocations", "lb")["metadata"]["labels"] == LABELS | kept


async def test_long_names_are_shortened_with_a_hash_in_labels() -> None:
    long = "c" * 70
    lab = make_lab(
        make_orphan(labels={}, tenant=f"team/{long}"), owner=make.tenant(long, uid=OWNER)
    )
    await lab.orphans.sweep()
    label = lab.server.see("ipallocations", "lb")["metadata"]["labels"][names.LABEL_TENANT]
    assert len(label) == 63
    assert label == names.make_label_value(long)


async def test_labels_never_decide_who_is_an_orphan() -> None:
    misleading = LABELS | {names.LABEL_TENANT: "b"}
    lab = make_lab(make_orphan(labels=misleading), owner=make.tenant())
    await lab.orphans.sweep()
    assert _list_deleted(lab) == []


async def test_an_allocation_that_is_about_to_be_served_is_not_changed() -> None:
    fresh = make_orphan("fresh", phase=None, labels={}, held_range=None)
    promised = make_orphan("promised", phase="Pending", labels={})
    lab = make_lab(fresh, promised, owner=make.tenant())
    version = lab.server.see("ipallocations", "promised")["metadata"]["resourceVersion"]
    uid = lab.server.see("ipallocations", "promised")["metadata"]["uid"]
    entry = make.render_promise(make.promise(promised, "10.40.0.0", "10.40.0.7", version=version))
    stored = lab.server.see("networkpools", "lab")
    lab.server.edit("networkpools", "lab", make.replace_promises(stored, entry | {"uid": uid}))
    await lab.orphans.sweep()
    assert lab.server.requests == []


async def test_a_sweep_repairs_a_batch_and_the_next_ones_the_rest() -> None:
    orphans = [make_orphan(f"a{n:03}", labels={}, phase="Failed") for n in range(300)]
    lab = make_lab(*orphans, owner=make.tenant())
    await lab.orphans.sweep()
    assert lab.server.count(verb="patch") == 256
    await lab.orphans.sweep()
    assert lab.server.count(verb="patch") == 300


@pytest.mark.parametrize(
    ("orphans", "others", "collected"),
    [(10, 0, 10), (11, 0, 0), (11, 100, 11), (12, 100, 0), (20, 180, 20), (21, 180, 0)],
)
async def test_orphans_of_more_than_ten_owners_or_a_tenth_of_all_are_not_collected(
    orphans: int, others: int, collected: int
) -> None:
    lost = [_make_orphan_of_own_cluster(f"lost{n:03}") for n in range(orphans)]
    kept = [_make_orphan_of_own_cluster(f"kept{n:03}") for n in range(others)]
    lab = make_lab(*lost, *kept)
    for n in range(others):
        lab.server.add("tenantclusters", make.tenant(f"kept{n:03}", uid=OWNER))
    await lab.orphans.sweep()
    assert len(_list_deleted(lab)) == collected
    suspended = lab.find_condition("networkpools", "lab", "OrphanCollectionSuspended")
    assert bool(suspended) == (collected == 0)


async def test_one_cluster_with_many_allocations_counts_once() -> None:
    lab = make_lab(*(make_orphan(f"a{n:03}", number=n) for n in range(16)))
    await lab.orphans.sweep()
    assert len(_list_deleted(lab)) == 16
    assert lab.find_condition("networkpools", "lab", "OrphanCollectionSuspended") == {}


async def test_a_suspended_collection_is_reported_once_and_resumes_by_itself() -> None:
    lab = make_lab(*(_make_orphan_of_own_cluster(f"a{n:03}") for n in range(11)))
    for _ in range(3):
        await lab.orphans.sweep()
        await lab.clock.advance(60)
    suspended = lab.find_condition("networkpools", "lab", "OrphanCollectionSuspended")
    assert (suspended["status"], suspended["reason"]) == ("True", "TooManyOrphans")
    assert suspended["message"].startswith(
        "11 of 11 TenantClusters that hold addresses seem to be gone; more than 10 in a minute"
    )
    assert [r.verb for r in lab.server.requests] == ["patch"]
    assert lab.recorded.reasons == ["OrphanCollectionSuspended"]
    lab.server.vanish("ipallocations", "a000")
    await lab.orphans.sweep()
    suspended = lab.find_condition("networkpools", "lab", "OrphanCollectionSuspended")
    assert suspended["status"] == "False"
    assert len(_list_deleted(lab)) == 10


async def test_orphans_of_one_minute_count_together() -> None:
    lab = make_lab(*(_make_orphan_of_own_cluster(f"a{n:03}") for n in range(10)))
    await lab.orphans.sweep()
    assert len(_list_deleted(lab)) == 10
    await lab.clock.advance(30)
    lab.server.add("ipallocations", _make_orphan_of_own_cluster("late"))
    await lab.orphans.sweep()
    assert len(_list_deleted(lab)) == 10
    await lab.clock.advance(31)
    await lab.orphans.sweep()
    assert "late" in _list_deleted(lab)


async def test_more_than_sixteen_collected_orphans_share_an_event() -> None:
    lost = [make_orphan(f"lost{n:03}", phase="Failed") for n in range(20)]
    kept = [make_orphan(f"kept{n:03}", phase="Failed", tenant="team/b") for n in range(180)]
    lab = make_lab(*lost, *kept, owner=make.tenant("b", uid=OWNER))
    await lab.orphans.sweep()
    assert len(lab.recorded.events) == 17
    reported = "Garbage collected 4 more IPAllocations (their TenantClusters no longer exist)"
    assert lab.recorded.events[-1][2] == reported


async def test_a_suspended_collection_of_one_pool_does_not_affect_another() -> None:
    lost = [_make_orphan_of_own_cluster(f"a{n:03}") for n in range(11)]
    lab = make_lab(*lost, make_orphan("alone", of="other", phase="Failed"))
    await lab.orphans.sweep()
    assert _list_deleted(lab) == ["alone"], "its pool does not even exist"


async def test_pass_and_sweep_keep_each_others_conditions_of_a_pool() -> None:
    lab = make_lab(*(_make_orphan_of_own_cluster(f"a{n:03}") for n in range(11)))
    await lab.run_pool_pass()
    await lab.orphans.sweep()
    await lab.run_pool_pass()
    assert lab.find_condition("networkpools", "lab", "Ready")["status"] == "True"
    condition = lab.find_condition("networkpools", "lab", "OrphanCollectionSuspended")
    assert condition["status"] == "True"


async def test_the_addresses_of_a_cluster_deleted_by_force_are_released_within_a_minute() -> None:
    platform = Platform()
    platform.server.add("networkpools", make.pool())
    platform.server.add("providerconfigs", make.provider("lab"))
    tenant = platform.tenant("a")
    async with platform.running():
        platform.server.add("tenantclusters", make.tenant())
        await platform.clock.advance(5)
        assert platform.phase("ipallocations", "team-a-lb") == "Allocated"
        platform.server.vanish("tenantclusters", "a", namespace="team")
        await platform.clock.advance(62)
        assert platform.server.all("ipallocations") == []
        assert platform.server.see("networkpools", "lab")["status"]["availableIPs"] == 256
        assert tenant.all("ipaddresspools") == []
