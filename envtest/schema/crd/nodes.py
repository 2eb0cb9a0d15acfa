"""Checks of every schema node.

What OpenAPI has and Kubernetes refuses, list and map types, rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from envtest.schema.cel import Checker, reads_old
from envtest.schema.errors import (
    FieldError,
    build_required_error,
    forbidden,
    invalid,
    not_supported,
)
from envtest.schema.rules import normalized_path

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
class Walk:
    """Where in a schema a check is.

    Attributes:
        path: of the node, as messages print it.
        root: whether the node is the whole object's.
        inside_meta: whether it describes metadata, kind or apiVersion.
        no_defaults: why no default may stand here; "" where one may.
        rules: whether rules are compiled; not in branches, nor in schemas with other errors.
        uncorrelatable: the path of the list or map below which old and new values have nothing to
            do with each other; "" where they have.
    """

    path: str
    root: bool = True
    inside_meta: bool = False
    no_defaults: str = ""
    rules: bool = True
    uncorrelatable: str = ""

    def below(self, step: str, **changes: Any) -> Walk:
        """Return the walk one step further."""
        return replace(self, path=self.path + step, root=False, **changes)


def node_errors(schema: _Schema, path: str, *, rules: bool) -> list[FieldError]:
    """Return all errors of a schema's nodes: those of the schema, then those of its rules.

    Args:
        path: where it stands.
        rules: whether rules are compiled.
    """
    errors, of_rules = _check(schema, Walk(path, rules=rules))
    return errors + of_rules


def _check(schema: _Schema, walk: Walk) -> tuple[list[FieldError], list[FieldError]]:
    """Return the errors of a node and those below it: of the schema, and of its rules."""
    out = _keyword_errors(schema, walk)
    of_rules: list[FieldError] = []
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        out.append(forbidden(f"{walk.path}.uniqueItems", detail))
    additional = schema.get("additionalProperties")
    if additional not in (None, True) and schema.get("properties"):
        detail = "additionalProperties and properties are mutual exclusive"
        out.append(forbidden(f"{walk.path}.additionalProperties", detail))
    for child, further in _below(schema, walk):
        schema_errors, rule_failures = _check(child, further)
        out += schema_errors
        of_rules += rule_failures
    out += _types(schema, walk.path)
    if schema.get("x-kubernetes-validations"):
        out += shape_errors(schema, walk.path)
        if walk.rules and not out:
            of_rules += rule_errors(schema, RulePlace(walk.path, walk.root, walk.uncorrelatable))
    out += _map_keys(schema, walk.path)
    return out, of_rules


def _below(schema: _Schema, walk: Walk) -> Iterator[tuple[_Schema, Walk]]:
    """Yield the schemas one level below a node, each with its walk."""
    additional = schema.get("additionalProperties")
    atomic = walk.path if schema.get("x-kubernetes-map-type") == "atomic" else walk.uncorrelatable
    if isinstance(additional, Mapping):
        reason = "inside additionalProperties applying to object metadata"
        changes = {"no_defaults": reason} if walk.inside_meta else {}
        yield additional, walk.below(".additionalProperties", uncorrelatable=atomic, **changes)
    for name, child in (schema.get("properties") or {}).items():
        further = walk.below(f".properties[{name}]", uncorrelatable=atomic)
        if name in _META and (walk.root or schema.get("x-kubernetes-embedded-resource")):
            further = replace(further, inside_meta=True)
            if walk.root:
                further = replace(further, no_defaults=f"in top-level {name}")
        yield child, further
    yield from _branches(schema, walk)
    items = schema.get("items")
    if isinstance(items, Mapping):
        is_map = schema.get("x-kubernetes-list-type") == "map"
        lost = walk.uncorrelatable if is_map else walk.uncorrelatable or walk.path
        yield items, walk.below(".items", uncorrelatable=lost)


def _branches(schema: _Schema, walk: Walk) -> Iterator[tuple[_Schema, Walk]]:
    if schema.get("not") is not None:
        yield schema["not"], walk.below(".not", rules=False)
    for name in ("allOf", "oneOf", "anyOf"):
        for index, branch in enumerate(schema.get(name) or ()):
            yield branch, walk.below(f".{name}[{index}]", rules=False)


def _keyword_errors(schema: _Schema, walk: Walk) -> list[FieldError]:
    """Return the errors of single keywords that are unknown or must not be set here."""
    path, kind = walk.path, schema.get("type") or ""
    out: list[FieldError] = []
    if kind and kind not in _TYPES:
        out.append(not_supported(f"{path}.type", kind, _TYPES))
    if schema.get("default") is not None and walk.no_defaults:
        out.append(forbidden(f"{path}.default", f"must not be set {walk.no_defaults}"))
    for name, detail in _UNSUPPORTED:
        if schema.get(name) not in (None, "", {}):
            out.append(forbidden(f"{path}.{name}", detail))
    if kind == "null":
        detail = "type cannot be set to null, use nullable as an alternative"
        out.append(forbidden(f"{path}.type", detail))
    if isinstance(schema.get("items"), list):
        out.append(forbidden(f"{path}.items", "items must be a schema object and not an array"))
    if walk.inside_meta and schema.get("x-kubernetes-embedded-resource"):
        detail = "must not be used inside of resource meta"
        out.append(forbidden(f"{path}.x-kubernetes-embedded-resource", detail))
    return out


def _types(schema: _Schema, path: str) -> list[FieldError]:
    """Return the errors of the extensions for the types of lists and maps."""
    out: list[FieldError] = []
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        where = f"{path}.x-kubernetes-preserve-unknown-fields"
        out.append(invalid(where, False, "must be true or undefined"))
    out += _kind_for(
        schema, path, collection="map", expected_type="object", known=("atomic", "granular")
    )
    out += _kind_for(
        schema, path, collection="list", expected_type="array", known=("atomic", "set", "map")
    )
    keys, kind = schema.get("x-kubernetes-list-map-keys"), schema.get("x-kubernetes-list-type")
    if keys and kind != "map":
        where = f"{path}.x-kubernetes-list-type"
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        out.append(
            build_required_error(where, detail) if kind is None else invalid(where, kind, detail)
        )
    if kind == "map":
        out += _map_list(schema, path)
    return out


def _kind_for(
    schema: _Schema, path: str, collection: str, expected_type: str, known: tuple[str, ...]
) -> list[FieldError]:
    """Return the errors of `x-kubernetes-map-type` or `x-kubernetes-list-type`."""
    name = f"x-kubernetes-{collection}-type"
    value, kind = schema.get(name), schema.get("type") or ""
    if value is None:
        return []
    out: list[FieldError] = []
    if kind != expected_type:
        detail = f"must be {expected_type} if {name} is specified"
        where = f"{path}.type"
        out.append(invalid(where, kind, detail) if kind else build_required_error(where, detail))
    elif value == "set":
        out += _set_items(schema, path)
    if value not in known:
        out.append(not_supported(f"{path}.{name}", value, known))
    return out


def _set_items(schema: _Schema, path: str) -> list[FieldError]:
    items = schema.get("items")
    if not isinstance(items, Mapping):
        return []
    kind = items.get("type")
    collection = {"array": "list", "object": "map"}.get(kind or "")
    name = f"x-kubernetes-{collection}-type"
    # A list is atomic unless it says otherwise, an object is not.
    if collection is None or items.get(name, "atomic" if kind == "array" else None) == "atomic":
        return []
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    return [invalid(f"{path}.items.{name}", items.get("x-kubernetes-list-type"), detail)]


def _map_list(schema: _Schema, path: str) -> list[FieldError]:
    """Return the errors of the keys and items of a list of type map."""
    keys, items = schema.get("x-kubernetes-list-map-keys") or [], schema.get("items")
    out: list[FieldError] = []
    where = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        detail = "must not be empty if x-kubernetes-list-type is map"
        out.append(build_required_error(where, detail))
    if not isinstance(items, Mapping):
        detail = "must have a schema if x-kubernetes-list-type is map"
        return [*out, build_required_error(f"{path}.items", detail)]
    if items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        return [*out, invalid(f"{path}.items.type", items.get("type") or "", detail)]
    properties = items.get("properties") or {}
    for index, key in enumerate(keys):
        if key not in properties:
            detail = "entries must all be names of item properties"
            out.append(invalid(where, keys, detail))
        elif properties[key].get("type") in {"array", "object"}:
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            out.append(invalid(f"{path}.items.properties[{key}].type", items["type"], detail))
        if key in keys[:index]:
            out.append(invalid(where, keys, "must not contain duplicate entries"))
    return out


def _map_keys(schema: _Schema, path: str) -> list[FieldError]:
    """Check that sets and map lists have items, and map lists their key fields."""
    kind, items = schema.get("x-kubernetes-list-type"), schema.get("items")
    if kind not in {"set", "map"} or not isinstance(items, Mapping):
        return []
    out: list[FieldError] = []
    if items.get("nullable"):
        detail = f"cannot be nullable when x-kubernetes-list-type is {kind}"
        out.append(forbidden(f"{path}.items.nullable", detail))
    if kind == "set":
        return out
    said = "this property is in x-kubernetes-list-map-keys, so it"
    for key in schema.get("x-kubernetes-list-map-keys") or ():
        field = (items.get("properties") or {}).get(key)
        if field is None:
            continue
        where = f"{path}.items.properties[{key}]"
        if key not in (items.get("required") or ()) and field.get("default") is None:
            detail = f"{said} must have a default or be a required property"
            out.append(build_required_error(f"{where}.default", detail))
        if field.get("nullable"):
            out.append(forbidden(f"{where}.nullable", f"{said} cannot be nullable"))
    return out


_REASONS: Final = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)


def shape_errors(schema: _Schema, path: str) -> list[FieldError]:
    """Return the errors of rules that are found without compiling them."""
    out: list[FieldError] = []
    for index, rule in enumerate(schema["x-kubernetes-validations"]):
        where = f"{path}.x-kubernetes-validations[{index}]"
        out += _text_errors(rule, where)
        out += _field_path_errors(rule, schema, where)
        reason = rule.get("reason")
        if reason is not None and reason not in _REASONS:
            out.append(not_supported(f"{where}.reason", reason, _REASONS))
    return out


def _text_errors(rule: _Schema, where: str) -> list[FieldError]:
    """Return the errors of a rule's texts: missing, blank, or with line breaks."""
    expression, message = rule.get("rule") or "", rule.get("message") or ""
    message_expression = rule.get("messageExpression") or ""
    out: list[FieldError] = []
    if not expression.strip():
        out.append(build_required_error(f"{where}.rule", "rule is not specified"))
    elif message and not message.strip():
        out.append(invalid(f"{where}.message", message, "must be non-empty if specified"))
    elif _has_line_break(message.strip()):
        out.append(invalid(f"{where}.message", message, "must not contain line breaks"))
    elif _has_line_break(expression.strip()) and not message.strip():
        detail = "message must be specified if rule contains line breaks"
        out.append(build_required_error(f"{where}.message", detail))
    if message_expression and not message_expression.strip():
        detail = "messageExpression must be non-empty if specified"
        out.append(build_required_error(f"{where}.messageExpression", detail))
    return out


