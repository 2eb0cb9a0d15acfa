"""A journal in a status that is lost: wiped, written for another object, half-written, edited.

A promise of the lost journal may still be written. So the pool allocates nothing until a fence has
voided such promises; test_fence.py says how.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from controller.outcome import Blocked
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.networkpool.facts import KIND
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

RANGE = ("10.40.0.0", "10.40.0.7")
TO_CLAIM = make.render_claim_promise(*RANGE)
OUTDATED = Blocked("DefinitionOutdated", 60.0)


def render_promise(allocation: IPAllocation, **edits: str) -> dict[str, str]:
    """Return a promise of RANGE to an allocation as a status has it, with some fields edited."""
    return make.render_promise(make.promise(allocation, *RANGE)) | edits


def make_lab(status: Mapping[str, Any], *allocations: IPAllocation) -> Lab:
    """Return a lab with a pool of this status, and with waiting allocations."""
    lab = Lab()
    lab.server.add("networkpools", make.pool(memory=None, uid="of the pool", status=status))
    for allocation in allocations:
        lab.server.add("ipallocations", allocation)
    return lab


def count_writes(lab: Lab, name: str) -> int:
    """Return how often the allocation `name` was patched: by the fence, and to serve it."""
    return lab.server.count(verb="patch", plural="ipallocations", name=name)


def seal(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return a status with the seal that binds its journal to the pool of `make_lab`."""
    return make.seal_status("of the pool", status)


OURS = make.build_journal_status("of the pool", 1)
LOST: dict[str, Mapping[str, Any]] = {
    "wiped": {},
    "restored to another object": make.build_journal_status("of an earlier pool", 1),
    "without uid": {"revisions": {KIND: "1"}},
    "without revision": seal({}),
    "with a revision that is no number": seal({"revisions": {KIND: "x"}}),
    "with the uid alone": {"revisions": {KIND: "1"}, "journalOf": "of the pool"},
    "with another checksum": OURS | {"revisions": {KIND: "2"}},
}


@pytest.mark.parametrize("status", LOST.values(), ids=LOST.keys())
async def test_a_pool_whose_journal_is_lost_voids_earlier_promises_before_it_allocates(
    status: Mapping[str, Any],
) -> None:
    lab = make_lab(status, make.allocation("b", size=8))
    await lab.run_pool_pass()
    assert count_writes(lab, "b") == 2, "voided, then served"
    pool = lab.read_status("networkpools", "lab")
    assert (pool["journalOf"], make.read_revision(pool)) != ("of the pool", "")
    assert [entry["name"] for entry in pool["assignments"]] == ["b"]


@pytest.mark.parametrize(
    "edit",
    [{"startAddress": "nonsense"}, {"resourceVersion": "x"}, {"secondaryEndAddress": "fd00::1"}],
    ids="-".join,
)
async def test_a_pool_with_one_promise_that_cannot_be_read_voids_earlier_promises(
    edit: Mapping[str, str],
) -> None:
    waiting = make.allocation("b", size=8)
    lab = make_lab(seal(OURS | {"assignments": [render_promise(waiting, **edit)]}), waiting)
    await lab.run_pool_pass()
    assert count_writes(lab, "b") == 2, "voided, then served"


async def test_a_promise_in_the_journal_of_another_object_holds_no_range() -> None:
    waiting = make.allocation("b", size=8)
    status = make.build_journal_status("of an earlier pool", 1)
    lab = make_lab(status | {"assignments": [render_promise(make.allocation("x"))]}, waiting)
    await lab.run_pool_pass()
    assert lab.read_status("ipallocations", "b")["startAddress"] == RANGE[0]


async def test_a_pool_whose_promises_were_dropped_by_another_writer_voids_them() -> None:
    waiting = make.allocation("a", size=8)
    lab = make_lab(seal(OURS | {"assignments": [render_promise(waiting)]}), waiting)
    lab.server.edit("networkpools", "lab", {"status": {"assignments": None}})
    await lab.run_pool_pass()
    assert count_writes(lab, "a") == 2, "voided, then served"


