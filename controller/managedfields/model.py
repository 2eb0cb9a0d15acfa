"""The model of a type for field ownership: which values are owned as a whole, which in parts.

A node says what a value may be: a scalar, a list, a map, or several of these. The one among them
that describes a given value is its atom. Lists and maps are either atomic (one owner for the
whole) or not (each item or member has owners of its own). A node is granular if nothing at or
below it is owned as a whole; other nodes are coarse.
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


# The Python types of JSON scalars except null: their values are leaves, whatever the schema says.
FLAT = frozenset({str, int, float, bool})


@dataclass(slots=True)
class MapNode:
    """An object: named fields, and the node of all other members (None: none are allowed).

    Attributes:
        coarse: a cache for `_list_coarse_elements`: the path elements and atoms of the coarse
            named fields. None before its first call, and if `other` is coarse.
    """

    fields: "dict[str, Node]" = field(default_factory=dict)
    other: "Node | None" = None
    atomic: bool = False
    defaults: dict[str, Any] = field(default_factory=dict)
    coarse: "tuple[tuple[str, MapNode | ListNode], ...] | None" = None

    def get_child(self, name: str) -> "Node":
        """Return the node of a member; UNKNOWN if the schema does not declare the member."""
        return self.fields.get(name) or self.other or UNKNOWN


@dataclass(slots=True)
class ListNode:
    """A list: atomic, a set of scalars (no keys), or items identified by their key fields."""

    item: "Node"
    atomic: bool = True
    keys: tuple[str, ...] = ()


@dataclass(slots=True)
class Node:
    """What a value may be.

    Attributes:
        scalar, items, members: the kinds of values that may stand here.
        strict: no untyped scalar can be anywhere below, so equal values are of equal types.
        granular: nothing at or below the node is owned as a whole. So older sets of owned fields
            fit the node as they are, and `reconcile` need not visit it.
    """

    scalar: Scalar | None = None
    items: ListNode | None = None
    members: MapNode | None = None
    strict: bool = False
    granular: bool = False

    def choose_atom(self, value: Any) -> "MapNode | ListNode | Scalar":
        """Return the atom that describes a value.

        For null, and for a value of a type that the node does not allow, return the first of map,
        scalar and list that the node allows.
        """
        if isinstance(value, dict):
            if self.members is not None:
                return self.members
        elif isinstance(value, list):
            if self.items is not None:
                return self.items
        elif value is not None and self.scalar is not None:
            return self.scalar
        return self.members or self.scalar or self.items or Scalar.UNTYPED


def create_untyped_atomic_node() -> Node:
    """Return the node for untyped values in an atomic field: maps and lists are atomic."""
    node = Node(scalar=Scalar.UNTYPED)
    node.items = ListNode(node)
    node.members = MapNode(other=node, atomic=True)
    return node


def create_untyped_node() -> Node:
    """Return the node for values without a schema: maps merge by key, lists are atomic."""
    node = Node(scalar=Scalar.UNTYPED, items=ListNode(UNKNOWN_ATOMIC))
    node.members = MapNode(other=node)
    return node


UNKNOWN_ATOMIC = create_untyped_atomic_node()
UNKNOWN = create_untyped_node()


def compute_item_element(items: ListNode, item: Any) -> str:
    """Return the path element of an item in a list that is not atomic.

    Raises:
        TypeMismatchError: the item cannot be in such a list; the text is the server's.
    """
    if not items.keys:
        return _compute_set_element(item)
    if len(items.keys) == 1 and isinstance(item, dict):
        value = item.get(items.keys[0])
        if isinstance(value, str):  # most items have one text as key: its path element is cached
            return fieldset.encode_text_key(items.keys[0], value)
    return fieldset.encode_key(_read_key_fields(items, item))


def _read_key_fields(items: ListNode, item: Any) -> dict[str, Any]:
    """Return the key fields that identify an item, with defaults from the schema.

    Raises:
        TypeMismatchError: the item has no key field or is not an object; the message is the real
            server's.
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


