"""Versions, schemas and rules as messages print them.

The server's internal types, field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from envtest.schema.gotext import json_text

Show = Callable[[Any], str]


def _object(members: Sequence[tuple[str, str]]) -> str:
    return "{" + ",".join(f'"{name}":{text}' for name, text in members) + "}"


def _struct(fields: Sequence[tuple[str, str, Show]]) -> Show:
    """A struct: for each field its Go name, its JSON name and how its value is printed."""

    def show(value: Any) -> str:
        if value is None:
            return "null"
        return _object([(name, print_it(value.get(key))) for name, key, print_it in fields])

    return show


def _list(show: Show) -> Show:
    return lambda items: "null" if items is None else "[" + ",".join(map(show, items)) + "]"


def _map(show: Show) -> Show:
    def run(members: Any) -> str:
        if members is None:
            return "null"
        return _object([(name, show(members[name])) for name in sorted(members)])

    return run


def _text(value: Any) -> str:
    return json_text(value or "")


def _flag(value: Any) -> str:
    return json_text(bool(value))


def _schema_or_bool(value: Any) -> str:
    if value is None:
        return "null"
    allows = not isinstance(value, bool) or value
    schema = None if isinstance(value, bool) else value
    return _object([("Allows", json_text(allows)), ("Schema", schema_text(schema))])


def _schema_or_array(value: Any) -> str:
    if value is None:
        return "null"
    single = value if isinstance(value, Mapping) else None
    several = value if isinstance(value, list) else None
    return _object([("Schema", schema_text(single)), ("JSONSchemas", _list(schema_text)(several))])


_plain: Final = json_text
_docs: Final = _struct([("Description", "description", _text), ("URL", "url", _text)])
rule_text: Final = _struct(
    [
        ("Rule", "rule", _text),
        ("Message", "message", _text),
        ("MessageExpression", "messageExpression", _text),
        ("Reason", "reason", _plain),
        ("FieldPath", "fieldPath", _text),
        ("OptionalOldSelf", "optionalOldSelf", _plain),
    ]
)


def schema_text(value: Any) -> str:
    """A schema as messages print it."""
    return _show_schema(value)


_show_schema: Final = _struct(
    [
        ("ID", "id", _text),
        ("Schema", "$schema", _text),
        ("Ref", "$ref", _plain),
        ("Description", "description", _text),
        ("Type", "type", _text),
        ("Nullable", "nullable", _flag),
        ("Format", "format", _text),
        ("Title", "title", _text),
        ("Default", "default", _plain),
        ("Maximum", "maximum", _plain),
        ("ExclusiveMaximum", "exclusiveMaximum", _flag),
        ("Minimum", "minimum", _plain),
        ("ExclusiveMinimum", "exclusiveMinimum", _flag),
        ("MaxLength", "maxLength", _plain),
        ("MinLength", "minLength", _plain),
        ("Pattern", "pattern", _text),
        ("MaxItems", "maxItems", _plain),
        ("MinItems", "minItems", _plain),
        ("UniqueItems", "uniqueItems", _flag),
        ("MultipleOf", "multipleOf", _plain),
        ("Enum", "enum", _plain),
        ("MaxProperties", "maxProperties", _plain),
        ("MinProperties", "minProperties", _plain),
        ("Required", "required", _plain),
        ("Items", "items", _schema_or_array),
        ("AllOf", "allOf", _list(schema_text)),
        ("OneOf", "oneOf", _list(schema_text)),
        ("AnyOf", "anyOf", _list(schema_text)),
        ("Not", "not", schema_text),
        ("Properties", "properties", _map(schema_text)),
        ("AdditionalProperties", "additionalProperties", _schema_or_bool),
        ("PatternProperties", "patternProperties", _map(schema_text)),
        ("Dependencies", "dependencies", _plain),
        ("AdditionalItems", "additionalItems", _schema_or_bool),
        ("Definitions", "definitions", _map(schema_text)),
        (
            "ExternalDocs",
            "externalDocs",
            _docs,
        ),
        ("Example", "example", _plain),
        ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", _plain),
        ("XEmbeddedResource", "x-kubernetes-embedded-resource", _flag),
        ("XIntOrString", "x-kubernetes-int-or-string", _flag),
        ("XListMapKeys", "x-kubernetes-list-map-keys", _plain),
        ("XListType", "x-kubernetes-list-type", _plain),
        ("XMapType", "x-kubernetes-map-type", _plain),
        ("XValidations", "x-kubernetes-validations", _list(rule_text)),
    ]
)
# JSON names of the schema's fields in the order of the type, with the names that messages list.
ROOT_FIELDS: Final = (
    "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength "
    "MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties "
    "ExternalDocs Example XPreserveUnknownFields XValidations"
)
_scale: Final = _struct(
    [
        ("SpecReplicasPath", "specReplicasPath", _text),
        ("StatusReplicasPath", "statusReplicasPath", _text),
        ("LabelSelectorPath", "labelSelectorPath", _plain),
    ]
)
_column: Final = _struct(
    [
        ("Name", "name", _text),
        ("Type", "type", _text),
        ("Format", "format", _text),
        ("Description", "description", _text),
        ("Priority", "priority", lambda value: json_text(value or 0)),
        ("JSONPath", "jsonPath", _text),
    ]
)
_subresources: Final = _struct([("Status", "status", _plain), ("Scale", "scale", _scale)])
_selectable: Final = _struct([("JSONPath", "jsonPath", _text)])


def _filled_list(show: Show) -> Show:
    """A list that is printed as null when it is empty."""
    return lambda items: _list(show)(items or None)


_version: Final = _struct(
    [
        ("Name", "name", _text),
        ("Served", "served", _flag),
        ("Storage", "storage", _flag),
        ("Deprecated", "deprecated", _flag),
        ("DeprecationWarning", "deprecationWarning", _plain),
        ("Schema", "schema", _struct([("OpenAPIV3Schema", "openAPIV3Schema", schema_text)])),
        (
            "Subresources",
            "subresources",
            _struct([("Status", "status", _plain), ("Scale", "scale", _scale)]),
        ),
        (
            "AdditionalPrinterColumns",
            "additionalPrinterColumns",
            lambda value: _list(_column)(value or None),
        ),
        (
            "SelectableFields",
            "selectableFields",
            lambda value: _list(_selectable)(value or None),
        ),
    ]
)


def versions_text(versions: Any, hoisted: frozenset[str]) -> str:
    """The versions as messages print them.

    Args:
        versions: `spec.versions`, or None.
        hoisted: the fields that are the same in all versions: internally they stand once, at the
            top, and the versions are printed without them.
    """
    if versions is None:
        return "null"
    bare = [{k: v for k, v in version.items() if k not in hoisted} for version in versions]
    return _list(_version)(bare)
