"""Removes from a merged object the fields that its applier no longer applies.

A field is removed if the applier applied it last time, does not apply it now, and no other manager
owns it. Each manager's fields are in the version of its entry, so the object is converted to these
versions. `node` and `root` are nodes of the model (model.py). A named field is a field that the
schema declares, unlike a key of a free-form map.
"""

from typing import Any

from controller.managedfields import fieldset
from controller.managedfields.compare import list_claims
from controller.managedfields.entries import Managed, Owned
from controller.managedfields.fieldset import SELF, Fields, is_member
from controller.managedfields.model import ListNode, MapNode, Node, compute_item_element
from controller.managedfields.tracking import TrackedWrite


def remove(node: Node, value: dict[str, Any], fields: Fields) -> dict[str, Any]:
    """Return the object without the given fields; unchanged parts are shared, not copied."""
    if not fields or not value:
        return value
    remainder: dict[str, Any] = _remove(node, value, fields)
    return remainder


def _remove(node: Node, value: Any, fields: Fields) -> Any:
    """Return the value without the fields below it; a container that loses all parts stays empty.

    Return an atomic container empty, because it has one owner and no parts. Return None for null
    where the model expects a container.
    """
    atom = node.choose_atom(value)
    if isinstance(atom, MapNode):
        if not isinstance(value, dict):
            return None
        return {} if atom.atomic else _remove_from_members(atom, value, fields)
    if isinstance(atom, ListNode):
        if not isinstance(value, list):
            return None
        return [] if atom.atomic else _remove_from_items(atom, value, fields)
    return value


def _remove_from_members(atom: MapNode, value: dict[str, Any], fields: Fields) -> dict[str, Any]:
    """Return an object without its members whose paths are in the set `fields`.

    A member that is not in the set, but has deeper paths in it, loses the fields at these paths.
    """
    remainder = {}
    for name, inner in value.items():
        below = fields.get("f:" + name)
        if below is None:
            remainder[name] = inner
        elif not is_member(below):
            remainder[name] = _remove(atom.get_child(name), inner, below)
    return remainder


def _remove_from_items(list_node: ListNode, items: list[Any], fields: Fields) -> list[Any]:
    """Return the items of a list without those whose paths are in the set `fields`.

    An item that is not in the set, but has deeper paths in it, loses the fields at these paths.

    Args:
        list_node: the type of the list, whose items have owners of their own.
        fields: the set of paths, which begin at the list.
    """
    remainder = []
    for item in items:
        item_fields = fields.get(compute_item_element(list_node, item))
        if item_fields is None:
            remainder.append(item)
        elif not is_member(item_fields):
            remainder.append(_remove(list_node.item, item, item_fields))
    return remainder


def add_named_fields(node: Node, fields: Fields) -> Fields:
    """Return the set with each named field added that has a path of the set below it.

    A set with `spec.replicas` alone gets `spec`, too. Go's struct `spec` exists because one of its
    fields does, so each owner of `spec.replicas` also counts as an owner of `spec`. Keys of
    free-form maps are not added.
    """
    out: Fields = {}
    for element, below in fields.items():
        if not below:
            out[element] = below  # the path itself is in the set, and none below it
            continue
        child, is_named = _find_child(node, element)
        inner = add_named_fields(child, below) if child is not None else below
        out[element] = {SELF: {}, **inner} if is_named else inner
    return out


def _find_child(node: Node, element: str) -> tuple[Node | None, bool]:
    """Return the node that a path element leads to, and whether it is a declared field.

    The node is None if the model does not know it, and for a member of a set, which has no parts.
    """
    kind = element[0]
    if kind == "f" and node.members is not None:
        name = element[2:]
        return node.members.fields.get(name) or node.members.other, name in node.members.fields
    if kind == "k" and node.items is not None:
        return node.items.item, False
    return None, False


def prune(
    write: TrackedWrite, merged: dict[str, Any], managed: Managed, previous: Owned
) -> dict[str, Any]:
    """Return the merged object without the fields that the applier no longer applies.

    First remove all fields that the applier owned before. Then put back the fields that any
    manager owns now, in the version of its entry. The fields that are still missing after that are
    removed from `merged`.

    Args:
        write: the request and the versions of the type.
        merged: the live object with the applied one merged in.
        managed: the owned fields by manager; for the applier, its new claims.
        previous: the fields that the applier owned before this request.
    """
    model = write.get_model(previous.api_version)
    if model is None:
        return merged  # the version no longer exists, so its fields cannot be found
    root = model.root
    whole = write.convert(merged, previous.api_version)
    pruned = remove(root, whole, add_named_fields(root, previous.fields))
    pruned = _put_back_owned(
        write, whole, pruned=pruned, managed=managed, first_version=previous.api_version
    )
    pruned = write.convert(pruned, previous.api_version)
    removed = fieldset.difference(
        _list_claims_and_named(root, whole), _list_claims_and_named(root, pruned)
    )
    # Only fields that this applier owned may go, whatever other managers' versions lack.
    dropped = fieldset.intersection(removed, add_named_fields(root, previous.fields))
    return write.convert(remove(root, whole, dropped), write.api_version)


def _put_back_owned(
    write: TrackedWrite,
    whole: dict[str, Any],
    pruned: dict[str, Any],
    managed: Managed,
    first_version: str,
) -> dict[str, Any]:
    """Return the pruned object with the fields of all managers put back, version by version.

    Args:
        whole: the object before pruning.
        first_version: the version of `pruned`; its fields are put back first, because the
            conversion to other versions may need them.
    """
    owned_by_version: dict[str, Fields] = {first_version: {}}
    for entry in managed.values():
        fields = fieldset.union(owned_by_version.get(entry.api_version, {}), entry.fields)
        owned_by_version[entry.api_version] = fields
    for version, fields in owned_by_version.items():
        model = write.get_model(version)
        if model is None or not fields:
            continue  # nothing can be put back in a version that is gone, or owns nothing
        root = model.root
        whole, pruned = write.convert(whole, version), write.convert(pruned, version)
        retained = fieldset.union(
            _list_claims_and_named(root, pruned), add_named_fields(root, fields)
        )
        dropped = fieldset.difference(_list_claims_and_named(root, whole), retained)
        # Cut from the whole object anew, which has the values to put back.
        pruned = remove(root, whole, dropped)
    return pruned


def _list_claims_and_named(root: Node, obj: dict[str, Any]) -> Fields:
    """Return the fields of an object together with the named fields that lead to them."""
    return add_named_fields(root, list_claims(root, obj))
