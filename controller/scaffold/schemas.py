"""Structural schemas of types, as apiextensions.k8s.io/v1 wants them.

The JSON schema that pydantic makes (msgspec for its own Structs) is translated: references are
written out, titles dropped, an optional field is left out instead of null, and no default
materialises an empty value. What a structural schema cannot say raises TypeError and names the
field: a union, a tuple of a fixed length, a type that contains itself, a limit that does not
apply to the field's type. A list `conditions` gets the list type that the Kubernetes API
conventions want.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from controller.errors import ConfigurationError
from controller.markers import LIMIT_KEYWORDS, LIMITS, list_map

Schema = dict[str, Any]

_ENVELOPE = ("apiVersion", "kind", "metadata")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_FOR_READERS_OF_CODE = re.compile(r"\n\s*(Args|Attributes|Raises|Returns):\n.*", re.DOTALL)
"""The part of a docstring that says nothing to a user of the API."""


def structural_schema(model: type) -> Schema:
    """Return the structural OpenAPI v3 schema of a kind's type, for the caller to keep.

    Args:
        model: the type of the objects; it has `metadata`, and usually `spec` and `status`.

    Raises:
        TypeError: a field has a type that no structural schema can describe.
        ConfigurationError: pydantic is missing, and the type is no msgspec.Struct.
    """
    schema: Schema = msgspec.json.decode(_encoded_schema(model))
    return schema


def plain_schema(model: type) -> Schema:
    """Return the schema of any type with references written out, as `structural_schema` does."""
    whole = _json_schema(model)
    return _structural(whole, whole.pop("$defs", {}), model.__name__)


def _json_schema(model: type) -> Schema:
    if issubclass(model, msgspec.Struct):
        return msgspec.json.schema(model)
    # Here, as it takes longer to load than many a command that needs the kinds' names only.
    try:
        from pydantic import TypeAdapter  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"the schema of {model.__name__} needs pydantic: install"
            " butler-ipam-controller[scaffold], or make it a msgspec.Struct"
        ) from error

    return TypeAdapter(model).json_schema()


@cache
def _encoded_schema(model: type) -> bytes:
    whole = plain_schema(model)
    parts = {
        name: _without_defaults(part) if name == "status" else part
        for name, part in whole["properties"].items()
        if name not in _ENVELOPE
    }
    required = [name for name in whole.get("required", ()) if name in parts and name != "status"]
    schema = {
        "description": " ".join(_summarize(model).split()),
        "type": "object",
        "required": required,
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            **parts,
        },
        **{name: whole[name] for name in ("x-kubernetes-validations",) if name in whole},
    }
    return msgspec.json.encode({name: part for name, part in schema.items() if part})


def _summarize(model: type) -> str:
    """Return the part of a type's docstring that describes the API."""
    docstring = model.__doc__ or ""
    if docstring.startswith(f"{model.__name__}("):
        return ""  # the signature, which dataclasses write if there is no docstring
    return _FOR_READERS_OF_CODE.sub("", docstring)


def _structural(
    schema: Mapping[str, Any],
    definitions: Mapping[str, Schema],
    path: str,
    parents: tuple[str, ...] = (),
) -> Schema:
    """Return a JSON schema as a structural one: references resolved, titles removed.

    Args:
        schema: of a type or a field.
        definitions: the schemas that references name.
        path: of the field, for messages.
        parents: the references that lead to the field.
    """
    merged, parents = _resolve(schema, definitions, path, parents)
    result = {key: value for key, value in merged.items() if key not in {"title", "default"}}
    if "description" in result:
        result["description"] = _FOR_READERS_OF_CODE.sub("", result["description"]).rstrip()
    _limit(result, path)
    default = merged.get("default")
    if isinstance(default, bool | int | float) or (isinstance(default, str) and default):
        result["default"] = default
    if "properties" in result:
        result["properties"] = {
            name: _structural(part, definitions, f"{path}.{name}", parents)
            for name, part in result["properties"].items()
        }
        _key_conditions(result["properties"])
    if "prefixItems" in result:
        raise TypeError(f"{path}: a tuple of a fixed length has no structural schema; use a list")
    for inner in ("items", "additionalProperties"):
        if isinstance(result.get(inner), Mapping) and result[inner]:
            result[inner] = _structural(result[inner], definitions, f"{path}[]", parents)
    if result.pop("uniqueItems", False):
        result.setdefault("x-kubernetes-list-type", "set")
    for bound, plain in _BOUNDS.items():  # a number in JSON schema, a flag in OpenAPI v3.0
        if bound in result:
            result |= {plain: result[bound], bound: True}
    return _preserve_unknown(result)


