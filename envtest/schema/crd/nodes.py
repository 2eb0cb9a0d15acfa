"""Validation of every node of a CRD's schema.

It covers keywords of OpenAPI that Kubernetes refuses, the types of lists and maps, and CEL rules.
Texts and order follow apiextensions-apiserver's validation.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from envtest.schema.cel import Checker, reads_old_self
from envtest.schema.errors import (
    FieldError,
    build_forbidden_error,
    build_invalid_error,
    build_not_supported_error,
    build_required_error,
)
from envtest.schema.rules import normalize_field_path

_Schema = Mapping[str, Any]
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED: Final = (
    ("id", "id is not supported"),
    ("additionalItems", "additionalItems is not supported"),
    ("patternProperties", "patternProperties is not supported"),
    ("definitions", "definitions is not supported"),
    ("dependencies", "dependencies is not supported"),
    ("$ref", "$ref is not supported"),
)
_META: Final = frozenset({"metadata", "kind", "apiVersion"})


@dataclass(frozen=True, slots=True)
class NodePlace:
    """The place of a node in a schema, and the checks that depend on its place.

    Attributes:
        path: the path of the node, as messages print it.
        root: whether the node describes a whole object.
        inside_meta: whether the node describes metadata, kind or apiVersion.
        no_defaults: why the node must not have a default; empty if it may.
        rules: whether rules are compiled. They are not in branches such as anyOf, nor in schemas
            with other errors.
        uncorrelatable: the path of the list or map below which a new value has no corresponding
            old value, so that rules cannot read oldSelf; empty if it has one.
    """

    path: str
    root: bool = True
    inside_meta: bool = False
    no_defaults: str = ""
    rules: bool = True
    uncorrelatable_path: str = ""

    def build_child(self, step: str, **changes: Any) -> NodePlace:
        """Return the place of a node below this one: `step` is added to the path."""
        return replace(self, path=self.path + step, root=False, **changes)


def find_node_errors(schema: _Schema, path: str, *, rules: bool) -> list[FieldError]:
    """Return all errors of a schema's nodes: first of their keywords, then of their rules.

    Args:
        schema: the root of the schema.
        path: the path of the schema, as messages print it.
        rules: whether to compile rules.
    """
    errors, rule_errors = _find_errors_at_and_below(schema, NodePlace(path, rules=rules))
    return errors + rule_errors


def _find_errors_at_and_below(
    schema: _Schema, place: NodePlace
) -> tuple[list[FieldError], list[FieldError]]:
    """Return two lists of errors of a node and all nodes below it: of schemas, and of rules."""
    out = _validate_keywords(schema, place)
    rule_errors: list[FieldError] = []
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        out.append(build_forbidden_error(f"{place.path}.uniqueItems", detail))
    additional = schema.get("additionalProperties")
    # As in the server, `true` beside properties is allowed.
    if additional not in (None, True) and schema.get("properties"):
        detail = "additionalProperties and properties are mutual exclusive"
        out.append(build_forbidden_error(f"{place.path}.additionalProperties", detail))
    for child, child_place in _list_children(schema, place):
        schema_errors, rule_failures = _find_errors_at_and_below(child, child_place)
        out += schema_errors
        rule_errors += rule_failures
    out += _validate_extensions(schema, place.path)
    if schema.get("x-kubernetes-validations"):
        out += find_rule_field_errors(schema, place.path)
        # Rules are type-checked by the schema, so it must not have errors.
        if place.rules and not out:
            rule_errors += find_rule_errors(
                schema, RulePlace(place.path, place.root, place.uncorrelatable_path)
            )
    out += _validate_items_and_keys(schema, place.path)
    return out, rule_errors


def _list_children(schema: _Schema, place: NodePlace) -> Iterator[tuple[_Schema, NodePlace]]:
    """Yield the schemas one level below a node, each with its place."""
    additional = schema.get("additionalProperties")
    # An atomic map is replaced as a whole, so its fields have no old values.
    is_atomic = schema.get("x-kubernetes-map-type") == "atomic"
    fields_uncorrelatable = place.path if is_atomic else place.uncorrelatable_path
    if isinstance(additional, Mapping):
        reason = "inside additionalProperties applying to object metadata"
        changes = {"no_defaults": reason} if place.inside_meta else {}
        yield (
            additional,
            place.build_child(
                ".additionalProperties", uncorrelatable_path=fields_uncorrelatable, **changes
            ),
        )
    for name, child in (schema.get("properties") or {}).items():
        child_place = place.build_child(
            f".properties[{name}]", uncorrelatable_path=fields_uncorrelatable
        )
        # The type and metadata of whole and embedded objects; others are fields of that name.
        if name in _META and (place.root or schema.get("x-kubernetes-embedded-resource")):
            child_place = replace(child_place, inside_meta=True)
            if place.root:
                child_place = replace(child_place, no_defaults=f"in top-level {name}")
        yield child, child_place
    yield from _list_branches(schema, place)
    items = schema.get("items")
    if isinstance(items, Mapping):
        # Only the items of lists of type map correspond to old items, by their keys.
        is_map = schema.get("x-kubernetes-list-type") == "map"
        items_uncorrelatable = place.uncorrelatable_path or ("" if is_map else place.path)
        yield items, place.build_child(".items", uncorrelatable_path=items_uncorrelatable)


def _list_branches(schema: _Schema, place: NodePlace) -> Iterator[tuple[_Schema, NodePlace]]:
    """Yield the branches of not, allOf, oneOf and anyOf, which cannot have rules."""
    if schema.get("not") is not None:
        yield schema["not"], place.build_child(".not", rules=False)
    for name in ("allOf", "oneOf", "anyOf"):
        for index, branch in enumerate(schema.get(name) or ()):
            yield branch, place.build_child(f".{name}[{index}]", rules=False)


def _validate_keywords(schema: _Schema, place: NodePlace) -> list[FieldError]:
    """Return the errors of keywords that are not supported or must not be set at this place."""
    path, schema_type = place.path, schema.get("type") or ""
    out: list[FieldError] = []
    if schema_type and schema_type not in _TYPES:
        out.append(build_not_supported_error(f"{path}.type", schema_type, _TYPES))
    if schema.get("default") is not None and place.no_defaults:
        out.append(
            build_forbidden_error(f"{path}.default", f"must not be set {place.no_defaults}")
        )
    for name, detail in _UNSUPPORTED:
        if schema.get(name) not in (None, "", {}):
            out.append(build_forbidden_error(f"{path}.{name}", detail))
    if schema_type == "null":
        detail = "type cannot be set to null, use nullable as an alternative"
        out.append(build_forbidden_error(f"{path}.type", detail))
    if isinstance(schema.get("items"), list):
        out.append(
            build_forbidden_error(
                f"{path}.items", "items must be a schema object and not an array"
            )
        )
    if place.inside_meta and schema.get("x-kubernetes-embedded-resource"):
        detail = "must not be used inside of resource meta"
        out.append(build_forbidden_error(f"{path}.x-kubernetes-embedded-resource", detail))
    return out


def _validate_extensions(schema: _Schema, path: str) -> list[FieldError]:
    """Return the errors of the keywords for the types of lists and maps."""
    out: list[FieldError] = []
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        location = f"{path}.x-kubernetes-preserve-unknown-fields"
        out.append(build_invalid_error(location, False, "must be true or undefined"))
    out += _validate_collection_type(
        schema, path, collection="map", expected_type="object", known=("atomic", "granular")
    )
    out += _validate_collection_type(
        schema, path, collection="list", expected_type="array", known=("atomic", "set", "map")
    )
    list_type = schema.get("x-kubernetes-list-type")
    if schema.get("x-kubernetes-list-map-keys") and list_type != "map":
        location = f"{path}.x-kubernetes-list-type"
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        out.append(
            build_required_error(location, detail)
            if list_type is None
            else build_invalid_error(location, list_type, detail)
        )
    if list_type == "map":
        out += _validate_map_list(schema, path)
    return out


def _validate_collection_type(
    schema: _Schema, path: str, collection: str, expected_type: str, known: tuple[str, ...]
) -> list[FieldError]:
    """Return the errors of `x-kubernetes-map-type` or `x-kubernetes-list-type`.

    Args:
        schema: the node.
        path: the path of the node.
        collection: `map` or `list`.
        expected_type: the schema type that the node must have: `object` or `array`.
        known: the allowed values.
    """
    name = f"x-kubernetes-{collection}-type"
    value, schema_type = schema.get(name), schema.get("type") or ""
    if value is None:
        return []
    out: list[FieldError] = []
    if schema_type != expected_type:
        detail = f"must be {expected_type} if {name} is specified"
        location = f"{path}.type"
        out.append(
            build_invalid_error(location, schema_type, detail)
            if schema_type
            else build_required_error(location, detail)
        )
    elif value == "set":
        out += _validate_set_items(schema, path)
    if value not in known:
        out.append(build_not_supported_error(f"{path}.{name}", value, known))
    return out


def _validate_set_items(schema: _Schema, path: str) -> list[FieldError]:
    """Return the error of the items of a set that are lists or maps, but not atomic."""
    items = schema.get("items")
    if not isinstance(items, Mapping):
        return []
    # By default a list is atomic, and an object is not.
    if items.get("type") == "array":
        name, default = "x-kubernetes-list-type", "atomic"
    elif items.get("type") == "object":
        name, default = "x-kubernetes-map-type", "granular"
    else:
        return []
    if items.get(name, default) == "atomic":
        return []
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    # The server prints the list type for both.
    return [
        build_invalid_error(f"{path}.items.{name}", items.get("x-kubernetes-list-type"), detail)
    ]


def _validate_map_list(schema: _Schema, path: str) -> list[FieldError]:
    """Return the errors of the keys and items of a list of type map."""
    keys, items = schema.get("x-kubernetes-list-map-keys") or [], schema.get("items")
    out: list[FieldError] = []
    location = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        detail = "must not be empty if x-kubernetes-list-type is map"
        out.append(build_required_error(location, detail))
    if not isinstance(items, Mapping):
        detail = "must have a schema if x-kubernetes-list-type is map"
        return [*out, build_required_error(f"{path}.items", detail)]
    if items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        return [*out, build_invalid_error(f"{path}.items.type", items.get("type") or "", detail)]
    properties = items.get("properties") or {}
    for index, key in enumerate(keys):
        if key not in properties:
            detail = "entries must all be names of item properties"
            out.append(build_invalid_error(location, keys, detail))
        elif properties[key].get("type") in {"array", "object"}:
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            # The server prints the type of the items here, and not that of the key.
            out.append(
                build_invalid_error(f"{path}.items.properties[{key}].type", items["type"], detail)
            )
        if key in keys[:index]:
            out.append(build_invalid_error(location, keys, "must not contain duplicate entries"))
    return out


def _validate_items_and_keys(schema: _Schema, path: str) -> list[FieldError]:
    """Return the errors of nullable items of set and map lists, and of keys that may be absent."""
    list_type, items = schema.get("x-kubernetes-list-type"), schema.get("items")
    if list_type not in {"set", "map"} or not isinstance(items, Mapping):
        return []
    out: list[FieldError] = []
    if items.get("nullable"):
        detail = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        out.append(build_forbidden_error(f"{path}.items.nullable", detail))
    # The items of a set have no key fields.
    if list_type == "set":
        return out
    reason = "this property is in x-kubernetes-list-map-keys, so it"
    for key in schema.get("x-kubernetes-list-map-keys") or ():
        field = (items.get("properties") or {}).get(key)
        if field is None:
            # `_validate_map_list` reports a key that is no property.
            continue
        location = f"{path}.items.properties[{key}]"
        if key not in (items.get("required") or ()) and field.get("default") is None:
            detail = f"{reason} must have a default or be a required property"
            out.append(build_required_error(f"{location}.default", detail))
        if field.get("nullable"):
            out.append(
                build_forbidden_error(f"{location}.nullable", f"{reason} cannot be nullable")
            )
    return out


_REASONS: Final = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)


def find_rule_field_errors(schema: _Schema, path: str) -> list[FieldError]:
    """Return the errors of the fields of rules, without compiling the rules."""
    out: list[FieldError] = []
    for index, rule in enumerate(schema["x-kubernetes-validations"]):
        location = f"{path}.x-kubernetes-validations[{index}]"
        out += _validate_texts(rule, location)
        out += _validate_field_path(rule, schema, location)
        reason = rule.get("reason")
        if reason is not None and reason not in _REASONS:
            out.append(build_not_supported_error(f"{location}.reason", reason, _REASONS))
    return out


def _validate_texts(rule: _Schema, location: str) -> list[FieldError]:
    """Return the errors of a rule's texts: missing, blank, or with line breaks."""
    expression, message = rule.get("rule") or "", rule.get("message") or ""
    message_expression = rule.get("messageExpression") or ""
    out: list[FieldError] = []
    if not expression.strip():
        out.append(build_required_error(f"{location}.rule", "rule is not specified"))
    elif message and not message.strip():
        out.append(
            build_invalid_error(f"{location}.message", message, "must be non-empty if specified")
        )
    elif _has_line_break(message.strip()):
        out.append(
            build_invalid_error(f"{location}.message", message, "must not contain line breaks")
        )
    elif _has_line_break(expression.strip()) and not message.strip():
        detail = "message must be specified if rule contains line breaks"
        out.append(build_required_error(f"{location}.message", detail))
    if message_expression and not message_expression.strip():
        detail = "messageExpression must be non-empty if specified"
        out.append(build_required_error(f"{location}.messageExpression", detail))
    return out


