"""Finalizers: what has to happen before an object may go, and the writes that hold it and let go.

Both writes carry the object's version as a precondition, since a merge patch replaces the whole
list: written over another's change it would take that one's finalizer away, or bring it back.
"""

from typing import TypeVar

from controller.client import Client
from controller.meta import Object, Version
from controller.resource import Resource

T = TypeVar("T", bound=Object)


def has_finalizer(obj: Object, name: str) -> bool:
    """Whether `obj` is held by the finalizer.

    Args:
        obj: the object.
        name: for example `example.com/cleanup`.
    """
    return name in obj.metadata.finalizers


async def add_finalizer(client: Client, resource: Resource[T], obj: T, name: str) -> T:
    """Hold `obj` with the finalizer; returns it as it is then.

    Does nothing if it is there already, and nothing to an object that is going: the server would
    refuse it.

    Args:
        client: for the write.
        resource: the kind of `obj`.
        obj: the object as it was read; its version is the precondition.
        name: for example `example.com/cleanup`.

    Raises:
        Conflict: the object has moved on; look again.
        ControllerError: as any write.
    """
    if has_finalizer(obj, name) or obj.metadata.terminating:
        return obj
    return await _write(client, resource, obj, [*obj.metadata.finalizers, name])


async def remove_finalizer(client: Client, resource: Resource[T], obj: T, name: str) -> T:
    """Let go of `obj`; returns it as it was last. Does nothing if it is not held.

    Args:
        client: for the write.
        resource: the kind of `obj`.
        obj: the object as it was read; its version is the precondition.
        name: for example `example.com/cleanup`.

    Raises:
        Conflict: the object has moved on; look again.
        NotFound: it is gone already.
        ControllerError: as any write.
    """
    if not has_finalizer(obj, name):
        return obj
    rest = [other for other in obj.metadata.finalizers if other != name]
    return await _write(client, resource, obj, rest)


async def _write(client: Client, resource: Resource[T], obj: T, finalizers: list[str]) -> T:
    patch = {"metadata": {"finalizers": finalizers}}
    return await client.patch(resource, Version.of(obj), patch)
