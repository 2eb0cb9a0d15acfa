"""Live reads of objects that may be gone."""

from typing import TypeVar

from controller.client import Client
from controller.errors import NotFound
from controller.meta import Key, Object
from controller.resource import Resource

T = TypeVar("T", bound=Object)


async def find(client: Client, kind: Resource[T], key: Key) -> T | None:
    """Return an object as the API server has it now, None if it does not exist.

    Raises:
        NotFound: not the object, but its kind is missing, which says nothing about the object.
        ControllerError: the request failed.
    """
    try:
        return await client.get(kind, key)
    except NotFound as error:
        if error.reason != "NotFound":
            raise
        return None
