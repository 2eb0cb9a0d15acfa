"""A journal in a status that is lost: wiped, written for another object, half-written, edited.

What it promised may still be written. So nothing is allocated before a fence has voided that.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from controller.outcome import Again, Blocked
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.networkpool.facts import KIND
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

RANGE = ("10.40.0.0", "10.40.0.7")
TO_CLAIM = make.listed_for_claim(*RANGE)
OUTDATED = Blocked("DefinitionOutdated", 60.0)


def promised_to(allocation: IPAllocation, **edits: str) -> dict[str, str]:
    """Return an assignment as a status has it."""
    return make.listed(make.promise(allocation, *RANGE)) | edits


def lab_of(status: Mapping[str, Any], *allocations: IPAllocation) -> Lab:
    """Return a cluster with a pool of this status, and allocations that wait."""
    lab = Lab()
    lab.server.add("networkpools", make.pool(memory=None, uid="of the pool", status=status))
    for allocation in allocations:
        lab.server.add("ipallocations", allocation)
    return lab


def writes(lab: Lab, name: str) -> int:
    return lab.server.count(verb="patch", plural="ipallocations", name=name)


OURS = make.journal_of("of the pool", 1)
LOST: dict[str, Mapping[str, Any]] = {
    "wiped": {},
    "restored to another object": make.journal_of("of an earlier pool", 1),
    "without uid": {"revisions": {KIND: "1"}},
    "without revision": {"journalOf": "of the pool"},
    "with a revision that is no number": OURS | {"revisions": {KIND: "x"}},
    "with revisions of other kinds alone": OURS | {"revisions": {make.CLAIMS: "1"}},
}


@pytest.mark.parametrize("status", LOST.values(), ids=LOST.keys())
async def test_a_pool_whose_journal_is_lost_voids_earlier_promises_before_it_allocates(
    status: Mapping[str, Any],
) -> None:
    lab = lab_of(status, make.allocation("b", size=8))
    await lab.pool()
    assert writes(lab, "b") == 2, "voided, then served"
    found = lab.see("networkpools", "lab")
    assert (found["journalOf"], make.revision_of(found)) != ("of the pool", "")
    assert [entry["name"] for entry in found["assignments"]] == ["b"]


@pytest.mark.parametrize(
    "edit",
    [{"startAddress": "nonsense"}, {"resourceVersion": "x"}, {"secondaryEndAddress": "fd00::1"}],
    ids="-".join,
)
async def test_one_assignment_that_cannot_be_read_voids_earlier_promises(
    edit: Mapping[str, str],
) -> None:
    waiting = make.allocation("b", size=8)
    lab = lab_of(OURS | {"assignments": [promised_to(waiting, **edit)]}, waiting)
    await lab.pool()
    assert writes(lab, "b") == 2, "voided, then served"


async def test_what_a_status_promised_as_that_of_another_object_holds_nothing() -> None:
    waiting = make.allocation("b", size=8)
    status = make.journal_of("of an earlier pool", 1)
    lab = lab_of(status | {"assignments": [promised_to(make.allocation("x"))]}, waiting)
    await lab.pool()
    assert lab.see("ipallocations", "b")["startAddress"] == RANGE[0]


async def test_revisions_that_came_with_the_status_of_another_object_give_no_kind_memory() -> None:
    """A merge patch leaves entries of a map alone; with our uid they would be believed."""
    status = make.journal_of("of an earlier pool", 1)
    status["revisions"][make.CLAIMS] = "9000"
    lab = lab_of(status, make.allocation("b"))
    await lab.pool()
    assert lab.see("networkpools", "lab")["revisions"].keys() == {KIND}


async def test_a_fence_for_allocations_leaves_promises_and_revisions_of_other_kinds() -> None:
    status = OURS | {"revisions": {KIND: "x", make.CLAIMS: "7"}, "assignments": [TO_CLAIM]}
    lab = lab_of(status, make.allocation("b", size=8))
    await lab.pool()
    found = lab.see("networkpools", "lab")
    assert found["revisions"][make.CLAIMS] == "7"
    assert found["assignments"][0] == TO_CLAIM
    assert lab.see("ipallocations", "b")["startAddress"] == "10.40.0.8"


async def test_a_promise_to_another_kind_is_not_settled_by_an_allocation_of_its_name() -> None:
    lab = lab_of(OURS | {"assignments": [TO_CLAIM]}, make.allocation("a", size=8))
    for _ in range(3):
        await lab.pool()
        await lab.clock.advance(61)
    assert lab.see("networkpools", "lab")["assignments"] == [TO_CLAIM]
    assert lab.see("ipallocations", "a")["startAddress"] == "10.40.0.8"


async def test_a_promise_to_another_kind_calls_for_no_pass_before_the_resync() -> None:
    lab = lab_of(OURS | {"assignments": [TO_CLAIM]})
    await lab.pool()
    await lab.clock.advance(10)
    assert await lab.pool() == Again(60.0)


async def test_a_deletion_waits_for_a_promise_to_another_kind() -> None:
    lab = lab_of(OURS | {"assignments": [TO_CLAIM]})
    lab.server.delete("networkpools", "lab")
    await lab.pool()
    assert ("networkpools", "butler-system", "lab") in lab.server.objects


DROPPED = ["revisions", "journalOf", "assignments"]


@pytest.mark.parametrize("field", DROPPED)
async def test_no_range_is_written_if_one_field_of_the_journal_is_dropped(field: str) -> None:
    lab = lab_of(OURS, make.allocation("a"))
    lab.server.unknown = frozenset({field})
    assert await lab.pool() == OUTDATED
    assert "startAddress" not in lab.see("ipallocations", "a")
    assert lab.condition("networkpools", "lab", "Ready")["reason"] == "DefinitionOutdated"


async def test_no_range_is_written_if_the_kind_of_another_promise_is_dropped() -> None:
    """Without its kind, that promise would be one to an allocation that does not exist."""
    lab = lab_of(OURS | {"assignments": [TO_CLAIM]}, make.allocation("a", size=8))
    lab.server.unknown = frozenset({"assignments.kind"})
    assert await lab.pool() == OUTDATED
    assert "startAddress" not in lab.see("ipallocations", "a")


async def test_a_journal_that_was_not_stored_as_written_is_lost_for_every_replica() -> None:
    """What was stored instead may lack promises that are still written."""
    lab = lab_of(OURS | {"assignments": [TO_CLAIM]}, make.allocation("a", size=8))
    lab.server.unknown = frozenset({"assignments.kind"})
    await lab.pool()
    assert "journalOf" not in lab.see("networkpools", "lab")
    lab.server.unknown = frozenset()
    lab.server.requests.clear()
    await lab.clock.advance(61)
    await lab.pool()
    assert writes(lab, "a") == 2, "voided, then served"


async def test_no_fence_begins_for_a_resync_after_a_journal_was_not_stored() -> None:
    lab = lab_of(OURS, make.allocation("a"))
    lab.server.unknown = frozenset({"assignments"})
    await lab.pool()
    lab.server.requests.clear()
    await lab.clock.advance(59)
    await lab.pool()
    assert lab.server.requests == []
