"""A journal in a status that is lost: wiped, written for another object, half-written, edited.

What it promised may still be written. So nothing is allocated before a fence has voided that.
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
TO_CLAIM = make.listed_for_claim(*RANGE)
OUTDATED = Blocked("DefinitionOutdated", 60.0)


def promised_to(allocation: IPAllocation, **edits: str) -> dict[str, str]:
    """Return an assignment as a status has it."""
    return make.list_promise(make.promise(allocation, *RANGE)) | edits


def lab_of(status: Mapping[str, Any], *allocations: IPAllocation) -> Lab:
    """Return a cluster with a pool of this status, and allocations that wait."""
    lab = Lab()
    lab.server.add("networkpools", make.pool(memory=None, uid="of the pool", status=status))
    for allocation in allocations:
        lab.server.add("ipallocations", allocation)
    return lab


def writes(lab: Lab, name: str) -> int:
    return lab.server.count(verb="patch", plural="ipallocations", name=name)


def seal(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return a status whose journal was written for the pool as it is."""
    return make.seal_status("of the pool", status)


OURS = make.journal_of("of the pool", 1)
LOST: dict[str, Mapping[str, Any]] = {
    "wiped": {},
    "restored to another object": make.journal_of("of an earlier pool", 1),
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
    lab = lab_of(status, make.allocation("b", size=8))
    await lab.pool()
    assert writes(lab, "b") == 2, "voided, then served"
    pool = lab.see("networkpools", "lab")
    assert (pool["journalOf"], make.revision_of(pool)) != ("of the pool", "")
    assert [entry["name"] for entry in pool["assignments"]] == ["b"]


@pytest.mark.parametrize(
    "edit",
    [{"startAddress": "nonsense"}, {"resourceVersion": "x"}, {"secondaryEndAddress": "fd00::1"}],
    ids="-".join,
)
async def test_one_assignment_that_cannot_be_read_voids_earlier_promises(
    edit: Mapping[str, str],
) -> None:
    waiting = make.allocation("b", size=8)
    lab = lab_of(seal(OURS | {"assignments": [promised_to(waiting, **edit)]}), waiting)
    await lab.pool()
    assert writes(lab, "b") == 2, "voided, then served"


async def test_what_a_status_promised_as_that_of_another_object_holds_nothing() -> None:
    waiting = make.allocation("b", size=8)
    status = make.journal_of("of an earlier pool", 1)
    lab = lab_of(status | {"assignments": [promised_to(make.allocation("x"))]}, waiting)
    await lab.pool()
    assert lab.see("ipallocations", "b")["startAddress"] == RANGE[0]


async def test_a_pool_whose_promises_were_dropped_by_another_writer_voids_them() -> None:
    waiting = make.allocation("a", size=8)
    lab = lab_of(seal(OURS | {"assignments": [promised_to(waiting)]}), waiting)
    lab.server.edit("networkpools", "lab", {"status": {"assignments": None}})
    await lab.pool()
    assert writes(lab, "a") == 2, "voided, then served"


UNKNOWN = "things.example"
FOREIGN: dict[str, dict[str, Any]] = {
    "a promise": {"assignments": [TO_CLAIM | {"kind": UNKNOWN}]},
    "a revision": {"revisions": {KIND: "1", UNKNOWN: "7"}},
}
"""What a version that serves a further kind leaves in a journal."""
entries = pytest.mark.parametrize("entry", FOREIGN.values(), ids=FOREIGN.keys())


@entries
@pytest.mark.parametrize("is_lost", [False, True], ids=["intact", "lost"])
async def test_a_pool_whose_journal_names_a_kind_that_is_not_known_allocates_nothing(
    entry: dict[str, Any], is_lost: bool
) -> None:
    """Requests of that kind hold what nobody reads here; their promises would starve the rest."""
    status = OURS | entry
    lab = lab_of(status if is_lost else seal(status), make.allocation("a", size=8))
    for _ in range(4):
        await lab.pool()
        await lab.clock.advance(6)
    assert "startAddress" not in lab.see("ipallocations", "a")
    pool = lab.see("networkpools", "lab")
    assert pool["assignments"] == status["assignments"]
    ready = lab.condition("networkpools", "lab", "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "HoldersUnknown")
    assert UNKNOWN in ready["message"]
    assert "set both fields to null" in ready["message"]


@entries
async def test_a_pool_allocates_again_once_a_person_has_removed_what_names_that_kind(
    entry: dict[str, Any],
) -> None:
    lab = lab_of(seal(OURS | entry), make.allocation("a", size=8))
    await lab.pool()
    lab.server.edit("networkpools", "lab", {"status": {"assignments": None, "revisions": None}})
    await lab.pool()
    assert writes(lab, "a") == 2, "voided, then served"
    assert lab.see("ipallocations", "a")["startAddress"] == RANGE[0]


@entries
@pytest.mark.parametrize("is_lost", [False, True], ids=["intact", "lost"])
async def test_a_deletion_waits_while_the_journal_names_a_kind_that_is_not_known(
    entry: dict[str, Any], is_lost: bool
) -> None:
    status = OURS | entry
    lab = lab_of(status if is_lost else seal(status))
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


async def test_a_journal_that_was_not_stored_as_written_is_lost_for_every_replica() -> None:
    """What was stored instead may lack promises that are still written."""
    lab = lab_of(OURS, make.allocation("a", size=8))
    lab.server.unknown = frozenset({"assignments"})
    await lab.pool()
    pool = lab.see("networkpools", "lab")
    assert pool["journalOf"] != seal(pool)["journalOf"]
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
