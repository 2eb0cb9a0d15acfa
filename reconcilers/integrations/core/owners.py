"""Owner references of objects of other platforms, as patches and bodies have them."""

from typing import Any

from controller.meta import Object, OwnerReference
from controller.resource import Resource


def owner_reference(owner: Object, kind: Resource[Any]) -> dict[str, Any]:
    """Return the reference that makes an object the owner of another, without flags.

    Args:
        owner: the object.
        kind: of the owner.
    """
    meta = owner.metadata
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": meta.name,
        "uid": meta.uid,
    }


def rendered_owner(reference: OwnerReference) -> dict[str, Any]:
    """Return a reference in the form in which it is written, without flags that are false."""
    names = ("apiVersion", "kind", "name", "uid")
    flags = ("controller", "blockOwnerDeletion")
    return {
        **{name: getattr(reference, name) for name in names},
        **{name: True for name in flags if getattr(reference, name)},
    }


def copied_owner(reference: OwnerReference) -> dict[str, Any]:
    """Return a reference in the form in which it is written, with flags that are false."""
    fields = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
    body = {field: getattr(reference, field) for field in fields}
    return {field: value for field, value in body.items() if value is not None}
