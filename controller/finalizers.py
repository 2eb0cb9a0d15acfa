"""Adding and removing finalizers.

Both writes carry the object's version as a precondition, because a merge patch replaces the whole
list. Without the precondition, a write would undo that another program has added or removed a
finalizer meanwhile.

A finalizer that was added does not always keep the object, even though the server answered 200. A
deletion that read the object before the finalizer was added still removes it; such a request may
take a minute. Reconcilers have to handle objects that are gone without having been released.
"""

from typing import TypeVar

from controller.client import Client
from controller.codec import DecodeFailure
from controller.meta import MetadataOnly, Object, Version
from controller.resource import Resource

T = TypeVar("T", bound=Object)


def has_finalizer(obj: Object, name: str) -> bool:
    """Return whether `obj` has the finalizer `name`, for example `example.com/cleanup`."""
    return name in obj.metadata.finalizers


async def add_finalizer(client: Client, resource: Resource[T], obj: T, name: str) -> T:
    """Add a finalizer to `obj`; return the object as the server stored it.

    Does nothing and returns `obj` if `obj` has the finalizer, or is being deleted: the server
    rejects new finalizers then.

    Args:
        client: for the write.
        resource: the kind of `obj`.
        obj: the object as it was read; its version is the precondition.
        name: for example `example.com/cleanup`.

    Raises:
        Conflict: the object has changed since it was read.
        ControllerError: the write failed.
    """
    if has_finalizer(obj, name) or obj.metadata.is_terminating:
        return obj
    return await _write_finalizers(
        client, resource, obj=obj, finalizers=[*obj.metadata.finalizers, name]
    )


async def remove_finalizer(client: Client, resource: Resource[T], obj: T, name: str) -> T:
    """Remove a finalizer from `obj`; return the object in the server's response.

    Does nothing and returns `obj` if `obj` does not have the finalizer.

    Args:
        client: for the write.
        resource: the kind of `obj`.
        obj: the object as it was read; its version is the precondition.
        name: for example `example.com/cleanup`.

    Raises:
        Conflict: the object has changed since it was read.
        NotFound: the object was deleted before.
        ControllerError: the write failed.
    """
    if not has_finalizer(obj, name):
        return obj
    finalizers = [finalizer for finalizer in obj.metadata.finalizers if finalizer != name]
    return await _write_finalizers(client, resource, obj=obj, finalizers=finalizers)


async def remove_finalizer_from_unreadable(
    client: Client, resource: Resource[T], failure: DecodeFailure, name: str
) -> None:
    """Remove a finalizer from an object that cannot be decoded, so that its deletion can end.

    Call this only if nothing outside of the object has to be released, or if the caller knows from
    elsewhere what to release: the object itself cannot be read. Does nothing if the object is not
    being deleted, does not have the finalizer, or has metadata that cannot be decoded.

    Args:
        client: for the write.
        resource: the kind of the object.
        failure: from `Cache.unreadable`; its version is the precondition.
        name: for example `example.com/cleanup`.

    Raises:
        Conflict: the object has changed since it was read.
        NotFound: the object was deleted before.
        ControllerError: the write failed.
    """
    if failure.metadata is None or not failure.metadata.is_terminating:
        return
    # The type MetadataOnly can decode the response. Caches of the kind's own type ignore it.
    await remove_finalizer(client, resource.metadata_only, MetadataOnly(failure.metadata), name)


async def _write_finalizers(
    client: Client, resource: Resource[T], obj: T, finalizers: list[str]
) -> T:
    """Replace the finalizers of `obj` if it is still at the same version."""
    patch = {"metadata": {"finalizers": finalizers}}
    return await client.patch(resource, Version.from_object(obj), patch)
