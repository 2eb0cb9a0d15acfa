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
    scalar = _SCALARS.get(kind.name)
    if scalar is not None:
        return scalar
    if kind.name == "list":
        item = converter(kind.params[0])
        return None if item is None else _each_item(item)
    if kind.name == "map":
        value = converter(kind.params[1])
        return None if value is None else _each_member(value)
    return None


def _each_item(convert: Convert) -> Convert:
    return lambda items: [convert(item) for item in items] if isinstance(items, list) else items


def _each_member(convert: Convert) -> Convert:
    def run(members: Any) -> Any:
        if not isinstance(members, dict):
            return members
        return {name: convert(value) for name, value in members.items()}

    return run


def _double(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _integer(value: Any) -> Any:
    if type(value) is float:
        raise CelError("invalid data, expected int, got float64")
    return value


def _timestamp(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return to_timestamp(value if "T" in value.upper() else f"{value}T00:00:00Z")


def _duration(value: Any) -> Any:
    return to_duration(value) if isinstance(value, str) else value


def _bytes(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise CelError(str(error)) from error


_SCALARS: dict[str, Convert] = {
    "bytes": _bytes,
    "double": _double,
    "duration": _duration,
    "int": _integer,
    "timestamp": _timestamp,
}


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
