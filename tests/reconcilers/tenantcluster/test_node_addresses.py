"""Node addresses are a cluster's machines': no other gets them before the cluster is gone."""

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
OTHERS = "infrastructure.example.com/machines"


async def _lab(**meta: Any) -> tuple[Lab, tuple[str, str]]:
    """Return a platform with a cluster, and its node range; the pool has no room for another."""
    lab = Lab()
    lab.server.add("networkpools", make.pool(cidr="10.40.0.0/28"))
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant(**meta))
    lab.tenant_server("a")
    await lab.rounds()
    assert lab.see("tenantclusters", "a", "team")["phase"] == "Ready"
    return lab, _range(lab, NODES)


def _range(lab: Lab, name: str) -> tuple[str, str]:
    status = lab.see("ipallocations", name)
    return status.get("startAddress", ""), status.get("endAddress", "")


def _of_nodes(lab: Lab) -> list[Json]:
    return [
        allocation
        for allocation in lab.server.all("ipallocations")
        if allocation["spec"]["type"] == "nodes"
    ]


def _wait_for_the_range(lab: Lab) -> None:
    """Have an older allocation of another tenant wait for as many addresses as the nodes have."""
    rival = make.allocation("rival", tenant="team/rival", size=5, kind="nodes", age=10**8)
    lab.server.add("ipallocations", rival)


async def test_node_addresses_of_a_deleted_cluster_stay_while_another_finalizer_holds_it() -> None:
    lab, held_range = await _lab(finalizers=[OTHERS])
    _wait_for_the_range(lab)
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.rounds()
    assert _range(lab, NODES) == held_range
    ready = lab.condition("ipallocations", NODES, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "WaitingForTenant")
    assert ready["message"].endswith("until TenantCluster team/a is gone")
    cluster = lab.server.see("tenantclusters", "a", namespace="team")
    assert cluster["metadata"]["finalizers"] == [OTHERS], "ours does not keep the cluster for it"
    assert not lab.server.has("ipallocations", "team-a-lb"), "these were given back"

    lab.server.edit("tenantclusters", "a", {"metadata": {"finalizers": None}}, namespace="team")
    await lab.rounds()
    assert not lab.server.has("ipallocations", NODES)


async def test_node_addresses_are_free_at_once_with_the_annotation_release_anyway() -> None:
    lab, _ = await _lab(finalizers=[OTHERS])
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.rounds()
    marks = {"metadata": {"annotations": {names.ANNOTATION_RELEASE_ANYWAY: "true"}}}
    lab.server.edit("tenantclusters", "a", marks, namespace="team")
    await lab.rounds()
    assert not lab.server.has("ipallocations", NODES)


async def test_an_existing_cluster_gets_the_same_range_again_when_its_allocation_is_deleted() -> (
    None
):
    lab, held_range = await _lab()
    _wait_for_the_range(lab)
    await lab.rounds()
    for _ in range(3):
        [current] = _of_nodes_of_ours(lab)
        lab.server.delete("ipallocations", current["metadata"]["name"])
        await lab.rounds()
        [anew] = _of_nodes_of_ours(lab)
        assert anew["metadata"]["uid"] != current["metadata"]["uid"]
        assert _range(lab, anew["metadata"]["name"]) == held_range
        assert anew["status"]["phase"] == "Allocated"
    assert _range(lab, "rival") == ("", "")
    assert "NodeAddressesDeleted" in lab.recorded.reasons
    ref = lab.see("tenantclusters", "a", "team")["ipAllocationRef"]
    assert ref["name"] in [
        node_allocation["metadata"]["name"] for node_allocation in _of_nodes_of_ours(lab)
    ]


def _of_nodes_of_ours(lab: Lab) -> list[Json]:
    return [
        node_allocation
        for node_allocation in _of_nodes(lab)
        if node_allocation["metadata"]["name"] != "rival"
    ]


async def test_the_old_allocation_stays_until_a_new_one_requests_its_range() -> None:
    lab, held_range = await _lab()
    spec: Json = {"spec": {"reserved": [{"cidr": f"{held_range[0]}/32"}]}}
    lab.server.edit("networkpools", "lab", spec)
    await lab.rounds()
    lab.server.delete("ipallocations", NODES)
    await lab.rounds_of("a", 5)
    assert _range(lab, NODES) == held_range, "it is not handed out meanwhile"


async def test_a_check_without_a_successor_does_not_read_all_allocations_of_the_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab, held_range = await _lab()
    lab.gate.real = lab.tenant_gate
    lab.server.delete("ipallocations", NODES)
    read, by_index = [], Cache.by_index

    def noting(cache: Cache[Any], index: str, value: str) -> tuple[Any, ...]:
        read.append(index)
        return by_index(cache, index, value)

    monkeypatch.setattr(Cache, "by_index", noting)
    await lab.allocation(NODES)
    assert _range(lab, NODES) == held_range
    assert TENANT_INDEX in read
    assert POOL_INDEX not in read


