"""Validates values by the chart's JSON schema, with only the keywords that the schema uses.

An unknown keyword in the schema is an error, so the whole schema is checked.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

KNOWN_KEYWORDS = {
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


def find_errors(value: Any, schema: Mapping[str, Any], path: str = "values") -> Iterator[str]:
    """Yield the errors of a value by a schema.

    Args:
        path: the path of the value, with which each error begins.
    """
    assert set(schema) <= KNOWN_KEYWORDS, (
        f"{path}: unknown keywords {set(schema) - KNOWN_KEYWORDS}"
    )
    if "type" in schema and not _has_type(value, schema["type"]):
        yield f"{path}: {value!r} is not of type {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is not one of {schema['enum']}"
    if "anyOf" in schema and all(
        list(find_errors(value, alternative, path)) for alternative in schema["anyOf"]
    ):
        yield f"{path}: {value!r} fits no alternative"
    if isinstance(value, str):
        yield from _find_string_errors(value, schema, path)
    elif isinstance(value, dict):
        yield from _find_object_errors(value, schema, path)
    elif isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{path}: too few items"
        for at, item in enumerate(value):
            yield from find_errors(item, schema.get("items", {}), f"{path}[{at}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        if not low <= value <= high:
            yield f"{path}: {value} is not within {low} and {high}"


def _has_type(value: Any, type_name: str | list[str]) -> bool:
    """Return whether a value has a JSON type, or one of a list of types; bool is not integer."""
    names = [type_name] if isinstance(type_name, str) else type_name
    if isinstance(value, bool):
        return "boolean" in names
    return any(isinstance(value, TYPES[name]) for name in names)


def _find_string_errors(value: str, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the errors of a string by `pattern`, `minLength` and `maxLength`."""
    if not re.search(schema.get("pattern", ""), value):
        yield f"{path}: {value!r} does not match {schema['pattern']}"
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{path}: {value!r} is too short or too long"


def _find_object_errors(
    value: dict[str, Any], schema: Mapping[str, Any], path: str
) -> Iterator[str]:
    """Yield the errors of an object by its schema, and the errors of its properties."""
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}: {name} is missing"
    known = schema.get("properties", {})
    additional = schema.get("additionalProperties", True)
    for name, item in value.items():
        yield from find_errors(name, schema.get("propertyNames", {}), f"{path}.{name}")
        if name in known:
            yield from find_errors(item, known[name], f"{path}.{name}")
        elif additional is False:
            yield f"{path}: {name} is unknown"
        elif isinstance(additional, dict):
            yield from find_errors(item, additional, f"{path}.{name}")
