"""What a pool reports while a pass cannot know what is held of it."""

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
    """Holders that are not known, for a reason that the test changes; none for known ones."""

    def __init__(self, reason: str) -> None:
        self.behind: Behind | None = Behind(1.0, reason)

    @override
    def list_ranges(self, pool: NetworkPool) -> Sequence[AddressRange]:
        if self.behind is not None:
            raise self.behind
        return ()


def _unknowing(lab: Lab, kinds: str) -> NetworkPoolPasses:
    """Return the passes of a further replica that does not know what these kinds hold."""
    return lab.make_pool_reconciler(observed=UnknownHolders(f"{kinds} are not known"))


def _lab() -> Lab:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("ipallocations", make.allocation("one", tenant="x/y"))
    return lab


def _message(lab: Lab) -> str:
    conditions = lab.see("networkpools", "lab")["conditions"]
    ready = next(condition for condition in conditions if condition["type"] == "Ready")
    message: str = ready["message"]
    return message


async def _wait(lab: Lab, *replicas: NetworkPoolPasses) -> None:
    for _ in range(15):
        for replica in replicas:
            await replica.reconcile(POOL)
        await lab.clock.advance(1)


async def test_a_pool_reports_what_it_waits_for_now_and_not_what_it_waited_for_first() -> None:
    lab, holders = _lab(), UnknownHolders("claims are not known")
    replica = lab.make_pool_reconciler(observed=holders)
    await _wait(lab, replica)
    assert _message(lab).endswith("claims are not known")
    holders.behind = Behind(1.0, "IPAMAllocations are not known")
    await _wait(lab, replica)
    assert _message(lab).endswith("IPAMAllocations are not known")


async def test_a_report_from_before_a_restart_is_replaced() -> None:
    lab = _lab()
    await _wait(lab, _unknowing(lab, "claims"))
    await _wait(lab, _unknowing(lab, "IPAMAllocations"))
    assert _message(lab).endswith("IPAMAllocations are not known")


async def test_two_replicas_that_wait_for_different_things_do_not_write_in_turn() -> None:
    lab = _lab()
    first = _unknowing(lab, "claims")
    second = _unknowing(lab, "IPAMAllocations")
    await _wait(lab, first, second)
    reported = _message(lab)
    lab.server.requests.clear()
    for _ in range(10):
        await _wait(lab, first, second)
    assert lab.server.count(verb="patch") == 0
    assert _message(lab) == reported


async def test_a_replica_that_restarts_does_not_begin_to_write_in_turn_with_another() -> None:
    lab = _lab()
    await _wait(lab, _unknowing(lab, "claims"))
    second = _unknowing(lab, "IPAMAllocations")
    await _wait(lab, second)
    restarted = _unknowing(lab, "claims")
    await _wait(lab, restarted, second)
    reported = _message(lab)
    lab.server.requests.clear()
    for _ in range(3):
        await _wait(lab, restarted, second)
    assert lab.server.count(verb="patch") == 0
    assert _message(lab) == reported


async def test_a_pool_that_waits_for_long_for_the_list_of_another_pool_is_logged() -> None:
    lab, holders = _lab(), UnknownHolders("")
    holders.behind = ListUnderWay()
    with capture_logs() as lines:
        await _wait(lab, lab.make_pool_reconciler(observed=holders))
    waits = [line for line in lines if line["event"] == "A pool hands out nothing yet"]
    assert [line["reason"] for line in waits] == [
        "a LIST of IPAllocations for other pools is under way"
    ]
    with pytest.raises(StopIteration):
        _message(lab)