async def test_to_ask_for_a_range_again_reads_none_that_hold_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab, held_range = await _lab()
    _wait_for_the_range(lab)
    await lab.rounds()
    lab.gate.real = lab.tenant_gate
    lab.server.delete("ipallocations", NODES)
    read, find_range = [], statusranges.find_held_range

    def noting(allocation: IPAllocation) -> AddressRange | None:
        read.append(allocation.metadata.name)
        return find_range(allocation)

    for number in range(5):
        held_by_others = ("10.99.0.0", "10.99.0.7")
        other = make.allocation(f"other-{number}", tenant="team/other", held_range=held_by_others)
        lab.server.add("ipallocations", other)
    monkeypatch.setattr(statusranges, "find_held_range", noting)
    await lab.cluster()
    assert len(_of_nodes_of_ours(lab)) == 2, "it was asked for"
    assert not [name for name in read if name.startswith("other-")]
    assert _range(lab, NODES) == held_range


async def test_the_old_allocation_stays_until_the_pool_has_looked_at_the_new_one() -> None:
    """Before that the pool may be about to give the range to who came first."""
    lab, held_range = await _lab()
    lab.gate.real = lab.tenant_gate
    lab.server.delete("ipallocations", NODES)
    await lab.cluster()
    await lab.allocation(NODES)
    [new] = [
        node_allocation
        for node_allocation in _of_nodes(lab)
        if node_allocation["metadata"]["name"] != NODES
    ]
    assert _range(lab, NODES) == held_range
    waits = {"type": "Ready", "status": "False", "reason": "PoolNotReady", "message": "not yet"}
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = {"status": {"conditions": [waits | since]}}
    lab.server.edit("ipallocations", new["metadata"]["name"], conditions)
    await lab.allocation(NODES)
    assert _range(lab, NODES) == held_range
    await lab.pool()
    await lab.allocation(NODES)
    assert not lab.server.has("ipallocations", NODES)


async def test_an_allocation_without_a_range_is_deleted_at_once() -> None:
    lab, _ = await _lab()
    lab.server.add("ipallocations", make.allocation("second", tenant="team/a", kind="nodes"))
    lab.server.delete("ipallocations", "second")
    await lab.rounds()
    assert not lab.server.has("ipallocations", "second")


async def test_an_allocation_whose_finalizer_was_removed_by_hand_is_recreated() -> None:
    lab, _ = await _lab()
    lab.server.vanish("ipallocations", NODES)
    await lab.rounds()
    assert _range(lab, NODES) != ("", "")


async def test_waiting_for_a_cluster_to_go_sends_no_requests() -> None:
    lab, _ = await _lab(finalizers=[OTHERS])
    lab.server.delete("tenantclusters", "a", namespace="team")
    await lab.rounds()
    lab.server.requests.clear()
    assert await lab.allocation(NODES) == Blocked("WaitingForTenant", 5.0)
    assert lab.server.requests == []


@pytest.mark.parametrize("unreadable", ["pool", "allocation of the pool"])
async def test_the_old_allocation_stays_while_its_pool_hands_out_nothing(unreadable: str) -> None:
    lab, held_range = await _lab()
    lab.gate.real = lab.tenant_gate
    lab.server.delete("ipallocations", NODES)
    # The successor is refused for the old range alone, so it would be the first to get it.
    await lab.cluster()
    [successor] = [name for name in map(_name, _of_nodes(lab)) if name != NODES]
    await lab.allocation(successor)
    await lab.pool()
    refused = lab.condition("ipallocations", successor, "Ready")
    assert refused["reason"] == "PinnedRangeConflict"

    spoilt: Json = {"spec": {"cidr": 7}}
    if unreadable == "pool":
        lab.server.edit("networkpools", "lab", spoilt)
    else:
        lab.server.add("ipallocations", make.allocation("odd", tenant="x/y"))
        lab.server.edit("ipallocations", "odd", {"spec": {"count": "many"}})
    await lab.allocation(NODES)
    assert _range(lab, NODES) == held_range

    if unreadable == "pool":
        lab.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/28"}})
    else:
        lab.server.vanish("ipallocations", "odd")
    await lab.clock.advance(60)
    await lab.allocation(NODES)
    assert not lab.server.has("ipallocations", NODES)


def _name(allocation: Json) -> str:
    name: str = allocation["metadata"]["name"]
    return name
