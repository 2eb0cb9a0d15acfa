"""Structural schemas of types, as apiextensions.k8s.io/v1 requires them.

The JSON schema from pydantic (from msgspec for plain Structs) is translated. References are
written out, and titles dropped. An optional field is left out instead of null. No default
materialises an empty value. A list `conditions` gets the list type that the Kubernetes API
conventions require.

A structural schema cannot describe a union, a tuple of a fixed length, a type that contains
itself, or a limit that does not apply to the field's type. These raise a TypeError that names the
field.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from controller.errors import ConfigurationError
from controller.markers import LIMIT_KEYWORDS, LIMITS, ApiType, list_map

Schema = dict[str, Any]

_ENVELOPE = ("apiVersion", "kind", "metadata")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_TYPE_KEYWORDS = {"type", "properties", "enum", "x-kubernetes-int-or-string"}
"""Keywords one of which a schema has unless it allows any value."""
_BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_SECTIONS_FOR_PROGRAMMERS = re.compile(r"\n\s*(Args|Attributes|Raises|Returns):\n.*", re.DOTALL)
"""The part of a docstring that says nothing to a user of the API."""


def create_structural_schema(model: type) -> Schema:
    """Return the structural OpenAPI v3 schema of a kind's type; the caller may change it.

    Args:
        model: the type of the objects; it has `metadata`, and usually `spec` and `status`.

    Raises:
        TypeError: a field has a type that no structural schema can describe.
        ConfigurationError: pydantic is missing, and the type is no msgspec.Struct.
    """
    schema: Schema = msgspec.json.decode(_encode_schema(model))
    return schema


def create_plain_schema(model: type) -> Schema:
    """Return the schema of any type, with references written out."""
    whole = _create_json_schema(model)
    return _make_structural(whole, whole.pop("$defs", {}), model.__name__)


def _create_json_schema(model: type) -> Schema:
    """Return the JSON schema of a type, by msgspec for plain Structs and by pydantic for others.

    Raises:
        ConfigurationError: pydantic is needed, and is not installed.
    """
    if issubclass(model, msgspec.Struct) and not issubclass(model, ApiType):
        return msgspec.json.schema(model)
    # Imported on demand, because pydantic loads slowly and most commands do not need it.
    try:
        from pydantic import TypeAdapter  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"the schema of {model.__name__} needs pydantic: install"
            " butler-ipam-controller[scaffold], or make it a msgspec.Struct"
        ) from error

    return TypeAdapter(model).json_schema()


@cache
def _encode_schema(model: type) -> bytes:
    """Return the schema of a kind's type as JSON bytes, which callers of the cache cannot change.

    `status` gets no defaults and is not required: objects are created without it, and the server
    must not write one.
    """
    whole = create_plain_schema(model)
    parts = {
        name: _drop_defaults(part) if name == "status" else part
        for name, part in whole["properties"].items()
        if name not in _ENVELOPE
    }
    required = [name for name in whole.get("required", ()) if name in parts and name != "status"]
    schema = {
        "description": " ".join(_read_api_description(model).split()),
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
    # An empty description, or an empty list of required fields, is left out.
    return msgspec.json.encode({name: part for name, part in schema.items() if part})


def _read_api_description(model: type) -> str:
    """Return the part of a type's docstring that describes the API."""
    docstring = model.__doc__ or ""
    if docstring.startswith(f"{model.__name__}("):
        return ""  # the signature, which dataclasses write if there is no docstring
    return _SECTIONS_FOR_PROGRAMMERS.sub("", docstring)


def _make_structural(
    schema: Mapping[str, Any],
    definitions: Mapping[str, Schema],
    path: str,
    parents: tuple[str, ...] = (),
) -> Schema:
    """Return a JSON schema as a structural one: references resolved, titles removed.

    Args:
        schema: the schema of a type or a field.
        definitions: the schemas that references name.
        path: the path of the field, for messages.
        parents: the references that lead to the field.

    Raises:
        TypeError: the field has a type that no structural schema can describe, or a limit that
            does not apply to its type.
    """
    merged, parents = _resolve_references(schema, definitions, path=path, parents=parents)
    result = {key: value for key, value in merged.items() if key not in {"title", "default"}}
    if "description" in result:
        result["description"] = _SECTIONS_FOR_PROGRAMMERS.sub("", result["description"]).rstrip()
    _add_limits_dropped_by_pydantic(result, path)
    default = merged.get("default")
    # Only scalars, and no empty text: no default may materialise an empty value.
    if isinstance(default, bool | int | float) or (isinstance(default, str) and default):
        result["default"] = default
    if "properties" in result:
        result["properties"] = {
            name: _make_structural(part, definitions, path=f"{path}.{name}", parents=parents)
            for name, part in result["properties"].items()
        }
        _set_key_of_conditions(result["properties"])
    if "prefixItems" in result:
        raise TypeError(f"{path}: a tuple of a fixed length has no structural schema; use a list")
    for inner in ("items", "additionalProperties"):
        # An empty schema, true or false is left to `_preserve_unknown_fields`.
        if isinstance(result.get(inner), Mapping) and result[inner]:
            result[inner] = _make_structural(
                result[inner], definitions, path=f"{path}[]", parents=parents
            )
    # A structural schema may not have uniqueItems; a type with a list type keeps its own.
    if result.pop("uniqueItems", False):
        result.setdefault("x-kubernetes-list-type", "set")
    for bound, plain in _BOUNDS.items():  # a number in JSON schema, a flag in OpenAPI v3.0
        if bound in result:
            result |= {plain: result[bound], bound: True}
    return _preserve_unknown_fields(result)


