"""The CRDs of Butler's chart have replaced ours: they lack the journal of a pool.

The API server then drops the promises of a pool. So the pool hands out nothing, and no controller
writes over and over.
"""

import pytest

from controller.outcome import Blocked
from tests.reconcilers import make
from tests.reconcilers.lab import Lab
from tests.reconcilers.platform import Platform

DROPPED_FIELDS = frozenset({"revisions", "journalOf", "assignments", "utilizationPercent"})
"""The fields of a pool's status that are in our CRD and not in Butler's."""
BLOCKED = Blocked("DefinitionOutdated", 60.0)


def _make_lab(memory: int | None = None) -> Lab:
    """Return a lab with a pool whose journal has the revision `memory`; None for no journal."""
    lab = Lab()
    lab.server.add("networkpools", make.pool(memory=memory))
    return lab


@pytest.mark.parametrize("memory", [None, 100], ids=["no memory left", "memory still there"])
async def test_a_pool_whose_promises_are_dropped_hands_out_nothing_and_says_so_once(
    memory: int | None,
) -> None:
    lab = _make_lab(memory)
    lab.server.add("ipallocations", make.allocation("a"))
    lab.server.unknown = DROPPED_FIELDS
    assert await lab.run_pool_pass() == BLOCKED
    assert "startAddress" not in lab.read_status("ipallocations", "a")
    ready = lab.find_condition("networkpools", "lab", "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "DefinitionOutdated")
    assert "butler-ipam crds" in ready["message"]
    await lab.clock.advance(61)
    assert await lab.run_pool_pass() == BLOCKED
    assert lab.recorded.reasons == ["DefinitionOutdated"]


async def test_nothing_is_written_until_the_next_attempt_is_due() -> None:
    lab = _make_lab()
    lab.server.add("ipallocations", make.allocation("a"))
    lab.server.unknown = DROPPED_FIELDS
    await lab.run_pool_pass()
    lab.server.requests.clear()
    await lab.clock.advance(59)
    assert await lab.run_pool_pass() == Blocked("DefinitionOutdated", 1.0)
    assert lab.server.requests == []


async def test_a_failed_request_does_not_make_controllers_write_over_and_over() -> None:
    platform = Platform()
    platform.server.unknown = DROPPED_FIELDS
    platform.server.add("networkpools", make.pool(memory=None))
    platform.server.add("ipallocations", make.allocation("huge", size=100_000))
    async with platform.running():
        await platform.clock.advance(10)
        writes = [request for request in platform.server.requests if request.verb == "patch"]
        assert len(writes) < 10


async def test_a_pool_allocates_again_once_our_definition_is_back() -> None:
    lab = _make_lab()
    lab.server.add("ipallocations", make.allocation("a"))
    lab.server.unknown = DROPPED_FIELDS
    await lab.run_pool_pass()
    lab.server.unknown = frozenset()
    await lab.clock.advance(60)
    await lab.run_pool_pass()
    assert lab.read_status("ipallocations", "a")["phase"] == "Allocated"
    assert lab.find_condition("networkpools", "lab", "Ready")["status"] == "True"


async def test_a_pool_can_be_deleted_while_the_definition_is_outdated() -> None:
    lab = _make_lab()
    lab.server.unknown = DROPPED_FIELDS
    await lab.run_pool_pass()
    lab.server.edit(
        "networkpools", "lab", {"metadata": {"deletionTimestamp": make.EPOCH.isoformat()}}
    )
    await lab.run_pool_pass()
    assert not lab.server.objects.get(("networkpools", "butler-system", "lab"))
