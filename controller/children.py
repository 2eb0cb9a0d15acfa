"""Objects that a reconciler keeps for another object, by server-side apply.

`ensure` reads the child from the server and compares the read object with the desired one before
it writes. At rest it sends one GET and no write. The comparison needs no schema: `managedFields`
says which fields and list entries our field manager owns, so fields of others and defaults of the
server are left out. One apply that changes nothing tells what the server makes of a value: other
notations, and defaults inside a value with one owner; appliedvalues.py says why.

Rejected: comparing with a cached object. Caches keep only the fields that a kind's type names.
Rejected: applying in each pass. That is a write request for each child and pass, which admission
webhooks get too.
"""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import msgspec

from controller.appliedvalues import ChildAndManager, digest_values
from controller.arguments import check_resource
from controller.client import Client
from controller.codec import decode_json, decode_object, encode
from controller.errors import OwnedByAnother
from controller.meta import Key, Object, Untyped
from controller.owners import with_owner
from controller.resource import Resource

T = TypeVar("T", bound=Object)
Json = dict[str, Any]

_ABSENT = object()
"""Stands for a field that an object does not have; equal to no JSON value."""
_NAMING = ("name", "namespace")
"""Fields of the metadata that say which object it is; no manager owns them."""
_OUTER = ("apiVersion", "kind", "metadata")


@dataclass(frozen=True, slots=True)
class Owner:
    """The object that a child is deleted with.

    Args:
        object: the owner.
        kind: the kind of the owner.
        controller: whether it is the controlling owner; an object has at most one.
        block_deletion: whether a foreground deletion of the owner waits for the child.
    """

    object: Object
    kind: Resource[Any]
    controller: bool = True
    block_deletion: bool = True


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


