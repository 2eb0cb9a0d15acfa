"""The directives of strategic merge patch, and the refusals of those that make no sense."""

from typing import Any

from envtest.patching.errors import PatchError, bad_request, internal, unprocessable
from envtest.schema import gotext

PATCH = "$patch"
DELETE = "delete"
REPLACE = "replace"
MERGE = "merge"
RETAIN_KEYS = "$retainKeys"
ELEMENT_ORDER = "$setElementOrder"
DELETE_FROM = "$deleteFromPrimitiveList"

Map = dict[str, Any]


def list_name(key: str, prefix: str) -> str:
    """Return the list that a directive such as `$setElementOrder/finalizers` is about.

    Raises:
        PatchError: 400, there is none in the key.
    """
    first, slash, name = key.partition("/")
    if first != prefix or not slash:
        what = "primitive list" if prefix == DELETE_FROM else "setElementOrder list"
        raise bad_request(f"invalid patch format of {what}")
    return name


def bad_retain_keys() -> PatchError:
    """Return the refusal of retained keys that are no list, or do not hold what the patch has."""
    return bad_request("invalid patch format of retainKeys")


def bad_type(expected: str, value: Any) -> PatchError:
    """Return the refusal of a value that is no map or list where one must be."""
    received = "%!s(<nil>)" if value is None else gotext.json_kind(value)
    return internal(f"expected a {expected}, but received a {received}")


def unknown_directive(directive: Any, patch: Map) -> PatchError:
    """Return the refusal of a value of `$patch`."""
    shown = directive if isinstance(directive, str) else _wrong_verb(directive)
    return internal(f"unknown patch type: {shown} in map: {gotext.json_text(patch)}")


def _wrong_verb(value: Any) -> str:
    """Return what Go prints for a value that is no string where a string is to be printed."""
    if value is None:
        return "%!s(<nil>)"
    return f"%!s({gotext.json_kind(value)}={gotext.json_text(value)})"


def no_merge_key(item: Map, key: str) -> PatchError:
    """Return the refusal of an item that lacks the field by which items are the same."""
    return internal(f"map: {gotext.json_text(item)} does not contain declared merge key: {key}")


def check_items(*lists: list[Any]) -> bool:
    """Tell whether the items of lists that are to be merged are maps.

    Raises:
        PatchError: 422 for lists in lists, 500 for a mixture of types or no items at all.
    """
    kinds = [gotext.json_kind(item) for items in lists for item in items]
    if not kinds:
        raise internal("no elements in any of the given slices")
    if kinds[0] == gotext.json_kind([]):
        raise unprocessable()
    if len(set(kinds)) > 1:
        raise internal(f"list element types are not identical: {gotext.json_text(list(lists))}")
    return kinds[0] == gotext.json_kind({})


def without_directives(value: Any) -> tuple[Any, bool]:
    """Return a value to be stored as it is, and whether it is to be stored at all."""
    if isinstance(value, dict):
        if PATCH in value:
            return None, False
        kept = {name: without_directives(inner) for name, inner in value.items()}
        return {name: inner for name, (inner, keep) in kept.items() if keep}, True
    if isinstance(value, list):
        items = map(without_directives, value)
        return [item for item, keep in items if keep], True
    return value, True


def without_nulls(value: Any) -> Any:
    """Return a value without the nulls in its maps."""
    if isinstance(value, dict):
        return {name: without_nulls(v) for name, v in value.items() if v is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value
