"""Validation of the versions of a CRD.

It covers the schema, subresources, printer columns, selectable fields and deprecation. A field
that is equal in all versions is hoisted: validated once, with a path at the top of the spec.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from controller.managedfields.gotext import encode_json
from envtest.memo import remember_results
from envtest.schema.compiled import CACHED_SCHEMAS, LONGEST_CACHED_SCHEMA
from envtest.schema.crd.nodes import find_node_errors
from envtest.schema.crd.structural import find_default_errors, find_structural_errors
from envtest.schema.errors import (
    OMITTED,
    FieldError,
    Verbatim,
    build_duplicate_error,
    build_forbidden_error,
    build_invalid_error,
    build_required_error,
    build_too_many_error,
)
from envtest.schema.names import find_label_1035_errors

_Body = Mapping[str, Any]
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = (
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
)
_MAX_SELECTABLE_FIELDS: Final = 8
_LONGEST_WARNING: Final = 256
# Field of a version -> its path in messages if it is equal in all versions.
_TOP: Final = {
    "schema": "spec.validation",
    "subresources": "spec.subresources",
    "additionalPrinterColumns": "spec.additionalPrinterColumns",
    "selectableFields": "spec.selectableFields",
}
ROOT_FIELDS: Final = (
    "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength "
    "MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties "
    "ExternalDocs Example XPreserveUnknownFields XValidations"
)
# The same fields by their JSON names: those that the root of a schema may have if there is a
# status subresource.
_ROOT_JSON: Final = frozenset(
    {name[0].lower() + name[1:] for name in ROOT_FIELDS.split() if not name.startswith("X")}
    | {"x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations", "nullable"}
)


def find_hoisted_fields(versions: Sequence[_Body]) -> frozenset[str]:
    """Return the fields of `_TOP` that have the same value in all versions (hoisted fields)."""
    if not versions:
        return frozenset()
    first = versions[0]
    return frozenset(
        name for name in _TOP if all(v.get(name) and v[name] == first.get(name) for v in versions)
    )


def find_missing_schemas(versions: Sequence[_Body]) -> list[FieldError]:
    """Return the errors of versions without a schema."""
    return [
        build_required_error(f"spec.versions[{index}].schema.openAPIV3Schema")
        for index, version in enumerate(versions)
        if (version.get("schema") or {}).get("openAPIV3Schema") is None
    ]


def find_version_errors(version: _Body, path: str, hoisted: frozenset[str]) -> list[FieldError]:
    """Return the errors of one version; `find_shared_errors` returns those of hoisted fields."""
    name = version.get("name") or ""
    out: list[FieldError] = []
    if errors := find_label_1035_errors(name):
        out.append(build_invalid_error(f"{path}.name", name, ",".join(errors)))
    out += _find_deprecation_errors(version, f"{path}.deprecationWarning")
    places = {field: f"{path}.{field}" for field in _TOP if field not in hoisted}
    return out + _find_content_errors(version, places)


def find_shared_errors(versions: Sequence[_Body], hoisted: frozenset[str]) -> list[FieldError]:
    """Return the errors of hoisted fields, which are equal in all versions."""
    places = {field: _TOP[field] for field in _TOP if field in hoisted}
    return _find_content_errors(versions[0], places)


def _find_content_errors(version: _Body, places: Mapping[str, str]) -> list[FieldError]:
    """Return the errors of some fields of a version.

    Args:
        places: the fields to validate, each with its path in messages.
    """
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    subresources = version.get("subresources") or {}
    out: list[FieldError] = []
    if "schema" in places and schema is not None:
        has_status = subresources.get("status") is not None
        where = f"{places['schema']}.openAPIV3Schema"
        out += _find_schema_errors(schema, where, has_status=has_status)
    if "subresources" in places and subresources.get("scale") is not None:
        out += _find_scale_errors(subresources["scale"], f"{places['subresources']}.scale")
    if "additionalPrinterColumns" in places:
        for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
            out += _find_column_errors(column, f"{places['additionalPrinterColumns']}[{index}]")
    if "selectableFields" in places:
        fields = version.get("selectableFields") or ()
        out += _find_selectable_errors(fields, schema or {}, places["selectableFields"])
    return out


def _find_deprecation_errors(version: _Body, path: str) -> list[FieldError]:
    """Return the errors of a version's deprecationWarning; none if it is not set."""
    warning = version.get("deprecationWarning")
    if warning is None:
        return []
    if not version.get("deprecated"):
        return [build_invalid_error(path, warning, "can only be set for deprecated versions")]
    out: list[FieldError] = []
    # Go counts bytes, although the message says characters.
    if len(warning.encode()) > _LONGEST_WARNING:
        out.append(build_invalid_error(path, warning, "must be <= 256 characters long"))
    if not warning:
        out.append(build_invalid_error(path, warning, "must not be an empty string"))
    unprintable = next((rune for rune in warning if not rune.isprintable()), None)
    if unprintable is not None:
        byte_index = len(warning[: warning.index(unprintable)].encode())
        detail = "must only contain printable UTF-8 characters; non-printable character found at"
        # The server escapes this value as in JSON.
        out.append(
            build_invalid_error(
                path, Verbatim(encode_json(warning)), f"{detail} index {byte_index}"
            )
        )
    return out


def _find_schema_errors(schema: _Body, path: str, *, has_status: bool) -> list[FieldError]:
    """Return the errors of a version's schema; they are cached by its JSON."""
    schema_json = msgspec.json.encode(schema).decode()
    return list(_validate_schema_json(schema_json, path, has_status=has_status))


