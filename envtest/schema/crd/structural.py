"""Validation of structural schemas, and of their defaults by the schema itself.

What a structural schema is: Kubernetes documentation, "Specifying a structural schema".
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from envtest.schema.embedded import EmbeddedNode, MalformedObject
from envtest.schema.errors import (
    NO_FIELD,
    FieldError,
    build_forbidden_error,
    build_invalid_error,
    build_required_error,
)
from envtest.schema.formats import InvalidPattern, compile_pattern
from envtest.schema.pruning import PruneNode
from envtest.schema.rules import RuleTree
from envtest.schema.values import ValueSchema

_Schema = Mapping[str, Any]
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_INT_OR_STRING_KEY: Final = "x-kubernetes-int-or-string"
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_NO_TYPE: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_INCONVERTIBLE: Final = (
    "$ref",
    "additionalItems",
    "definitions",
    "dependencies",
    "id",
    "patternProperties",
)
# Keywords that branches of anyOf, allOf, oneOf and not must not set, with a word of the message.
_NOT_IN_BRANCHES: Final = {
    "type": "empty",
    "default": "undefined",
    "title": "empty",
    "description": "empty",
    "nullable": "false",
    "externalDocs": "undefined",
    _PRESERVE: "false",
    _EMBEDDED: "false",
    _INT_OR_STRING_KEY: "false",
    "x-kubernetes-list-map-keys": "empty",
    "x-kubernetes-list-type": "undefined",
    "x-kubernetes-map-type": "undefined",
    "x-kubernetes-validations": "empty",
}


def find_structural_errors(schema: _Schema, path: str) -> list[FieldError]:
    """Return why a schema is not structural, sorted by message."""
    out: list[FieldError] = []
    if not _is_convertible_to_structural(schema):
        # The server cannot convert such a schema to a structural one. `find_node_errors` refuses
        # it.
        return out
    _add_node_errors(schema, "root", path=path, out=out)
    return sorted(out, key=lambda error: error.message)


def _is_convertible_to_structural(schema: _Schema) -> bool:
    """Return whether a schema has no keyword that a structural schema cannot express."""
    items, additional = schema.get("items"), schema.get("additionalProperties")
    if isinstance(items, list) or any(schema.get(name) for name in _INCONVERTIBLE):
        return False
    below = [*(schema.get("properties") or {}).values(), items, additional, schema.get("not")]
    for name in ("allOf", "anyOf", "oneOf"):
        below += schema.get(name) or ()
    return all(
        _is_convertible_to_structural(child) for child in below if isinstance(child, Mapping)
    )


def _add_node_errors(schema: _Schema, level: str, path: str, out: list[FieldError]) -> None:
    """Append the errors of a node, and of all nodes below it, that break the structural rules.

    Args:
        schema: the node.
        level: its relation to its parent, a key of `_NO_TYPE`.
        path: the path of the node, as messages print it.
        out: errors are appended to it.
    """
    schema_type, items = schema.get("type") or "", schema.get("items")
    if schema_type == "array" and items is None:
        out.append(build_required_error(f"{path}.items", "must be specified"))
    if isinstance(items, Mapping):
        _add_node_errors(items, "item", path=f"{path}.items", out=out)
    for name, child in (schema.get("properties") or {}).items():
        _add_node_errors(child, "field", path=f"{path}.properties[{name}]", out=out)
    additional = schema.get("additionalProperties")
    if additional is not None and level == "root":
        out.append(
            build_forbidden_error(f"{path}.additionalProperties", "must not be used at the root")
        )
    if isinstance(additional, Mapping):
        _add_node_errors(additional, "field", path=f"{path}.additionalProperties", out=out)
    _add_int_or_string_errors(schema, path, out)
    _add_branches_errors(schema, path, out)
    _add_type_errors(schema, level, path=path, out=out)
    _add_embedded_object_errors(schema, path, out)
    _add_metadata_errors(schema, level, path=path, out=out)


def _add_int_or_string_errors(schema: _Schema, path: str, out: list[FieldError]) -> None:
    """Append the errors of keywords that exclude x-kubernetes-int-or-string."""
    if not schema.get(_INT_OR_STRING_KEY):
        return
    detail = f"must be false if {_INT_OR_STRING_KEY} is true"
    excluded_keywords = (_PRESERVE, _EMBEDDED)
    out += [
        build_invalid_error(f"{path}.{name}", True, detail)
        for name in excluded_keywords
        if schema.get(name)
    ]


def _add_type_errors(schema: _Schema, level: str, path: str, out: list[FieldError]) -> None:
    """Append the errors of a node's type: missing, or not `object` where that is required."""
    schema_type = schema.get("type") or ""
    if schema.get(_EMBEDDED) and schema_type != "object":
        detail = f"must be object if {_EMBEDDED} is true"
        out.append(
            build_invalid_error(f"{path}.type", schema_type, detail)
            if schema_type
            else build_required_error(f"{path}.type", detail)
        )
    elif not schema_type and not schema.get(_INT_OR_STRING_KEY) and not schema.get(_PRESERVE):
        out.append(build_required_error(f"{path}.type", _NO_TYPE[level]))
    if level == "root" and schema_type and schema_type != "object":
        out.append(build_invalid_error(f"{path}.type", schema_type, "must be object at the root"))


