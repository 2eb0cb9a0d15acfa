"""Checks of the rules in a schema node: their shape, and whether they compile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from envtest.schema.cel import Checker, reads_old
from envtest.schema.crd.internal import rule_text
from envtest.schema.errors import FieldError, Verbatim, invalid, not_supported, required
from envtest.schema.rules import normalized_path

_Schema = Mapping[str, Any]
_REASONS: Final = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)


def shape_errors(schema: _Schema, path: str) -> list[FieldError]:
    """What can be said of rules without compiling them."""
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
    text, message = rule.get("rule") or "", rule.get("message") or ""
    expression = rule.get("messageExpression") or ""
    out: list[FieldError] = []
    if not text.strip():
        out.append(required(f"{where}.rule", "rule is not specified"))
    elif message and not message.strip():
        out.append(invalid(f"{where}.message", message, "must be non-empty if specified"))
    elif _breaks(message.strip()):
        out.append(invalid(f"{where}.message", message, "must not contain line breaks"))
    elif _breaks(text.strip()) and not message.strip():
        detail = "message must be specified if rule contains line breaks"
        out.append(required(f"{where}.message", detail))
    if expression and not expression.strip():
        detail = "messageExpression must be non-empty if specified"
        out.append(required(f"{where}.messageExpression", detail))
    return out


def _breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def _field_path_errors(rule: _Schema, schema: _Schema, where: str) -> list[FieldError]:
    path = rule.get("fieldPath") or ""
    if not path:
        return []
    out: list[FieldError] = []
    if not path.strip():
        out.append(invalid(f"{where}.fieldPath", path, "must be non-empty if specified"))
    if _breaks(path.strip()):
        out.append(invalid(f"{where}.fieldPath", path, "must not contain line breaks"))
    if normalized_path(path, schema) is None:
        out.append(invalid(f"{where}.fieldPath", path, "must be a valid path"))
    return out


@dataclass(frozen=True, slots=True)
class Place:
    """Where rules stand.

    Attributes:
        path: of the node, as messages print it.
        root: whether the node is the whole object's.
        uncorrelatable: the path below which old and new values do not correspond; "" for none.
    """

    path: str
    root: bool
    uncorrelatable: str


def rule_errors(schema: _Schema, place: Place) -> list[FieldError]:
    """Return what keeps rules from compiling, or makes them senseless where they stand."""
    root = place.root or bool(schema.get("x-kubernetes-embedded-resource"))
    checker = Checker(schema, root=root)
    if not checker.typed:
        detail = (
            "internal error: failed to construct type information for x-kubernetes-validations "
            "rules: unable to convert structural schema to CEL declarations"
        )
        return [FieldError("InternalError", f"{place.path}.x-kubernetes-validations", "", detail)]
    out: list[FieldError] = []
    for index, rule in enumerate(schema["x-kubernetes-validations"]):
        out += _one_rule(rule, checker, place, f"{place.path}.x-kubernetes-validations[{index}]")
    return out


def _one_rule(rule: _Schema, checker: Checker, place: Place, where: str) -> list[FieldError]:
    text, said = rule.get("rule") or "", rule.get("messageExpression") or ""
    optional_old = bool(rule.get("optionalOldSelf"))
    shown = Verbatim(rule_text(rule))
    out: list[FieldError] = []
    if failure := checker.rule_failure(text, optional_old=optional_old):
        out.append(invalid(f"{where}.rule", shown, failure))
    if said and (failure := checker.message_failure(said, optional_old=optional_old)):
        out.append(invalid(f"{where}.messageExpression", shown, f"messageExpression {failure}"))
    if reads_old(text) and place.uncorrelatable:
        detail = "oldSelf cannot be used on the uncorrelatable portion of the schema within "
        out.append(invalid(f"{where}.rule", text, detail + place.uncorrelatable))
    if rule.get("optionalOldSelf") is not None and not reads_old(text):
        detail = "may not be set if oldSelf is not used in rule"
        out.append(invalid(f"{where}.optionalOldSelf", rule["optionalOldSelf"], detail))
    return out
