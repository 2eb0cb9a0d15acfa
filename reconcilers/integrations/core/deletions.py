"""Deletes objects that carry a finalizer of ours."""

from typing import TypeVar

from controller.client import Client
from controller.errors import NotFound
from controller.finalizers import remove_finalizer
from controller.meta import Object, Version
from controller.resource import Resource

T = TypeVar("T", bound=Object)


async def delete_with_finalizer(
    client: Client, resource: Resource[T], obj: T, finalizer: str
) -> None:
    """Delete an object at the version that was read, then remove our finalizer.

    In this order, because an object without the finalizer would no longer be recognized as ours
    if the deletion failed. An object that no longer exists is no error.

    Args:
        client: for the writes.
        resource: the kind of the object.
        obj: as it was read.
        finalizer: the finalizer of this controller, which must be set.

    Raises:
        Conflict: it changed meanwhile.
        ControllerError: a request failed.
    """
    try:
        remaining: T | None = obj
        if not obj.metadata.is_terminating:
            remaining = await client.delete(resource, Version.from_object(obj))
        if remaining is not None:
            await remove_finalizer(client, resource, remaining, finalizer)
    except NotFound as error:
        # A 404 with another reason means that the kind is not served. Then it is unknown whether
        # the object still exists.
        if error.reason != "NotFound":
            raise