def _add_embedded_object_errors(schema: _Schema, path: str, out: list[FieldError]) -> None:
    """Append the errors of an embedded resource.

    It needs properties, unless it keeps unknown fields.
    """
    if not schema.get(_EMBEDDED):
        return
    if schema.get("additionalProperties") is not None:
        detail = f"must not be used if {_EMBEDDED} is set"
        out.append(build_forbidden_error(f"{path}.additionalProperties", detail))
    if not schema.get(_PRESERVE) and not schema.get("properties"):
        detail = f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}"
        out.append(build_required_error(f"{path}.properties", detail))


def _add_metadata_errors(schema: _Schema, level: str, path: str, out: list[FieldError]) -> None:
    """Append the errors of type and metadata in a root or an embedded object."""
    properties = schema.get("properties") or {}
    is_object_node = level == "root" or bool(schema.get(_EMBEDDED))
    for name in ("kind", "apiVersion"):
        if is_object_node and name in properties and properties[name].get("type") != "string":
            schema_type = properties[name].get("type") or ""
            out.append(
                build_invalid_error(
                    f"{path}.properties[{name}].type", schema_type, "must be string"
                )
            )
    metadata = properties.get("metadata")
    if metadata is None:
        return
    where = f"{path}.properties[metadata]"
    if is_object_node and metadata.get("type") != "object":
        out.append(
            build_invalid_error(f"{where}.type", metadata.get("type") or "", "must be object")
        )
    if level == "root" and not _has_only_names(metadata):
        detail = "must not specify anything other than name and generateName, but metadata is "
        out.append(build_forbidden_error(where, f"{detail}implicitly specified"))


def _has_only_names(metadata: _Schema) -> bool:
    """Return whether the schema of metadata restricts nothing but name and generateName."""
    set_keywords = {
        key for key, value in metadata.items() if value not in (None, "", [], {}, False)
    }
    names = set(metadata.get("properties") or {})
    return set_keywords <= {"type", "properties", "default"} and names <= {"name", "generateName"}


def _add_branches_errors(schema: _Schema, path: str, out: list[FieldError]) -> None:
    """Append the errors of anyOf, allOf, oneOf and not, and of the pattern."""
    any_of = schema.get("anyOf") or []
    # The anyOf of an int-or-string is the only one that may set types. It stands at the node, or
    # in the first branch of allOf.
    if any_of != _INT_OR_STRING:
        for index, branch in enumerate(any_of):
            _add_branch_errors(branch, f"{path}.anyOf[{index}]", out)
    for index, branch in enumerate(schema.get("allOf") or ()):
        is_int_or_string = index == 0 and branch.get("anyOf") == _INT_OR_STRING
        checked_part = (
            {name: value for name, value in branch.items() if name != "anyOf"}
            if is_int_or_string
            else branch
        )
        _add_branch_errors(checked_part, f"{path}.allOf[{index}]", out)
    for index, branch in enumerate(schema.get("oneOf") or ()):
        _add_branch_errors(branch, f"{path}.oneOf[{index}]", out)
    if schema.get("not") is not None:
        _add_branch_errors(schema["not"], f"{path}.not", out)
    pattern = schema.get("pattern") or ""
    try:
        compile_pattern(pattern)
    except InvalidPattern as error:
        detail = f"must be a valid regular expression, but isn't: {error}"
        out.append(build_invalid_error(f"{path}.pattern", pattern, detail))


