"""Writes of people to objects that controllers write at the same time."""

from collections.abc import Mapping
from typing import Any, TypeVar

from controller.client import Client
from controller.errors import Conflict
from controller.meta import Key, Object, Version
from controller.resource import Resource

T = TypeVar("T", bound=Object)


async def edit(client: Client, resource: Resource[T], key: Key, change: Mapping[str, Any]) -> T:
    """Merge a change into an object at whatever version it has, as `kubectl patch` does.

    Returns:
        The object as the server stored it.
    """
    while True:
        live = await client.get(resource, key)
        try:
            return await client.patch(resource, Version.from_object(live), change)
        except Conflict:
            continue
