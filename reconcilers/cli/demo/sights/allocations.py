"""What is seen of allocations."""

from collections.abc import Sequence

from reconcilers.cli.demo.sights.common import condition_of, served_one, told
from reconcilers.cli.demo.step import Sight
from reconcilers.cli.demo.world import NotYet, World
from reconcilers.conditions import READY


def pinned(name: str, start: str, end: str) -> Sight:
    """See an allocation with exactly the range that it asked for."""

    def look(world: World) -> Sequence[str]:
        found = served_one(world, name)
        if (found.status.startAddress, found.status.endAddress) != (start, end):
            raise NotYet(f"IPAllocation {name} has {found.status.startAddress}")
        return [told(found)]

    return look


def allocated(name: str) -> Sight:
    """See an allocation with a range."""
    return lambda world: [told(served_one(world, name))]


def unserved(name: str, wanted: str, reason: str) -> Sight:
    """See an allocation that waits or failed, for a reason that it tells."""

    def look(world: World) -> Sequence[str]:
        found = world.allocation(name)
        said = condition_of(f"IPAllocation {name}", found.status.conditions, READY, "False")
        if (found.status.phase, said.reason) != (wanted, reason):
            raise NotYet(f"IPAllocation {name} is {found.status.phase}, {said.reason}")
        return [f"IPAllocation {name} is {wanted}, {said.reason}: {said.message}"]

    return look
