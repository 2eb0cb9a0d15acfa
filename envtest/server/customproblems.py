"""What is said of custom resources beside their schema: their type, and where their scale is.

Texts, order and paths follow apiextensions-apiserver's validator of custom resources.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from envtest.schema.errors import NO_FIELD, FieldError, invalid
from envtest.schema.gotext import json_kind, json_text

_INT32_MAX = 2**31 - 1
_SPEC, _STATUS, _SELECTOR = "specReplicasPath", "statusReplicasPath", "labelSelectorPath"


def type_problems(body: Mapping[str, Any], kind: str, api_version: str) -> list[FieldError]:
    """Judge apiVersion and kind; nothing else is looked at where these are wrong."""
    found = []
    if body.get("kind") != kind:
        found.append(invalid("kind", body.get("kind", ""), f"must be {kind}"))
    if body.get("apiVersion") != api_version:
        found.append(invalid("apiVersion", body.get("apiVersion", ""), f"must be {api_version}"))
    return found


def scale_problems(
    body: Mapping[str, Any], scale: Mapping[str, Any], *, status_only: bool
) -> list[FieldError]:
    """Judge the numbers and the selector that a scale subresource reads.

    Args:
        body: the object.
        scale: the `subresources.scale` of its version.
        status_only: whether only the status is written.
    """
    found = [] if status_only else _number_problems(body, scale[_SPEC])
    found += _number_problems(body, scale[_STATUS])
    if scale.get(_SELECTOR):
        found += _selector_problems(body, scale[_SELECTOR])
    return found


def _number_problems(body: Mapping[str, Any], path: str) -> list[FieldError]:
    there, value, fault = found_at(body, path)
    if there and not fault and (isinstance(value, bool) or not isinstance(value, int)):
        fault = _unexpected(path, value, "int64")
    if fault:
        return [invalid(path, 0, fault)]
    if there and value < 0:
        return [invalid(path, value, "should be a non-negative integer")]
    if there and value > _INT32_MAX:
        return [invalid(path, value, f"should be less than or equal to {_INT32_MAX}")]
    return []


def _selector_problems(body: Mapping[str, Any], path: str) -> list[FieldError]:
    there, value, fault = found_at(body, path)
    if there and not fault and not isinstance(value, str):
        fault = _unexpected(path, value, "string")
    return [invalid(path, "", fault)] if fault else []


def found_at(body: Mapping[str, Any], path: str) -> tuple[bool, Any, str]:
    """Look a simple path up: whether something is there, what, and why it cannot be told."""
    value: Any = body
    names = path.removeprefix(".").split(".")
    for at, name in enumerate(names):
        if value is None:
            return False, None, ""
        if not isinstance(value, Mapping):
            here = "." + ".".join(names[: at + 1])
            return False, None, _unexpected(here, value, "map[string]interface{}")
        if name not in value:
            return False, None, ""
        value = value[name]
    return True, value, ""


def _unexpected(path: str, value: Any, wanted: str) -> str:
    return (
        f"{path} accessor error: {json_text(value)} is of the type {json_kind(value)},"
        f" expected {wanted}"
    )


def as_told_of_status(problems: Iterable[FieldError]) -> list[FieldError]:
    """Return problems in the words of a write to the status.

    Such a write is held against the schema of the status alone, so paths within sentences begin
    below it.
    """
    return [_below_status(one) for one in problems]


def _below_status(problem: FieldError) -> FieldError:
    field, detail = problem.field, problem.detail
    if field == NO_FIELD and " value must be of type " in detail:
        return replace(problem, field="status", detail=detail.replace(" in status.", " in ", 1))
    if not field.startswith("status") or f"{field} " not in detail:
        return problem
    below = field[len("status") :].lstrip(".")
    return replace(problem, detail=detail.replace(field, below, 1))