UNKNOWN = "things.example"
FOREIGN: dict[str, dict[str, Any]] = {
    "a promise": {"assignments": [TO_CLAIM | {"kind": UNKNOWN}]},
    "a revision": {"revisions": {KIND: "1", UNKNOWN: "7"}},
}
"""Status fields that a newer version leaves, which serves one more kind of requests."""
entries = pytest.mark.parametrize("entry", FOREIGN.values(), ids=FOREIGN.keys())


@entries
@pytest.mark.parametrize("is_lost", [False, True], ids=["intact", "lost"])
async def test_a_pool_whose_journal_names_a_kind_that_is_not_known_allocates_nothing(
    entry: dict[str, Any], is_lost: bool
) -> None:
    """The ranges that requests of that kind hold cannot be read, so any range may be in use."""
    status = OURS | entry
    lab = make_lab(status if is_lost else seal(status), make.allocation("a", size=8))
    for _ in range(4):
        await lab.run_pool_pass()
        await lab.clock.advance(6)
    assert "startAddress" not in lab.read_status("ipallocations", "a")
    pool = lab.read_status("networkpools", "lab")
    assert pool["assignments"] == status["assignments"]
    ready = lab.find_condition("networkpools", "lab", "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "HoldersUnknown")
    assert UNKNOWN in ready["message"]
    assert "set both fields to null" in ready["message"]


@entries
async def test_a_pool_allocates_again_once_a_person_has_removed_the_unknown_kind(
    entry: dict[str, Any],
) -> None:
    lab = make_lab(seal(OURS | entry), make.allocation("a", size=8))
    await lab.run_pool_pass()
    lab.server.edit("networkpools", "lab", {"status": {"assignments": None, "revisions": None}})
    await lab.run_pool_pass()
    assert count_writes(lab, "a") == 2, "voided, then served"
    assert lab.read_status("ipallocations", "a")["startAddress"] == RANGE[0]


@entries
@pytest.mark.parametrize("is_lost", [False, True], ids=["intact", "lost"])
async def test_a_deletion_waits_while_the_journal_names_a_kind_that_is_not_known(
    entry: dict[str, Any], is_lost: bool
) -> None:
    status = OURS | entry
    lab = make_lab(status if is_lost else seal(status))
    lab.server.delete("networkpools", "lab")
    await lab.run_pool_pass()
    assert ("networkpools", "butler-system", "lab") in lab.server.objects


JOURNAL_FIELDS = ["revisions", "journalOf", "assignments"]


@pytest.mark.parametrize("field", JOURNAL_FIELDS)
async def test_no_range_is_written_if_the_server_drops_a_field_of_the_journal(field: str) -> None:
    lab = make_lab(OURS, make.allocation("a"))
    lab.server.unknown = frozenset({field})
    assert await lab.run_pool_pass() == OUTDATED
    assert "startAddress" not in lab.read_status("ipallocations", "a")
    assert lab.find_condition("networkpools", "lab", "Ready")["reason"] == "DefinitionOutdated"


async def test_a_journal_that_was_not_stored_completely_is_lost_for_every_replica() -> None:
    """The stored journal may lack promises that a replica still writes to allocations."""
    lab = make_lab(OURS, make.allocation("a", size=8))
    lab.server.unknown = frozenset({"assignments"})
    await lab.run_pool_pass()
    pool = lab.read_status("networkpools", "lab")
    assert pool["journalOf"] != seal(pool)["journalOf"]
    lab.server.unknown = frozenset()
    lab.server.requests.clear()
    await lab.clock.advance(61)
    await lab.run_pool_pass()
    assert count_writes(lab, "a") == 2, "voided, then served"


async def test_no_fence_begins_for_a_resync_after_a_journal_was_not_stored() -> None:
    lab = make_lab(OURS, make.allocation("a"))
    lab.server.unknown = frozenset({"assignments"})
    await lab.run_pool_pass()
    lab.server.requests.clear()
    await lab.clock.advance(59)
    await lab.run_pool_pass()
    assert lab.server.requests == []
