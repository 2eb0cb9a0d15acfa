"""What ownership of fields needs to know of a type: where one value ends and the next begins.

A node says what a value may be: a scalar, a list, a map, or several of these. Lists and maps are
either atomic (one owner for the whole) or not (each item or member has owners of its own).
"""

import enum
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from controller.managedfields import fieldset, gotext
from controller.managedfields.errors import TypeMismatchError
from controller.managedfields.fieldset import Fields


class Scalar(enum.Enum):
    """The kinds of scalars that are distinguished."""

    NUMERIC = "numeric"
    STRING = "string"
    BOOLEAN = "boolean"
    UNTYPED = "untyped"


# What is no container, null aside: such a value is a leaf, whatever the schema says.
FLAT = frozenset({str, int, float, bool})


@dataclass(slots=True)
class MapNode:
    """An object: named fields, and what any other member is (None: there may be no other).

    Attributes:
        coarse: the path elements of the named fields that are not granular, with what they are,
            if no other member matters; None until ownership is first brought in line with them.
    """

    fields: "dict[str, Node]" = field(default_factory=dict)
    other: "Node | None" = None
    atomic: bool = False
    defaults: dict[str, Any] = field(default_factory=dict)
    coarse: "tuple[tuple[str, MapNode | ListNode], ...] | None" = None

    def child(self, name: str) -> "Node":
        """Return the node of a member; one that the schema does not know is as if it had none."""
        return self.fields.get(name) or self.other or UNKNOWN


@dataclass(slots=True)
class ListNode:
    """A list: atomic, or a set of scalars, or items known by the values of key fields."""

    item: "Node"
    atomic: bool = True
    keys: tuple[str, ...] = ()


@dataclass(slots=True)
class Node:
    """What a value may be.

    Attributes:
        scalar, items, members: the kinds of values that may stand here.
        strict: no untyped scalar can be anywhere below, so equal values are of equal types.
        granular: nothing at or below it is owned as a whole, so no change of the schema can have
            made it so after a manager came to own a part.
    """

    scalar: Scalar | None = None
    items: ListNode | None = None
    members: MapNode | None = None
    strict: bool = False
    granular: bool = False

    def atom_for(self, value: Any) -> "MapNode | ListNode | Scalar":
        """Return the atom for a value: the first for null and for a value that fits none."""
        if isinstance(value, dict):
            if self.members is not None:
                return self.members
        elif isinstance(value, list):
            if self.items is not None:
                return self.items
        elif value is not None and self.scalar is not None:
            return self.scalar
        return self.members or self.scalar or self.items or Scalar.UNTYPED


def untyped_atomic_node() -> Node:
    """Return the node for untyped values in an atomic field: maps and lists are atomic."""
    node = Node(scalar=Scalar.UNTYPED)
    node.items = ListNode(node)
    node.members = MapNode(other=node, atomic=True)
    return node


def untyped_node() -> Node:
    """Return the node for values without a schema: maps merge by key, lists are atomic."""
    node = Node(scalar=Scalar.UNTYPED, items=ListNode(UNKNOWN_ATOMIC))
    node.members = MapNode(other=node)
    return node


UNKNOWN_ATOMIC = untyped_atomic_node()
UNKNOWN = untyped_node()


def item_element(items: ListNode, item: Any) -> str:
    """Return the path element of an item in a list that is not atomic.

    Raises:
        TypeMismatchError: the item cannot be in such a list; the text is the server's.
    """
    if not items.keys:
        return _member_element(item)
    if len(items.keys) == 1 and isinstance(item, dict):
        value = item.get(items.keys[0])
        if isinstance(value, str):  # the usual item
            return fieldset.of_text_key(items.keys[0], value)
    return fieldset.of_key(_keys(items, item))


def _keys(items: ListNode, item: Any) -> dict[str, Any]:
    """Return the key fields by which an item is known.

    Raises:
        TypeMismatchError: it has none; the text is the server's.
    """
    if item is None:
        raise TypeMismatchError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise TypeMismatchError("associative list with keys may not have non-map elements")
    keys: dict[str, Any] = {}
    members = items.item.members
    for name in items.keys:
        if name in item:
            keys[name] = item[name]
        elif members is None:
            raise TypeMismatchError(
                f"couldn't find default value for {name}: "
                "associative list may not have non-map types"
            )
        elif members.defaults.get(name) is not None:
            keys[name] = members.defaults[name]
    if not keys:
        names = " ".join(gotext.quote(name) for name in items.keys)
        raise TypeMismatchError(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return keys


def _member_element(item: Any) -> str:
    """Return the path element of a member of a set."""
    if isinstance(item, dict):
        raise TypeMismatchError("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise TypeMismatchError("not supported: associative list with lists as elements")
    if item is None:
        raise TypeMismatchError(
            "associative list without keys has an element that's an explicit null"
        )
    return fieldset.of_value(item)


def reconcile(node: Node, fields: Fields) -> Fields:
    """Return a set of owned fields for this model, which may be newer than the set.

    Fields below a list or map that became atomic are owned with the whole list or map.

    Returns:
        The very same set if nothing has to change.
    """
    atom = node.members or node.scalar or node.items
    return in_line(atom, fields) if isinstance(atom, MapNode | ListNode) else fields


def in_line(atom: MapNode | ListNode, fields: Fields) -> Fields:
    """Do the same below an object or a list."""
    changed: Fields | None = None
    known = atom.coarse if isinstance(atom, MapNode) else None
    for element, child in _coarse_elements(atom, fields) if known is None else known:
        below = fields.get(element)
        if below:
            inner = {} if child.atomic else in_line(child, below)
            if inner is not below:
                changed = dict(fields) if changed is None else changed
                changed[element] = inner
    return fields if changed is None else changed


def _coarse_elements(
    atom: MapNode | ListNode, fields: Fields
) -> Collection[tuple[str, MapNode | ListNode]]:
    """Return the elements that may be owned as a whole now, or below which something may be.

    They are few or none in most types, and known once and for all where only members with a name
    matter; some of those may not be in the set.
    """
    if isinstance(atom, ListNode):
        item = _coarse(atom.item)
        return [(element, item) for element in fields] if item else ()
    if _coarse(atom.other):
        members = [(element, _coarse(_member(atom, element))) for element in fields]
        return [(element, child) for element, child in members if child]
    by_name = [("f:" + name, _coarse(child)) for name, child in atom.fields.items()]
    atom.coarse = tuple((element, child) for element, child in by_name if child)
    return atom.coarse


def _coarse(node: Node | None) -> MapNode | ListNode | None:
    """Return the fields of a node that may be owned as a whole, or have such a field below."""
    if node is None or node.granular:
        return None
    atom = node.members or node.scalar or node.items
    if isinstance(atom, MapNode):
        return None if _is_free_form(atom) else atom
    return atom if isinstance(atom, ListNode) else None


def _member(atom: MapNode, element: str) -> Node | None:
    """Return the node of a member, None if the schema does not know it."""
    field = atom.fields.get(element[2:]) if element[0] == "f" else None
    return field or atom.other


def _is_free_form(atom: MapNode) -> bool:
    """Return whether the schema says nothing about the members of an object."""
    other = atom.other
    if atom.fields or other is None or other is UNKNOWN_ATOMIC:
        return False
    return other.scalar is Scalar.UNTYPED
