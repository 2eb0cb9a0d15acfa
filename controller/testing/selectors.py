"""Selectors of lists and watches as predicates over objects, which are decoded JSON."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from controller import selectors
from controller.errors import BadRequest

Predicate = Callable[[Mapping[str, Any]], bool]
"""Whether an object is selected."""


def label_selector(text: str) -> Predicate:
    """Return the predicate of a label selector.

    Raises:
        BadRequest: it is none.
    """
    selects = selectors.label_selector(text)
    return lambda obj: selects(obj["metadata"].get("labels") or {})


def field_selector(text: str, known: Collection[str]) -> Predicate:
    """Return the predicate of a field selector: `path=value`, `path!=value`, by commas.

    Args:
        text: the selector.
        known: the paths that the kind can be selected by.

    Raises:
        BadRequest: it is none, or has another path.
    """
    parts = [_field(term, known) for term in selectors.split_terms(text)]
    return lambda obj: all(holds(obj) for holds in parts)


def _field(text: str, known: Collection[str]) -> Predicate:
    found = re.fullmatch(r"([^=!]+?)(==|!=|=)(.*)", text)
    if found is None:
        raise BadRequest(400, "BadRequest", f"unable to parse the field selector {text!r}")
    path, operator, value = found.groups()
    if path not in known:
        raise BadRequest(400, "BadRequest", f"field label not supported: {path}")
    return lambda obj: (_at(obj, path) == value) == (operator != "!=")


def _at(obj: Mapping[str, Any], path: str) -> str:
    """Return the value at a path as a field selector compares it: a text, empty if absent."""
    value: Any = obj
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
