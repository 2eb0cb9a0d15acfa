"""Checks of what callers pass to a client or a manager, so that a mix-up is named at once.

Python accepts an object where a Version is expected, and fails later with an AttributeError or
with a request that no server understands. Each check raises a TypeError that says what to pass.
"""

from typing import Any

from controller.callbacks import is_key, safe_repr
from controller.meta import Version
from controller.resource import Resource


def check_resource(resource: object, caller: str) -> None:
    """Raise TypeError for what is no Resource: the type of the objects, or their informer.

    Args:
        resource: as the caller passed it.
        caller: the method that needs it, for the message: `Manager.informer`.
    """
    if isinstance(resource, Resource):
        return
    hint = ""
    if isinstance(getattr(resource, "resource", None), Resource):
        hint = f"; pass the Resource of this {type(resource).__name__}"
    elif isinstance(resource, type):
        hint = f"; {resource.__name__} is the type of the objects, a Resource says where they are"
    raise TypeError(f"{caller} needs a controller.Resource, not {_describe(resource)}{hint}")


def check_key(resource: Resource[Any], key: object, verb: str) -> None:
    """Raise TypeError for what is no Key.

    Args:
        resource: the kind.
        key: as the caller passed it.
        verb: of the request, for the message.
    """
    check_resource(resource, f"Client.{verb}")
    if not is_key(key):
        raise TypeError(
            f"{verb} {resource.full_name} needs controller.Key(namespace, name), not"
            f" {_describe(key)}"
        )


def check_version(resource: Resource[Any], version: object, verb: str) -> None:
    """Raise TypeError for what is no Version: the object itself, for example.

    Args:
        resource: the kind.
        version: as the caller passed it.
        verb: of the request, for the message.
    """
    check_resource(resource, f"Client.{verb}")
    if not isinstance(version, Version):
        raise TypeError(
            f"{verb} {resource.full_name} needs the Version that the decision was made on:"
            f" Version.from_object(obj), not {_describe(version)}"
        )


def check_object(resource: Resource[Any], obj: object, verb: str) -> None:
    """Raise TypeError for what is no object with metadata: its Version, for example.

    Args:
        resource: the kind.
        obj: as the caller passed it.
        verb: the method of the client, for the message.
    """
    check_resource(resource, f"Client.{verb}")
    if isinstance(obj, Version) or not hasattr(obj, "metadata"):
        raise TypeError(
            f"{verb} {resource.full_name} needs the object as it was read, not {_describe(obj)}"
        )


def check_namespace(resource: Resource[Any], namespace: object, verb: str) -> None:
    """Raise TypeError for what is no namespace: a Key, or the body.

    Args:
        resource: the kind.
        namespace: as the caller passed it.
        verb: of the request, for the message.
    """
    check_resource(resource, f"Client.{verb}")
    if not isinstance(namespace, str):
        raise TypeError(
            f"{verb} {resource.full_name} needs the namespace as text, '' for a cluster-scoped"
            f" kind, not {_describe(namespace)}"
        )


def _describe(value: object) -> str:
    """Return the type of a value, with the value where it is short."""
    representation = safe_repr(value)
    return representation if len(representation) <= 60 else f"a {type(value).__name__}"
