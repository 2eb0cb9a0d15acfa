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
from envtest.schema.cel.functions import CelError
from envtest.schema.cel.metered import MeteredProgram
from envtest.schema.cel.types import BOOL, DYN, ERROR, STRING, CelType, optional_of


class Expression:
    """An expression that can be evaluated with a meter and, faster, without.

    Attributes:
        cost: the most that evaluating it may cost.
    """

    __slots__ = ("_checked", "_metered", "_program", "cost")

    def __init__(self, checked: Checked, root: CelType) -> None:
        self.cost = worst_cost(checked, root)
        self._checked = checked
        self._program = Program(checked)
        self._metered: MeteredProgram | None = None

    def evaluate(
        self, variables: Mapping[str, Any], limit: int, *, exact: bool
    ) -> tuple[Any, int]:
        """The value, or the error in its place, and what it cost at most.

        Args:
            variables: values by name.
            limit: the most that it may cost.
            exact: whether the cost has to be the true one, not just a bound.
        """
        if exact or self.cost > limit:
            if self._metered is None:
                self._metered = MeteredProgram(self._checked)
            return self._metered.evaluate(variables, limit)
        try:
            return self._program.evaluate(variables), self.cost
        except CelError as error:
            return error, self.cost


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of `x-kubernetes-validations`, ready to be evaluated.

    Attributes:
        expression: the rule itself; None where it does not compile.
        failure: why it does not compile, in the server's words; else "".
        message: the fixed message, trimmed; "" where there is none.
        message_expression: what makes the message, where there is something that compiles.
        message_failure: why that one does not compile; else "".
        said: the text of that expression.
        text: the rule's text, trimmed.
        reason: kind of the error it leads to.
        field_path: where the error is reported, below the node; normalized, "" for the node.
        transition: whether it compares with the old value.
        optional_old: whether it is evaluated without an old value too.
    """

    expression: Expression | None
    failure: str
    message: str
    message_expression: Expression | None
    message_failure: str
    said: str
    text: str
    reason: str
    field_path: str
    transition: bool
    optional_old: bool

    @property
    def cost(self) -> int:
        """The most that evaluating the rule once may cost; 0 where it does not compile."""
        return self.expression.cost if self.expression else 0

    @property
    def message_cost(self) -> int:
        """The same of the expression for the message."""
        return self.message_expression.cost if self.message_expression else 0

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
        expression=None if checked is None else Expression(checked, kind),
        failure=failure,
        message=(rule.get("message") or "").strip(),
        message_expression=None if said is None else Expression(said, kind),
        message_failure=message_failure,
        said=rule.get("messageExpression") or "",
        text=(rule.get("rule") or "").strip(),
        reason=(rule.get("reason") or "FieldValueInvalid").removeprefix("FieldValue"),
        field_path=normalized_path(rule.get("fieldPath") or "", schema) or "",
        transition=checked is not None and "oldSelf" in checked.uses,
        optional_old=optional_old,
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
