"""Owner references, which make the garbage collector delete an object with its owner."""

from collections.abc import Mapping
from typing import Any

from controller.meta import Object
from controller.resource import Resource


def owned(
    body: Mapping[str, Any],
    owner: Object,
    kind: Resource[Any],
    *,
    controller: bool = True,
    block_deletion: bool = True,
) -> dict[str, Any]:
    """Return a copy of `body`, an object to be created, with an owner reference to `owner`.

    Args:
        body: the object; its metadata has the name. It gets the owner's namespace if the owner has
            one and the object names none, as it cannot be created in another.
        owner: the object that it is deleted with.
        kind: the kind of `owner`.
        controller: whether `owner` is the controlling owner; an object has at most one.
        block_deletion: whether a foreground deletion of the owner waits for the object.

    Raises:
        ValueError: the object has another controlling owner, or the owner is in another namespace:
            the garbage collector would not find it there and would delete the object.
    """
    meta = dict(body.get("metadata") or {})
    name = meta.get("name") or meta.get("generateName")
    if kind.namespaced:
        space = meta.get("namespace") or owner.metadata.namespace
        if owner.metadata.namespace != space:
            raise ValueError(
                f"{kind.kind} {owner.metadata.key} cannot own {name} in namespace {space}:"
                " an owner is in the same namespace, or in none"
            )
        meta["namespace"] = space
    others = [one for one in meta.get("ownerReferences") or () if one["uid"] != owner.metadata.uid]
    present = next((one for one in others if controller and one.get("controller")), None)
    if present is not None:
        raise ValueError(f"{name} is controlled by {present['kind']} {present['name']} already")
    reference = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": controller,
        "blockOwnerDeletion": block_deletion,
    }
    return {**body, "metadata": {**meta, "ownerReferences": [*others, reference]}}
