"""Which fields differ between two states of an object, and which fields a state consists of."""

from dataclasses import dataclass, field
from typing import Any

from controller.managedfields import fieldset
from controller.managedfields.errors import ModelError, TypeMismatchError
from controller.managedfields.fieldset import SELF, Fields
from controller.managedfields.model import FLAT, ListNode, MapNode, Node, item_element


@dataclass(slots=True)
class Comparison:
    """What a write did: fields that went, fields with another value, fields that came."""

    removed: Fields = field(default_factory=dict)
    modified: Fields = field(default_factory=dict)
    added: Fields = field(default_factory=dict)

    def put(self, element: str, inner: "Comparison") -> None:
        """Enter what differs below an element, if anything does."""
        if inner.removed:
            self.removed[element] = inner.removed
        if inner.modified:
            self.modified[element] = inner.modified
        if inner.added:
            self.added[element] = inner.added

    def join(self, other: "Comparison") -> None:
        """Merge the result of another comparison of the same two values."""
        self.removed = fieldset.union(self.removed, other.removed)
        self.modified = fieldset.union(self.modified, other.modified)
        self.added = fieldset.union(self.added, other.added)

    def without(self, ignored: Fields) -> None:
        """Drop differences within fields that do not count."""
        if ignored:
            self.removed = fieldset.without_trees(self.removed, ignored)
            self.modified = fieldset.without_trees(self.modified, ignored)
            self.added = fieldset.without_trees(self.added, ignored)

    def list_written(self) -> Fields:
        """Return the fields that have a new value."""
        return fieldset.union(self.modified, self.added)


_UNCHANGED = Comparison()
_ABSENT = object()


def compare(node: Node, old: dict[str, Any], new: dict[str, Any]) -> Comparison:
    """Compare two objects of a type.

    Raises:
        ModelError: a list cannot be taken apart into items.
    """
    return _compare(node.atom_for(new), old, new) or Comparison()


def _enter(
    result: Comparison,
    element: str,
    node: Node,
    old: Any,
    new: Any,
) -> None:
    """Compare two values below an element and enter what differs."""
    if node.strict and old == new:
        return
    was = node.atom_for(old)
    now = was if type(old) is type(new) else node.atom_for(new)
    comparison = _compare(was, old, new)
    if was is not now:
        other = _compare(now, old, new)
        if comparison is None or other is None:
            result.modified[element] = {}
        both = Comparison()
        for item in (comparison, other):
            if item is not None:
                both.join(item)
        result.put(element, both)
    elif comparison is None:
        result.modified[element] = {}
    elif comparison is not _UNCHANGED:
        result.put(element, comparison)


def _compare(atom: object, old: Any, new: Any) -> Comparison | None:
    """Compare two values of the type that `atom` says; return None if a leaf changed."""
    if isinstance(atom, MapNode) and not atom.atomic:
        before = old if isinstance(old, dict) else {}
        after = new if isinstance(new, dict) else {}
        if before or after:
            return _compare_members(atom, before, after)
    elif isinstance(atom, ListNode) and not atom.atomic:
        items_before = old if isinstance(old, list) else []
        items_after = new if isinstance(new, list) else []
        if items_before or items_after:
            return _compare_items(atom, items_before, items_after)
    return _UNCHANGED if equal(old, new) else None


def _compare_members(atom: MapNode, old: dict[str, Any], new: dict[str, Any]) -> Comparison:
    """Compare two objects member by member."""
    result = Comparison()
    gone = 0
    for name, before in old.items():
        after = new.get(name, _ABSENT)
        if after is before:
            continue
        if after is _ABSENT:
            result.removed["f:" + name] = everything(atom.child(name), before)
            gone += 1
        elif type(before) in FLAT and type(after) is type(before):
            # Most leaves: whatever the schema says, two texts are compared as they are.
            if before != after:
                result.modified["f:" + name] = {}
        else:
            _enter(result, "f:" + name, node=atom.child(name), old=before, new=after)
    if len(new) > len(old) - gone:
        for name, after in new.items():
            if name not in old:
                result.added["f:" + name] = everything(atom.child(name), after)
    return result


