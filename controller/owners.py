"""Owner references in objects to be written."""

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
    """Return `body`, an object to be written, with `owner` among its owners.

    Args:
        body: with metadata; it stays as it is.
        owner: the object that it goes with.
        kind: of the owner.
        controller: the owner is in charge of it.
        block_deletion: a foreground deletion of the owner waits for it.

    Raises:
        ValueError: another is in charge already, or the owner lives in another namespace, where
            the garbage collector would not find it and delete `body` for that.
    """
    meta = dict(body.get("metadata") or {})
    name, space = meta.get("name") or meta.get("generateName"), meta.get("namespace", "")
    if kind.namespaced and owner.metadata.namespace != space:
        raise ValueError(
            f"{kind.kind} {owner.metadata.key} cannot own {name} in namespace {space or 'none'}:"
            " an owner lives in the same namespace, or in none"
        )
    others = [one for one in meta.get("ownerReferences") or () if one["uid"] != owner.metadata.uid]
    rival = next((one for one in others if controller and one.get("controller")), None)
    if rival is not None:
        raise ValueError(f"{name} is controlled by {rival['kind']} {rival['name']} already")
    reference = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": controller,
        "blockOwnerDeletion": block_deletion,
    }
    return {**body, "metadata": {**meta, "ownerReferences": [*others, reference]}}
