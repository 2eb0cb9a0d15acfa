"""While another controller writes the statuses of a pool, the pool hands out nothing."""

from datetime import timedelta

import pytest

from controller.conditions import format_rfc3339
from controller.outcome import Again, Blocked
from tests.reconcilers import make
from tests.reconcilers.lab import Lab
from tests.reconcilers.platform import Platform
from tests.reconcilers.server import Json

OURS = "butler-ipam"


def _make_lab() -> Lab:
    """Return a lab with a pool, and with a reconciler whose writes have our field manager."""
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    _restart(lab)
    return lab


def _restart(lab: Lab) -> None:
    """Replace the reconciler by one that remembers nothing, like that of a new process."""
    lab.pools = lab.make_pool_reconciler(client=lab.client.with_field_manager(OURS))


def _make_write_patch(manager: str, at: str, subresource: str = "status") -> Json:
    """Return a patch by which managedFields show a write of `manager` at the time `at`."""
    entry = {"manager": manager, "subresource": subresource, "time": at}
    return {"metadata": {"managedFields": [entry]}}


def _format_time(lab: Lab | Platform, ago: float = 0.0) -> str:
    """Return the time `ago` seconds before now, as managedFields have it."""
    return format_rfc3339(lab.clock.now() - timedelta(seconds=ago))


async def test_a_pool_that_another_controller_writes_hands_out_nothing_and_says_so() -> None:
    lab = _make_lab()
    lab.server.add("ipallocations", make.allocation("a"))
    lab.server.edit("networkpools", "lab", _make_write_patch("manager", _format_time(lab)))
    assert await lab.run_pool_pass() == Blocked("ForeignManager", 120.0)
    assert lab.read_status("ipallocations", "a")["phase"] == "Pending"
    condition = lab.find_condition("networkpools", "lab", "ForeignManager")
    assert (condition["status"], condition["reason"]) == ("True", "StatusWrittenByOthers")
    message = (
        "manager writes the status of this NetworkPool: nothing is handed out while another"
        " controller does that; scale it to zero"
    )
    assert condition["message"] == message
    assert lab.find_condition("networkpools", "lab", "Ready")["reason"] == "ForeignManager"
    assert lab.recorded.events == [("Warning", "StatusWrittenByOthers", message)]


async def test_writes_to_a_pools_allocations_count_too() -> None:
    lab = _make_lab()
    lab.server.add("ipallocations", make.allocation("held", held_range=("10.40.0.0", "10.40.0.7")))
    lab.server.add("ipallocations", make.allocation("a"))
    lab.server.edit("ipallocations", "held", _make_write_patch("manager", _format_time(lab)))
    assert await lab.run_pool_pass() == Blocked("ForeignManager", 120.0)
    reported = lab.find_condition("networkpools", "lab", "ForeignManager")["message"]
    assert reported.startswith("manager writes the status of its IPAllocations:")


async def test_once_the_other_controller_is_silent_the_pool_allocates_and_reports_that() -> None:
    lab = _make_lab()
    lab.server.add("ipallocations", make.allocation("a"))
    lab.server.edit("networkpools", "lab", _make_write_patch("manager", _format_time(lab)))
    outcome = await lab.run_pool_pass()
    assert isinstance(outcome, Blocked)
    assert outcome.after is not None
    await lab.clock.advance(outcome.after)
    assert await lab.run_pool_pass() == Again(5.0)
    assert lab.read_status("ipallocations", "a")["phase"] == "Allocated"
    assert lab.find_condition("networkpools", "lab", "ForeignManager")["status"] == "False"
    assert lab.find_condition("networkpools", "lab", "Ready")["status"] == "True"
    assert lab.recorded.reasons == ["StatusWrittenByOthers", "NoForeignManager", "IPsAllocated"]


