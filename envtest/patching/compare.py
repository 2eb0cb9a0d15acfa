"""Which fields differ between two states of an object, and which fields a state consists of."""

from dataclasses import dataclass, field
from typing import Any

from envtest.patching import fieldset
from envtest.patching.elements import SELF
from envtest.patching.errors import MisfitError, ModelError
from envtest.patching.fieldset import Fields
from envtest.patching.model import ListNode, MapNode, Node, item_element


@dataclass(slots=True)
class Comparison:
    """What a write did: fields that went, fields with another value, fields that came."""

    removed: Fields = field(default_factory=dict)
    modified: Fields = field(default_factory=dict)
    added: Fields = field(default_factory=dict)

    def put(self, element: str, inner: "Comparison") -> None:
        """Enter what differs below an element, if anything does."""
        if inner.removed or inner.modified or inner.added:
            if inner.removed:
                self.removed[element] = inner.removed
            if inner.modified:
                self.modified[element] = inner.modified
            if inner.added:
                self.added[element] = inner.added

    def join(self, other: "Comparison") -> None:
        """Take in what another look at the same two values found."""
        self.removed = fieldset.union(self.removed, other.removed)
        self.modified = fieldset.union(self.modified, other.modified)
        self.added = fieldset.union(self.added, other.added)

    def without(self, ignored: Fields) -> None:
        """Drop what lies in fields that do not count."""
        if ignored:
            self.removed = fieldset.without_trees(self.removed, ignored)
            self.modified = fieldset.without_trees(self.modified, ignored)
            self.added = fieldset.without_trees(self.added, ignored)

    def written(self) -> Fields:
        """Return the fields that have a new value."""
        return fieldset.union(self.modified, self.added)


_UNCHANGED = Comparison()


def compare(node: Node, old: dict[str, Any], new: dict[str, Any]) -> Comparison:
    """Compare two objects of a type.

    Raises:
        ModelError: a list cannot be taken apart into items.
    """
    return _look(node.atom_for(new), old, new) or Comparison()


def _enter(
    result: Comparison,
    element: str,
    node: Node,
    old: Any,
    new: Any,
) -> None:
    """Compare two values below an element and enter what differs."""
    was, now = node.atom_for(old), node.atom_for(new)
    inner = _look(was, old, new)
    if was is now:
        if inner is None:
            result.modified[element] = {}
            return
    else:
        other = _look(now, old, new)
        if inner is None or other is None:
            result.modified[element] = {}
        both = Comparison()
        for found in (inner, other):
            if found is not None:
                both.join(found)
        inner = both
    result.put(element, inner)


def _look(atom: object, old: Any, new: Any) -> Comparison | None:
    """Compare two values as what the atom says; None stands for a leaf that has changed."""
    if isinstance(atom, MapNode):
        before, after = _as(dict, old), _as(dict, new)
        if not atom.atomic and (before or after):
            return _look_at_members(atom, before or {}, after or {})
    elif isinstance(atom, ListNode):
        items_before, items_after = _as(list, old), _as(list, new)
        if not atom.atomic and (items_before or items_after):
            return _look_at_items(atom, items_before or [], items_after or [])
    return _UNCHANGED if equal(old, new) else None


def _as(kind: type, value: Any) -> Any:
    """Return the value if it is of the kind, else None."""
    return value if isinstance(value, kind) else None


def _look_at_members(atom: MapNode, old: dict[str, Any], new: dict[str, Any]) -> Comparison:
    """Compare two objects member by member."""
    result = Comparison()
    for name, before in old.items():
        if name not in new:
            result.removed["f:" + name] = everything(atom.child(name), before)
            continue
        after = new[name]
        if after is before:
            continue
        if type(before) is str and type(after) is str:
            # Most leaves: whatever the schema says, two texts are compared as they are.
            if before != after:
                result.modified["f:" + name] = {}
            continue
        child = atom.child(name)
        if not (child.strict and before == after):
            _enter(result, "f:" + name, child, before, after)
    for name, after in new.items():
        if name not in old:
            result.added["f:" + name] = everything(atom.child(name), after)
    return result


def _look_at_items(atom: ListNode, old: list[Any], new: list[Any]) -> Comparison:
    """Compare two lists item by item, whatever their order."""
    before, after = by_element(atom, old), by_element(atom, new)
    result = Comparison()
    for element, was in before.items():
        now = after.get(element, [])
        if len(was) == 1 and len(now) == 1:
            _enter(result, element, atom.item, was[0], now[0])
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
    found: dict[str, list[Any]] = {}
    for index, item in enumerate(items):
        try:
            element = item_element(atom, item)
        except MisfitError as error:
            raise ModelError([f"element {index}: {error}"]) from None
        found.setdefault(element, []).append(item)
    return found


def everything(node: Node, value: Any) -> Fields:
    """Return the fields of a value that came or went as a whole, containers included."""
    atom = node.atom_for(value)
    if isinstance(atom, MapNode):
        if not atom.atomic and value and isinstance(value, dict):
            out: Fields = {SELF: {}}
            for name, inner in value.items():
                out["f:" + name] = everything(atom.child(name), inner)
            return out
    elif isinstance(atom, ListNode) and not atom.atomic and value and isinstance(value, list):
        out = {SELF: {}}
        for element, items in by_element(atom, value).items():
            out[element] = everything(atom.item, items[0]) if len(items) == 1 else {}
        return out
    return {}


def claimed(node: Node, value: Any) -> Fields:
    """Return the fields that somebody who applies an object lays claim to.

    Unlike `everything`, containers are claimed only where nothing else would show that they are
    there: items of lists, members of free maps, and whatever is empty or null.
    """
    return _claimed(node, value) or {}


def _claimed(node: Node, value: Any) -> Fields | None:
    """Return the node of a value, None if nothing is claimed."""
    atom = node.atom_for(value)
    if isinstance(atom, MapNode):
        return {} if atom.atomic else _claimed_members(atom, value)
    if isinstance(atom, ListNode):
        return {} if atom.atomic else _claimed_items(atom, value)
    return {}


def _claimed_members(atom: MapNode, value: Any) -> Fields | None:
    """Return the node of an object whose members have owners of their own."""
    out: Fields = {}
    for name, inner in value.items() if isinstance(value, dict) else ():
        node = _claimed(atom.child(name), inner)
        if inner is None or inner == {} or name not in atom.fields:
            node = {SELF: {}, **node} if node else {}
        if node is not None:
            out["f:" + name] = node
    return out or None


def _claimed_items(atom: ListNode, value: Any) -> Fields | None:
    """Return the node of a list whose items have owners of their own."""
    out: Fields = {}
    for element, items in by_element(atom, value if isinstance(value, list) else []).items():
        node = _claimed(atom.item, items[0]) if len(items) == 1 else None
        out[element] = {SELF: {}, **node} if node else {}
    return out or None


def equal(left: Any, right: Any) -> bool:
    """Tell whether two values are the same: 1 is 1.0, but true is not 1."""
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and left.keys() == right.keys()
            and all(equal(value, right[name]) for name, value in left.items())
        )
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)
