"""Label and field selectors: parsing with Kubernetes' messages, and matching."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from envtest.schema.errors import FieldError, aggregate_message, invalid
from envtest.schema.gotext import quote
from envtest.schema.names import label_value_errors, qualified_name_errors
from envtest.server.failures import StatusError, bad_request
from envtest.wire.texts import number_fault

_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!,()<>]|[^ \t\r\n=!,()<>\0]+)\0?")
_PUNCTUATION = frozenset({"=", "==", "!=", "!", ",", "(", ")", "<", ">"})
_OPERATORS = ("in", "notin", "=", "==", "!=", ">", "<")
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
        """Tell whether an object with these labels satisfies the term."""
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
        """Tell whether these labels satisfy every term."""
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
        """Tell whether an object satisfies every term; `value_of` reads one of its fields."""
        return all((value_of(term.field) == term.value) == term.equal for term in self.terms)

    def exact(self, field: str) -> str | None:
        """Return the one value that a field must have, if the selector says so."""
        return next((t.value for t in self.terms if t.equal and t.field == field), None)


def label_selector(selector: Mapping[str, Any]) -> LabelSelector:
    """Return the selector that a LabelSelector object stands for."""
    exact = [
        Requirement(key, "=", frozenset({value}))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    others = [
        Requirement(one["key"], _WORDS[one["operator"]], frozenset(one.get("values") or ()))
        for one in selector.get("matchExpressions") or ()
    ]
    return LabelSelector((*exact, *others))


class _Tokens:
    """The words of a label selector, read one by one."""

    def __init__(self, text: str) -> None:
        self._words = _words(text)
        self._at = 0

    @property
    def next(self) -> str:
        """The word that comes, or nothing at the end."""
        return self._words[self._at] if self._at < len(self._words) else ""

    def take(self) -> str:
        """Consume a word."""
        word = self.next
        self._at += 1
        return word

    def identifier(self) -> str:
        """Consume a word that must be no punctuation."""
        word = self.take()
        if not _is_identifier(word):
            raise _unparsed(f"found '{word}', expected: identifier")
        return word


def _words(text: str) -> list[str]:
    """Split a label selector; a NUL is its end unless it follows a word, as for Go's lexer."""
    words, at = [], 0
    while (match := _TOKEN.match(text, at)) is not None:
        words.append(match.group(1))
        at = match.end()
    return words


def _is_identifier(word: str) -> bool:
    return bool(word) and word not in _PUNCTUATION


def _unparsed(why: str) -> StatusError:
    return bad_request(f"unable to parse requirement: {why}")


def parse_labels(text: str) -> LabelSelector:
    """Parse a label selector.

    Raises:
        StatusError: 400 with the real server's sentence.
    """
    tokens = _Tokens(text)
    if not tokens.next:
        return LabelSelector()
    if tokens.next != "!" and not _is_identifier(tokens.next):
        among = "!, identifier, or 'end of string'"
        raise bad_request(f"found '{tokens.next}', expected: {among}")
    found = [_requirement(tokens)]
    while tokens.next == ",":
        tokens.take()
        if tokens.next != "!" and not _is_identifier(tokens.next):
            raise bad_request(f"found '{tokens.next}', expected: identifier after ','")
        found.append(_requirement(tokens))
    if tokens.next:
        raise bad_request(f"found '{tokens.next}', expected: ',' or 'end of string'")
    return LabelSelector(tuple(found))


def _requirement(tokens: _Tokens) -> Requirement:
    """Parse one term."""
    absent = tokens.next == "!"
    if absent:
        tokens.take()
    key = tokens.identifier()
    faults = qualified_name_errors(key)
    if faults:
        raise _unparsed(f"<nil>: Invalid value: {quote(key)}: {'; '.join(faults)}")
    if absent or tokens.next in {"", ","}:
        return Requirement(key, "!" if absent else "exists")
    operator = tokens.take()
    if operator not in _OPERATORS:
        among = ", ".join(("in", "notin", "=", "==", "!=", "gt", "lt"))
        raise _unparsed(f"found '{operator}', expected: {among}")
    if operator in {"in", "notin"}:
        values = _value_set(tokens)
    else:
        values = frozenset({"" if tokens.next in {"", ","} else tokens.identifier()})
    problems = _value_problems(key, operator, values)
    if problems:
        raise _unparsed(aggregate_message(problems))
    return Requirement(key, operator, values)


def _value_problems(key: str, operator: str, values: frozenset[str]) -> list[FieldError]:
    """Judge the values of a term: all numbers first, then all texts."""
    ordered = sorted(values)
    found = []
    if operator in {">", "<"}:
        text = "for 'Gt', 'Lt' operators, the value must be an integer"
        found += [
            invalid(f"values[{at}]", value, text)
            for at, value in enumerate(ordered)
            if number_fault(value, function="ParseInt")
        ]
    for at, value in enumerate(ordered):
        faults = label_value_errors(value)
        if faults:
            found.append(invalid(f"values[{at}][{key}]", value, "; ".join(faults)))
    return found


def _value_set(tokens: _Tokens) -> frozenset[str]:
    """Parse `(a, b)`; between commas there may be nothing, which is a value, too."""
    word = tokens.take()
    if word != "(":
        raise _unparsed(f"found '{word}' expected: '('")
    if tokens.next == ")":
        tokens.take()
        return frozenset({""})
    if tokens.next != "," and not _is_identifier(tokens.next):
        raise _unparsed(f"found '{tokens.next}', expected: ',', ')' or identifier")
    values: set[str] = set()
    while True:
        word = tokens.take()
        if _is_identifier(word):
            values.add(word)
            if tokens.next not in {",", ")"}:
                raise _unparsed(f"found '{tokens.next}', expected: ',' or ')'")
        elif word == ",":
            if not values or tokens.next in {",", ")"}:
                values.add("")
        else:
            raise _unparsed(f"found '{word}', expected: ',', or identifier")
        if tokens.next == ")":
            tokens.take()
            return frozenset(values)


def parse_fields(text: str) -> FieldSelector:
    """Parse a field selector.

    Raises:
        StatusError: 400 with the real server's sentence.
    """
    terms = []
    # Sorted, as the real server has them: it tells of the first fault in that order.
    for part in sorted(_PARTS.findall(text)):
        if not part:
            continue
        match = re.fullmatch(r"(.*?)(==|!=|=)(.*)", part, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        field, operator, escaped = match.groups()
        value = _unescaped(escaped)
        if field or value:
            terms.append(FieldTerm(field, value, operator != "!="))
    return FieldSelector(tuple(terms))


def _unescaped(value: str) -> str:
    """Return the value that a text stands for, where backslash, comma and = are escaped."""
    for match in _ESCAPES.finditer(value):
        if match.group() in {"=", ","}:
            code = ord(match.group())
            raise bad_request(f"invalid field selector: unescaped character in value: {code}")
        if match.group(1) is None:
            raise bad_request(f"invalid field selector: invalid escape sequence: {match.group()}")
    return _ESCAPES.sub(r"\1", value)