async def test_the_pool_does_not_overwrite_a_controller_that_writes_ready_repeatedly() -> None:
    lab = _make_lab()
    for _ in range(10):
        theirs = _make_write_patch("manager", _format_time(lab)) | {
            "status": {"assignments": None}
        }
        lab.server.edit("networkpools", "lab", theirs)
        ready: Json = lab.find_condition("networkpools", "lab", "Ready")
        if ready:
            others = [
                c for c in lab.read_status("networkpools", "lab")["conditions"] if c != ready
            ]
            overwritten = [
                *others,
                ready | {"status": "True", "reason": "Ready", "message": "ours"},
            ]
            lab.server.edit("networkpools", "lab", {"status": {"conditions": overwritten}})
        await lab.run_pool_pass()
        await lab.clock.advance(5)
    assert lab.server.count(verb="patch", plural="networkpools") == 1


async def test_the_other_controller_is_remembered_when_our_write_took_over_all_its_fields() -> (
    None
):
    """Its entry vanishes from managedFields then: the server drops entries without a field."""
    lab = _make_lab()
    lab.server.add("ipallocations", make.allocation("a"))
    lab.server.edit("networkpools", "lab", _make_write_patch("manager", _format_time(lab)))
    assert await lab.run_pool_pass() == Blocked("ForeignManager", 120.0)
    lab.server.edit("networkpools", "lab", {"metadata": {"managedFields": []}})
    await lab.clock.advance(119)
    assert await lab.run_pool_pass() == Blocked("ForeignManager", 1.0)
    assert lab.read_status("ipallocations", "a")["phase"] == "Pending"
    await lab.clock.advance(1)
    await lab.run_pool_pass()
    assert lab.read_status("ipallocations", "a")["phase"] == "Allocated"


async def test_a_new_process_that_finds_the_condition_waits_for_two_minutes_of_silence() -> None:
    lab = _make_lab()
    lab.server.add("ipallocations", make.allocation("a"))
    lab.server.edit("networkpools", "lab", _make_write_patch("manager", _format_time(lab)))
    await lab.run_pool_pass()
    condition = lab.find_condition("networkpools", "lab", "ForeignManager")
    lab.server.edit("networkpools", "lab", {"metadata": {"managedFields": []}})
    await lab.clock.advance(60)
    _restart(lab)
    assert await lab.run_pool_pass() == Blocked("ForeignManager", 120.0)
    assert lab.find_condition("networkpools", "lab", "ForeignManager") == condition
    await lab.clock.advance(120)
    await lab.run_pool_pass()
    assert lab.read_status("ipallocations", "a")["phase"] == "Allocated"


async def test_a_pool_whose_journal_was_wiped_is_fenced_before_it_allocates_again() -> None:
    lab = _make_lab()
    lab.server.add("ipallocations", make.allocation("a"))
    lab.server.edit("networkpools", "lab", _make_write_patch("manager", _format_time(lab)))
    lab.server.edit("networkpools", "lab", {"status": {"journalOf": None}})
    await lab.run_pool_pass()
    assert "journalOf" not in lab.read_status("networkpools", "lab")
    await lab.clock.advance(120)
    await lab.run_pool_pass()
    assert make.read_revision(lab.read_status("networkpools", "lab")) != "0"
    assert lab.read_status("ipallocations", "a")["phase"] == "Allocated"


@pytest.mark.parametrize(
    ("manager", "subresource", "ago", "why"),
    [
        (OURS, "status", 0.0, "ourselves"),
        ("kubectl-edit", "status", 0.0, "a person"),
        ("kubectl", "status", 0.0, "a person"),
        (
            "butler-controller/infra-allocation",
            "status",
            0.0,
            "it writes other fields of the status",
        ),
        ("argocd", "", 0.0, "it does not write the status"),
        (
            "manager",
            "status",
            121.0,
            "its last write is two minutes old, as when an installation is adopted",
        ),
    ],
)
async def test_writes_by_us_by_people_and_old_ones_do_not_stop_the_pool(
    manager: str, subresource: str, ago: float, why: str
) -> None:
    lab = _make_lab()
    lab.server.add("ipallocations", make.allocation("a"))
    lab.server.edit(
        "networkpools", "lab", _make_write_patch(manager, _format_time(lab, ago), subresource)
    )
    await lab.run_pool_pass()
    assert lab.read_status("ipallocations", "a")["phase"] == "Allocated", why
    assert lab.find_condition("networkpools", "lab", "ForeignManager") == {}