def _has_line_break(string: str) -> bool:
    return "\n" in string or "\r" in string


def _field_path_errors(rule: _Schema, schema: _Schema, where: str) -> list[FieldError]:
    """Return the errors of a rule's fieldPath; none if it is not set."""
    path = rule.get("fieldPath") or ""
    if not path:
        return []
    out: list[FieldError] = []
    if not path.strip():
        out.append(invalid(f"{where}.fieldPath", path, "must be non-empty if specified"))
    if _has_line_break(path.strip()):
        out.append(invalid(f"{where}.fieldPath", path, "must not contain line breaks"))
    if normalized_path(path, schema) is None:
        out.append(invalid(f"{where}.fieldPath", path, "must be a valid path"))
    return out


@dataclass(frozen=True, slots=True)
class RulePlace:
    """Where rules stand.

    Attributes:
        path: of the node, as messages print it.
        root: whether the node is the whole object's.
        uncorrelatable: the path below which old and new values do not correspond; "" for none.
    """

    path: str
    root: bool
    uncorrelatable: str


def rule_errors(schema: _Schema, place: RulePlace) -> list[FieldError]:
    """Return why rules do not compile or cannot be used at their place."""
    root = place.root or bool(schema.get("x-kubernetes-embedded-resource"))
    checker = Checker(schema, root=root)
    if not checker.typed:
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
        out += _one_rule(
            rule, checker, place=place, where=f"{place.path}.x-kubernetes-validations[{index}]"
        )
    return out


def _one_rule(rule: _Schema, checker: Checker, place: RulePlace, where: str) -> list[FieldError]:
    """Return the errors of compiling a rule and its messageExpression."""
    expression, said = rule.get("rule") or "", rule.get("messageExpression") or ""
    optional_old = bool(rule.get("optionalOldSelf"))
    out: list[FieldError] = []
    if failure := checker.rule_failure(expression, optional_old=optional_old):
        out.append(invalid(f"{where}.rule", expression, failure))
    if said and (failure := checker.message_failure(said, optional_old=optional_old)):
        out.append(invalid(f"{where}.messageExpression", said, f"messageExpression {failure}"))
    if reads_old(expression) and place.uncorrelatable:
        detail = "oldSelf cannot be used on the uncorrelatable portion of the schema within "
        out.append(invalid(f"{where}.rule", expression, detail + place.uncorrelatable))
    if rule.get("optionalOldSelf") is not None and not reads_old(expression):
        detail = "may not be set if oldSelf is not used in rule"
        out.append(invalid(f"{where}.optionalOldSelf", rule["optionalOldSelf"], detail))
    return out
