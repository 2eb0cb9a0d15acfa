"""Rules of one schema node, compiled; and what keeps a rule from being one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envtest.schema.cel import syntax
from envtest.schema.cel.checker import Checked, CheckFailed, NotInstantiable, check
from envtest.schema.cel.costs import worst_cost
from envtest.schema.cel.evaluator import Program
from envtest.schema.cel.types import BOOL, DYN, ERROR, STRING, CelType, optional_of


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of `x-kubernetes-validations`, ready to be evaluated.

    Attributes:
        program: the rule itself; None where it does not compile.
        failure: why it does not compile, in the server's words; else "".
        message: the fixed message, trimmed; "" where there is none.
        message_program: the expression that makes the message, where there is one that compiles.
        message_failure: why that one does not compile; else "".
        text: the rule's text, trimmed.
        reason: kind of the error it leads to.
        field_path: where the error is reported, below the node; normalized, "" for the node.
        transition: whether it compares with the old value.
        optional_old: whether it is evaluated without an old value too.
        cost: the most that evaluating it once may cost; 0 where it does not compile.
        message_cost: the same of the expression for the message.
    """

    program: Program | None
    failure: str
    message: str
    message_program: Program | None
    message_failure: str
    text: str
    reason: str
    field_path: str
    transition: bool
    optional_old: bool
    cost: int
    message_cost: int

    @property
    def named(self) -> str:
        """How errors name the rule: by its message if it has one."""
        return self.message or self.text


def compile_rule(rule: Mapping[str, Any], kind: CelType, schema: Mapping[str, Any]) -> Rule:
    """Compile one rule of a node whose values have type `kind`."""
    optional_old = bool(rule.get("optionalOldSelf"))
    variables = {"self": kind, "oldSelf": optional_of(kind) if optional_old else kind}
    checked, failure = _checked(rule.get("rule") or "", variables)
    if checked is not None and checked.type not in {BOOL, DYN, ERROR}:
        checked, failure = None, "cel expression must evaluate to a bool"
    said, message_failure = _message(rule, variables)
    return Rule(
        program=None if checked is None else Program(checked),
        failure=failure,
        message=(rule.get("message") or "").strip(),
        message_program=None if said is None else Program(said),
        message_failure=message_failure,
        text=(rule.get("rule") or "").strip(),
        reason=(rule.get("reason") or "FieldValueInvalid").removeprefix("FieldValue"),
        field_path=normalized_path(rule.get("fieldPath") or "", schema) or "",
        transition=checked is not None and "oldSelf" in checked.uses,
        optional_old=optional_old,
        cost=0 if checked is None else worst_cost(checked, kind),
        message_cost=0 if said is None else worst_cost(said, kind),
    )


def _message(
    rule: Mapping[str, Any], variables: Mapping[str, CelType]
) -> tuple[Checked | None, str]:
    expression = rule.get("messageExpression") or ""
    if not expression.strip():
        return None, ""
    checked, failure = _checked(expression, variables)
    if checked is None:
        return None, f"messageExpression {failure}"
    if checked.type not in {STRING, DYN}:
        return None, "messageExpression must evaluate to a string"
    return checked, ""


def _checked(source: str, variables: Mapping[str, CelType]) -> tuple[Checked | None, str]:
    if not source.strip():
        return None, ""
    try:
        return check(syntax.parse(source), source, variables), ""
    except (syntax.CelSyntaxError, CheckFailed) as error:
        return None, f"compilation failed: {error}"
    except NotInstantiable as error:
        return None, f"program instantiation failed: {error}"


_STEP = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]")
_UNESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def normalized_path(path: str, schema: Mapping[str, Any]) -> str | None:
    """A rule's `fieldPath` as it is added to the node's own path.

    Args:
        path: `.spec.size` or `.labels['a.b']`.
        schema: the node's schema.

    Returns:
        The path, "" for an empty one, None where it leads to no field of the schema.
    """
    at, parts = 0, ""
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            return None
        at = found.end()
        name = found[1] if found[1] is not None else _unescape(found[2])
        step = _step(name, schema)
        if step is None:
            return None
        part, schema = step
        parts += part if part.startswith("[") or not parts else f".{part}"
    return parts


def _step(name: str, schema: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    properties = schema.get("properties")
    if properties:
        return (name, properties[name]) if name in properties else None
    additional = schema.get("additionalProperties")
    return (f"[{name}]", additional) if isinstance(additional, Mapping) else None


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _UNESCAPED.get(found[1], found[1]), text)