def _compare_items(atom: ListNode, old: list[Any], new: list[Any]) -> Comparison:
    """Compare two lists item by item, whatever their order."""
    before, after = by_element(atom, old), by_element(atom, new)
    result = Comparison()
    for element, was in before.items():
        now = after.get(element, [])
        if len(was) == 1 and len(now) == 1:
            _enter(result, element, node=atom.item, old=was[0], new=now[0])
        elif len(was) > 1 and len(now) > 1:
            if not equal(was, now):
                result.modified[element] = {}
        elif len(was) > 1:
            result.removed[element] = {}
            if now:
                result.added[element] = everything(atom.item, now[0])
        else:
            result.removed[element] = everything(atom.item, was[0])
            if now:
                result.added[element] = {}
    for element, now in after.items():
        if element not in before:
            result.added[element] = everything(atom.item, now[0]) if len(now) == 1 else {}
    return result


def by_element(atom: ListNode, items: list[Any]) -> dict[str, list[Any]]:
    """Sort the items of a list by their path elements.

    Raises:
        ModelError: an item has none.
    """
    elements: dict[str, list[Any]] = {}
    for index, item in enumerate(items):
        try:
            element = item_element(atom, item)
        except TypeMismatchError as error:
            raise ModelError([f"element {index}: {error}"]) from None
        elements.setdefault(element, []).append(item)
    return elements


def everything(node: Node, value: Any) -> Fields:
    """Return the fields of a value that came or went as a whole, containers included."""
    atom = node.atom_for(value)
    if isinstance(atom, MapNode):
        if not atom.atomic and value and isinstance(value, dict):
            out: Fields = {SELF: {}}
            for name, inner in value.items():
                flat = type(inner) in FLAT
                out["f:" + name] = {} if flat else everything(atom.child(name), inner)
            return out
    elif isinstance(atom, ListNode) and not atom.atomic and value and isinstance(value, list):
        out = {SELF: {}}
        for element, items in by_element(atom, value).items():
            out[element] = everything(atom.item, items[0]) if len(items) == 1 else {}
        return out
    return {}


def list_claims(node: Node, value: Any) -> Fields:
    """Return the fields that the applier of an object claims to own.

    Unlike `everything`, containers are claimed only where nothing else would show that they are
    there: items of lists, members of free maps, empty objects, and nulls.
    """
    return _claimed_fields(node, value) or {}


def _claimed_fields(node: Node, value: Any) -> Fields | None:
    """Return the fields that the applier owns at a value and below it, a subtree of fieldsV1.

    It is {} if the value is owned as a whole, and None if the value is a container with nothing
    in it to own.
    """
    atom = node.atom_for(value)
    if isinstance(atom, MapNode):
        return {} if atom.atomic else _claimed_members(atom, value)
    if isinstance(atom, ListNode):
        return {} if atom.atomic else _claimed_items(atom, value)
    return {}


def _claimed_members(atom: MapNode, value: Any) -> Fields | None:
    """Return the applier's fields of an object whose members have owners of their own."""
    out: Fields = {}
    for name, inner in value.items() if isinstance(value, dict) else ():
        claimed = _claimed_fields(atom.child(name), inner)
        if inner is None or inner == {} or name not in atom.fields:
            # No field below shows that this member is there.
            claimed = {SELF: {}, **claimed} if claimed else {}
        if claimed is not None:
            out["f:" + name] = claimed
    return out or None


def _claimed_items(atom: ListNode, value: Any) -> Fields | None:
    """Return the applier's fields of a list whose items have owners of their own."""
    out: Fields = {}
    for element, items in by_element(atom, value if isinstance(value, list) else []).items():
        claimed = _claimed_fields(atom.item, items[0]) if len(items) == 1 else None
        out[element] = {SELF: {}, **claimed} if claimed else {}
    return out or None


def equal(first: Any, second: Any) -> bool:
    """Return whether two values are the same: 1 is 1.0, but true is not 1."""
    return bool(first == second) and _equal(first, second)


def _equal(first: Any, second: Any) -> bool:
    """Return whether two values that Python holds for equal have booleans in the same places."""
    if isinstance(first, dict):
        return all(_equal(value, second[name]) for name, value in first.items())
    if isinstance(first, list):
        return all(map(_equal, first, second))
    return isinstance(first, bool) == isinstance(second, bool)
