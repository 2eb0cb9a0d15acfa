"""Schemas of the vocabulary in use, and values of which some fit them."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st

Schema = dict[str, Any]

_NAMES = "abc"
_LETTERS = st.characters(codec="ascii", exclude_categories=["Cc"])
_TEXTS = st.sampled_from(["", "a", "b", "ab", "abcd", "10.0.0.1", "2026-01-31T00:00:00Z", "1Gi"])
_FORMATS = st.sampled_from(["date-time", "ipv4", "cidr", "uuid", "int32", "int64", "double", "no"])
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 6)
    | st.sampled_from([2**31, -(2**63), 0.5, 1.0, 2.5])
    | _TEXTS
)
VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner),
    max_leaves=6,
)


def _some(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    return st.fixed_dictionaries({}, optional=keywords)


def _bounds(least: str, most: str) -> dict[str, st.SearchStrategy[Any]]:
    return {least: st.integers(0, 2), most: st.integers(1, 4)}


_COMMON = {"nullable": st.booleans(), "enum": st.lists(_SCALARS, min_size=1, max_size=3)}
_TEXT_DEMANDS = {
    "pattern": st.sampled_from(["^a", "b$", "^(a|b+)+$", r"^\d+(\.\d+){3}$"]),
    "format": _FORMATS,
    **_bounds("minLength", "maxLength"),
}
_NUMBER_DEMANDS = {
    "minimum": st.sampled_from([0, 1, 0.5, 2**62, 2**63]),
    "maximum": st.sampled_from([0, 3, 2.5, 2**31]),
    "exclusiveMinimum": st.booleans(),
    "exclusiveMaximum": st.booleans(),
    "multipleOf": st.sampled_from([1, 2, 0.5]),
    "format": _FORMATS,
}
_BRANCHES = st.lists(
    _some(**_TEXT_DEMANDS)
    | _some(**_NUMBER_DEMANDS)
    | _some(type=st.sampled_from(["integer", "string"]))
    | _some(required=st.lists(st.sampled_from(_NAMES), max_size=2)),
    min_size=1,
    max_size=2,
)
_COMPOSITES = {
    "anyOf": _BRANCHES,
    "oneOf": _BRANCHES,
    "allOf": _BRANCHES,
    "not": _some(**_TEXT_DEMANDS),
}


def _typed(kind: str, demands: dict[str, Any]) -> st.SearchStrategy[Schema]:
    rare: st.SearchStrategy[Schema] = st.just({}) | st.just({}) | _some(**_COMPOSITES)
    plain = _some(**{name: value for name, value in demands.items() if name != "enum"})
    parts = st.tuples(plain | _some(**demands), rare)
    return parts.map(lambda found: {"type": kind, **found[0], **found[1]})


_LEAVES = (
    _typed("string", _TEXT_DEMANDS | _COMMON)
    | _typed("integer", _NUMBER_DEMANDS | _COMMON)
    | _typed("number", _NUMBER_DEMANDS | _COMMON)
    | _typed("boolean", _COMMON)
    | _some(nullable=st.booleans(), pattern=_TEXT_DEMANDS["pattern"]).map(
        lambda found: {"x-kubernetes-int-or-string": True, **found}
    )
    | _some(nullable=st.booleans()).map(
        lambda found: {"x-kubernetes-preserve-unknown-fields": True, **found}
    )
)


def _lists(items: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    kind = {"x-kubernetes-list-type": st.sampled_from(["set", "atomic"])}
    return _typed("array", {**_bounds("minItems", "maxItems"), **kind, **_COMMON}).flatmap(
        lambda found: items.map(lambda item: {**found, "items": item})
    )


def _keyed(items: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    keys = st.lists(st.sampled_from(_NAMES), min_size=1, max_size=2, unique=True)
    key = {"type": "string"}

    def keyed(found: tuple[list[str], Schema]) -> Schema:
        names, item = found
        fields = {**item.get("properties", {}), **dict.fromkeys(names, key)}
        return {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": names,
            "items": {**item, "type": "object", "properties": fields},
        }

    return st.tuples(keys, _objects(items)).map(keyed)


def _objects(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    demands = {
        "required": st.lists(st.sampled_from(_NAMES), max_size=1),
        "x-kubernetes-preserve-unknown-fields": st.just(True),
        **_bounds("minProperties", "maxProperties"),
        **_COMMON,
    }
    members = st.dictionaries(st.sampled_from(_NAMES), inner, max_size=3).map(
        lambda found: {"properties": found}
    ) | inner.map(lambda found: {"additionalProperties": found})
    both = st.tuples(_typed("object", demands) | st.just({"type": "object"}), members)
    return both.map(lambda found: {**found[0], **found[1]})


SCHEMAS: st.SearchStrategy[Schema] = st.recursive(
    _LEAVES, lambda inner: _lists(inner) | _keyed(inner) | _objects(inner), max_leaves=5
)


def near(schema: Schema) -> st.SearchStrategy[Any]:
    """Values of the structure of a schema, whatever it demands of the parts, and any others."""
    if schema.get("type") == "array":
        return st.lists(near(schema["items"]), max_size=3) | VALUES
    if schema.get("type") != "object":
        return VALUES
    parts = {name: near(part) for name, part in schema.get("properties", {}).items()}
    members = st.fixed_dictionaries({}, optional=parts)
    if "additionalProperties" in schema:
        beyond = st.dictionaries(st.sampled_from(_NAMES), near(schema["additionalProperties"]))
        return members | beyond | VALUES
    return members | VALUES


def fitting(schema: Schema) -> st.SearchStrategy[Any]:
    """Values that mostly fit a schema, for those without composites and rules."""
    found = _fitting(schema)
    if schema.get("enum"):
        found = st.sampled_from(schema["enum"])
    return found | st.none() if schema.get("nullable") else found


def _fitting(schema: Schema) -> st.SearchStrategy[Any]:
    if schema.get("x-kubernetes-int-or-string"):
        return st.integers(0, 9) | st.sampled_from(["50%", "1"])
    kinds = {
        "array": _fitting_list,
        "boolean": lambda _: st.booleans(),
        "integer": _fitting_number,
        "number": _fitting_number,
        "object": _fitting_object,
        "string": _fitting_text,
    }
    return kinds[schema["type"]](schema)


def _fitting_number(schema: Schema) -> st.SearchStrategy[Any]:
    least = schema.get("minimum", 0)
    return st.integers(least, schema.get("maximum", least + 9))


def _fitting_list(schema: Schema) -> st.SearchStrategy[Any]:
    names = schema.get("x-kubernetes-list-map-keys", ())
    apart = (lambda item: [item.get(name) for name in names]) if names else (lambda item: item)
    typed = schema.get("x-kubernetes-list-type") in {"map", "set"}
    return st.lists(
        fitting(schema["items"]),
        min_size=schema.get("minItems", 0),
        max_size=schema.get("maxItems", 3),
        unique_by=(lambda item: repr(apart(item))) if typed else None,
    )


def _fitting_object(schema: Schema) -> st.SearchStrategy[Any]:
    if schema.get("additionalProperties"):
        return st.dictionaries(_TEXTS, fitting(schema["additionalProperties"]), max_size=2)
    parts = {name: fitting(part) for name, part in schema.get("properties", {}).items()}
    required = schema.get("required", ())
    return st.fixed_dictionaries(
        {name: parts[name] for name in required if name in parts},
        optional={name: part for name, part in parts.items() if name not in required},
    )


def _fitting_text(schema: Schema) -> st.SearchStrategy[str]:
    if schema.get("format") == "date-time":
        return st.sampled_from(["2026-01-31T00:00:00Z", "2026-02-01T12:30:00.5+02:00"])
    if "pattern" in schema:
        pattern = re.compile(schema["pattern"].replace("$", r"\Z"), re.ASCII)
        found = st.from_regex(pattern, alphabet=_LETTERS)
        return found.filter(lambda text: len(text) <= schema.get("maxLength", 99))
    least = schema.get("minLength", 0)
    return st.text("ab1.", min_size=least, max_size=schema.get("maxLength", least + 8))
