"""Taking fields out of an object, and finding out which named fields a set of paths implies."""

from typing import Any

from envtest.patching.elements import SELF
from envtest.patching.fieldset import Fields, contains
from envtest.patching.model import ListNode, MapNode, Node, item_element


def remove(node: Node, value: dict[str, Any], fields: Fields) -> dict[str, Any]:
    """Return the object without the given fields; what loses nothing is shared, not copied."""
    if not fields or not value:
        return value
    left: dict[str, Any] | None = _remove(node, value, fields)
    return left or {}


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
    left = {}
    for name, inner in value.items():
        below = fields.get("f:" + name)
        if below is None:
            left[name] = inner
        elif not contains(below):
            left[name] = _remove(atom.child(name), inner, below)
    return left


def _from_items(atom: ListNode, value: list[Any], fields: Fields) -> list[Any]:
    """Take items, and fields in items, out of a list."""
    left = []
    for item in value:
        below = fields.get(item_element(atom, item))
        if below is None:
            left.append(item)
        elif not contains(below):
            left.append(_remove(atom.item, item, below))
    return left


def with_named(node: Node, fields: Fields) -> Fields:
    """Return the set with the named fields on the way to its paths.

    A struct is there because one of its fields is, so its name counts as owned by whoever owns
    one of them; the keys of free maps do not.
    """
    out: Fields = {}
    for element, below in fields.items():
        if not below:
            out[element] = below
            continue
        child, named = _step(node, element)
        inner = with_named(child, below) if child is not None else below
        out[element] = {SELF: {}, **inner} if named else inner
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
