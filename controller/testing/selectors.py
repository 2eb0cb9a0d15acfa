"""Label and field selectors of lists and watches, as Kubernetes writes them."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from controller.errors import BadRequest

Predicate = Callable[[Mapping[str, Any]], bool]
"""Whether an object is selected."""

_NAME = r"[A-Za-z0-9._/-]+"
_SET = re.compile(rf"({_NAME})\s+(in|notin)\s+\(([^()]*)\)")
_EQUALITY = re.compile(rf"({_NAME})\s*(==|!=|=)\s*({_NAME}|)")
_PRESENCE = re.compile(rf"(!?)\s*({_NAME})")
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^()]*\))")


def label_selector(text: str) -> Predicate:
    """Return the predicate of a label selector: `a=b`, `a!=b`, `a in (b,c)`, `a`, `!a`, by commas.

    Raises:
        BadRequest: it is none.
    """
    parts = [_requirement(part.strip()) for part in _split(text)]
    return lambda obj: all(holds(obj["metadata"].get("labels") or {}) for holds in parts)


def field_selector(text: str, known: Collection[str]) -> Predicate:
    """Return the predicate of a field selector: `path=value`, `path!=value`, by commas.

    Args:
        text: the selector.
        known: the paths that the kind can be selected by.

    Raises:
        BadRequest: it is none, or has another path.
    """
    parts = [_field(part.strip(), known) for part in _split(text)]
    return lambda obj: all(holds(obj) for holds in parts)


def _split(text: str) -> list[str]:
    return [part for part in _COMMA_OUTSIDE_PARENTHESES.split(text) if part.strip()]


def _requirement(text: str) -> Callable[[Mapping[str, str]], bool]:
    """Return a predicate for one term of a label selector.

    Raises:
        BadRequest: the term cannot be parsed.
    """
    if found := _SET.fullmatch(text):
        name, operator, listed = found.groups()
        values = {value.strip() for value in listed.split(",")}
        if operator == "in":
            return lambda labels: labels.get(name) in values
        return lambda labels: labels.get(name) not in values
    if found := _EQUALITY.fullmatch(text):
        name, operator, value = found.groups()
        if operator == "!=":
            return lambda labels: labels.get(name) != value
        return lambda labels: labels.get(name) == value
    if found := _PRESENCE.fullmatch(text):
        absent, name = bool(found[1]), found[2]
        return lambda labels: (name in labels) != absent
    raise BadRequest(400, "BadRequest", f"unable to parse the label selector {text!r}")


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
