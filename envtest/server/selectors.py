"""Label and field selectors: parsing with Kubernetes' messages, and matching."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.managedfields.gotext import quote
from envtest.schema.errors import FieldError, aggregate_message, invalid
from envtest.schema.names import label_value_errors, qualified_name_errors
from envtest.server.failures import StatusError, bad_request

# The terms of a label selector, between commas that are not in brackets; and the parts of one.
_TERMS = re.compile(r",(?![^(]*\))")
_TERM = re.compile(
    r"(?P<key>[^\s=!,()<>]+)\s*"
    r"(?:(?P<operator>==|!=|=|>|<)\s*(?P<value>[^\s=!,()<>]*)"
    r"|(?P<among>in|notin)\s*\((?P<values>[^()]*)\))?"
)
# The terms of a field selector, between commas that nothing escapes.
_PARTS = re.compile(r"(?:[^\\,]|\\(?:.|\Z))+", re.DOTALL)
_ESCAPES = re.compile(r"\\([\\,=])|\\.|\\|[,=]", re.DOTALL)
# How a LabelSelector object names them.
_WORDS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with these labels satisfies the term."""
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "in" | "=" | "==":
                return value in self.values
            case "notin" | "!=":
                return value not in self.values
            case _:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        """Decide `>` and `<`, which hold for integers only."""
        bound = next(iter(self.values))
        if value is None or not re.fullmatch(r"[+-]?\d+", value):
            return False
        above = int(value) > int(bound)
        below = int(value) < int(bound)
        return above if self.operator == ">" else below


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All terms must hold; no terms match everything."""

    requirements: tuple[Requirement, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether these labels satisfy every term."""
        return all(term.matches(labels) for term in self.requirements)


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One term of a field selector."""

    field: str
    value: str
    equal: bool


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All terms must hold; no terms match everything."""

    terms: tuple[FieldTerm, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.terms)

    def matches(self, value_of: Callable[[str], str]) -> bool:
        """Return whether an object satisfies every term; `value_of` reads one of its fields."""
        return all((value_of(term.field) == term.value) == term.equal for term in self.terms)


def label_selector(selector: Mapping[str, Any]) -> LabelSelector:
    """Return the selector that a LabelSelector object stands for."""
    exact = [
        Requirement(key, "=", frozenset({value}))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    others = [
        Requirement(
            expression["key"],
            _WORDS[expression["operator"]],
            frozenset(expression.get("values") or ()),
        )
        for expression in selector.get("matchExpressions") or ()
    ]
    return LabelSelector((*exact, *others))


def parse_labels(selector: str) -> LabelSelector:
    """Parse a label selector.

    Raises:
        StatusError: 400 that says which term makes no sense, and why.
    """
    if not selector.strip():
        return LabelSelector()
    return LabelSelector(tuple(_requirement(term.strip()) for term in _TERMS.split(selector)))


def _requirement(term: str) -> Requirement:
    """Parse one term."""
    absent = term.startswith("!")
    match = _TERM.fullmatch(term.removeprefix("!").strip())
    if match is None or (absent and (match["operator"] or match["among"])):
        raise _refuse_requirement(f"{quote(term)} is no term of a label selector")
    key, operator = match["key"], match["operator"] or match["among"]
    faults = qualified_name_errors(key)
    if faults:
        raise _refuse_requirement(f"<nil>: Invalid value: {quote(key)}: {'; '.join(faults)}")
    if operator is None:
        return Requirement(key, "!" if absent else "exists")
    values = [match["value"]] if match["operator"] else match["values"].split(",")
    value_set = frozenset(value.strip() for value in values)
    problems = _value_problems(key, operator, value_set)
    if problems:
        raise _refuse_requirement(aggregate_message(problems))
    return Requirement(key, operator, value_set)


def _refuse_requirement(why: str) -> StatusError:
    return bad_request(f"unable to parse requirement: {why}")


def _value_problems(key: str, operator: str, values: frozenset[str]) -> list[FieldError]:
    """Validate the values of a term: all numbers first, then all texts."""
    ordered = sorted(values)
    problems = []
    if operator in {">", "<"}:
        detail = "for 'Gt', 'Lt' operators, the value must be an integer"
        problems += [
            invalid(f"values[{at}]", value, detail)
            for at, value in enumerate(ordered)
            if not re.fullmatch(r"[+-]?\d+", value)
        ]
    for at, value in enumerate(ordered):
        faults = label_value_errors(value)
        if faults:
            problems.append(invalid(f"values[{at}][{key}]", value, "; ".join(faults)))
    return problems


def parse_fields(selector: str) -> FieldSelector:
    """Parse a field selector.

    Raises:
        StatusError: 400 with the real server's sentence.
    """
    terms = []
    # Sorted, as the real server has them: it reports the first fault in that order.
    for part in sorted(_PARTS.findall(selector)):
        if not part:
            continue
        match = re.fullmatch(r"(.*?)(==|!=|=)(.*)", part, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: '{selector}'; can't understand '{part}'")
        field, operator, escaped = match.groups()
        value = _unescape_value(escaped)
        if field or value:
            terms.append(FieldTerm(field, value, operator != "!="))
    return FieldSelector(tuple(terms))


def _unescape_value(value: str) -> str:
    """Return the value that a text stands for, where backslash, comma and = are escaped."""
    for match in _ESCAPES.finditer(value):
        if match.group() in {"=", ","}:
            code = ord(match.group())
            raise bad_request(f"invalid field selector: unescaped character in value: {code}")
        if match.group(1) is None:
            raise bad_request(f"invalid field selector: invalid escape sequence: {match.group()}")
    return _ESCAPES.sub(r"\1", value)