def _has_line_break(string: str) -> bool:
    """Return whether a string has a line feed or a carriage return."""
    return "\n" in string or "\r" in string


def _validate_field_path(rule: _Schema, schema: _Schema, location: str) -> list[FieldError]:
    """Return the errors of a rule's fieldPath; none if it is not set."""
    path = rule.get("fieldPath") or ""
    if not path:
        return []
    out: list[FieldError] = []
    if not path.strip():
        out.append(
            build_invalid_error(f"{location}.fieldPath", path, "must be non-empty if specified")
        )
    if _has_line_break(path.strip()):
        out.append(
            build_invalid_error(f"{location}.fieldPath", path, "must not contain line breaks")
        )
    if normalize_field_path(path, schema) is None:
        out.append(build_invalid_error(f"{location}.fieldPath", path, "must be a valid path"))
    return out


@dataclass(frozen=True, slots=True)
class RulePlace:
    """The place of a node whose rules are compiled.

    Attributes:
        path: the path of the node, as messages print it.
        root: whether the node describes a whole object.
        uncorrelatable: the path below which a new value has no corresponding old value; empty if
            it has one.
    """

    path: str
    root: bool
    uncorrelatable_path: str


def find_rule_errors(schema: _Schema, place: RulePlace) -> list[FieldError]:
    """Return the errors of rules of one node that do not compile or cannot be used there."""
    root = place.root or bool(schema.get("x-kubernetes-embedded-resource"))
    checker = Checker(schema, root=root)
    if not checker.has_type:
        detail = (
            "internal error: failed to construct type information for x-kubernetes-validations "
            "rules: unable to convert structural schema to CEL declarations"
        )
        return [
            FieldError(
                "InternalError", f"{place.path}.x-kubernetes-validations", value="", detail=detail
            )
        ]
    out: list[FieldError] = []
    for index, rule in enumerate(schema["x-kubernetes-validations"]):
        out += _compile_rule(
            rule, checker, place=place, location=f"{place.path}.x-kubernetes-validations[{index}]"
        )
    return out


