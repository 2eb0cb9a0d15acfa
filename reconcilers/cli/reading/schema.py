"""Validates an object against the schema of its kind, by the rules of an API server.

The schema is that of the CRD. For metadata there is a schema of our own, with the rules of
apimachinery for names, labels and times. A value that the API server would reject is a *fault*. A
field that the API server would drop silently is *unknown*. A null in an optional field counts as
absent. CEL rules are not applied here: the audit of a plan calls the same rules as functions.

Pydantic could validate, too, but not enumerations, which exist in the schema only. jsonschema has
no pruning and no keyed lists, and its messages are less clear.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any

from manifests import read_definitions
from reconcilers.api.fields import IP, IP_CIDR
from reconcilers.api.names import DNS_LABEL, DNS_SUBDOMAIN
from reconcilers.cli.reading.findings import Step, format_value
from reconcilers.reporting.wording import count_noun

Path = tuple[Step, ...]
Schema = Mapping[str, Any]
Fault = tuple[Path, str]
"""A field, and the part of a sentence that follows its name: "is missing"."""

_BOUNDS = {"int32": 2**31, "int64": 2**63}
"""By format: the first number that is too large. The smallest number is its negative."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")

_WORD = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_KEY = rf"((?=[^/]{{1,253}}/){DNS_SUBDOMAIN}/)?(?=[^/]{{1,63}}$){_WORD}$"
_NAME_PATTERN = rf"^(?=.{{1,253}}$){DNS_SUBDOMAIN}$"
_NAMESPACE_PATTERN = rf"^(?=.{{0,63}}$)({DNS_LABEL})?$"
_LABEL_PATTERN = rf"^(?=.{{0,63}}$)({_WORD})?$"
_LABEL_KEY_PATTERN = f"^{_KEY}"
_ANNOTATION_KEY_PATTERN = f"(?i)^{_KEY}"
_VERSION_PATTERN = r"^[0-9]{0,20}$"

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "integer"}
_MOMENT: Schema = {"type": "string", "format": "date-time"}
_METADATA: Schema = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "pattern": _NAME_PATTERN},
        "namespace": {"type": "string", "pattern": _NAMESPACE_PATTERN},
        "resourceVersion": {"type": "string", "pattern": _VERSION_PATTERN},
        **dict.fromkeys(("generateName", "uid", "selfLink"), _TEXT),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _MOMENT),
        **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), _NUMBER),
        "labels": {
            "type": "object",
            "propertyNames": _LABEL_KEY_PATTERN,
            "additionalProperties": {"type": "string", "pattern": _LABEL_PATTERN},
        },
        "annotations": {
            "type": "object",
            "propertyNames": _ANNOTATION_KEY_PATTERN,
            "additionalProperties": _TEXT,
        },
        "finalizers": {"type": "array", "items": _TEXT},
        "ownerReferences": {"type": "array", "items": {"type": "object"}},
        "managedFields": {"type": "array"},
    },
}
_EXPECTATIONS = {
    IP: "is not an IP address such as 10.40.1.0 or fd00::10",
    IP_CIDR: "is not a CIDR such as 10.40.0.0/24 or fd00::/64",
    r"^v\d+\.\d+\.\d+$": "is not a version such as v1.33.1",
    r"^https?://": "is not a URL: it must begin with http:// or https://",
    _NAME_PATTERN: "must be lower-case letters, digits, '-' and '.', as a DNS name",
    _NAMESPACE_PATTERN: "must be at most 63 lower-case letters, digits and '-'",
    _LABEL_PATTERN: "is not a label value: at most 63 letters, digits, '-', '_', '.'",
    _LABEL_KEY_PATTERN: "is not a label key",
    _ANNOTATION_KEY_PATTERN: "is not an annotation key",
    _VERSION_PATTERN: "is not a resourceVersion: a number of at most 20 digits",
}


def is_time(time: str) -> bool:
    """Return whether a text is a time in the form of RFC 3339."""
    if not _TIME.fullmatch(time):
        return False
    try:
        datetime.fromisoformat(time.upper())  # Python parses `T` and `Z` in upper case
    except ValueError:
        return False
    return True