@remember_results(CACHED_SCHEMAS, LONGEST_CACHED_SCHEMA)
def _validate_schema_json(
    schema_json: str, path: str, *, has_status: bool
) -> tuple[FieldError, ...]:
    """Return the errors of a schema.

    Rules are compiled only in a structural schema, and defaults are validated only then, too.

    Args:
        schema_json: the schema as JSON, which the cache can use as a key.
        path: the path of the schema in messages.
        has_status: whether the version has a status subresource.
    """
    schema = msgspec.json.decode(schema_json)
    out: list[FieldError] = []
    if has_status:
        out += _find_root_errors(schema, path)
    if schema.get("nullable"):
        out.append(
            build_forbidden_error(f"{path}.nullable", "nullable cannot be true at the root")
        )
    structure_errors = find_structural_errors(schema, path) or find_default_errors(schema, path)
    out += structure_errors
    return (*out, *find_node_errors(schema, path, rules=not structure_errors))


def _find_root_errors(schema: _Body, path: str) -> list[FieldError]:
    """Return the errors of the root of a schema in a version with a status subresource."""
    schema_type = schema.get("type") or ""
    if schema_type and schema_type != "object":
        detail = 'only "object" is allowed as the type at the root of the schema if the status '
        return [
            build_invalid_error(f"{path}.type", schema_type, f"{detail}subresource is enabled")
        ]
    set_fields = {name for name, value in schema.items() if value not in (None, "", False)}
    if set_fields <= _ROOT_JSON:
        return []
    detail = f"only [{ROOT_FIELDS}] fields are allowed at the root of the schema if the status "
    return [build_invalid_error(path, OMITTED, f"{detail}subresource is enabled")]


def _find_simple_path_errors(json_path: str, path: str) -> list[FieldError]:
    """Return the error of a JSON path that does not begin with a dot."""
    if json_path.startswith("."):
        return []
    return [build_invalid_error(path, json_path, "must be a simple json path starting with .")]


def _find_scale_errors(scale: _Body, path: str) -> list[FieldError]:
    """Return the errors of the JSON paths of a scale subresource."""
    out: list[FieldError] = []
    for name, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        json_path, where = scale.get(name) or "", f"{path}.{name}"
        if not json_path:
            out.append(build_required_error(where))
        elif errors := _find_simple_path_errors(json_path, where):
            out += errors
        elif not json_path.startswith(f"{root}."):
            out.append(
                build_invalid_error(where, json_path, f"should be a json path under {root}")
            )
    json_path, where = scale.get("labelSelectorPath") or "", f"{path}.labelSelectorPath"
    # Unlike the paths of replicas, this path is optional.
    if not json_path:
        return out
    if errors := _find_simple_path_errors(json_path, where):
        out += errors
    elif not json_path.startswith((".spec.", ".status.")):
        detail = "should be a json path under either .spec or .status"
        out.append(build_invalid_error(where, json_path, detail))
    return out


def _find_column_errors(column: _Body, path: str) -> list[FieldError]:
    """Return the errors of an additional printer column."""
    column_type, name_format = column.get("type") or "", column.get("format") or ""
    json_path = column.get("jsonPath") or ""
    known = f"must be one of {','.join(_COLUMN_TYPES)}"
    out: list[FieldError] = []
    if not column.get("name"):
        out.append(build_required_error(f"{path}.name"))
    if not column_type:
        out.append(build_required_error(f"{path}.type", known))
    elif column_type not in _COLUMN_TYPES:
        out.append(build_invalid_error(f"{path}.type", column_type, known))
    if name_format and name_format not in _COLUMN_FORMATS:
        detail = f"must be one of {','.join(_COLUMN_FORMATS)}"
        out.append(build_invalid_error(f"{path}.format", name_format, detail))
    if not json_path:
        out.append(build_required_error(f"{path}.JSONPath"))
    else:
        out += _find_simple_path_errors(json_path, f"{path}.JSONPath")
    return out


def _find_selectable_errors(fields: Sequence[_Body], schema: _Body, path: str) -> list[FieldError]:
    """Return the errors of selectableFields: paths, types, duplicates, number."""
    out: list[FieldError] = []
    seen: set[str] = set()
    for index, entry in enumerate(fields):
        json_path, where = entry.get("jsonPath") or "", f"{path}[{index}].jsonPath"
        if not json_path:
            out.append(build_required_error(where))
            continue
        field, failure = _find_field(json_path, schema)
        if field is None:
            out.append(build_invalid_error(where, json_path, f"is an invalid path: {failure}"))
        elif field.get("type") not in {"string", "boolean", "integer"}:
            detail = (
                "must point to a field of type string, boolean or integer. Enum string fields "
                "and strings with formats are allowed."
            )
            out.append(build_invalid_error(where, json_path, detail))
        if field is not None and json_path in seen:
            out.append(build_duplicate_error(where, json_path))
        seen.add(json_path)
    if len(seen) > _MAX_SELECTABLE_FIELDS:
        out.append(build_too_many_error(path, len(seen), _MAX_SELECTABLE_FIELDS))
    return out


def _find_field(json_path: str, schema: _Body) -> tuple[_Body | None, str]:
    """Return the schema of the field at a JSON path, or None and why there is no such field."""
    tokens = re.findall(r"[.\[\]]|[^.\[\]]+", json_path)
    while tokens:
        part = tokens.pop(0)
        if part == "[":
            return None, "array notation is not allowed"
        if part != ".":
            return None, f"expected [ or . but got: {part}"
        if not tokens:
            return None, "unexpected end of JSON path"
        name, additional = tokens.pop(0), schema.get("additionalProperties")
        if schema.get("properties"):
            child = schema["properties"].get(name)
        else:
            child = additional if isinstance(additional, Mapping) else None
        if child is None:
            return None, "does not refer to a valid field"
        schema = child
    return schema, ""
