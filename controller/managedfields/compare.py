"""Which fields differ between two states of an object, and which fields a state consists of.

A node (model.py) says which kinds of values a field may have: a map, a list, a scalar, or several
of these. The atom is the one kind among them that describes a given value. A leaf is a value that
is owned as a whole: a scalar, an atomic map or an atomic list. A changed leaf is entered as {},
the empty subtree of its path element.
"""

from dataclasses import dataclass, field
from typing import Any

from controller.managedfields import fieldset
from controller.managedfields.errors import ModelError, TypeMismatchError
from controller.managedfields.fieldset import SELF, Fields
from controller.managedfields.model import FLAT, ListNode, MapNode, Node, compute_item_element


@dataclass(slots=True)
class Comparison:
    """What a write did: fields that it removed, modified and added."""

    removed: Fields = field(default_factory=dict)
    modified: Fields = field(default_factory=dict)
    added: Fields = field(default_factory=dict)

    def put(self, element: str, inner: "Comparison") -> None:
        """Add the differences `inner`, found below an element, to this comparison."""
        if inner.removed:
            self.removed[element] = inner.removed
        if inner.modified:
            self.modified[element] = inner.modified
        if inner.added:
            self.added[element] = inner.added

    def join(self, other: "Comparison") -> None:
        """Add the result of another comparison of the same two values to this comparison."""
        self.removed = fieldset.union(self.removed, other.removed)
        self.modified = fieldset.union(self.modified, other.modified)
        self.added = fieldset.union(self.added, other.added)

    def drop_ignored(self, ignored: Fields) -> None:
        """Drop the differences at or below the ignored fields, in place."""
        if ignored:
            self.removed = fieldset.subtract_trees(self.removed, ignored)
            self.modified = fieldset.subtract_trees(self.modified, ignored)
            self.added = fieldset.subtract_trees(self.added, ignored)

    def list_written(self) -> Fields:
        """Return the fields that have a new value: modified and added ones."""
        return fieldset.union(self.modified, self.added)


# The results of `_compare` for leaves, told apart by identity; both stay empty.
_UNCHANGED_LEAF = Comparison()
_CHANGED_LEAF = Comparison()
# Stands for a member that an object does not have; null is a value.
_ABSENT = object()


def compare_objects(node: Node, old: dict[str, Any], new: dict[str, Any]) -> Comparison:
    """Return the fields that differ between two versions of an object.

    Args:
        node: the schema of the object.
        old: the version before a write.
        new: the version after that write.

    Raises:
        ModelError: an item of a set or keyed list has no path element.
    """
    comparison = _compare(node.choose_atom(new), old, new)
    # Nobody owns the root. So if it changed as a whole, no owned field has changed.
    return Comparison() if comparison is _CHANGED_LEAF else comparison


def _add_differences(
    result: Comparison,
    element: str,
    node: Node,
    old: Any,
    new: Any,
) -> None:
    """Compare two values below an element and add their differences to `result`."""
    # Python's == holds 1 and True for equal. A strict node has no untyped scalar, so two equal
    # values have equal types there, and the cheap comparison suffices.
    if node.strict and old == new:
        return
    old_atom = node.choose_atom(old)
    new_atom = old_atom if type(old) is type(new) else node.choose_atom(new)
    comparison = _compare(old_atom, old, new)
    if old_atom is not new_atom:
        # The value became another kind, for example a map became a list. Each atom finds the
        # parts of its own kind: the old atom the removed parts, the new atom the added parts.
        comparison_by_new_atom = _compare(new_atom, old, new)
        if comparison is _CHANGED_LEAF or comparison_by_new_atom is _CHANGED_LEAF:
            result.modified[element] = {}
        parts = Comparison()
        parts.join(comparison)
        parts.join(comparison_by_new_atom)
        result.put(element, parts)
    elif comparison is _CHANGED_LEAF:
        result.modified[element] = {}
    elif comparison is not _UNCHANGED_LEAF:
        result.put(element, comparison)


def _compare(atom: object, old: Any, new: Any) -> Comparison:
    """Return the differences of two values, read as the kind of value that `atom` describes.

    Return `_CHANGED_LEAF` for a leaf that changed, and `_UNCHANGED_LEAF` for a leaf that did not.
    A value of another kind than `atom` counts as empty.
    """
    if isinstance(atom, MapNode) and not atom.atomic:
        old_members = old if isinstance(old, dict) else {}
        new_members = new if isinstance(new, dict) else {}
        if old_members or new_members:
            return _compare_members(atom, old_members, new_members)
    elif isinstance(atom, ListNode) and not atom.atomic:
        old_items = old if isinstance(old, list) else []
        new_items = new if isinstance(new, list) else []
        if old_items or new_items:
            return _compare_items(atom, old_items, new_items)
    # A scalar, an atomic container, or two containers without content (null against {}).
    return _UNCHANGED_LEAF if are_equal(old, new) else _CHANGED_LEAF


def _compare_members(atom: MapNode, old: dict[str, Any], new: dict[str, Any]) -> Comparison:
    """Compare two objects member by member."""
    result = Comparison()
    removed_count = 0
    for name, old_value in old.items():
        new_value = new.get(name, _ABSENT)
        if new_value is old_value:
            continue  # writes share unchanged parts with the live object: equal without comparing
        if new_value is _ABSENT:
            result.removed["f:" + name] = list_all_fields(atom.get_child(name), old_value)
            removed_count += 1
        elif type(old_value) in FLAT and type(new_value) is type(old_value):
            # The usual leaf. Scalars of one type compare the same whatever the schema says.
            if old_value != new_value:
                result.modified["f:" + name] = {}
        else:
            _add_differences(
                result, "f:" + name, node=atom.get_child(name), old=old_value, new=new_value
            )
    # The members of `old` that were not removed are in `new`. A larger `new` has added members.
    if len(new) > len(old) - removed_count:
        for name, new_value in new.items():
            if name not in old:
                result.added["f:" + name] = list_all_fields(atom.get_child(name), new_value)
    return result


