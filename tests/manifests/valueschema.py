"""Judges values by the chart's schema, as Helm does: the few words of JSON schema that it uses.

A word that is not known here is an error, so the schema stays within what is checked.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

KNOWN = {
    *("$schema", "title", "description", "type", "properties", "required", "enum", "pattern"),
    *("additionalProperties", "propertyNames", "items", "anyOf"),
    *("minimum", "maximum", "minLength", "maxLength", "minItems"),
}
TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def faults(value: Any, schema: Mapping[str, Any], path: str = "values") -> Iterator[str]:
    """Yield the errors of a value by a schema, each with its place."""
    assert set(schema) <= KNOWN, f"{path}: this judge knows nothing of {set(schema) - KNOWN}"
    if "type" in schema and not _is(value, schema["type"]):
        yield f"{path}: {value!r} is no {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"
    if "anyOf" in schema and all(
        list(faults(value, alternative, path)) for alternative in schema["anyOf"]
    ):
        yield f"{path}: {value!r} is nothing of what it may be"
    if isinstance(value, str):
        yield from _text(value, schema, path)
    elif isinstance(value, dict):
        yield from _object(value, schema, path)
    elif isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{path}: too few"
        for at, item in enumerate(value):
            yield from faults(item, schema.get("items", {}), f"{path}[{at}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        if not low <= value <= high:
            yield f"{path}: {value} is not within {low} and {high}"


def _is(value: Any, type_name: str | list[str]) -> bool:
    names = [type_name] if isinstance(type_name, str) else type_name
    if isinstance(value, bool):
        return "boolean" in names
    return any(isinstance(value, TYPES[name]) for name in names)


def _text(value: str, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    if not re.search(schema.get("pattern", ""), value):
        yield f"{path}: {value!r} does not look like {schema['pattern']}"
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{path}: {value!r} has a wrong length"


def _object(value: dict[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[str]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}: {name} is missing"
    known = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    for name, item in value.items():
        yield from faults(name, schema.get("propertyNames", {}), f"{path}.{name}")
        if name in known:
            yield from faults(item, known[name], f"{path}.{name}")
        elif others is False:
            yield f"{path}: {name} is unknown"
        elif isinstance(others, dict):
            yield from faults(item, others, f"{path}.{name}")