def _compile_rule(
    rule: _Schema, checker: Checker, place: RulePlace, location: str
) -> list[FieldError]:
    """Return the errors of compiling a rule and its messageExpression."""
    expression, message_expression = rule.get("rule") or "", rule.get("messageExpression") or ""
    optional_old = bool(rule.get("optionalOldSelf"))
    out: list[FieldError] = []
    if failure := checker.find_rule_failure(expression, optional_old=optional_old):
        out.append(build_invalid_error(f"{location}.rule", expression, failure))
    if message_expression and (
        failure := checker.find_message_failure(message_expression, optional_old=optional_old)
    ):
        out.append(
            build_invalid_error(
                f"{location}.messageExpression", message_expression, f"messageExpression {failure}"
            )
        )
    if reads_old_self(expression) and place.uncorrelatable_path:
        detail = "oldSelf cannot be used on the uncorrelatable portion of the schema within "
        out.append(
            build_invalid_error(f"{location}.rule", expression, detail + place.uncorrelatable_path)
        )
    if rule.get("optionalOldSelf") is not None and not reads_old_self(expression):
        detail = "may not be set if oldSelf is not used in rule"
        out.append(
            build_invalid_error(f"{location}.optionalOldSelf", rule["optionalOldSelf"], detail)
        )
    return out