def _add_branch_errors(schema: _Schema, path: str, out: list[FieldError]) -> None:
    """Append the errors of keywords that a branch must not set, at any depth."""
    _add_branches_errors(schema, path, out)
    if isinstance(schema.get("items"), Mapping):
        _add_branch_errors(schema["items"], f"{path}.items", out)
    properties = schema.get("properties") or {}
    for name, child in properties.items():
        _add_branch_errors(child, f"{path}.properties[{name}]", out)
    if schema.get("additionalProperties") is not None:
        detail = "must be undefined to be structural"
        out.append(build_forbidden_error(f"{path}.additionalProperties", detail))
    for name, word in _NOT_IN_BRANCHES.items():
        if schema.get(name):
            out.append(build_forbidden_error(f"{path}.{name}", f"must be {word} to be structural"))
    if "metadata" in properties:
        detail = "must not be specified in a nested context"
        out.append(build_forbidden_error(f"{path}.properties[metadata]", detail))


def find_default_errors(schema: _Schema, path: str) -> list[FieldError]:
    """Return the errors of the defaults of a structural schema."""
    out: list[FieldError] = []
    # Like an embedded object, the root has apiVersion, kind and metadata.
    root = {**schema, "x-kubernetes-embedded-resource": True}
    _add_default_errors(root, path, out, inside_meta=False)
    return out


def _add_default_errors(
    schema: _Schema, path: str, out: list[FieldError], *, inside_meta: bool
) -> None:
    """Append the errors of the defaults of a node and all below it.

    Args:
        schema: the node.
        path: the path of the node, as messages print it.
        out: errors are appended to it.
        inside_meta: whether the node describes apiVersion, kind or metadata of an object.
    """
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    if embedded:
        # A nested object begins at this node; only its own apiVersion, kind and metadata count.
        inside_meta = False
    if schema.get("default") is not None:
        out += _validate_default(schema, f"{path}.default", inside_meta=inside_meta)
    # The server validates no defaults in additionalProperties.
    if isinstance(schema.get("items"), Mapping):
        _add_default_errors(schema["items"], f"{path}.items", out, inside_meta=inside_meta)
    for name, child in (schema.get("properties") or {}).items():
        is_inside_meta = inside_meta or (embedded and name in {"metadata", "apiVersion", "kind"})
        _add_default_errors(child, f"{path}.properties[{name}]", out, inside_meta=is_inside_meta)


def _validate_default(schema: _Schema, path: str, *, inside_meta: bool) -> list[FieldError]:
    """Return the errors of the default of one node: unknown fields, then the first failing check.

    In metadata, unknown fields and embedded objects are not checked, because the schema of
    metadata does not list all its fields.
    """
    value = schema["default"]
    errors: list[FieldError] = []
    if not inside_meta and _has_unknown_fields(schema, value):
        errors.append(build_invalid_error(path, value, "must not have unknown fields"))
    embedded = None if inside_meta else EmbeddedNode.compile(schema)
    if embedded is not None:
        try:
            embedded.coerce_objects(copy.deepcopy(value), path, [])
        except MalformedObject as error:
            return [*errors, error.error]
    return errors + _find_errors_of_first_failed_check(schema, embedded, value=value, path=path)


def _has_unknown_fields(schema: _Schema, value: Any) -> bool:
    """Return whether pruning by the schema would drop fields of a value."""
    unknown: list[str] = []
    root = bool(schema.get("x-kubernetes-embedded-resource"))
    PruneNode(schema).prune(copy.deepcopy(value), "", unknown, root=root)
    return bool(unknown)


def _find_errors_of_first_failed_check(
    schema: _Schema, embedded: EmbeddedNode | None, value: Any, path: str
) -> list[FieldError]:
    """Return the errors of the first check of a default that fails; none if all pass.

    The order: type and metadata of embedded objects, the schema's constraints, its CEL rules.
    """
    errors: list[FieldError] = []
    if embedded is not None:
        embedded.add_errors(value, path, errors)
    if not errors:
        ValueSchema(schema).add_errors(value, "", errors)
        errors = [_prefix_path(error, path) for error in errors]
    rules = RuleTree.compile(schema, root=True)
    if not errors and rules is not None:
        errors = [_prefix_path(error, path) for error in rules.evaluate_rules(value, None, [])]
    return errors


def _prefix_path(error: FieldError, path: str) -> FieldError:
    """Return an error of a default with the path of the default in front of its own."""
    if error.field in {"", NO_FIELD}:
        field = path
    else:
        field = path + error.field if error.field.startswith("[") else f"{path}.{error.field}"
    return FieldError(error.error_type, field, value=error.value, detail=error.detail)
