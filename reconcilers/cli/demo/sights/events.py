"""What is seen of events, which people read when they ask what happened."""

from collections.abc import Sequence
from typing import Any

from controller.resource import Resource
from reconcilers.cli.demo.step import Sight
from reconcilers.cli.demo.world import NotYet, World


def event(resource: Resource[Any], name: str, reason: str, saying: str = "") -> Sight:
    """See an event about an object."""

    def look(world: World) -> Sequence[str]:
        for one in world.events:
            about = (one.regarding.kind, one.regarding.name, one.reason)
            if about == (resource.kind, name, reason) and saying in one.note:
                return [f"event, {one.type}: {one.reason}: {one.note}"]
        raise NotYet(f"no event {reason} about {resource.kind} {name} was seen")

    return look
