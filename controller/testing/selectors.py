"""Selectors of lists and watches as predicates over objects, which are decoded JSON."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from controller import selectors
from controller.errors import BadRequest

Predicate = Callable[[Mapping[str, Any]], bool]
"""Whether an object is selected."""


def parse_label_selector(selector: str) -> Predicate:
    """Return the predicate of a label selector.

    Raises:
        BadRequest: the text is no label selector.
    """
    selects = selectors.parse_label_selector(selector)
    return lambda obj: selects(obj["metadata"].get("labels") or {})


def parse_field_selector(selector: str, selectable_paths: Collection[str]) -> Predicate:
    """Return the predicate of a field selector: `path=value` or `path!=value`, between commas.

    Args:
        selector: the text of the selector; empty for all objects.
        selectable_paths: the paths that field selectors of the kind may name.

    Raises:
        BadRequest: the text is no field selector, or names another path.
    """
    parts = [_parse_term(term, selectable_paths) for term in selectors.split_terms(selector)]
    return lambda obj: all(holds(obj) for holds in parts)


def _parse_term(term: str, selectable_paths: Collection[str]) -> Predicate:
    """Return the predicate of one term of a field selector.

    Raises:
        BadRequest: it cannot be parsed, or names a path that is not in `selectable_paths`.
    """
    match = re.fullmatch(r"([^=!]+?)(==|!=|=)(.*)", term)
    if match is None:
        raise BadRequest(400, "BadRequest", f"unable to parse the field selector {term!r}")
    path, operator, value = match.groups()
    if path not in selectable_paths:
        raise BadRequest(400, "BadRequest", f"field label not supported: {path}")
    # For `!=`, the object is selected if the values are not equal.
    return lambda obj: (_read_path(obj, path) == value) == (operator != "!=")


def _read_path(obj: Mapping[str, Any], path: str) -> str:
    """Return the value at a path as a field selector compares it: a text, empty if absent."""
    value: Any = obj
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