@dataclass(frozen=True, slots=True)
class _Difference:
    """A field in which an object differs from what the manager is to own in it.

    Args:
        paths: the paths that differ, for `Ensured.fields`.
        desired: the desired value; absent if the manager is not to own the field any more.
        stored: the stored value.
        is_owned: whether the manager owns the field as one value.
    """

    paths: tuple[str, ...]
    desired: object = _ABSENT
    stored: object = _ABSENT
    is_owned: bool = False

    @property
    def digest(self) -> bytes:
        """The digest of the values if only the server can have made one of the other; else empty.

        While we own the value, what is stored is what the server made of an apply of ours. Whoever
        else writes another value takes the field over.
        """
        if not self.is_owned or self.stored is _ABSENT:
            return b""
        return digest_values(self.paths[0], self.desired, self.stored)


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
        ValueError: `body` has no name or has a status, the owner is in another namespace, the
            owner is namespaced and the child is not, a namespaced child has neither a namespace
            nor a namespaced owner, or there is no name for the field manager.
        TypeError: `owner` is no Owner, or `resource` is no Resource.
    """
    check_resource(resource, "ensure")
    desired = _complete(resource, owner, body)
    meta = desired["metadata"]
    key = Key(meta.get("namespace", ""), meta["name"])
    manager = manager or client.field_manager or (owner.kind.full_name if owner else "")
    if not manager:
        raise ValueError(
            f"{resource.kind} {key} has no owner to name the field manager after: pass manager="
        )
    current = await client.find(_as_untyped(resource), key)
    if current is None:
        created = await client.apply(resource, key, desired, manager=manager, force=force)
        return Ensured(created, "created")
    if owner is not None and owner.controller:
        _check_controller(resource, current, owner)
    where = ChildAndManager(
        f"{resource.full_name}/{resource.version}", str(key), current.metadata.uid, manager
    )
    all_differences = list(_differences(desired, current, manager, resource.api_version))
    differences = [
        difference
        for difference in all_differences
        if not client.applied_values.includes(where, difference.digest)
    ]
    if not differences:
        return Ensured(decode_object(resource, encode(current.body)), "unchanged")
    child = await client.apply(resource, key, desired, manager=manager, force=force)
    if child.metadata.resourceVersion == current.metadata.resourceVersion:
        # The server has the value in another notation, or with its defaults.
        if not client.is_dry_run:
            digests = frozenset(difference.digest for difference in all_differences)
            client.applied_values.remember(where, digests - {b""})
        return Ensured(child, "unchanged")
    paths = (path for difference in differences for path in difference.paths)
    return Ensured(child, "updated", tuple(dict.fromkeys(paths)))


def _as_untyped(resource: Resource[Any]) -> Resource[Untyped]:
    """Return the same kind with whole objects."""
    return Resource(
        resource.group,
        resource.version,
        resource.kind,
        resource.plural,
        Untyped,
        namespaced=resource.namespaced,
    )


def _complete(resource: Resource[Any], owner: Owner | None, body: Mapping[str, Any]) -> Json:
    """Return `body` as plain JSON with namespace and owner reference.

    Raises:
        ValueError, TypeError: as `ensure` says.
    """
    desired: Json = decode_json(encode(body))
    if not (desired.get("metadata") or {}).get("name"):
        raise ValueError(
            f"a {resource.kind} to ensure needs metadata.name: generateName names none"
        )
    if "status" in desired:
        raise ValueError(
            f"{resource.kind} {desired['metadata']['name']}: the status is no part of what a child"
            " should be; write it with Client.patch_status"
        )
    if resource.full_name == "secrets" and "stringData" in desired:
        texts = desired.pop("stringData") or {}
        encoded = {
            name: base64.b64encode(value.encode()).decode() for name, value in texts.items()
        }
        desired["data"] = {**(desired.get("data") or {}), **encoded}
    if owner is None:
        if resource.namespaced and not _namespace_of(desired):
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
    if resource.namespaced and not owner.kind.namespaced and not _namespace_of(desired):
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


def _namespace_of(desired: Json) -> str:
    return str(desired["metadata"].get("namespace") or "")


def _check_controller(resource: Resource[Any], current: Untyped, owner: Owner) -> None:
    """Raise OwnedByAnother if another object controls the child."""
    meta = owner.object.metadata
    for reference in current.metadata.ownerReferences:
        if reference.controller and reference.uid != meta.uid:
            same = (reference.kind, reference.name) == (owner.kind.kind, meta.name)
            why = (
                f"an earlier {reference.kind} {reference.name}, which was deleted: the garbage"
                " collector deletes the child"
                if same
                else f"{reference.kind} {reference.name}: choose another name for the child"
            )
            raise OwnedByAnother(
                f"{resource.kind} {current.metadata.key} cannot belong to {owner.kind.kind}"
                f" {meta.key}: its controlling owner is {why}"
            )


def _differences(
    desired: Json, current: Untyped, manager: str, version: str
) -> Iterator[_Difference]:
    """Yield the fields in which the object differs from what the manager is to own in it."""
    entries = (current.body["metadata"].get("managedFields")) or ()
    owned = next(
        (
            entry.get("fieldsV1") or {}
            for entry in entries
            if entry.get("manager") == manager
            and entry.get("operation") == "Apply"
            and entry.get("apiVersion") == version
            and not entry.get("subresource")
        ),
        {},
    )
    meta = {name: value for name, value in desired["metadata"].items() if name not in _NAMING}
    content = {
        name: value for name, value in desired.items() if name not in {"apiVersion", "kind"}
    }
    content["metadata"] = meta
    if not meta:
        del content["metadata"]
    yield from _compare_maps(content, current.body, owned, "")


def _compare(
    desired: object, current: object, owned: Mapping[str, Any], path: str
) -> Iterator[_Difference]:
    """Yield the differences below `path`; `owned` is what the manager owns there (FieldsV1).

    An owned field without owned parts is one value. If another manager had changed it, we would
    not own it, so only what we want may have changed.
    """
    parts = [name for name in owned if name != "."]
    if isinstance(desired, dict) and isinstance(current, dict) and (parts or not desired):
        yield from _compare_maps(desired, current, owned, path)
    elif isinstance(desired, list) and isinstance(current, list) and (parts or not desired):
        yield from _compare_lists(desired, current, parts, owned, path)
    elif desired != current:
        yield _Difference(
            _name_unequal(desired, current, path), desired, current, is_owned=not parts
        )


def _name_unequal(desired: object, current: object, path: str) -> tuple[str, ...]:
    """Return the paths of the unequal fields of two maps; of any other two values, their path."""
    if not isinstance(desired, dict) or not isinstance(current, dict):
        return (path,)
    names = [name for name in desired if desired[name] != current.get(name, _ABSENT)]
    return tuple(f"{path}.{name}" for name in names) or (path,)


def _compare_maps(
    desired: Json, current: Mapping[str, Any], owned: Mapping[str, Any], path: str
) -> Iterator[_Difference]:
    for name, value in desired.items():
        inner = f"{path}.{name}" if path else name
        part = owned.get(f"f:{name}")
        stored = current.get(name, _ABSENT)
        if part is None:  # missing, or another manager has written it since
            yield _Difference(_name_unequal(value, stored, inner), value, stored)
        else:
            yield from _compare(value, stored, part, inner)
    for part in owned:
        name = part.removeprefix("f:")
        if part != "." and name not in desired:
            yield _Difference((f"{path}.{name}" if path else name,))


def _compare_lists(
    desired: list[Any], current: list[Any], parts: list[str], owned: Mapping[str, Any], path: str
) -> Iterator[_Difference]:
    """Compare a list that is a set or a map, whose owned entries `parts` names."""
    unmatched = {part: decode_json(part[2:].encode()) for part in parts}
    for item in desired:
        part = next((part for part, keys in unmatched.items() if _matches(part, keys, item)), None)
        if part is None:
            yield _Difference((f"{path}[{_label(item)}]",))
            continue
        keys = unmatched.pop(part)
        present = next((entry for entry in current if _matches(part, keys, entry)), _ABSENT)
        yield from _compare(item, present, owned[part], f"{path}[{part[2:]}]")
    for part in unmatched:
        yield _Difference((f"{path}[{part[2:]}]",))


def _matches(part: str, keys: Any, item: Any) -> bool:
    """Return whether an entry of a list is the one that a path element names.

    A key field that the entry leaves out has the schema's default, as `protocol` of a port has.
    """
    if part.startswith("v:"):
        return bool(item == keys)
    return isinstance(item, dict) and all(
        item.get(name, value) == value for name, value in keys.items()
    )


def _label(item: object) -> str:
    """Return a short text that tells entries of a list apart."""
    name = item.get("name") if isinstance(item, dict) else item
    return str(name) if name is not None else msgspec.json.encode(item).decode()[:60]
