"""Owner references of objects of other platforms, as patches and bodies have them."""

from typing import Any

from controller.meta import Object, OwnerReference
from controller.resource import Resource


def make_owner_reference(owner: Object, kind: Resource[Object]) -> dict[str, Any]:
    """Return the reference to an owner, as a body has it, without the two optional flags.

    Args:
        kind: the kind of the owner.
    """
    meta = owner.metadata
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": meta.name,
        "uid": meta.uid,
    }


def render_owner_reference(reference: OwnerReference) -> dict[str, Any]:
    """Return an owner reference that was decoded as JSON for the body of a request.

    The flags `controller` and `blockOwnerDeletion` are left out if they are not set.
    """
    fields = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
    body = {field: getattr(reference, field) for field in fields}
    return {field: value for field, value in body.items() if value is not None}


def get_owner_identity(reference: OwnerReference) -> tuple[str, str, str]:
    """Return group, kind and name of an owner, to compare owners whatever their API version."""
    return reference.apiVersion.rpartition("/")[0], reference.kind, reference.name
