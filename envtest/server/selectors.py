"""Label and field selectors: parsing with Kubernetes' messages, and matching."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.managedfields.gotext import quote
from envtest.schema.errors import FieldError, build_invalid_error, join_messages
from envtest.schema.names import find_label_value_errors, find_qualified_name_errors
from envtest.server.failures import StatusError, build_bad_request

# The commas between terms of a label selector: those that are not in brackets.
_TERMS = re.compile(r",(?![^(]*\))")
_TERM = re.compile(
    r"(?P<key>[^\s=!,()<>]+)\s*"
    r"(?:(?P<operator>==|!=|=|>|<)\s*(?P<value>[^\s=!,()<>]*)"
    r"|(?P<among>in|notin)\s*\((?P<values>[^()]*)\))?"
)
# A term of a field selector: it ends at a comma that is not escaped.
_PARTS = re.compile(r"(?:[^\\,]|\\(?:.|\Z))+", re.DOTALL)
_ESCAPES = re.compile(r"\\([\\,=])|\\.|\\|[,=]", re.DOTALL)
# Operator of a LabelSelector object -> operator of a `Requirement`.
_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector."""

    key: str
    # One of exists, !, in, notin, =, ==, !=, > and <.
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
                return self._holds_comparison(value)

    def _holds_comparison(self, value: str | None) -> bool:
        """Return whether a label is an integer for which `>` or `<` holds."""
        # Such a term has exactly one value, and parsing refuses one that is no integer.
        [bound] = self.values
        if value is None or not re.fullmatch(r"[+-]?\d+", value):
            return False
        return int(value) > int(bound) if self.operator == ">" else int(value) < int(bound)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """The terms of a label selector, all of which must hold; without terms it matches all."""

    requirements: tuple[Requirement, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether these labels satisfy every term."""
        return all(term.matches(labels) for term in self.requirements)


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One term of a field selector: a field equals a value, or does not."""

    field: str
    value: str
    is_equal: bool


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """The terms of a field selector, all of which must hold; without terms it matches all."""

    terms: tuple[FieldTerm, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.terms)

    def matches(self, value_of: Callable[[str], str]) -> bool:
        """Return whether an object satisfies every term; `value_of` reads one of its fields."""
        return all((value_of(term.field) == term.value) == term.is_equal for term in self.terms)


def convert_label_selector(selector: Mapping[str, Any]) -> LabelSelector:
    """Convert a LabelSelector object, with matchLabels and matchExpressions."""
    exact = [
        Requirement(key, "=", frozenset({value}))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    others = [
        Requirement(
            expression["key"],
            _OPERATORS[expression["operator"]],
            frozenset(expression.get("values") or ()),
        )
        for expression in selector.get("matchExpressions") or ()
    ]
    return LabelSelector((*exact, *others))


def parse_label_selector(selector: str) -> LabelSelector:
    """Parse a label selector of a query.

    Raises:
        StatusError: 400 that says which term cannot be parsed, and why.
    """
    if not selector.strip():
        return LabelSelector()
    return LabelSelector(
        tuple(_parse_requirement(term.strip()) for term in _TERMS.split(selector))
    )


def _parse_requirement(term: str) -> Requirement:
    """Parse one term of a label selector.

    Raises:
        StatusError: 400 for a term that is malformed, or has an invalid key or value.
    """
    is_negated = term.startswith("!")
    match = _TERM.fullmatch(term.removeprefix("!").strip())
    # A leading `!` asks for an absent label, so it cannot have an operator.
    if match is None or (is_negated and (match["operator"] or match["among"])):
        raise _build_requirement_error(f"{quote(term)} is no term of a label selector")
    key, operator = match["key"], match["operator"] or match["among"]
    faults = find_qualified_name_errors(key)
    if faults:
        raise _build_requirement_error(f"<nil>: Invalid value: {quote(key)}: {'; '.join(faults)}")
    if operator is None:
        return Requirement(key, "!" if is_negated else "exists")
    values = [match["value"]] if match["operator"] else match["values"].split(",")
    value_set = frozenset(value.strip() for value in values)
    problems = _validate_values(key, operator, value_set)
    if problems:
        raise _build_requirement_error(join_messages(problems))
    return Requirement(key, operator, value_set)


def _build_requirement_error(why: str) -> StatusError:
    """Return 400 for a term of a label selector that cannot be parsed."""
    return build_bad_request(f"unable to parse requirement: {why}")


def _validate_values(key: str, operator: str, values: frozenset[str]) -> list[FieldError]:
    """Return the errors of a term's values: first as integers, then as label values."""
    # As in the real server, the numbers of values in messages follow their alphabetical order.
    ordered = sorted(values)
    problems = []
    if operator in {">", "<"}:
        detail = "for 'Gt', 'Lt' operators, the value must be an integer"
        problems += [
            build_invalid_error(f"values[{index}]", value, detail)
            for index, value in enumerate(ordered)
            if not re.fullmatch(r"[+-]?\d+", value)
        ]
    for index, value in enumerate(ordered):
        faults = find_label_value_errors(value)
        if faults:
            problems.append(
                build_invalid_error(f"values[{index}][{key}]", value, "; ".join(faults))
            )
    return problems


def parse_field_selector(selector: str) -> FieldSelector:
    """Parse a field selector of a query.

    Raises:
        StatusError: 400 if a term cannot be parsed.
    """
    terms = []
    # The real server sorts the terms, and reports the first fault in that order.
    for part in sorted(_PARTS.findall(selector)):
        match = re.fullmatch(r"(.*?)(==|!=|=)(.*)", part, re.DOTALL)
        if match is None:
            raise build_bad_request(f"invalid selector: '{selector}'; can't understand '{part}'")
        field, operator, escaped = match.groups()
        value = _unescape_value(escaped)
        # As in the real server, a lone operator such as `=` demands nothing.
        if field or value:
            terms.append(FieldTerm(field, value, is_equal=operator != "!="))
    return FieldSelector(tuple(terms))


def _unescape_value(value: str) -> str:
    """Remove the backslashes that escape backslash, comma and `=` in a value.

    Raises:
        StatusError: 400 for an unescaped comma or `=`, and for any other escape.
    """
    for match in _ESCAPES.finditer(value):
        if match.group() in {"=", ","}:
            code = ord(match.group())
            raise build_bad_request(
                f"invalid field selector: unescaped character in value: {code}"
            )
        # The group matches only the three characters that may be escaped.
        if match.group(1) is None:
            raise build_bad_request(
                f"invalid field selector: invalid escape sequence: {match.group()}"
            )
    return _ESCAPES.sub(r"\1", value)