@cache
def load_schemas() -> Mapping[str, Schema]:
    """Return the schemas of objects by kind: those of the CRDs, with our schema of metadata.

    They are read from the shipped CRDs, because generating them from the models takes half a
    second of CPU time.
    """
    schemas = {}
    for definition in read_definitions():
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["metadata"] = _METADATA
        schema["required"].insert(0, "metadata")
        schemas[definition["spec"]["names"]["kind"]] = schema
    return schemas


@dataclass(slots=True)
class Validation:
    """The result of validating an object against a schema."""

    schema: Schema
    body: Mapping[str, Any]
    faults: list[Fault] = field(default_factory=list)
    """The values that an API server would reject."""
    unknown: list[Fault] = field(default_factory=list)
    """The fields that it would drop, each with a hint at a similar name; the hint may be empty."""
    stored_form: Mapping[str, Any] = field(init=False)
    """The object as an API server would store it, but without defaults."""

    def __post_init__(self) -> None:
        """Validate the object."""
        self.stored_form = self._validate_value(self.body, self.schema, ())

    def _validate_value(self, value: Any, schema: Schema, path: Path) -> Any:
        """Return a value as it would be stored, and note its faults and unknown fields."""
        expected = "amount" if schema.get("x-kubernetes-int-or-string") else schema.get("type")
        if expected is None:
            return value  # the schema allows any value
        misfit = _describe_wrong_type(value, expected)
        if misfit:
            self.faults.append((path, misfit))
            return value
        if expected == "object":
            return self._validate_object(value, schema, path)
        if expected == "array":
            return self._validate_array(value, schema, path)
        self.faults += [(path, fault) for fault in _find_scalar_faults(value, schema)]
        # The API server stores 1.0 as 1.
        return int(value) if expected == "integer" else value

    def _validate_object(self, value: Mapping[str, Any], schema: Schema, path: Path) -> Any:
        """Return a mapping as it would be stored, and note its faults and unknown fields.

        A field is validated by its own schema, or by the schema for all values of a map. A field
        without a schema is kept if the object's schema preserves unknown fields; else it is
        unknown, and dropped.
        """
        for name in schema.get("required", ()):
            if value.get(name) is None:
                self.faults.append(((*path, name), "is missing"))
        properties, map_schema = schema.get("properties"), schema.get("additionalProperties", {})
        stored_fields = {}
        for name, inner in value.items():
            inner_schema = map_schema if properties is None else properties.get(name)
            name_pattern = schema.get("propertyNames")
            if name_pattern is not None and not _compile_pattern(name_pattern).search(name):
                fault = f"{name!r} {_EXPECTATIONS[name_pattern]}"
                self.faults.append(((*path, name), fault))
            if inner_schema is not None and (properties is None or inner is not None):
                stored_fields[name] = self._validate_value(inner, inner_schema, (*path, name))
            elif inner_schema is None and schema.get("x-kubernetes-preserve-unknown-fields"):
                stored_fields[name] = inner
            elif inner_schema is None:
                near = get_close_matches(name, properties or (), n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                self.unknown.append(((*path, name), hint))
            # else: a null in an optional field, which counts as absent
        return stored_fields

    def _validate_array(self, value: list[Any], schema: Schema, path: Path) -> Any:
        """Return a list as it would be stored, and note the faults of its items and its length."""
        length = len(value)
        if length > schema.get("maxItems", length):
            self.faults.append(
                (path, f"has {count_noun(length, 'item')}, at most {schema['maxItems']} fit")
            )
        if length < schema.get("minItems", 0):
            self.faults.append((path, f"needs at least {count_noun(schema['minItems'], 'item')}"))
        inner = schema.get("items", {})
        stored_items = [
            self._validate_value(item, inner, (*path, index)) for index, item in enumerate(value)
        ]
        self.faults += _find_duplicates(stored_items, schema, path)
        return stored_items


def _is_integer(value: Any) -> bool:
    """Return whether a value is an integer for the API server; 1.0 is an integer, too."""
    if isinstance(value, bool):
        return False  # bool is a subclass of int in Python
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


_FITS: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "amount": lambda value: isinstance(value, str) or _is_integer(value),
}
_NAMES = {
    "object": "a mapping",
    "array": "a list",
    "string": "a string",
    "boolean": "true or false",
    "integer": "an integer",
    "amount": "a string or an integer",
}


