"""The door to rules in CEL: what compiles and evaluates them is loaded with the first of them.

It is a tenth of a server's start, and many a server never meets a rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envtest.schema.cel.conditions import Condition
    from envtest.schema.cel.rules import RuleTree

_RULES = "x-kubernetes-validations"


def rules_of(schema: Mapping[str, Any]) -> RuleTree | None:
    """Return the rules of a schema, None where it has none at any depth."""
    if not _has_rules(schema):
        return None
    from envtest.schema.cel.rules import RuleTree

    return RuleTree.compile(schema)


def compile_condition(expression: str) -> Condition:
    """Compile a match condition; what is wrong with it stands in the result."""
    from envtest.schema.cel import conditions

    return conditions.compile_condition(expression)


def _has_rules(schema: object) -> bool:
    """Tell whether rules stand anywhere in a schema."""
    if isinstance(schema, Mapping):
        return bool(schema.get(_RULES)) or any(map(_has_rules, schema.values()))
    return isinstance(schema, list) and any(map(_has_rules, schema))
