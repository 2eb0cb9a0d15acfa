"""Objects that a reconciler keeps for another object, by server-side apply.

`ensure` reads the child from the server, compares it with the desired object
(fielddifferences.py), and applies that only if they differ. At rest it sends one GET and no write.
Some differences stay after an apply: the server writes a quantity in its own notation, fills in
defaults, or drops an empty list. The answer to the apply shows them; appliedvalues.py remembers
them, so they cause no further write.

Rejected: comparing with a cached object. Caches keep only the fields that a kind's type names.
Rejected: applying in each call of a reconciler. That is a write request each time, which
admission webhooks get too.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from controller.appliedvalues import ChildAndManager
from controller.arguments import OBJECT, check_argument, check_body, check_resource
from controller.argumenttypes import check_type
from controller.client import Client
from controller.codec import decode_json, decode_object, encode
from controller.errors import OwnedByAnother
from controller.fielddifferences import FieldDifference, find_differences
from controller.meta import Key, Object, Untyped
from controller.owners import with_owner
from controller.resource import Resource

T = TypeVar("T", bound=Object)
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Owner:
    """The object that a child is deleted with.

    Args:
        object: the owner.
        kind: the kind of the owner.
        controller: whether it is the controlling owner; an object has at most one.
        block_deletion: whether a foreground deletion of the owner waits for the child.

    Raises:
        TypeError: `object` is no object, or `kind` is no Resource.
    """

    object: Object
    kind: Resource[Any]
    controller: bool = True
    block_deletion: bool = True

    def __post_init__(self) -> None:
        check_resource(self.kind, "Owner(object, KIND)")
        check_argument(self.kind, self.object, verb="Owner of", expected=OBJECT)


@dataclass(frozen=True, slots=True)
class Ensured(Generic[T]):
    """What `ensure` did.

    Args:
        object: the child as the server has it now.
        operation: what was done, in the words of controller-runtime's CreateOrUpdate.
        fields: the paths that were written, for example `spec.replicas`; empty if the object was
            created or is unchanged.
    """

    object: T
    operation: Literal["created", "updated", "unchanged"]
    fields: tuple[str, ...] = ()


async def ensure(
    client: Client,
    resource: Resource[T],
    owner: Owner | None,
    body: Mapping[str, Any],
    *,
    manager: str = "",
    force: bool = True,
) -> Ensured[T]:
    """Create the child of an owner, or apply the fields that differ from `body`.

    Fields that an earlier call applied and `body` leaves out are removed. Fields that `body` never
    named stay as others write them. An object of that name without a controlling owner is adopted.

    Args:
        client: the client; one with dry run changes nothing.
        resource: the kind of the child.
        owner: the object that the child is deleted with; None for none.
        body: the desired fields; the metadata has the name. The child gets the owner's namespace.
            `stringData` of a Secret is applied as `data`.
        manager: the field manager; by default that of the client, else the owner's kind, for
            example `websites.example.com`. It must stay the same from release to release.
        force: take over fields that other managers have changed, as a controller should; False to
            raise FieldManagerConflict.

    Raises:
        OwnedByAnother: the object has another controlling owner.
        FieldManagerConflict: another manager owns a field, and `force` is False.
        ValueError: `body` has no name, has a status, names another controlling owner or says that
            it is of another kind. Or the owner is in another namespace, or is namespaced and the
            child is not. Or a namespaced child has neither a namespace nor a namespaced owner. Or
            there is no name for the field manager.
        TypeError: an argument has another type, or `stringData` has a value that is no text.
    """
    check_type(
        client, Client, argument="ensure: client", expected="a Client, such as Manager.client"
    )
    check_resource(resource, "ensure")
    check_body(resource, body, "ensure")
    check_type(
        manager, str, argument="ensure: manager", expected="the name of the field manager as text"
    )
    desired = _complete_body(resource, owner, body)
    meta = desired["metadata"]
    key = Key(meta.get("namespace", ""), meta["name"])
    manager = manager or client.field_manager or (owner.kind.full_name if owner else "")
    if not manager:
        raise ValueError(
            f"{resource.kind} {key} has no owner to name the field manager after: pass manager="
        )
    current = await client.find(resource.untyped, key)
    differences: list[FieldDifference] = []
    if current is not None:
        if owner is not None and owner.controller:
            _check_controller(resource, current, owner)
        child = _identify_child(resource, current, manager)
        # A difference that stayed after the last apply would stay after this one, too.
        differences = [
            difference
            for difference in find_differences(
                desired, current.body, manager=manager, api_version=resource.api_version
            )
            if not client.applied_values.includes(child, difference.digest)
        ]
        if not differences:
            # `current` is an Untyped object, and the caller gets one of the kind's own type.
            return Ensured(decode_object(resource, encode(current.body)), "unchanged")
    applied, stored = await client.apply_whole(
        resource, key, desired, manager=manager, force=force
    )
    if not client.is_dry_run:  # a dry run stores nothing, so it tells nothing about stored values
        # Nobody else writes between an apply and its answer. So each remaining difference is what
        # the server makes of our value. An empty digest stands for a field that the apply gives
        # up, and such a difference is not remembered.
        remaining = find_differences(
            desired, stored.body, manager=manager, api_version=resource.api_version
        )
        client.applied_values.remember(
            _identify_child(resource, stored, manager),
            frozenset(difference.digest for difference in remaining) - {b""},
        )
    if current is None:
        return Ensured(applied, "created")
    if applied.metadata.resourceVersion == current.metadata.resourceVersion:
        # The server stored nothing: it turned the applied values into those that it had.
        return Ensured(applied, "unchanged")
    paths = (path for difference in differences for path in difference.paths)
    return Ensured(applied, "updated", tuple(dict.fromkeys(paths)))


def _identify_child(resource: Resource[Any], stored: Untyped, manager: str) -> ChildAndManager:
    """Return the child and its field manager, as AppliedValues identifies them."""
    kind = f"{resource.full_name}/{resource.version}"
    return ChildAndManager(
        kind, str(stored.metadata.key), uid=stored.metadata.uid, manager=manager
    )


def _complete_body(resource: Resource[Any], owner: Owner | None, body: Mapping[str, Any]) -> Json:
    """Return a copy of `body` as plain JSON, with the owner's namespace and a reference to it.

    Without an owner neither is added. `stringData` of a Secret is moved to `data`.

    Raises:
        ValueError: `body` has no name, has a status, or contradicts `resource` or `owner`; or a
            namespaced child has neither a namespace nor a namespaced owner.
        TypeError: the name, `stringData` or `owner` has another type.
    """
    desired: Json = decode_json(encode(body))
    for name, value in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if desired.get(name, value) != value:
            raise ValueError(
                f"ensure {resource.full_name}: the body has {name} {desired[name]!r} and the"
                f" Resource {value!r}: leave {name} out of the body, or pass the Resource of that"
                " kind"
            )
    if not (desired.get("metadata") or {}).get("name"):
        raise ValueError(
            f"a {resource.kind} to ensure needs metadata.name: generateName names none"
        )
    check_type(
        desired["metadata"]["name"],
        str,
        argument=f"a {resource.kind}: metadata.name",
        expected="text",
    )
    if "status" in desired:
        raise ValueError(
            f"{resource.kind} {desired['metadata']['name']}: the status is no part of what a child"
            " should be; write it with Client.patch_status"
        )
    if resource.full_name == "secrets" and "stringData" in desired:
        _move_string_data(desired)
    if owner is None:
        if resource.namespaced and not _read_namespace(desired):
            raise ValueError(
                f"{resource.kind} {desired['metadata']['name']} has no owner to take the namespace"
                " from: name it in metadata.namespace"
            )
        return desired
    if not isinstance(owner, Owner):
        raise TypeError(
            f"the owner of {resource.kind} {desired['metadata']['name']} must be"
            f" Owner(object, KIND) or None, not a {type(owner).__name__}"
        )
    if resource.namespaced and not owner.kind.namespaced and not _read_namespace(desired):
        raise ValueError(
            f"{resource.kind} {desired['metadata']['name']} cannot take the namespace from its"
            f" owner, {owner.kind.kind} {owner.object.metadata.name}, which is cluster-scoped:"
            " name it in metadata.namespace"
        )
    return with_owner(
        desired,
        owner.object,
        owner.kind,
        controller=owner.controller,
        block_deletion=owner.block_deletion,
        child=resource,
    )


def _move_string_data(desired: Json) -> None:
    """Move the texts of a Secret from `stringData`, which the server does not store, to `data`.

    Raises:
        TypeError: `stringData` is no dictionary of texts.
    """
    where = f"Secret {desired['metadata']['name']}: stringData"
    texts = desired.pop("stringData") or {}
    check_type(texts, dict, argument=where, expected="a dictionary of texts")
    for name, value in texts.items():
        check_type(value, str, argument=f"{where}[{name!r}]", expected="text")
    encoded = {name: base64.b64encode(value.encode()).decode() for name, value in texts.items()}
    desired["data"] = {**(desired.get("data") or {}), **encoded}


def _read_namespace(desired: Json) -> str:
    """Return the namespace in the desired object; empty if it has none."""
    return str(desired["metadata"].get("namespace") or "")


def _check_controller(resource: Resource[Any], current: Untyped, owner: Owner) -> None:
    """Raise OwnedByAnother if another object controls the child."""
    meta = owner.object.metadata
    for reference in current.metadata.ownerReferences:
        if reference.controller and reference.uid != meta.uid:
            # The same name with another uid: the owner was deleted and created again.
            is_predecessor = (reference.kind, reference.name) == (owner.kind.kind, meta.name)
            why = (
                f"an earlier {reference.kind} {reference.name}, which was deleted: the garbage"
                " collector deletes the child"
                if is_predecessor
                else f"{reference.kind} {reference.name}: choose another name for the child"
            )
            raise OwnedByAnother(
                f"{resource.kind} {current.metadata.key} cannot belong to {owner.kind.kind}"
                f" {meta.key}: its controlling owner is {why}"
            )
