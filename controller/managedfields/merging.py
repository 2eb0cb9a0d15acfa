"""Merges an applied object into the live one, after checking that it fits the model.

Merging removes nothing (pruning.py does), and an applied value replaces a live one. A problem is a
path and a message: why a value does not fit the model. An atom (model.py) describes how a value is
owned; for an object or a list it has the nodes of the parts.
"""

from collections import deque
from typing import Any

from controller.managedfields import fieldset, gotext
from controller.managedfields.errors import ModelError, TypeMismatchError
from controller.managedfields.model import ListNode, MapNode, Node, Scalar, compute_item_element


def check_object(node: Node, value: dict[str, Any]) -> None:
    """Check that an object fits the model of its type.

    Args:
        node: the model.
        value: the object.

    Raises:
        ModelError: with one line for each problem, fields in alphabetical order.
    """
    problems = list(_find_problems(node, value))
    if problems:
        raise ModelError([f"{path}: {message}" if path else message for path, message in problems])


_Problem = tuple[str, str]


def _find_problems(node: Node, value: Any) -> list[_Problem]:
    """Return the problems of a value and of values below it; their paths begin at the value."""
    atom = node.choose_atom(value)
    if value is None:
        return []  # null fits every type: it stands for an absent value
    if isinstance(atom, MapNode):
        if not isinstance(value, dict):
            return [("", f"expected map, got {gotext.encode_json(value)}")]
        return _find_member_problems(atom, value)
    if isinstance(atom, ListNode):
        if not isinstance(value, list):
            return [("", f"expected list, got {gotext.encode_json(value)}")]
        return _find_item_problems(atom, value)
    return _find_scalar_problems(atom, value)


def _find_scalar_problems(kind: Scalar, value: Any) -> list[_Problem]:
    """Return the problem of a value that does not fit its scalar; empty if it fits."""
    if kind is Scalar.NUMERIC:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return [("", f"expected numeric (int or float), got {gotext.name_json_type(value)}")]
    elif kind is Scalar.STRING:
        if not isinstance(value, str):
            return [("", f"expected string, got {gotext.encode_json(value)}")]
    elif kind is Scalar.BOOLEAN:
        if not isinstance(value, bool):
            return [("", f"expected boolean, got {gotext.encode_json(value)}")]
    elif not isinstance(value, bool | int | float | str):  # untyped: any scalar fits
        return [("", f"expected any scalar, got {gotext.encode_json(value)}")]
    return []


def _find_member_problems(atom: MapNode, value: dict[str, Any]) -> list[_Problem]:
    """Return the problems of an object's members.

    The search ends at the first unknown member, as in the real server.
    """
    problems: list[_Problem] = []
    for name in sorted(value):
        child = atom.fields.get(name) or atom.other
        if child is None:
            problems.append((f".{name}", "field not declared in schema"))
            break
        inner = _find_problems(child, value[name])
        problems += [(f".{name}{path}", message) for path, message in inner]
    return problems


def _find_item_problems(atom: ListNode, value: list[Any]) -> list[_Problem]:
    """Return the problems of a list's items.

    The search ends at the first item without a path element, as in the real server.
    """
    problems: list[_Problem] = []
    earlier_elements: set[str] = set()
    for index, item in enumerate(value):
        place = f"[{index}]"
        if not atom.atomic:
            try:
                element = compute_item_element(atom, item)
            except TypeMismatchError as error:
                problems.append(("", f"element {index}: {error}"))
                break
            place = fieldset.format_element(element)
            if element in earlier_elements:
                problems.append(("", f"duplicate entries for key {place}"))
            earlier_elements.add(element)
        inner = _find_problems(atom.item, item)
        problems += [(place + path, message) for path, message in inner]
    return problems


# Stands for a value that one of the two objects does not have; null is a value.
_ABSENT: Any = object()


