"""Defaults in a schema: each has to be a value that the schema would accept."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from envtest.schema.embedded import EmbeddedNode, MalformedObject
from envtest.schema.errors import NO_FIELD, FieldError, invalid
from envtest.schema.pruning import PruneNode
from envtest.schema.rules import RuleTree
from envtest.schema.values import ValueSchema

_Schema = Mapping[str, Any]


def default_errors(schema: _Schema, path: str) -> list[FieldError]:
    """What is wrong with the defaults of a structural schema."""
    out: list[FieldError] = []
    _check({**schema, "x-kubernetes-embedded-resource": True}, path, out, inside_meta=False)
    return out


def _check(schema: _Schema, path: str, out: list[FieldError], *, inside_meta: bool) -> None:
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    if embedded:
        inside_meta = False
    if schema.get("default") is not None:
        out += _value_errors(schema, f"{path}.default", inside_meta=inside_meta)
    # Values of maps are left out: no default is looked at there.
    if isinstance(schema.get("items"), Mapping):
        _check(schema["items"], f"{path}.items", out, inside_meta=inside_meta)
    for name, child in (schema.get("properties") or {}).items():
        meta = inside_meta or (embedded and name in {"metadata", "apiVersion", "kind"})
        _check(child, f"{path}.properties[{name}]", out, inside_meta=meta)


def _value_errors(schema: _Schema, path: str, *, inside_meta: bool) -> list[FieldError]:
    value = schema["default"]
    found: list[FieldError] = []
    if not inside_meta and _has_unknown(schema, value):
        found.append(invalid(path, value, "must not have unknown fields"))
    embedded = None if inside_meta else EmbeddedNode.compile(schema)
    if embedded is not None:
        try:
            embedded.coerce(copy.deepcopy(value), path, [])
        except MalformedObject as error:
            return [*found, error.error]
    return found + _refusals(schema, embedded, value, path)


def _has_unknown(schema: _Schema, value: Any) -> bool:
    unknown: list[str] = []
    root = bool(schema.get("x-kubernetes-embedded-resource"))
    PruneNode(schema).prune(copy.deepcopy(value), "", unknown, root=root)
    return bool(unknown)


def _refusals(
    schema: _Schema, embedded: EmbeddedNode | None, value: Any, path: str
) -> list[FieldError]:
    """The errors of the first check that finds any: embedded objects, values, rules."""
    found: list[FieldError] = []
    if embedded is not None:
        embedded.check(value, path, found)
    if not found:
        ValueSchema(schema).check(value, "", found)
        found = [_moved(error, path) for error in found]
    rules = RuleTree.compile(schema, root=True)
    if not found and rules is not None:
        found = [_moved(error, path) for error in rules.check(value, None, [])]
    return found


def _moved(error: FieldError, path: str) -> FieldError:
    """The error of a value looked at on its own, at the place where the default stands."""
    if error.field in {"", NO_FIELD}:
        field = path
    else:
        field = path + error.field if error.field.startswith("[") else f"{path}.{error.field}"
    return FieldError(error.kind, field, error.value, error.detail)
