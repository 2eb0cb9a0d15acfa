"""Node addresses belong to the machines of a cluster: they stay held until the cluster is gone."""

from typing import Any

import pytest

from allocator import AddressRange
from controller.cache import Cache
from controller.outcome import Blocked
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import POOL_INDEX, TENANT_INDEX, IPAllocation
from tests.reconcilers import make
from tests.reconcilers.lab import Lab
from tests.reconcilers.server import Json

NODES = "team-a-nodes"
OTHER_FINALIZER = "infrastructure.example.com/machines"


async def _make_lab(**meta: Any) -> tuple[Lab, tuple[str, str]]:
    """Return a lab with a Ready cluster, and its node range; the pool has no room for another.

    Args:
        meta: metadata of the TenantCluster.
    """
    lab = Lab()
    lab.server.add("networkpools", make.pool(cidr="10.40.0.0/28"))
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant(**meta))
    lab.start_tenant_server("a")
    await lab.run_until_at_rest()
    assert lab.read_status("tenantclusters", "a", "team")["phase"] == "Ready"
    return lab, _read_range(lab, NODES)


def _read_range(lab: Lab, name: str) -> tuple[str, str]:
    """Return the first and last address of an allocation; empty strings if it has no range."""
    status = lab.read_status("ipallocations", name)
    return status.get("startAddress", ""), status.get("endAddress", "")


def _list_node_allocations(lab: Lab) -> list[Json]:
    """Return all allocations of node addresses."""
    return [
        allocation
        for allocation in lab.server.all("ipallocations")
        if allocation["spec"]["type"] == "nodes"
    ]


def _add_waiting_rival(lab: Lab) -> None:
    """Add an older request of another tenant for as many node addresses as the cluster has."""
    rival = make.allocation("rival", tenant="team/rival", size=5, kind="nodes", age=10**8)
    lab.server.add("ipallocations", rival)


async def test_node_addresses_of_a_deleted_cluster_stay_while_another_finalizer_holds_it() -> None:
    lab, held_range = await _make_lab(finalizers=[OTHER_FINALIZER])
    _add_waiting_rival(lab)
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.run_until_at_rest()
    assert _read_range(lab, NODES) == held_range
    ready = lab.find_condition("ipallocations", NODES, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "WaitingForTenant")
    assert ready["message"].endswith("until TenantCluster team/a is gone")
    cluster = lab.server.see("tenantclusters", "a", namespace="team")
    assert cluster["metadata"]["finalizers"] == [OTHER_FINALIZER], (
        "our finalizer does not delay the cluster"
    )
    assert not lab.server.has("ipallocations", "team-a-lb"), "balancer addresses are released"

    lab.server.edit("tenantclusters", "a", {"metadata": {"finalizers": None}}, namespace="team")
    await lab.run_until_at_rest()
    assert not lab.server.has("ipallocations", NODES)


async def test_node_addresses_are_free_at_once_with_the_annotation_release_anyway() -> None:
    lab, _ = await _make_lab(finalizers=[OTHER_FINALIZER])
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.run_until_at_rest()
    confirmation = {"metadata": {"annotations": {names.ANNOTATION_RELEASE_ANYWAY: "true"}}}
    lab.server.edit("tenantclusters", "a", confirmation, namespace="team")
    await lab.run_until_at_rest()
    assert not lab.server.has("ipallocations", NODES)


async def test_an_existing_cluster_gets_the_same_range_again_when_its_allocation_is_deleted() -> (
    None
):
    lab, held_range = await _make_lab()
    _add_waiting_rival(lab)
    await lab.run_until_at_rest()
    for _ in range(3):
        [current] = _list_own_node_allocations(lab)
        lab.server.delete("ipallocations", current["metadata"]["name"])
        await lab.run_until_at_rest()
        [recreated] = _list_own_node_allocations(lab)
        assert recreated["metadata"]["uid"] != current["metadata"]["uid"]
        assert _read_range(lab, recreated["metadata"]["name"]) == held_range
        assert recreated["status"]["phase"] == "Allocated"
    assert _read_range(lab, "rival") == ("", "")
    assert "NodeAddressesDeleted" in lab.recorded.reasons
    ref = lab.read_status("tenantclusters", "a", "team")["ipAllocationRef"]
    assert ref["name"] in [
        node_allocation["metadata"]["name"] for node_allocation in _list_own_node_allocations(lab)
    ]


def _list_own_node_allocations(lab: Lab) -> list[Json]:
    """Return all allocations of node addresses except the one of `_add_waiting_rival`."""
    return [
        node_allocation
        for node_allocation in _list_node_allocations(lab)
        if node_allocation["metadata"]["name"] != "rival"
    ]


async def test_a_deleted_allocation_stays_while_no_new_one_can_request_its_range() -> None:
    lab, held_range = await _make_lab()
    # A reserved range cannot be requested again.
    spec: Json = {"spec": {"reserved": [{"cidr": f"{held_range[0]}/32"}]}}
    lab.server.edit("networkpools", "lab", spec)
    await lab.run_until_at_rest()
    lab.server.delete("ipallocations", NODES)
    await lab.run_rounds("a", 5)
    assert _read_range(lab, NODES) == held_range, "it is not handed out meanwhile"


