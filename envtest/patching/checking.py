"""Whether a value fits its field model, in the words in which server-side apply refuses it."""

from typing import Any

from envtest.patching import elements
from envtest.patching.errors import MisfitError, ModelError
from envtest.patching.model import ListNode, MapNode, Node, Scalar, item_element
from envtest.schema import gotext


def check(node: Node, value: dict[str, Any], *, duplicates: bool = False) -> None:
    """Hold an object against the model of its type.

    Args:
        node: the model.
        value: the object.
        duplicates: whether sets and keyed lists may hold an item twice.

    Raises:
        ModelError: with one line for each misfit, fields in alphabetical order.
    """
    problems = list(_problems(node, value, duplicates=duplicates))
    if problems:
        raise ModelError([f"{path}: {text}" if path else text for path, text in problems])


_Problem = tuple[str, str]


def _problems(node: Node, value: Any, *, duplicates: bool) -> list[_Problem]:
    """List what is wrong with a value, with paths from it on."""
    atom = node.atom_for(value)
    if value is None:
        return []
    if isinstance(atom, MapNode):
        if not isinstance(value, dict):
            return [("", f"expected map, got {gotext.json_text(value)}")]
        return _member_problems(atom, value, duplicates=duplicates)
    if isinstance(atom, ListNode):
        if not isinstance(value, list):
            return [("", f"expected list, got {gotext.json_text(value)}")]
        return _item_problems(atom, value, duplicates=duplicates)
    return _scalar_problems(atom, value)


def _scalar_problems(kind: Scalar, value: Any) -> list[_Problem]:
    """List what is wrong with a value that should be a scalar."""
    is_scalar = isinstance(value, bool | int | float | str)
    if kind is Scalar.NUMERIC:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return [("", f"expected numeric (int or float), got {gotext.json_kind(value)}")]
    elif kind is Scalar.STRING:
        if not isinstance(value, str):
            return [("", f"expected string, got {gotext.json_text(value)}")]
    elif kind is Scalar.BOOLEAN:
        if not isinstance(value, bool):
            return [("", f"expected boolean, got {gotext.json_text(value)}")]
    elif not is_scalar:
        return [("", f"expected any scalar, got {gotext.json_text(value)}")]
    return []


def _member_problems(atom: MapNode, value: dict[str, Any], *, duplicates: bool) -> list[_Problem]:
    """List what is wrong with the members of an object; an unknown one ends the search."""
    found: list[_Problem] = []
    for name in sorted(value):
        child = atom.fields.get(name) or atom.other
        if child is None:
            found.append((f".{name}", "field not declared in schema"))
            break
        inner = _problems(child, value[name], duplicates=duplicates)
        found += [(f".{name}{path}", text) for path, text in inner]
    return found


def _item_problems(atom: ListNode, value: list[Any], *, duplicates: bool) -> list[_Problem]:
    """List what is wrong with the items of a list; one without a path element ends the search."""
    found: list[_Problem] = []
    seen: set[str] = set()
    for index, item in enumerate(value):
        place = f"[{index}]"
        if not atom.atomic:
            try:
                element = item_element(atom, item)
            except MisfitError as error:
                found.append(("", f"element {index}: {error}"))
                break
            place = elements.shown(element)
            if element in seen and not duplicates:
                found.append(("", f"duplicate entries for key {place}"))
            seen.add(element)
        inner = _problems(atom.item, item, duplicates=duplicates)
        found += [(place + path, text) for path, text in inner]
    return found
