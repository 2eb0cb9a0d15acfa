"""The fence of a NetworkPool, and the deletion of a pool.

A pool has a *memory* if its journal has a revision: the journal records all promises that are not
settled, and the pool allocates only from a view of the allocations up to that revision. A pool
that was created, restored or wiped has no memory: it does not know earlier promises, and a write
of such a promise may still be on its way. The *fence* voids these promises before the pool serves:
it writes each allocation that such a promise may name, so that the allocation gets a new
resourceVersion. docs/design/promises.md has the protocol.
"""

from typing import Any

import anyio
import pytest

from controller.errors import ServerFailure
from controller.outcome import SETTLED, Again, Blocked
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

UNREACHED_REVISION = 9_999_999
"""A revision that the server of a lab does not reach."""


def make_lab(*allocations: Any, pool: Any = None) -> Lab:
    """Return a lab with allocations of one pool.

    Args:
        allocations: stored in this order, so the later ones have higher resourceVersions.
        pool: the pool; None for one without memory.
    """
    lab = Lab()
    lab.server.add("networkpools", pool or make.pool(memory=None))
    for allocation in allocations:
        lab.server.add("ipallocations", allocation)
    return lab


def count_patches(lab: Lab, name: str) -> int:
    """Return how often the allocation `name` was patched, by the fence or to serve it."""
    return lab.server.count(verb="patch", plural="ipallocations", name=name)


async def test_a_pool_without_memory_voids_each_idle_allocation_once_before_it_serves() -> None:
    lab = make_lab(
        make.allocation("idle"),
        make.allocation("holder", held_range=("10.40.0.0", "10.40.0.7")),
        make.allocation("leaving", deletionTimestamp="2026-01-01T00:00:00Z"),
    )
    await lab.run_pool_pass()
    assert (
        count_patches(lab, "idle"),
        count_patches(lab, "holder"),
        count_patches(lab, "leaving"),
    ) == (2, 0, 0)
    assert lab.read_status("ipallocations", "idle")["cidr"] == "10.40.0.8/29"
    order = [(r.verb, r.plural) for r in lab.server.requests if r.verb != "get"]
    assert order[:3] == [
        ("list", "ipallocations"),
        ("patch", "ipallocations"),
        ("patch", "networkpools"),
    ]


async def test_an_allocation_without_our_finalizer_needs_no_voiding() -> None:
    lab = make_lab(make.allocation("a", finalizers=[]), make.allocation("b"))
    await lab.run_pool_pass()
    assert (count_patches(lab, "a"), count_patches(lab, "b")) == (0, 2)
    assert make.read_revision(lab.read_status("networkpools", "lab")) != ""


async def test_the_revision_of_a_fenced_pool_is_the_highest_version_of_its_allocations() -> None:
    lab = make_lab(make.allocation("a", held_range=("10.40.0.0", "10.40.0.7")))
    highest = lab.server.see("ipallocations", "a")["metadata"]["resourceVersion"]
    lab.server.add("providerconfigs", make.provider())
    await lab.run_pool_pass()
    assert make.read_revision(lab.read_status("networkpools", "lab")) == highest


async def test_a_late_write_of_a_forgotten_promise_finds_another_version() -> None:
    lab = make_lab(make.allocation("a"))
    promised = lab.server.see("ipallocations", "a")["metadata"]["resourceVersion"]
    await lab.run_pool_pass()
    assert lab.server.see("ipallocations", "a")["metadata"]["resourceVersion"] != promised
    fenced = [h for h in lab.server.history if h.plural == "ipallocations"][1].object
    ready = fenced["status"]["conditions"][0]
    assert (fenced["status"]["phase"], ready["reason"]) == ("Pending", "PoolNotReady")


async def test_an_allocation_that_changes_during_the_fence_needs_no_voiding() -> None:
    lab = make_lab(make.allocation("a"), make.allocation("b"))
    is_edited = False

    def edit_other(write: Any) -> None:
        nonlocal is_edited
        if write.plural == "ipallocations" and not is_edited:
            is_edited = True  # at the first voiding write, the other allocation is edited
            lab.server.edit("ipallocations", "b", {"metadata": {"labels": {"seen": "yes"}}})

    lab.server.listeners.append(edit_other)
    await lab.run_pool_pass()
    assert lab.server.count(verb="list", plural="ipallocations") == 1
    assert lab.server.count(verb="get", plural="ipallocations") == 1, (
        "the edited allocation is read again"
    )
    assert count_patches(lab, "a") == 2, "voided once, then served"
    assert {lab.read_status("ipallocations", n)["phase"] for n in "ab"} == {"Allocated"}


