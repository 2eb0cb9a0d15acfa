"""Taking out of a merged object what its applier does not apply any more.

A field goes if the applier applied it last time, does not now, and has no other owner.
"""

from typing import Any

from controller.managedfields import fieldset
from controller.managedfields.compare import list_claims
from controller.managedfields.entries import Managed, Owned
from controller.managedfields.fieldset import SELF, Fields, is_member
from controller.managedfields.model import ListNode, MapNode, Node, item_element
from controller.managedfields.tracking import TrackedWrite


def remove(node: Node, value: dict[str, Any], fields: Fields) -> dict[str, Any]:
    """Return the object without the given fields; what loses nothing is shared, not copied."""
    if not fields or not value:
        return value
    remainder: dict[str, Any] | None = _remove(node, value, fields)
    return remainder or {}


def _remove(node: Node, value: Any, fields: Fields) -> Any:
    """Take fields below a value out of it; a container that is emptied stays, empty."""
    atom = node.atom_for(value)
    if isinstance(atom, MapNode):
        if not isinstance(value, dict):
            return None
        return {} if atom.atomic else _from_members(atom, value, fields)
    if isinstance(atom, ListNode):
        if not isinstance(value, list):
            return None
        return [] if atom.atomic else _from_items(atom, value, fields)
    return value


def _from_members(atom: MapNode, value: dict[str, Any], fields: Fields) -> dict[str, Any]:
    """Take members, and fields in members, out of an object."""
    remainder = {}
    for name, inner in value.items():
        below = fields.get("f:" + name)
        if below is None:
            remainder[name] = inner
        elif not is_member(below):
            remainder[name] = _remove(atom.child(name), inner, below)
    return remainder


def _from_items(atom: ListNode, value: list[Any], fields: Fields) -> list[Any]:
    """Take items, and fields in items, out of a list."""
    remainder = []
    for item in value:
        below = fields.get(item_element(atom, item))
        if below is None:
            remainder.append(item)
        elif not is_member(below):
            remainder.append(_remove(atom.item, item, below))
    return remainder


def with_named(node: Node, fields: Fields) -> Fields:
    """Return the set with the named fields on the way to its paths.

    A struct is there because one of its fields is, so its name counts as owned by each owner
    of one of them; the keys of free maps do not.
    """
    out: Fields = {}
    for element, below in fields.items():
        if not below:
            out[element] = below
            continue
        child, is_named = _step(node, element)
        inner = with_named(child, below) if child is not None else below
        out[element] = {SELF: {}, **inner} if is_named else inner
    return out


def _step(node: Node, element: str) -> tuple[Node | None, bool]:
    """Return the node that a path element leads to, and whether it is a named field."""
    kind = element[0]
    if kind == "f" and node.members is not None:
        name = element[2:]
        return node.members.fields.get(name) or node.members.other, name in node.members.fields
    if kind == "k" and node.items is not None:
        return node.items.item, False
    return None, False


def prune(
    write: TrackedWrite, merged: dict[str, Any], managed: Managed, last: Owned
) -> dict[str, Any]:
    """Return the merged object without what the applier has dropped.

    Args:
        write: the request and the versions of the type.
        merged: the live object with the applied one merged in.
        managed: who owns what, the applier with the new claims.
        last: what the applier owned before.
    """
    model = write.model_of(last.api_version)
    if model is None:
        return merged
    root = model.root
    whole = write.convert(merged, last.api_version)
    pruned = remove(root, whole, with_named(root, last.fields))
    pruned = _with_owned(write, whole, pruned=pruned, managed=managed, first=last.api_version)
    pruned = write.convert(pruned, last.api_version)
    removed = fieldset.difference(_list_named(root, whole), _list_named(root, pruned))
    dropped = fieldset.intersection(removed, with_named(root, last.fields))
    return write.convert(remove(root, whole, dropped), write.api_version)


def _with_owned(
    write: TrackedWrite,
    whole: dict[str, Any],
    pruned: dict[str, Any],
    managed: Managed,
    first: str,
) -> dict[str, Any]:
    """Return the pruned object with the fields of other managers put back, version by version.

    The version that was pruned in comes first, as conversion to others may need what it brings.
    """
    owned: dict[str, Fields] = {first: {}}
    for entry in managed.values():
        owned[entry.api_version] = fieldset.union(owned.get(entry.api_version, {}), entry.fields)
    for version, fields in owned.items():
        model = write.model_of(version)
        if model is None or not fields:
            continue
        root = model.root
        whole, pruned = write.convert(whole, version), write.convert(pruned, version)
        kept = fieldset.union(_list_named(root, pruned), with_named(root, fields))
        pruned = remove(root, whole, fieldset.difference(_list_named(root, whole), kept))
    return pruned


def _list_named(root: Node, obj: dict[str, Any]) -> Fields:
    """Return the fields of an object with all named ones on the way to them."""
    return with_named(root, list_claims(root, obj))
