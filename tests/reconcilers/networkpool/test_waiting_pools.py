"""The report of a pool that waits because its pass does not know all holders of addresses."""

from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from allocator import AddressRange
from reconcilers.api.networkpool import NetworkPool
from reconcilers.networkpool.otherholders import ObservedRanges
from reconcilers.networkpool.poolkind import NetworkPoolPasses
from reconcilers.promises.reading import Behind, ListUnderWay
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

POOL = make.key("lab")


class UnknownHolders(ObservedRanges):
    """Ranges of another allocator that are not known.

    Attributes:
        behind: why the ranges are not known; None if they are, and there are none.
    """

    def __init__(self, reason: str) -> None:
        self.behind: Behind | None = Behind(1.0, reason)

    @override
    def list_ranges(self, pool: NetworkPool) -> Sequence[AddressRange]:
        if self.behind is not None:
            raise self.behind
        return ()


def _start_waiting_passes(lab: Lab, kinds: str) -> NetworkPoolPasses:
    """Return the passes of a further replica that waits because `kinds` are not known."""
    return lab.make_pool_reconciler(observed=UnknownHolders(f"{kinds} are not known"))


def _make_lab() -> Lab:
    """Return a lab with a pool and a waiting allocation."""
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("ipallocations", make.allocation("one", tenant="x/y"))
    return lab


def _read_message(lab: Lab) -> str:
    """Return the message of the pool's Ready condition."""
    conditions = lab.read_status("networkpools", "lab")["conditions"]
    ready = next(condition for condition in conditions if condition["type"] == "Ready")
    message: str = ready["message"]
    return message


async def _run_passes(lab: Lab, *replicas: NetworkPoolPasses) -> None:
    """Run a pass of each replica, once a second for 15 seconds."""
    for _ in range(15):
        for replica in replicas:
            await replica.reconcile(POOL)
        await lab.clock.advance(1)


async def test_a_pool_that_waits_for_another_kind_than_before_reports_the_new_one() -> None:
    lab, holders = _make_lab(), UnknownHolders("claims are not known")
    replica = lab.make_pool_reconciler(observed=holders)
    await _run_passes(lab, replica)
    assert _read_message(lab).endswith("claims are not known")
    holders.behind = Behind(1.0, "IPAMAllocations are not known")
    await _run_passes(lab, replica)
    assert _read_message(lab).endswith("IPAMAllocations are not known")


async def test_a_report_from_before_a_restart_is_replaced() -> None:
    lab = _make_lab()
    await _run_passes(lab, _start_waiting_passes(lab, "claims"))
    await _run_passes(lab, _start_waiting_passes(lab, "IPAMAllocations"))
    assert _read_message(lab).endswith("IPAMAllocations are not known")


async def test_two_replicas_that_wait_for_different_kinds_do_not_overwrite_each_other() -> None:
    lab = _make_lab()
    first = _start_waiting_passes(lab, "claims")
    second = _start_waiting_passes(lab, "IPAMAllocations")
    await _run_passes(lab, first, second)
    reported = _read_message(lab)
    lab.server.requests.clear()
    for _ in range(10):
        await _run_passes(lab, first, second)
    assert lab.server.count(verb="patch") == 0
    assert _read_message(lab) == reported


async def test_a_replica_that_restarts_does_not_overwrite_the_report_of_another() -> None:
    lab = _make_lab()
    await _run_passes(lab, _start_waiting_passes(lab, "claims"))
    second = _start_waiting_passes(lab, "IPAMAllocations")
    await _run_passes(lab, second)
    restarted = _start_waiting_passes(lab, "claims")
    await _run_passes(lab, restarted, second)
    reported = _read_message(lab)
    lab.server.requests.clear()
    for _ in range(3):
        await _run_passes(lab, restarted, second)
    assert lab.server.count(verb="patch") == 0
    assert _read_message(lab) == reported


async def test_a_long_wait_for_the_list_of_another_pool_is_logged_but_no_condition() -> None:
    lab, holders = _make_lab(), UnknownHolders("")
    holders.behind = ListUnderWay()
    with capture_logs() as lines:
        await _run_passes(lab, lab.make_pool_reconciler(observed=holders))
    waits = [line for line in lines if line["event"] == "A pool hands out nothing yet"]
    assert [line["reason"] for line in waits] == [
        "a LIST of IPAllocations for other pools is under way"
    ]
    with pytest.raises(StopIteration):
        _read_message(lab)