def _compare_items(atom: ListNode, old: list[Any], new: list[Any]) -> Comparison:
    """Compare two lists item by item, whatever their order.

    Items that occur several times share a path element, so they are compared and owned together,
    as one leaf. An element that changes between one and several items is removed and added.
    """
    old_by_element, new_by_element = group_by_element(atom, old), group_by_element(atom, new)
    result = Comparison()
    for element, old_items in old_by_element.items():
        new_items = new_by_element.get(element, [])
        if len(old_items) == 1 and len(new_items) == 1:
            _add_differences(result, element, node=atom.item, old=old_items[0], new=new_items[0])
        elif len(old_items) > 1 and len(new_items) > 1:
            if not are_equal(old_items, new_items):
                result.modified[element] = {}
        elif len(old_items) > 1:
            result.removed[element] = {}
            if new_items:
                result.added[element] = list_all_fields(atom.item, new_items[0])
        else:
            result.removed[element] = list_all_fields(atom.item, old_items[0])
            if new_items:
                result.added[element] = {}
    for element, new_items in new_by_element.items():
        if element not in old_by_element:
            is_single = len(new_items) == 1
            result.added[element] = list_all_fields(atom.item, new_items[0]) if is_single else {}
    return result


def group_by_element(atom: ListNode, items: list[Any]) -> dict[str, list[Any]]:
    """Group the items of a list by their path elements.

    Raises:
        ModelError: an item has no path element.
    """
    elements: dict[str, list[Any]] = {}
    for index, item in enumerate(items):
        try:
            element = compute_item_element(atom, item)
        except TypeMismatchError as error:
            raise ModelError([f"element {index}: {error}"]) from None
        elements.setdefault(element, []).append(item)
    return elements


def list_all_fields(node: Node, value: Any) -> Fields:
    """Return all fields of a value that was added or removed as a whole, containers included.

    Return {} for a leaf or an empty container.
    """
    atom = node.choose_atom(value)
    if isinstance(atom, MapNode):
        if not atom.atomic and value and isinstance(value, dict):
            out: Fields = {SELF: {}}
            for name, inner in value.items():
                is_leaf = type(inner) in FLAT
                out["f:" + name] = {} if is_leaf else list_all_fields(atom.get_child(name), inner)
            return out
    elif isinstance(atom, ListNode) and not atom.atomic and value and isinstance(value, list):
        out = {SELF: {}}
        for element, items in group_by_element(atom, value).items():
            out[element] = list_all_fields(atom.item, items[0]) if len(items) == 1 else {}
        return out
    return {}


def list_claims(node: Node, value: Any) -> Fields:
    """Return the fields that the applier of an object claims to own.

    `list_all_fields` includes each container. Here a container is claimed only if its own
    existence matters: an item of a list, a member that the schema does not name, an empty object,
    or null.
    """
    return _list_claimed_fields(node, value) or {}


def _list_claimed_fields(node: Node, value: Any) -> Fields | None:
    """Return the fields that the applier owns at a value and below it, a subtree of fieldsV1.

    It is {} if the value is owned as a whole, and None if the value is a container with nothing
    in it to own.
    """
    atom = node.choose_atom(value)
    if isinstance(atom, MapNode):
        return {} if atom.atomic else _list_claimed_members(atom, value)
    if isinstance(atom, ListNode):
        return {} if atom.atomic else _list_claimed_items(atom, value)
    return {}


def _list_claimed_members(atom: MapNode, value: Any) -> Fields | None:
    """Return the applier's fields of an object whose members have owners of their own.

    None if it has no such field.
    """
    out: Fields = {}
    for name, inner in value.items() if isinstance(value, dict) else ():
        claimed = _list_claimed_fields(atom.get_child(name), inner)
        if inner is None or inner == {} or name not in atom.fields:
            # The member itself is claimed: it is empty, or its name is data of a free-form map.
            claimed = {SELF: {}, **claimed} if claimed else {}
        if claimed is not None:
            out["f:" + name] = claimed
    return out or None


def _list_claimed_items(atom: ListNode, value: Any) -> Fields | None:
    """Return the applier's fields of a list whose items have owners of their own.

    None if it has no such field.
    """
    out: Fields = {}
    for element, items in group_by_element(atom, value if isinstance(value, list) else []).items():
        # Items that occur several times are owned together, as a whole.
        claimed = _list_claimed_fields(atom.item, items[0]) if len(items) == 1 else None
        out[element] = {SELF: {}, **claimed} if claimed else {}
    return out or None


def are_equal(first: Any, second: Any) -> bool:
    """Return whether two JSON values are the same: 1 equals 1.0, but true does not equal 1.

    Python's `==` treats True as 1. So a second step compares at which places the booleans are.
    """
    return bool(first == second) and _have_same_booleans(first, second)


def _have_same_booleans(first: Any, second: Any) -> bool:
    """Return whether two values that are equal in Python have booleans in the same places."""
    if isinstance(first, dict):
        return all(_have_same_booleans(value, second[name]) for name, value in first.items())
    if isinstance(first, list):
        return all(map(_have_same_booleans, first, second))
    return isinstance(first, bool) == isinstance(second, bool)
