"""Owner references of objects of other platforms, as patches and bodies have them."""

from typing import Any

from controller.meta import Object, OwnerReference
from controller.resource import Resource


def owner_reference(owner: Object, kind: Resource[Object]) -> dict[str, Any]:
    """Return the reference that makes an object the owner of another, without flags.

    Args:
        kind: of the owner.
    """
    meta = owner.metadata
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": meta.name,
        "uid": meta.uid,
    }


def copied_owner(reference: OwnerReference) -> dict[str, Any]:
    """Return a reference in the form in which it is written, with the flags that it has."""
    fields = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
    body = {field: getattr(reference, field) for field in fields}
    return {field: value for field, value in body.items() if value is not None}


def owner_identity(reference: OwnerReference) -> tuple[str, str, str]:
    """Return group, kind and name of an owner: the version of its API does not matter."""
    return reference.apiVersion.rpartition("/")[0], reference.kind, reference.name
