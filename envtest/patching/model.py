"""What ownership of fields needs to know of a type: where one value ends and the next begins.

A node says what a value may be: a scalar, a list, a map, or several of these. Lists and maps are
either atomic (one owner for the whole) or not (each item or member has owners of its own).
"""

import enum
from dataclasses import dataclass, field
from typing import Any

from envtest.patching import elements
from envtest.patching.errors import MisfitError
from envtest.schema import gotext


class Scalar(enum.Enum):
    """The kinds of scalars that are told apart."""

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
            made it so since somebody came to own a part.
    """

    scalar: Scalar | None = None
    items: ListNode | None = None
    members: MapNode | None = None
    strict: bool = False
    granular: bool = False

    def atom_for(self, value: Any) -> "MapNode | ListNode | Scalar":
        """Return what to treat a value as; null, and what fits nothing, as the first there is."""
        if isinstance(value, dict):
            if self.members is not None:
                return self.members
        elif isinstance(value, list):
            if self.items is not None:
                return self.items
        elif value is not None and self.scalar is not None:
            return self.scalar
        return self.members or self.scalar or self.items or Scalar.UNTYPED


def anything_atomic() -> Node:
    """Return the node of values that nothing is known of inside an atomic one."""
    node = Node(scalar=Scalar.UNTYPED)
    node.items = ListNode(node)
    node.members = MapNode(other=node, atomic=True)
    return node


def anything() -> Node:
    """Return the node of values that nothing is known of: maps by member, lists as a whole."""
    node = Node(scalar=Scalar.UNTYPED, items=ListNode(UNKNOWN_ATOMIC))
    node.members = MapNode(other=node)
    return node


UNKNOWN_ATOMIC = anything_atomic()
UNKNOWN = anything()


def item_element(items: ListNode, item: Any) -> str:
    """Return the path element of an item in a list that is not atomic.

    Raises:
        MisfitError: the item cannot be in such a list; the text is the server's.
    """
    if not items.keys:
        return _member_element(item)
    if len(items.keys) == 1 and isinstance(item, dict):
        value = item.get(items.keys[0])
        if isinstance(value, str):  # the usual item
            return elements.of_text_key(items.keys[0], value)
    return elements.of_key(_keys(items, item))


def _keys(items: ListNode, item: Any) -> dict[str, Any]:
    """Return the key fields by which an item is known.

    Raises:
        MisfitError: it has none; the text is the server's.
    """
    if item is None:
        raise MisfitError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise MisfitError("associative list with keys may not have non-map elements")
    keys: dict[str, Any] = {}
    members = items.item.members
    for name in items.keys:
        if name in item:
            keys[name] = item[name]
        elif members is None:
            raise MisfitError(
                f"couldn't find default value for {name}: "
                "associative list may not have non-map types"
            )
        elif members.defaults.get(name) is not None:
            keys[name] = members.defaults[name]
    if not keys:
        names = " ".join(gotext.quote(name) for name in items.keys)
        raise MisfitError(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return keys


def _member_element(item: Any) -> str:
    """Return the path element of a member of a set."""
    if isinstance(item, dict):
        raise MisfitError("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise MisfitError("not supported: associative list with lists as elements")
    if item is None:
        raise MisfitError("associative list without keys has an element that's an explicit null")
    return elements.of_value(item)