async def test_a_check_without_a_successor_does_not_read_all_allocations_of_the_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab, held_range = await _make_lab()
    lab.use_real_release_check()
    lab.server.delete("ipallocations", NODES)
    read_names, list_by_index = [], Cache.list_by_index

    def record_and_find(cache: Cache[Any], index: str, value: str) -> tuple[Any, ...]:
        read_names.append(index)
        return list_by_index(cache, index, value)

    monkeypatch.setattr(Cache, "list_by_index", record_and_find)
    await lab.run_allocation_pass(NODES)
    assert _read_range(lab, NODES) == held_range
    assert TENANT_INDEX in read_names
    assert POOL_INDEX not in read_names


async def test_requesting_a_range_again_reads_no_allocations_of_other_tenants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab, held_range = await _make_lab()
    _add_waiting_rival(lab)
    await lab.run_until_at_rest()
    lab.use_real_release_check()
    lab.server.delete("ipallocations", NODES)
    read_names, find_range = [], statusranges.find_held_range

    def record_and_find(allocation: IPAllocation) -> AddressRange | None:
        read_names.append(allocation.metadata.name)
        return find_range(allocation)

    for number in range(5):
        held_by_others = ("10.99.0.0", "10.99.0.7")
        other = make.allocation(f"other-{number}", tenant="team/other", held_range=held_by_others)
        lab.server.add("ipallocations", other)
    monkeypatch.setattr(statusranges, "find_held_range", record_and_find)
    await lab.run_cluster_pass()
    assert len(_list_own_node_allocations(lab)) == 2, "the range was requested again"
    assert not [name for name in read_names if name.startswith("other-")]
    assert _read_range(lab, NODES) == held_range


async def test_a_deleted_allocation_stays_until_the_pool_has_reported_on_the_new_one() -> None:
    """Until then the pool could still choose an older request for the range."""
    lab, held_range = await _make_lab()
    lab.use_real_release_check()
    lab.server.delete("ipallocations", NODES)
    await lab.run_cluster_pass()
    await lab.run_allocation_pass(NODES)
    [new] = [
        node_allocation
        for node_allocation in _list_node_allocations(lab)
        if node_allocation["metadata"]["name"] != NODES
    ]
    assert _read_range(lab, NODES) == held_range
    waits = {"type": "Ready", "status": "False", "reason": "PoolNotReady", "message": "not yet"}
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = {"status": {"conditions": [waits | since]}}
    lab.server.edit("ipallocations", new["metadata"]["name"], conditions)
    await lab.run_allocation_pass(NODES)
    assert _read_range(lab, NODES) == held_range
    await lab.run_pool_pass()
    await lab.run_allocation_pass(NODES)
    assert not lab.server.has("ipallocations", NODES)


async def test_an_allocation_without_a_range_is_deleted_at_once() -> None:
    lab, _ = await _make_lab()
    lab.server.add("ipallocations", make.allocation("second", tenant="team/a", kind="nodes"))
    lab.server.delete("ipallocations", "second")
    await lab.run_until_at_rest()
    assert not lab.server.has("ipallocations", "second")


async def test_an_allocation_whose_finalizer_was_removed_by_hand_is_recreated() -> None:
    lab, _ = await _make_lab()
    lab.server.vanish("ipallocations", NODES)
    await lab.run_until_at_rest()
    assert _read_range(lab, NODES) != ("", "")


async def test_waiting_for_a_cluster_to_go_sends_no_requests() -> None:
    lab, _ = await _make_lab(finalizers=[OTHER_FINALIZER])
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.run_until_at_rest()
    lab.server.requests.clear()
    assert await lab.run_allocation_pass(NODES) == Blocked("WaitingForTenant", 5.0)
    assert lab.server.requests == []


@pytest.mark.parametrize("unreadable", ["pool", "allocation of the pool"])
async def test_a_deleted_allocation_stays_while_its_pool_cannot_serve_requests(
    unreadable: str,
) -> None:
    lab, held_range = await _make_lab()
    lab.use_real_release_check()
    lab.server.delete("ipallocations", NODES)
    # Only the deleted allocation still keeps its successor from getting the range.
    await lab.run_cluster_pass()
    [successor] = [name for name in map(_get_name, _list_node_allocations(lab)) if name != NODES]
    await lab.run_allocation_pass(successor)
    await lab.run_pool_pass()
    refused = lab.find_condition("ipallocations", successor, "Ready")
    assert refused["reason"] == "PinnedRangeConflict"

    unreadable_spec: Json = {"spec": {"cidr": 7}}
    if unreadable == "pool":
        lab.server.edit("networkpools", "lab", unreadable_spec)
    else:
        lab.server.add("ipallocations", make.allocation("odd", tenant="x/y"))
        lab.server.edit("ipallocations", "odd", {"spec": {"count": "many"}})
    await lab.run_allocation_pass(NODES)
    assert _read_range(lab, NODES) == held_range

    if unreadable == "pool":
        lab.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/28"}})
    else:
        lab.server.vanish("ipallocations", "odd")
    await lab.clock.advance(60)
    await lab.run_allocation_pass(NODES)
    assert not lab.server.has("ipallocations", NODES)


def _get_name(allocation: Json) -> str:
    name: str = allocation["metadata"]["name"]
    return name