def _add_limits_dropped_by_pydantic(schema: Schema, path: str) -> None:
    """Add the limits of FieldSchema that pydantic dropped, in place.

    pydantic drops a limit that it cannot write for the field's type. Only a pattern of a text can
    be added; every other dropped limit is a mistake in the type.

    Raises:
        TypeError: a limit does not apply to the field's type.
    """
    limits = schema.pop(LIMITS, {})
    # Pydantic leaves these names in the schema of a type to which no bound applies.
    for name in ("ge", "le", "gt", "lt"):
        limits |= {name: schema.pop(name)} if name in schema else {}
    is_either = "x-kubernetes-int-or-string" in schema
    is_text = is_either or (schema.get("type") == "string" and "format" not in schema)
    for name, limit in limits.items():
        if any(keyword in schema for keyword in LIMIT_KEYWORDS.get(name, ())):
            continue  # pydantic has written the limit
        if name != "pattern" or not is_text:
            kind = "int | str" if is_either else schema.get("format") or schema.get("type", "Any")
            raise TypeError(
                f"{path}: {name} does not apply to {kind}; remove it, or check the field by a rule"
                " (with_rules)"
            )
        schema["pattern"] = limit


def _set_key_of_conditions(properties: dict[str, Schema]) -> None:
    """Make a list `conditions` a map whose key is `type`, as the API conventions require.

    This applies only if the entries require `type` and `status`, and the list has no list type.
    """
    conditions = properties.get("conditions", {})
    items = conditions.get("items", {})
    is_typed = "x-kubernetes-list-type" in conditions
    if not is_typed and {"type", "status"} <= set(items.get("required", ())):
        conditions.update(list_map("type"))


def _preserve_unknown_fields(schema: Schema) -> Schema:
    """Return the schema with x-kubernetes-preserve-unknown-fields where its type allows anything.

    The API server drops each field that a structural schema does not describe, so without that
    marker a `dict[str, Any]` would lose all its fields
    (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#controlling-pruning).
    JSON schema writes "anything" in three ways: a true or empty `additionalProperties` for a map,
    an empty `items` for a list, and a schema without a type for a single value.
    """
    additional = schema.get("additionalProperties")
    allows_any_field = additional is True or additional == {}
    allows_any_entry = schema.get("items") == {}
    allows_any_value = not _TYPE_KEYWORDS & schema.keys()
    result = dict(schema)
    if isinstance(additional, bool) or allows_any_field:
        del result["additionalProperties"]  # the marker replaces it; false is the default
    if allows_any_entry:
        result["items"] = {_PRESERVE: True}
    elif allows_any_field or allows_any_value:
        result[_PRESERVE] = True
    return result


def _resolve_references(
    schema: Mapping[str, Any],
    definitions: Mapping[str, Schema],
    path: str,
    parents: tuple[str, ...],
) -> tuple[Schema, tuple[str, ...]]:
    """Return a schema without `anyOf`, `$ref` and `const`, and the references that lead to it.

    A structural schema has none of the three keywords. A keyword beside a reference, for
    example a description, overrides that keyword of the referenced schema. The returned
    references are `parents` and the references that this call resolved.

    Args:
        schema: the schema of a type or a field.
        definitions: the schemas that references name.
        path: the path of the field, for messages.
        parents: the references that lead to the field.

    Raises:
        TypeError: the field is a union, or its type contains itself.
    """
    result = _merge_choices(schema, path)
    reference = result.pop("$ref", None)
    if reference is not None:
        name = reference.rsplit("/", 1)[-1]
        if name in parents:
            raise TypeError(
                f"{path}: {name} contains itself, which no structural schema can describe"
            )
        target, parents = _resolve_references(
            definitions[name], definitions, path=path, parents=(*parents, name)
        )
        result = {**target, **result}
    if "const" in result:
        result["enum"] = [result.pop("const")]
    if "enum" in result and "type" not in result:
        result["type"] = "string" if isinstance(result["enum"][0], str) else "integer"
    return result, parents


def _merge_choices(schema: Mapping[str, Any], path: str) -> Schema:
    """Return a schema with its `anyOf` merged into it: the choices that a field's type allows.

    The choice `null` is dropped: in the API an optional field is left out. `int | str` becomes
    x-kubernetes-int-or-string, with the pattern of the text and the bounds of the number.

    Args:
        schema: the schema of a type or a field.
        path: the path of the field, for messages.

    Raises:
        TypeError: there are several choices other than `int | str`.
    """
    rest = {key: part for key, part in schema.items() if key != "anyOf"}
    choices = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    if {choice.get("type") for choice in choices} == {"integer", "string"}:
        merged: Schema = {"x-kubernetes-int-or-string": True}
        for choice in choices:
            merged |= {key: part for key, part in choice.items() if key != "type"}
        return merged | rest
    if len(choices) > 1:
        raise TypeError(f"{path}: a union of types has no structural schema; use one type")
    return {**(choices[0] if choices else {}), **rest}


def _drop_defaults(schema: Any) -> Any:
    """Return a schema without the defaults of its fields, at all depths."""
    if isinstance(schema, Mapping):
        return {key: _drop_defaults(part) for key, part in schema.items() if key != "default"}
    if isinstance(schema, list):
        return [_drop_defaults(item) for item in schema]
    return schema