def _describe_wrong_type(value: Any, expected: str) -> str | None:
    """Return the fault that a value has the wrong type; None if the type fits."""
    if _FITS[expected](value):
        return None
    return (
        f"must be {_NAMES[expected]}, not {format_value(value)}{_describe_quotes(value, expected)}"
    )


def _describe_quotes(value: Any, expected: str) -> str:
    """Return a hint to add or to remove quotes; empty if quotes are not the reason."""
    if expected == "string" and isinstance(value, bool | int | float):
        return "; quote it"
    if not isinstance(value, str):
        return ""
    unquoted = (expected == "integer" and value.isdecimal()) or (
        expected == "boolean" and value in {"true", "false"}
    )
    return "; remove the quotes" if unquoted else ""


def _find_scalar_faults(value: Any, schema: Schema) -> Iterator[str]:
    """Yield the faults of a text, a number or a boolean of the right type."""
    if "enum" in schema and value not in schema["enum"]:
        near = get_close_matches(str(value), schema["enum"], n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield f"{format_value(value)} is not one of {', '.join(schema['enum'])}{hint}"
    if isinstance(value, str):
        yield from _find_text_faults(value, schema)
    elif not isinstance(value, bool):
        yield from _find_number_faults(value, schema)


def _find_text_faults(value: str, schema: Schema) -> Iterator[str]:
    """Yield the faults of a text: length, pattern, form of a time."""
    if len(value) < schema.get("minLength", 0):
        yield "must not be empty"
    if len(value) > schema.get("maxLength", len(value)):
        limit = count_noun(schema["maxLength"], "character")
        yield f"{format_value(value)} is longer than {limit}"
    elif "pattern" in schema and not _compile_pattern(schema["pattern"]).search(value):
        pattern = schema["pattern"]
        yield f"{format_value(value)} {_EXPECTATIONS.get(pattern, f'does not match {pattern}')}"
    if schema.get("format") == "date-time" and not is_time(value):
        yield f"{format_value(value)} is not a time such as 2026-01-31T12:00:00Z"


def _find_number_faults(value: float, schema: Schema) -> Iterator[str]:
    """Yield the first fault of a number: the range of its format, the minimum, the maximum."""
    limit = _BOUNDS.get(schema.get("format", ""), 0)
    if limit and not -limit <= value < limit:
        yield f"{format_value(value)} does not fit into {schema['format']}"
    elif value < schema.get("minimum", value):
        yield f"must be at least {schema['minimum']}, not {format_value(value)}"
    elif value > schema.get("maximum", value):
        yield f"must be at most {schema['maximum']}, not {format_value(value)}"


@lru_cache(maxsize=64)
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    r"""Return a compiled pattern with the meaning that it has in Go, because API servers use Go.

    In Go, `\d` means ASCII digits, and `$` does not match before a final newline.
    """
    return re.compile(
        pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") else pattern, re.ASCII
    )


def _find_duplicates(stored_form: list[Any], schema: Schema, path: Path) -> Iterator[Fault]:
    """Yield a fault for each item of a keyed list that has the key of an earlier item."""
    keys = schema.get("x-kubernetes-list-map-keys")
    first_by_key: dict[str, int] = {}
    for index, item in enumerate(stored_form):
        if keys is None or not isinstance(item, Mapping):
            return  # the list is not keyed, or the item has a fault already
        # As text, because values of the wrong type may not be hashable.
        key = repr([item.get(name) for name in keys])
        first = first_by_key.setdefault(key, index)
        if first != index:
            yield (*path, index), f"has the same {', '.join(keys)} as item {first}"
