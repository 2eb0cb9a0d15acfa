"""Owner references, which make the garbage collector delete an object with its owner."""

from collections.abc import Mapping
from typing import Any

from controller.meta import Object
from controller.resource import Resource


def check_owners(kind: Resource[Any], body: Mapping[str, Any]) -> None:
    """Raise ValueError for a cluster-scoped object whose owner is in a namespace.

    Args:
        kind: the kind of the object.
        body: the object; `with_owner` has put the namespace of the owner into the metadata.

    Raises:
        ValueError: the garbage collector would delete the object, because the owner is namespaced.
    """
    meta = body.get("metadata") or {}
    # A cluster-scoped object has a namespace here only if `with_owner` wrote the owner's.
    if kind.namespaced or not meta.get("namespace") or not meta.get("ownerReferences"):
        return
    owners = ", ".join(f"{owner['kind']} {owner['name']}" for owner in meta["ownerReferences"])
    raise ValueError(
        f"{kind.kind} {meta.get('name') or meta.get('generateName')} is cluster-scoped and cannot"
        f" be owned by {owners} in namespace {meta['namespace']}: use a cluster-scoped owner, or"
        " delete the object in the reconciler, with a finalizer on the owner"
    )


def with_owner(
    body: Mapping[str, Any],
    owner: Object,
    kind: Resource[Any],
    *,
    controller: bool = True,
    block_deletion: bool = True,
    child: Resource[Any] | None = None,
) -> dict[str, Any]:
    """Return a copy of `body`, an object to be created, with an owner reference to `owner`.

    Args:
        body: the object; its metadata has the name. If the owner has a namespace and `body` names
            none, the object gets the owner's, because it cannot be created in another.
        owner: the object that the new object is deleted with.
        kind: the kind of `owner`.
        controller: whether `owner` is the controlling owner; an object has at most one.
        block_deletion: whether a foreground deletion of the owner waits for the object.
        child: the kind of the object, to refuse a namespaced owner of a cluster-scoped object
            here; None to let the client refuse it on creation.

    Raises:
        ValueError: the object has another controlling owner, the owner is in another namespace, or
            the owner is namespaced and the object is not. In the last two cases the garbage
            collector would not find the owner and would delete the object.
    """
    meta = dict(body.get("metadata") or {})
    name = meta.get("name") or meta.get("generateName")
    if kind.namespaced:
        namespace = meta.get("namespace") or owner.metadata.namespace
        if owner.metadata.namespace != namespace:
            raise ValueError(
                f"{kind.kind} {owner.metadata.key} cannot own {name} in namespace {namespace}:"
                " an owner is in the same namespace, or in none"
            )
        meta["namespace"] = namespace
    # A reference to the same owner that `body` has already is replaced.
    other_owners = [
        reference
        for reference in meta.get("ownerReferences") or ()
        if reference["uid"] != owner.metadata.uid
    ]
    rival_owner = next(
        (reference for reference in other_owners if controller and reference.get("controller")),
        None,
    )
    if rival_owner is not None:
        raise ValueError(
            f"{name} is controlled by {rival_owner['kind']} {rival_owner['name']} already"
        )
    reference = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": controller,
        "blockOwnerDeletion": block_deletion,
    }
    complete = {**body, "metadata": {**meta, "ownerReferences": [*other_owners, reference]}}
    if child is not None:
        check_owners(child, complete)
    return complete
