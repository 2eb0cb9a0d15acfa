"""From decoded JSON to CEL values, by type; and lists whose order does not matter."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from envtest.schema.cel.functions import CelError
from envtest.schema.cel.standard import to_duration, to_timestamp
from envtest.schema.cel.types import CelType
from envtest.schema.gotext import json_text

Convert = Callable[[Any], Any]


def converter(kind: CelType) -> Convert | None:
    """What turns JSON into values of `kind`; None where JSON will do.

    Objects are left alone: their fields are converted when they are read.
    """
    if kind.fields is not None or kind.name == "map":
        return _shaped(dict, "a map", "object", _deep(kind))
    if kind.name == "list":
        return _shaped(list, "an array", "array", _deep(kind))
    return _SCALARS.get(kind.name)


def _shaped(kind: type, wanted: str, named: str, convert: Convert | None) -> Convert:
    def run(value: Any) -> Any:
        if type(value) is not kind and value is not None:
            text = f"invalid data, expected {wanted} for the provided schema with type={named}"
            raise CelError(text)
        return value if convert is None else convert(value)

    return run


def _deep(kind: CelType) -> Convert | None:
    """As `converter`, for parts: only what is no JSON is worth going through a list for."""
    if kind.name in _NOT_JSON:
        return _SCALARS[kind.name]
    if kind.name == "list":
        item = _deep(kind.params[0])
        return None if item is None else _each_item(item)
    if kind.name == "map":
        value = _deep(kind.params[1])
        return None if value is None else _each_member(value)
    return None


def _each_item(convert: Convert) -> Convert:
    def run(items: Any) -> Any:
        if not isinstance(items, list):
            return items
        return [_tolerant(convert, item) for item in items]

    return run


def _tolerant(convert: Convert, value: Any) -> Any:
    """A part that cannot be converted stays as it is: it matters only to who looks at it."""
    try:
        return convert(value)
    except CelError:
        return value


def _each_member(convert: Convert) -> Convert:
    def run(members: Any) -> Any:
        if not isinstance(members, dict):
            return members
        return {name: _tolerant(convert, value) for name, value in members.items()}

    return run


_GO_TYPES = {
    bool: "bool",
    dict: "map[string]interface {}",
    float: "float64",
    int: "int64",
    list: "[]interface {}",
    str: "string",
}


def _unfit(wanted: str, value: Any) -> CelError:
    found = _GO_TYPES.get(type(value), "<nil>")
    return CelError(f"invalid data, expected {wanted}, got {found}")


def _exactly(kind: type, wanted: str) -> Convert:
    def run(value: Any) -> Any:
        if type(value) is not kind and value is not None:
            raise _unfit(wanted, value)
        return value

    return run


def _double(value: Any) -> Any:
    if type(value) is int:
        return float(value)
    if type(value) is not float and value is not None:
        raise _unfit("float", value)
    return value


def _from_text(read: Convert) -> Convert:
    def run(value: Any) -> Any:
        if isinstance(value, str):
            return read(value)
        if value is not None:
            raise _unfit("string", value)
        return value

    return run


def _timestamp(text: str) -> Any:
    return to_timestamp(text if "T" in text.upper() else f"{text}T00:00:00Z")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise CelError(str(error)) from error


_SCALARS: dict[str, Convert] = {
    "bool": _exactly(bool, "bool"),
    "bytes": _from_text(_bytes),
    "double": _double,
    "duration": _from_text(to_duration),
    "int": _exactly(int, "int"),
    "string": _exactly(str, "string"),
    "timestamp": _from_text(_timestamp),
}
_NOT_JSON = frozenset({"bytes", "double", "duration", "timestamp"})


def sorter(kind: CelType) -> Convert | None:
    """What brings lists of type set and map, at any depth, into one order; None where none is."""
    if kind.name == "list":
        return _list_sorter(kind)
    if kind.name in {"map", "optional_type"}:
        inner = sorter(kind.params[-1])
        return None if inner is None else _each_member(inner)
    sorters = {
        (kind.names or {}).get(name, name): sort
        for name, field in (kind.fields or {}).items()
        if (sort := sorter(field)) is not None
    }
    if not sorters:
        return None

    def run(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {k: sorters[k](v) if k in sorters else v for k, v in value.items()}

    return run


def _list_sorter(kind: CelType) -> Convert | None:
    inner, keys = sorter(kind.params[0]), kind.keys
    if inner is None and keys is None:
        return None

    def run(items: Any) -> Any:
        if not isinstance(items, list):
            return items
        sorted_items = items if inner is None else [inner(item) for item in items]
        if keys is None:
            return sorted_items
        return sorted(sorted_items, key=lambda item: _key(item, keys))

    return run


def _key(item: Any, keys: tuple[str, ...]) -> str:
    if keys and isinstance(item, dict):
        return json_text([item.get(name) for name in keys])
    return json_text(item) if isinstance(item, str | int | float | dict | list) else str(item)


def united(left: list[Any], right: list[Any], keys: tuple[str, ...]) -> list[Any]:
    """Two sets or map lists together: what both have stands where the left one has it."""
    places = {_key(item, keys): place for place, item in enumerate(left)}
    together = list(left)
    for item in right:
        place = places.get(_key(item, keys))
        if place is None:
            together.append(item)
        else:
            together[place] = item
    return together