def _limit(schema: Schema, path: str) -> None:
    """Add the limits of FieldSchema that pydantic dropped.

    Raises:
        TypeError: a limit does not apply to the field's type.
    """
    limits = schema.pop(LIMITS, {})
    for name in ("ge", "le", "gt", "lt"):  # pydantic writes the names for types without bounds
        limits |= {name: schema.pop(name)} if name in schema else {}
    is_either = "x-kubernetes-int-or-string" in schema
    is_text = is_either or (schema.get("type") == "string" and "format" not in schema)
    for name, limit in limits.items():
        if any(keyword in schema for keyword in LIMIT_KEYWORDS.get(name, ())):
            continue
        if name != "pattern" or not is_text:
            kind = "int | str" if is_either else schema.get("format") or schema.get("type", "Any")
            raise TypeError(
                f"{path}: {name} does not apply to {kind}; remove it, or check the field by a rule"
                " (with_rules)"
            )
        schema["pattern"] = limit


def _key_conditions(properties: dict[str, Schema]) -> None:
    """Tell the entries of a list `conditions` apart by their type, unless the list has a type."""
    conditions = properties.get("conditions", {})
    items = conditions.get("items", {})
    is_typed = "x-kubernetes-list-type" in conditions
    if not is_typed and {"type", "status"} <= set(items.get("required", ())):
        conditions.update(list_map("type"))


def _preserve_unknown(schema: Schema) -> Schema:
    """Return a schema that keeps what it does not describe, where the type holds anything."""
    is_free = schema.get("additionalProperties", False) in (True, {})
    is_any = not {"type", "properties", "enum", "x-kubernetes-int-or-string"} & schema.keys()
    if isinstance(schema.get("additionalProperties"), bool) or is_free:
        schema.pop("additionalProperties", None)
    if is_free or is_any or schema.get("items") == {}:
        items = {"items": {_PRESERVE: True}} if schema.get("items") == {} else {}
        return {**schema, **(items or {_PRESERVE: True})}
    return schema


def _resolve(
    schema: Mapping[str, Any],
    definitions: Mapping[str, Schema],
    path: str,
    parents: tuple[str, ...],
) -> tuple[Schema, tuple[str, ...]]:
    """Resolve a reference, drop the "or null" of an optional field, turn a const into an enum."""
    merged = dict(schema)
    choices = [choice for choice in merged.pop("anyOf", ()) if choice.get("type") != "null"]
    if {choice.get("type") for choice in choices} == {"integer", "string"}:
        for choice in choices:  # a pattern of the text, a bound of the number
            merged = {key: part for key, part in choice.items() if key != "type"} | merged
        merged["x-kubernetes-int-or-string"] = True
    elif len(choices) > 1:
        raise TypeError(f"{path}: a union of types has no structural schema; use one type")
    else:
        merged = {**(choices[0] if choices else {}), **merged}
    reference = merged.pop("$ref", None)
    if reference is not None:
        name = reference.rsplit("/", 1)[-1]
        if name in parents:
            raise TypeError(f"{path}: {name} contains itself, which no structural schema can say")
        parents = (*parents, name)
        target, parents = _resolve(definitions[name], definitions, path, parents)
        merged = {**target, **merged}
    if "const" in merged:
        merged["enum"] = [merged.pop("const")]
    if "enum" in merged and "type" not in merged:
        merged["type"] = "string" if isinstance(merged["enum"][0], str) else "integer"
    return merged, parents


def _without_defaults(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {key: _without_defaults(part) for key, part in schema.items() if key != "default"}
    if isinstance(schema, list):
        return [_without_defaults(item) for item in schema]
    return schema
