"""Label selectors of lists and watches, as Kubernetes writes them."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from controller.errors import BadRequest

Labels = Mapping[str, str]

_NAME = r"[A-Za-z0-9._/-]+"
_SET = re.compile(rf"({_NAME})\s+(in|notin)\s+\(([^()]*)\)")
_EQUALITY = re.compile(rf"({_NAME})\s*(==|!=|=)\s*({_NAME}|)")
_PRESENCE = re.compile(rf"(!?)\s*({_NAME})")
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^()]*\))")


def parse_label_selector(selector: str) -> Callable[[Labels], bool]:
    """Return a predicate that tells whether a label selector selects labels.

    The terms `a=b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a` and `!a` are separated by commas.

    Raises:
        BadRequest: `selector` cannot be parsed.
    """
    predicates = [_parse_requirement(term) for term in split_terms(selector)]
    return lambda labels: all(matches(labels) for matches in predicates)


def write_selector(selector: Mapping[str, Any]) -> str:
    """Return a label selector in object form as the text that lists and informers take.

    Args:
        selector: has `matchLabels` and `matchExpressions`, as in the spec of a Deployment. An
            empty selector selects all objects.

    Raises:
        ValueError: an operator is unknown, or its values are missing or too many.
    """
    terms = [f"{name}={value}" for name, value in (selector.get("matchLabels") or {}).items()]
    terms += map(_write_expression, selector.get("matchExpressions") or ())
    return ",".join(terms)


def _write_expression(expression: Mapping[str, Any]) -> str:
    """Return an entry of `matchExpressions` as a term of a label selector.

    Raises:
        ValueError: the operator is unknown, or its values are missing or too many.
    """
    name, operator = expression["key"], expression["operator"]
    values = list(expression.get("values") or ())
    if operator in {"In", "NotIn"} and values:
        return f"{name} {operator.lower()} ({','.join(values)})"
    if operator in {"Exists", "DoesNotExist"} and not values:
        return name if operator == "Exists" else f"!{name}"
    raise ValueError(
        f"matchExpressions: {name} {operator} {values} is not a requirement; In and NotIn need"
        " values, Exists and DoesNotExist have none"
    )


def split_terms(selector: str) -> list[str]:
    """Return the terms of a selector, which commas outside of parentheses separate."""
    terms = (term.strip() for term in _COMMA_OUTSIDE_PARENTHESES.split(selector))
    return [term for term in terms if term]


def _parse_requirement(term: str) -> Callable[[Labels], bool]:
    """Return a predicate that tells whether labels meet one term of a label selector.

    An object without the label meets `!=` and `notin`, as in Kubernetes.

    Raises:
        BadRequest: the term cannot be parsed.
    """
    if match := _SET.fullmatch(term):
        name, operator, value_list = match.groups()
        values = {value.strip() for value in value_list.split(",")}
        if operator == "in":
            return lambda labels: labels.get(name) in values
        return lambda labels: labels.get(name) not in values
    if match := _EQUALITY.fullmatch(term):
        name, operator, value = match.groups()
        if operator == "!=":
            return lambda labels: labels.get(name) != value
        return lambda labels: labels.get(name) == value
    if match := _PRESENCE.fullmatch(term):
        is_negated, name = match[1] == "!", match[2]
        return lambda labels: (name in labels) != is_negated
    raise BadRequest(400, "BadRequest", f"unable to parse the label selector {term!r}")
