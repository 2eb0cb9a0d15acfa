"""Bringing stored ownership in line with a schema that has changed since it was written.

What was taken apart and is atomic now has its owners own it as a whole. The other direction needs
nothing: a list or map that was atomic and is not any more is owned by its own name still.
"""

from envtest.patching.fieldset import Fields
from envtest.patching.model import UNKNOWN_ATOMIC, ListNode, MapNode, Node, Scalar


def reconcile(node: Node, fields: Fields) -> Fields:
    """Return the set as the model sees it; the very same set if nothing has to change."""
    atom = node.members or node.scalar or node.items
    return _below(atom, fields) if isinstance(atom, MapNode | ListNode) else fields


def _below(atom: MapNode | ListNode, fields: Fields) -> Fields:
    """Return the set with everything below its elements brought in line."""
    changed: Fields | None = None
    for element, below in fields.items():
        if not below:
            continue
        child = _step(atom, element)
        if child is None or child.granular:
            continue
        found = _value(child, below)
        if found is not below:
            changed = dict(fields) if changed is None else changed
            changed[element] = found
    return fields if changed is None else changed


def _value(node: Node, fields: Fields) -> Fields:
    """Return the set below a value; empty if the value has to be owned as a whole."""
    atom = node.members or node.scalar or node.items
    if isinstance(atom, MapNode):
        if _is_free_form(atom):
            return fields
    elif not isinstance(atom, ListNode):
        return fields
    return {} if atom.atomic else _below(atom, fields)


def _is_free_form(atom: MapNode) -> bool:
    """Tell whether nothing is said about the members of an object; such ones are left alone."""
    other = atom.other
    if atom.fields or other is None or other is UNKNOWN_ATOMIC:
        return False
    return other.scalar is Scalar.UNTYPED


def _step(atom: MapNode | ListNode, element: str) -> Node | None:
    """Return the node that an element leads to, None if the schema does not know it."""
    if isinstance(atom, ListNode):
        return atom.item
    if element[0] == "f":
        return atom.fields.get(element[2:]) or atom.other
    return atom.other