async def test_a_range_that_a_late_write_gives_during_the_fence_is_not_allocated_again() -> None:
    lab = make_lab(make.allocation("a"), make.allocation("b"))
    is_written = False

    def write_promise(write: Any) -> None:
        nonlocal is_written
        if write.plural == "ipallocations" and not is_written:
            is_written = True  # the write of a promise that the pool has forgotten
            held_range = {
                "startAddress": "10.40.0.0",
                "endAddress": "10.40.0.7",
                "phase": "Allocated",
            }
            lab.server.edit("ipallocations", "b", {"status": held_range})

    lab.server.listeners.insert(0, write_promise)
    await lab.run_pool_pass()
    written_version = int(lab.server.see("ipallocations", "b")["metadata"]["resourceVersion"])
    assert int(make.read_revision(lab.read_status("networkpools", "lab"))) >= written_version
    assert lab.read_status("ipallocations", "a")["cidr"] == "10.40.0.8/29"


async def test_a_forgotten_promise_of_a_second_range_is_void() -> None:
    one_of_two = {"phase": "Pending", "startAddress": "10.40.0.0", "endAddress": "10.40.0.3"}
    dual = make.allocation(
        "a", size=4, age=5, asks={"ipFamilyPolicy": "RequireDualStack"}, status=one_of_two
    )
    rival = make.allocation("b", size=4, age=50, asks={"ipFamilies": ["IPv6"]})
    lab = make_lab(dual, rival, pool=make.pool(secondary={"cidr": "fd00::/125"}, memory=None))
    version = lab.server.see("ipallocations", "a")["metadata"]["resourceVersion"]

    def write_promise(write: Any) -> None:
        """Write, after the fence, the range that a frozen leader promised before."""
        pool, now = lab.server.see("networkpools", "lab"), lab.server.see("ipallocations", "a")
        if pool["status"].get("assignments") and now["metadata"]["resourceVersion"] == version:
            two = [
                {"family": "IPv4", "startAddress": "10.40.0.0", "endAddress": "10.40.0.3"},
                {"family": "IPv6", "startAddress": "fd00::", "endAddress": "fd00::3"},
            ]
            lab.server.edit("ipallocations", "a", {"status": {"families": two}})

    lab.server.listeners.insert(0, write_promise)
    for _ in range(3):
        await lab.run_pool_pass()
        await lab.clock.advance(3)
    assert lab.read_status("ipallocations", "b")["startAddress"] == "fd00::"
    assert lab.find_condition("networkpools", "lab", "RangesOverlap")["status"] == "False"


async def test_two_replicas_that_fence_at_once_both_finish() -> None:
    lab = make_lab(*(make.allocation(f"a{n:02}") for n in range(20)))
    other = lab.make_replica()
    async with anyio.create_task_group() as group:
        group.start_soon(lab.pools.reconcile, make.key("lab"))
        group.start_soon(other.pools.reconcile, make.key("lab"))
    assert make.read_revision(lab.read_status("networkpools", "lab")) != ""
    assert lab.server.count(verb="patch", plural="ipallocations") <= 20 * 4


async def test_a_pool_whose_memory_is_newer_than_the_server_is_fenced_before_it_serves() -> None:
    """After a restore of etcd, the server starts again at a lower revision."""
    lab = make_lab(make.allocation("a"), pool=make.pool(memory=UNREACHED_REVISION))
    await lab.run_pool_pass()
    await lab.clock.advance(1.0)
    await lab.run_pool_pass()
    assert count_patches(lab, "a") == 2, "voided once, then served"
    assert int(make.read_revision(lab.read_status("networkpools", "lab"))) < UNREACHED_REVISION
    assert lab.read_status("ipallocations", "a")["phase"] == "Allocated"


@pytest.mark.parametrize("kind", ["networkpools", "ipallocations"])
async def test_nothing_is_written_while_it_is_unknown_whether_the_server_was_restored(
    kind: str,
) -> None:
    """After a disconnect, the caches do not know whether the server still has their history."""
    allocation, other = make.allocation("a"), make.allocation("b")
    promised = make.render_promise(make.promise(other, "10.40.0.0", "10.40.0.0"))
    lab = make_lab(allocation, other, pool=make.pool(status={"assignments": [promised]}))
    lab.caches[kind].unconfirm_history()
    assert await lab.run_pool_pass() == Again(1.0)
    assert lab.server.requests == []
    lab.caches[kind].is_history_confirmed = True
    await lab.run_pool_pass()
    assert lab.read_status("ipallocations", "a")["phase"] == "Allocated"