def merge_objects(node: Node, live: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    """Return the live object with the applied one merged in; parts of both are shared, not copied.

    Raises:
        ModelError: an item of a set or keyed list has no path element.
    """
    merged: dict[str, Any] = _merge(node, live, applied)
    return merged


def _merge(node: Node, live: Any, applied: Any) -> Any:
    """Return the merged value; `live` or `applied` is `_ABSENT` if that side has no such value.

    A live value of another type than the applied one counts as empty.
    """
    if applied is _ABSENT:
        return live
    if live is _ABSENT:
        return applied
    atom = node.choose_atom(applied)
    if isinstance(atom, MapNode):
        live_members = live if isinstance(live, dict) else {}
        applied_members = applied if isinstance(applied, dict) else {}
        # Without members to merge, the applied null or {} stays as it is.
        if not atom.atomic and (live_members or applied_members):
            return _merge_members(atom, live_members, applied_members)
    elif isinstance(atom, ListNode):
        live_items = live if isinstance(live, list) else []
        applied_items = applied if isinstance(applied, list) else []
        # Without items to merge, the applied null or [] stays as it is.
        if not atom.atomic and (live_items or applied_items):
            return _ListMerge(atom, live_items, applied_items).run()
    return applied


def _merge_members(atom: MapNode, live: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    """Return an object with all members of `live`, into which those of `applied` are merged."""
    merged = dict(live)
    for name, value in applied.items():
        merged[name] = _merge(atom.get_child(name), live.get(name, _ABSENT), value)
    return merged


class _ListMerge:
    """One merge of two lists whose items have owners of their own.

    Items in both lists are in the applied order. The other items keep their places between them,
    live items before applied ones.

    `run` walks through both lists. The next item of each list is its head: the live head is at
    `_live_position`, the applied head at `_applied_position`.
    """

    def __init__(self, atom: ListNode, live: list[Any], applied: list[Any]) -> None:
        """Compute the path element of each item.

        A path element that occurs twice in the live list has None for its live item: the applied
        item then replaces all copies instead of being merged with one.
        """
        self._atom = atom
        self._live = live
        self._live_elements = _list_elements(atom, live)
        self._applied_elements = _list_elements(atom, applied)
        self._applied = dict(zip(self._applied_elements, applied, strict=True))
        self._live_by_element: dict[str, Any] = {}
        for element, item in zip(self._live_elements, live, strict=True):
            is_repeated = element in self._live_by_element
            self._live_by_element[element] = None if is_repeated else item
        # Elements in both lists that are not merged yet, in the applied order.
        self._shared = deque(
            element for element in self._applied_elements if element in self._live_by_element
        )
        # The elements of the applied items that are in the result already.
        self._merged: set[str] = set()
        self._result: list[Any] = []
        self._live_position = self._applied_position = 0

    def run(self) -> list[Any]:
        """Return the merged list, after a walk through both lists to their ends."""
        live_count, applied_count = len(self._live_elements), len(self._applied_elements)
        while self._live_position < live_count or self._applied_position < applied_count:
            has_live_head = self._live_position < live_count
            has_applied_head = self._applied_position < applied_count
            if has_live_head and has_applied_head and self._merge_or_skip_heads():
                continue
            if has_live_head and self._append_live_head():
                continue
            if has_applied_head:
                self._append_applied_head()
        return self._result

    def _merge_or_skip_heads(self) -> bool:
        """Merge both heads if they are the same item; skip a live head that is merged later.

        Return whether one of the two was done.
        """
        element = self._live_elements[self._live_position]
        if element == self._applied_elements[self._applied_position]:
            self._append_applied(element)
            self._live_position += 1
            self._applied_position += 1
            if self._shared:
                self._shared.popleft()  # the element is merged now
            return True
        if element in self._applied and self._shared and self._shared[0] != element:
            # Another shared item is due first. The live head is merged when the walk through the
            # applied list reaches its element.
            self._live_position += 1
            return True
        return False

    def _append_live_head(self) -> bool:
        """Append the live head if it is not in the applied list; return whether it was appended.

        A head in the applied list is not appended. It is skipped if it has been merged already.
        """
        element = self._live_elements[self._live_position]
        if element not in self._applied:
            self._result.append(self._live[self._live_position])
            self._live_position += 1
            return True
        if element in self._merged:
            self._live_position += 1
        return False

    def _append_applied_head(self) -> None:
        """Append the applied head, merged with the live item of the same element, if any."""
        element = self._applied_elements[self._applied_position]
        self._append_applied(element)
        self._applied_position += 1
        if self._shared and self._shared[0] == element:
            self._shared.popleft()

    def _append_applied(self, element: str) -> None:
        """Append an applied item to the result, merged with the live item of the same element."""
        self._merged.add(element)
        live = self._live_by_element.get(element, _ABSENT)
        self._result.append(_merge(self._atom.item, live, self._applied[element]))


def _list_elements(atom: ListNode, items: list[Any]) -> list[str]:
    """Return the path elements of the items.

    Raises:
        ModelError: an item has no path element.
    """
    elements = []
    for index, item in enumerate(items):
        try:
            elements.append(compute_item_element(atom, item))
        except TypeMismatchError as error:
            raise ModelError([f"element {index}: {error}"]) from None
    return elements