def _compute_set_element(item: Any) -> str:
    """Return the path element of an item of a list that is a set.

    Raises:
        TypeMismatchError: the item is not a scalar; the message is the real server's.
    """
    if isinstance(item, dict):
        raise TypeMismatchError("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise TypeMismatchError("not supported: associative list with lists as elements")
    if item is None:
        raise TypeMismatchError(
            "associative list without keys has an element that's an explicit null"
        )
    return fieldset.encode_value(item)


def reconcile(node: Node, fields: Fields) -> Fields:
    """Return a set of owned fields adapted to this model, which may be newer than the set.

    If a list or map became atomic, an owner of fields below it now owns the whole list or map.
    Return `fields` itself if nothing changes.
    """
    # There is no value to choose the atom by: the first is taken, as in the real server.
    atom = node.members or node.scalar or node.items
    return reconcile_below(atom, fields) if isinstance(atom, MapNode | ListNode) else fields


def reconcile_below(atom: MapNode | ListNode, fields: Fields) -> Fields:
    """Return the owned fields below an object or a list, adapted as in `reconcile`.

    A subtree below an atomic child becomes {}: the child is owned as a whole. Return `fields`
    itself if nothing changes.
    """
    changed_fields: Fields | None = None
    cached = atom.coarse if isinstance(atom, MapNode) else None
    for element, child in _list_coarse_elements(atom, fields) if cached is None else cached:
        below = fields.get(element)
        if below:  # not if nothing is owned there, or if the child itself is the owned field
            inner = {} if child.atomic else reconcile_below(child, below)
            if inner is not below:
                changed_fields = dict(fields) if changed_fields is None else changed_fields
                changed_fields[element] = inner
    return fields if changed_fields is None else changed_fields


def _list_coarse_elements(
    atom: MapNode | ListNode, fields: Fields
) -> Collection[tuple[str, MapNode | ListNode]]:
    """Return the path elements of the coarse members or items, each with its map or list.

    Most types have few coarse members or none. If the schema names all coarse members of an
    object, the result does not depend on `fields` and is cached in `atom.coarse`. Such a result
    may have path elements that are not in `fields`.
    """
    if isinstance(atom, ListNode):
        item = _get_coarse_atom(atom.item)
        return [(element, item) for element in fields] if item else ()
    if _get_coarse_atom(atom.other):
        # Any name may occur, so only the elements in `fields` can be listed.
        members = [
            (element, _get_coarse_atom(_get_member_node(atom, element))) for element in fields
        ]
        return [(element, child) for element, child in members if child]
    by_name = [("f:" + name, _get_coarse_atom(child)) for name, child in atom.fields.items()]
    atom.coarse = tuple((element, child) for element, child in by_name if child)
    return atom.coarse


def _get_coarse_atom(node: Node | None) -> MapNode | ListNode | None:
    """Return the map or list of a coarse node; None if the node is granular or a scalar."""
    if node is None or node.granular:
        return None
    atom = node.members or node.scalar or node.items  # chosen as in `reconcile`
    if isinstance(atom, MapNode):
        # Without a schema for the members, no change of the schema can have made one atomic.
        return None if _is_free_form(atom) else atom
    return atom if isinstance(atom, ListNode) else None


def _get_member_node(atom: MapNode, element: str) -> Node | None:
    """Return the node of a member, named or not; None if the object may not have the member.

    Args:
        atom: the node of the object.
        element: the path element of the member, `f:` and its name.
    """
    field = atom.fields.get(element[2:]) if element[0] == "f" else None
    return field or atom.other


def _is_free_form(atom: MapNode) -> bool:
    """Return whether the schema declares no type for the members of an object."""
    other = atom.other
    # The members of UNKNOWN_ATOMIC have no type either, but they are owned as a whole.
    if atom.fields or other is None or other is UNKNOWN_ATOMIC:
        return False
    return other.scalar is Scalar.UNTYPED
