"""Bringing stored ownership in line with a schema that has changed since it was written.

What was taken apart and is atomic now has its owners own it as a whole. The other direction needs
nothing: a list or map that was atomic and is not any more is owned by its own name still.
"""

from collections.abc import Collection

from envtest.patching.fieldset import Fields
from envtest.patching.model import UNKNOWN_ATOMIC, ListNode, MapNode, Node, Scalar


def reconcile(node: Node, fields: Fields) -> Fields:
    """Return the set as the model sees it; the very same set if nothing has to change."""
    atom = node.members or node.scalar or node.items
    return in_line(atom, fields) if isinstance(atom, MapNode | ListNode) else fields


def in_line(atom: MapNode | ListNode, fields: Fields) -> Fields:
    """Return the set below an object or a list as the model sees it; the very same if it can."""
    changed: Fields | None = None
    known = atom.coarse if isinstance(atom, MapNode) else None
    for element, child in _suspects(atom, fields) if known is None else known:
        below = fields.get(element)
        if below:
            found = {} if child.atomic else in_line(child, below)
            if found is not below:
                changed = dict(fields) if changed is None else changed
                changed[element] = found
    return fields if changed is None else changed


def _suspects(
    atom: MapNode | ListNode, fields: Fields
) -> Collection[tuple[str, MapNode | ListNode]]:
    """Return the elements that may be owned as a whole now, or below which something may be.

    They are few or none in most types, and known once and for all where only members with a name
    matter; some of those may not be in the set.
    """
    if isinstance(atom, ListNode):
        item = _suspect(atom.item)
        return [(element, item) for element in fields] if item else ()
    if _suspect(atom.other):
        found = [(element, _suspect(_member(atom, element))) for element in fields]
        return [(element, child) for element, child in found if child]
    named = [("f:" + name, _suspect(child)) for name, child in atom.fields.items()]
    atom.coarse = tuple((element, child) for element, child in named if child)
    return atom.coarse


def _suspect(node: Node | None) -> MapNode | ListNode | None:
    """Return what of a node may be owned as a whole now, or have something below it that is."""
    if node is None or node.granular:
        return None
    atom = node.members or node.scalar or node.items
    if isinstance(atom, MapNode):
        return None if _is_free_form(atom) else atom
    return atom if isinstance(atom, ListNode) else None


def _member(atom: MapNode, element: str) -> Node | None:
    """Return the node of a member, None if the schema does not know it."""
    named = atom.fields.get(element[2:]) if element[0] == "f" else None
    return named or atom.other


def _is_free_form(atom: MapNode) -> bool:
    """Tell whether nothing is said about the members of an object; such ones are left alone."""
    other = atom.other
    if atom.fields or other is None or other is UNKNOWN_ATOMIC:
        return False
    return other.scalar is Scalar.UNTYPED
