"""Scenes in which one rule of Cilium's adapter is all that keeps an address out of two places."""

from tests.reconcilers import make
from tests.reconcilers.lbipam import POOLS
from tests.reconcilers.simulation import tenantscenes as scenes
from tests.reconcilers.simulation.tenantscenes import Yard, nothing


async def late_fill(yard: Yard) -> str | None:
    """The ranges of a new pool are on their way while the other replica releases them."""
    await yard.project(yard.one)
    yard.hold_range("team-a-lb-1", scenes.SECOND)
    await yard.project(yard.one, scenes.write_of_pool("PATCH"))
    yard.server.delete("ipallocations", "team-a-lb-1")
    await release_range(yard)
    await yard.arrive()
    return yard.verdict()


async def added_by_a_person(yard: Yard) -> str | None:
    """A person has a pool with the range, which Cilium does not use while ours is there."""
    yard.hold_range("team-a-lb-1", scenes.SECOND)
    await yard.project(yard.one)
    blocks = [{"start": scenes.SECOND, "stop": scenes.SECOND}]
    yard.tenants["a"].add(POOLS, {"metadata": {"name": "theirs"}, "spec": {"blocks": blocks}})
    yard.server.delete("ipallocations", "team-a-lb-1")
    await release_range(yard)
    return yard.verdict()


async def release_range(yard: Yard) -> None:
    """Let the other replica check a deleted allocation until it waits for nothing of its own."""
    for _ in range(8):
        await yard.work(
            yard.other, yard.other.allocations, key=make.key("team-a-lb-1"), late=nothing
        )
        await yard.clock.advance(1)