async def test_a_fence_that_cannot_be_finished_leaves_the_pool_without_memory() -> None:
    lab = make_lab(make.allocation("a"), make.allocation("b"))
    lab.server.fail(ServerFailure(500, "", "no"), verb="patch", plural="ipallocations", name="b")
    with pytest.raises(ServerFailure):
        await lab.run_pool_pass()
    assert make.read_revision(lab.read_status("networkpools", "lab")) == ""
    await lab.run_pool_pass()
    assert {lab.read_status("ipallocations", n)["phase"] for n in "ab"} == {"Allocated"}


async def test_the_deletion_of_a_pool_waits_for_holders_only() -> None:
    lab = make_lab(
        make.allocation("holder", held_range=("10.40.0.0", "10.40.0.7")),
        make.allocation("pending", phase="Pending"),
        make.allocation("failed", phase="Failed"),
        pool=make.pool(),
    )
    lab.server.delete("networkpools", "lab")
    assert await lab.run_pool_pass() == Blocked("Deleting", 10.0)
    ready = lab.find_condition("networkpools", "lab", "Ready")
    assert ready["reason"] == "Deleting"
    assert ready["message"] == "waiting for 1 active allocation to be released"
    assert lab.read_status("ipallocations", "pending").get("startAddress") is None
    lab.server.requests.clear()
    await lab.run_pool_pass()
    assert lab.server.requests == []
    lab.server.vanish("ipallocations", "holder")
    assert await lab.run_pool_pass() == SETTLED
    assert not lab.server.has("networkpools", "lab")


async def test_the_deletion_of_a_pool_waits_until_an_open_promise_is_written() -> None:
    waiting = make.allocation("a")
    lab = make_lab(waiting, pool=make.pool())
    version = lab.server.see("ipallocations", "a")["metadata"]["resourceVersion"]
    entry = make.render_promise(make.promise(waiting, "10.40.0.0", "10.40.0.7", version=version))
    stored = lab.server.see("networkpools", "lab")
    lab.server.edit("networkpools", "lab", make.replace_promises(stored, entry))
    lab.server.delete("networkpools", "lab")
    assert isinstance(await lab.run_pool_pass(), Blocked)
    await lab.clock.advance(10)
    assert isinstance(await lab.run_pool_pass(), Blocked)
    assert lab.read_status("ipallocations", "a")["phase"] == "Allocated"
    assert lab.server.has("networkpools", "lab")


async def test_the_finalizer_of_a_pool_is_removed_only_after_a_live_list() -> None:
    lab = make_lab(pool=make.pool())
    lab.hold_events("ipallocations")
    lab.server.add(
        "ipallocations", make.allocation("unseen", held_range=("10.40.0.0", "10.40.0.7"))
    )
    lab.server.delete("networkpools", "lab")
    assert isinstance(await lab.run_pool_pass(), Blocked)
    assert lab.server.has("networkpools", "lab")


async def test_finalizers_of_others_stay_on_a_pool() -> None:
    ours = "butler.butlerlabs.dev/networkpool"
    lab = make_lab(pool=make.pool(finalizers=["example.com/other", ours]))
    lab.server.delete("networkpools", "lab")
    await lab.run_pool_pass()
    finalizers = lab.server.see("networkpools", "lab")["metadata"]["finalizers"]
    assert finalizers == ["example.com/other"]
    assert await lab.run_pool_pass() == SETTLED


async def test_a_pool_allocates_nothing_while_an_allocation_cannot_be_decoded() -> None:
    lab = make_lab(make.allocation("a"), pool=make.pool())
    cache = lab.caches["ipallocations"]
    hidden = {make.key("odd"): "count is no number"}
    cache.replace(tuple(cache), lab.server.revision, hidden)
    assert await lab.run_pool_pass() == Blocked("UnreadableAllocation", 60.0)
    ready = lab.find_condition("networkpools", "lab", "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "UnreadableAllocation")
    assert "odd" in ready["message"]
    assert lab.read_status("ipallocations", "a")["phase"] == "Pending"
    lab.server.requests.clear()
    await lab.run_pool_pass()
    assert lab.server.requests == []
    cache.replace(tuple(cache), lab.server.revision)
    await lab.run_pool_pass()
    assert lab.read_status("ipallocations", "a")["phase"] == "Allocated"
    assert lab.find_condition("networkpools", "lab", "Ready")["status"] == "True"


async def test_a_deleted_pool_without_memory_is_fenced_before_its_finalizer_is_removed() -> None:
    leaving = make.pool(memory=None, deletionTimestamp="2026-01-01T00:00:00Z")
    lab = make_lab(make.allocation("a"), pool=leaving)
    promised = lab.server.see("ipallocations", "a")["metadata"]["resourceVersion"]
    await lab.run_pool_pass()
    # A promise that the pool forgot names a version that the allocation no longer has.
    assert lab.server.see("ipallocations", "a")["metadata"]["resourceVersion"] != promised
    assert lab.server.all("networkpools") == []
