"""The usual write, told apart from all others: a controller says again how things are.

It gives other values to fields that its manager has already, alone; none comes and none goes. By
the rule for all writes that moves the time of one entry and does nothing else, so no sets of
fields have to be made and settled. Most writes to a status are such, and cost a third this way.
"""

from typing import Any

from envtest.patching import entries
from envtest.patching.compare import equal
from envtest.patching.entries import UNOWNED, Manager
from envtest.patching.errors import MisfitError
from envtest.patching.fieldmodel import FieldModel
from envtest.patching.fieldset import Fields
from envtest.patching.model import FLAT, ListNode, MapNode, Node, in_line, item_element

Entry = dict[str, Any]


def renewed(
    model: FieldModel, old: dict[str, Any], new: dict[str, Any], who: Manager, now: str
) -> list[Entry] | None:
    """Return managedFields after a write, None if it may do more than set fields again.

    Only writes that cannot touch metadata are told apart: those to the status of custom resources.

    Args:
        model: the type.
        old: the object before, tracked.
        new: the object after, with the very managedFields of the object before.
        who: the writer.
        now: the time, RFC 3339 in whole seconds.
    """
    root, ignored = model.root.members, model.reset.get(who.subresource, {})
    if root is None or ignored.get("f:metadata") != {}:
        return None
    found: list[Entry] = new["metadata"]["managedFields"]
    managed = {
        (entry.get("manager"), entry["operation"], entry.get("subresource", "")): entry
        for entry in found
    }
    place = (who.name, who.operation, who.subresource)
    mine = managed.get(place)
    if mine is None or len(managed) < len(found):
        return None
    names, taken = _differing(root, old, new), _settled(root, found, mine, who.api_version)
    if names is None or taken is None:
        return None
    for name in names:
        element = "f:" + name
        if element in taken or element in ignored or element in UNOWNED:
            return None
        field = mine["fieldsV1"].get(element)
        if not _sets_again(root.child(name), old[name], new[name], field):
            return None
    if names:
        managed[place] = {**mine, "time": now}
    return sorted(managed.values(), key=entries.rank)


def _settled(root: MapNode, found: list[Entry], mine: Entry, api_version: str) -> set[str] | None:
    """Return which fields of the object others have parts of, None if entries are not settled.

    They are settled if a write that changes no field leaves them as they are: all are of the
    version of the request, in line with its model, and as this library writes them, which
    webhooks can change.
    """
    if len(found) > entries.MAX_UPDATERS:
        return None
    taken: set[str] = set()
    for entry in found:
        fields = entry.get("fieldsV1")
        if not fields or entry["apiVersion"] != api_version or not all(entry.values()):
            return None
        if in_line(root, fields) is not fields:
            return None
        if entry is not mine:
            taken.update(fields)
    return taken


def _differing(root: MapNode, old: dict[str, Any], new: dict[str, Any]) -> list[str] | None:
    """Return the names of the members that differ, None if some came or went, or may differ."""
    if old.keys() != new.keys():
        return None
    names = []
    for name, before in old.items():
        after = new[name]
        if after is before:
            continue
        if before != after:
            names.append(name)
        # To Python, true is 1. (In metadata only the entries have both, and those are shared.)
        elif name != "metadata" and not _sets_again(root.child(name), before, after, None):
            return None
    return names


def _sets_again(node: Node, old: Any, new: Any, mine: Fields | None) -> bool:
    """Tell whether two values differ in nothing but the values of fields of the writer.

    Args:
        node: what the values may be.
        old: the value before.
        new: the value after.
        mine: the fields of it that are the writer's, None if there are none.
    """
    kind = type(old)
    if kind is not type(new):
        return False
    if node.strict and old == new:
        return True
    if kind is dict:
        members = node.members
        if members is not None and not members.atomic:
            return _members_again(members, old, new, mine or {})
    elif kind is list:
        items = node.items
        if items is not None and not items.atomic:
            return _items_again(items, old, new, mine or {})
    return mine == {} or equal(old, new)


def _members_again(atom: MapNode, old: dict[str, Any], new: dict[str, Any], mine: Fields) -> bool:
    """Tell whether two objects have the same members, and differ in fields of the writer only."""
    if old.keys() != new.keys():
        return False
    for name, before in old.items():
        after = new[name]
        if type(before) in FLAT and type(after) is type(before):
            if before != after and mine.get("f:" + name) != {}:
                return False
        elif not _sets_again(atom.child(name), before, after, mine.get("f:" + name)):
            return False
    return True


def _items_again(atom: ListNode, old: list[Any], new: list[Any], mine: Fields) -> bool:
    """Tell whether two lists have the same items, and differ in fields of the writer only."""
    if len(old) != len(new):
        return False
    seen = set()
    for before, after in zip(old, new, strict=True):
        try:
            element = item_element(atom, before)
            if element in seen or item_element(atom, after) != element:
                return False
        except MisfitError:
            return False
        seen.add(element)
        if not _sets_again(atom.item, before, after, mine.get(element)):
            return False
    return True
