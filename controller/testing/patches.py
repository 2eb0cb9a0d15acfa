"""Applying JSON merge patches (RFC 7396) and JSON patches (RFC 6902) to decoded JSON."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from controller.errors import Invalid


def apply_merge_patch(old: Any, patch: Any) -> Any:
    """Return `old` with a merge patch applied: null removes a field, lists are replaced."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), value)
    return result


def apply_json_patch(old: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """Return `old` with the operations of a JSON patch applied, in order.

    Raises:
        Invalid: a path does not exist, a test fails, or an operation is unknown.
    """
    result = copy.deepcopy(old)  # the operations change it in place
    for operation in operations:
        try:
            result = _apply_operation(result, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise Invalid(
                422, "Invalid", f"the JSON patch cannot be applied: {dict(operation)!r}: {error}"
            ) from error
    return result


def _apply_operation(document: Any, operation: Mapping[str, Any]) -> Any:
    """Return the document after one operation of a JSON patch.

    Raises:
        ValueError: a test failed, or the operation is unknown.
    """
    match operation["op"]:
        case "add":
            return _set_value(document, operation["path"], operation["value"], insert=True)
        case "replace":  # adds a field that the object does not have, as API servers do
            return _set_value(document, operation["path"], operation["value"], insert=False)
        case "remove":
            return _remove_value(document, operation["path"])
        case "test":
            if _get_value(document, operation["path"]) != operation["value"]:
                raise ValueError("the test failed")
            return document
        case "copy":
            value = copy.deepcopy(_get_value(document, operation["from"]))
            return _set_value(document, operation["path"], value, insert=True)
        case "move":
            value = _get_value(document, operation["from"])
            return _set_value(
                _remove_value(document, operation["from"]), operation["path"], value, insert=True
            )
        case operation_name:
            raise ValueError(f"unknown operation {operation_name!r}")


def _parse_pointer(pointer: str) -> list[str]:
    """Return the names and indexes in a JSON pointer (RFC 6901), unescaped.

    Raises:
        ValueError: the text is no JSON pointer.
    """
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} is no JSON pointer")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _get_value(document: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer.

    Raises:
        KeyError: a field does not exist.
        IndexError: a list has no such entry.
    """
    for step in _parse_pointer(pointer):
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document


def _find_parent(document: Any, pointer: str) -> tuple[Any, str]:
    """Return the object or list that has the value at a JSON pointer, and the last step to it.

    Raises:
        IndexError: the pointer is empty: the whole document has no parent.
    """
    head, _, _ = pointer.rpartition("/")
    return _get_value(document, head), _parse_pointer(pointer)[-1]


def _set_value(document: Any, pointer: str, value: Any, *, insert: bool) -> Any:
    """Set the value at a JSON pointer in place; return the document.

    Args:
        document: is changed in place, unless the pointer is empty.
        pointer: where the value belongs; `-` as the last step is the end of a list.
        value: the new value.
        insert: in a list, insert before the entry at the pointer instead of replacing it.
    """
    if not pointer:
        return value  # the empty pointer is the whole document
    parent, last = _find_parent(document, pointer)
    if not isinstance(parent, list):
        parent[last] = value
    elif last == "-":
        parent.append(value)
    elif insert:
        if not 0 <= int(last) <= len(parent):
            raise IndexError(f"{last} is outside of the list")
        parent.insert(int(last), value)
    else:
        parent[int(last)] = value
    return document


def _remove_value(document: Any, pointer: str) -> Any:
    """Remove the value at a JSON pointer in place; return the document."""
    parent, last = _find_parent(document, pointer)
    del parent[int(last) if isinstance(parent, list) else last]
    return document
