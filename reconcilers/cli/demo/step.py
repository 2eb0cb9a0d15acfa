"""What a story is made of: things that are done, and things that must then be seen."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from controller.meta import Key
from controller.resource import Resource
from reconcilers.cli.demo.world import World
from reconcilers.cli.local.objects import Manifest, apply, delete
from reconcilers.cli.local.servers import ApiServer

Deed = Callable[[World], Awaitable[None]]
Sight = Callable[[World], Sequence[str]]
"""Tells what is seen, in lines; raises NotYet while it is not."""
PATIENCE = 30.0
"""Seconds that a deed waits, at most."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a story.

    Args:
        title: what happens, one sentence.
        sees: what must be seen at the end, in the order it is told.
        does: what somebody does first.
    """

    title: str
    sees: tuple[Sight, ...]
    does: tuple[Deed, ...] = ()


def declare(*manifests: Manifest) -> Deed:
    """Return the deed of applying manifests to the management cluster."""

    async def act(world: World) -> None:
        await _apply(world.management, manifests)

    return act


def declare_in(cluster: Key, *manifests: Manifest) -> Deed:
    """Return the deed of applying manifests to a tenant."""

    async def act(world: World) -> None:
        await _apply(world.tenant(cluster).server, manifests)

    return act


def wait_for(sight: Sight) -> Deed:
    """Return the deed of waiting for what the deeds after it rely on."""

    async def act(world: World) -> None:
        await world.until(sight, PATIENCE)

    return act


def remove(resource: Resource[Any], *keys: Key) -> Deed:
    """Return the deed of deleting objects of the management cluster."""

    async def act(world: World) -> None:
        for key in keys:
            await delete(world.management.client, resource, key)

    return act


def remove_in(cluster: Key, resource: Resource[Any], *keys: Key) -> Deed:
    """Return the deed of deleting objects of a tenant."""

    async def act(world: World) -> None:
        for key in keys:
            await delete(world.tenant(cluster).server.client, resource, key)

    return act


async def _apply(server: ApiServer, manifests: Sequence[Manifest]) -> None:
    for manifest in manifests:
        await apply(server.transport, manifest)