async def test_an_unreadable_time_in_managed_fields_is_no_write() -> None:
    lab = _make_lab()
    lab.server.edit("networkpools", "lab", _make_write_patch("manager", "yesterday"))
    assert await lab.run_pool_pass() == Again(60.0)


async def test_no_orphans_are_collected_while_another_controller_writes() -> None:
    lab = _make_lab()
    stamped = {"butler.butlerlabs.dev/tenant-uid": "gone"}
    held_range = ("10.40.0.0", "10.40.0.7")
    lab.server.add(
        "ipallocations", make.allocation("a", held_range=held_range, annotations=stamped)
    )
    lab.server.edit("networkpools", "lab", _make_write_patch("manager", _format_time(lab)))
    await lab.run_pool_pass()
    lab.server.requests.clear()
    await lab.orphans.sweep()
    assert lab.server.requests == []


async def test_waiting_allocations_name_the_foreign_controller_and_are_served_afterwards() -> None:
    platform = Platform()
    platform.server.add("networkpools", make.pool())
    async with platform.running():
        platform.server.edit(
            "networkpools", "lab", _make_write_patch("manager", _format_time(platform))
        )
        platform.server.add("ipallocations", make.allocation("a"))
        await platform.clock.advance(1)
        status = platform.server.see("ipallocations", "a")["status"]
        assert status["phase"] == "Pending"
        assert status["conditions"][0]["reason"] == "PoolNotReady"
        platform.server.requests.clear()
        await platform.clock.advance(100)
        written = [r for r in platform.server.requests if r.verb in {"patch", "post"}]
        assert [r for r in written if r.plural == "networkpools"] == []
        await platform.clock.advance(21)
        assert platform.phase("ipallocations", "a") == "Allocated"


async def test_two_leaders_do_not_correct_each_others_condition() -> None:
    """The second leader starts later, and does not see the write that the first remembers."""
    lab = _make_lab()
    first = lab.pools
    lab.server.edit("networkpools", "lab", _make_write_patch("manager", _format_time(lab)))
    await lab.run_pool_pass()
    lab.server.edit("networkpools", "lab", {"metadata": {"managedFields": []}})
    await lab.clock.advance(60)
    _restart(lab)
    second = lab.pools
    for _ in range(200):
        for lab.pools in (first, second):
            await lab.run_pool_pass()
        await lab.clock.advance(1)
    assert lab.find_condition("networkpools", "lab", "ForeignManager")["status"] == "False"
    assert lab.server.count(verb="patch", plural="networkpools") == 2


async def test_two_leaders_do_not_overwrite_each_others_report_of_writes_in_the_same_second() -> (
    None
):
    lab = _make_lab()
    first = lab.pools
    lab.server.add("ipallocations", make.allocation("held", held_range=("10.40.0.0", "10.40.0.7")))
    lab.server.edit("ipallocations", "held", _make_write_patch("manager", _format_time(lab)))
    await lab.run_pool_pass()
    lab.server.edit("networkpools", "lab", _make_write_patch("manager", _format_time(lab)))
    _restart(lab)
    second = lab.pools
    for _ in range(20):
        for lab.pools in (first, second):
            await lab.run_pool_pass()
        await lab.clock.advance(1)
    assert lab.server.count(verb="patch", plural="networkpools") <= 2


async def test_a_replica_heeds_a_foreign_write_that_only_another_replica_saw() -> None:
    lab = _make_lab()
    first = lab.pools
    lab.server.edit("networkpools", "lab", _make_write_patch("manager", _format_time(lab)))
    await lab.run_pool_pass()
    await lab.clock.advance(120)
    await lab.run_pool_pass()
    assert lab.find_condition("networkpools", "lab", "ForeignManager")["status"] == "False"
    await lab.clock.advance(10)
    _restart(lab)
    lab.server.edit("networkpools", "lab", _make_write_patch("manager", _format_time(lab)))
    await lab.run_pool_pass()
    lab.server.edit("networkpools", "lab", {"metadata": {"managedFields": []}})
    lab.pools = first
    await lab.clock.advance(119)
    assert await lab.run_pool_pass() == Blocked("ForeignManager", 1.0)
