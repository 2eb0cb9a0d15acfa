"""CRDs that know nothing of a pool's memory come over ours: by an upgrade of Butler's chart.

What a pool promises is dropped by the server then. Nothing may be handed out, and no
controller may write without end.
"""

import pytest

from controller.outcome import Blocked
from tests.reconcilers import make
from tests.reconcilers.lab import Lab
from tests.reconcilers.platform import Platform

THEIRS = frozenset({"revisions", "journalOf", "assignments", "utilizationPercent"})
"""What ours have in the status of a pool, and Butler's do not."""
BLOCKED = Blocked("DefinitionOutdated", 60.0)


def _lab(memory: int | None = None) -> Lab:
    lab = Lab()
    lab.server.add("networkpools", make.pool(memory=memory))
    return lab


@pytest.mark.parametrize("memory", [None, 100], ids=["no memory left", "memory still there"])
async def test_a_pool_whose_promises_are_dropped_hands_out_nothing_and_says_so_once(
    memory: int | None,
) -> None:
    lab = _lab(memory)
    lab.server.add("ipallocations", make.allocation("a"))
    lab.server.unknown = THEIRS
    assert await lab.pool() == BLOCKED
    assert "startAddress" not in lab.see("ipallocations", "a")
    ready = lab.condition("networkpools", "lab", "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "DefinitionOutdated")
    assert "butler-ipam crds" in ready["message"]
    await lab.clock.advance(61)
    assert await lab.pool() == BLOCKED
    assert lab.recorded.reasons == ["DefinitionOutdated"]


async def test_nothing_is_written_until_the_next_attempt_is_due() -> None:
    lab = _lab()
    lab.server.add("ipallocations", make.allocation("a"))
    lab.server.unknown = THEIRS
    await lab.pool()
    lab.server.requests.clear()
    await lab.clock.advance(59)
    assert await lab.pool() == Blocked("DefinitionOutdated", 1.0)
    assert lab.server.requests == []


async def test_a_failed_request_does_not_make_controllers_write_over_and_over() -> None:
    platform = Platform()
    platform.server.unknown = THEIRS
    platform.server.add("networkpools", make.pool(memory=None))
    platform.server.add("ipallocations", make.allocation("huge", size=100_000))
    async with platform.running():
        await platform.clock.advance(10)
        writes = [request for request in platform.server.requests if request.verb == "patch"]
        assert len(writes) < 10


async def test_when_the_definition_is_back_the_pool_goes_on() -> None:
    lab = _lab()
    lab.server.add("ipallocations", make.allocation("a"))
    lab.server.unknown = THEIRS
    await lab.pool()
    lab.server.unknown = frozenset()
    await lab.clock.advance(60)
    await lab.pool()
    assert lab.see("ipallocations", "a")["phase"] == "Allocated"
    assert lab.condition("networkpools", "lab", "Ready")["status"] == "True"


async def test_a_pool_can_be_deleted_meanwhile() -> None:
    lab = _lab()
    lab.server.unknown = THEIRS
    await lab.pool()
    lab.server.edit(
        "networkpools", "lab", {"metadata": {"deletionTimestamp": make.EPOCH.isoformat()}}
    )
    await lab.pool()
    assert not lab.server.objects.get(("networkpools", "butler-system", "lab"))
