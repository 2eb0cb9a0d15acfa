"""The part of kubectl's JSONPath that printer columns and selectable fields use."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Step = Callable[[Iterable[Any]], Iterator[Any]]

_NAME = re.compile(r"(?:[^\s.\[\]{}()@$*?,'\"\\|]|\\.)+")
_SLICE = re.compile(r"(-?\d*):(-?\d*)(?::(-?\d*))?")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
_FILTER = re.compile(r"\?\((.+)\)", re.DOTALL)
_COMPARE = re.compile(r"(.+?)\s*(==|!=|<=|>=|<|>)\s*(.+)", re.DOTALL)
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class InvalidPath(ValueError):
    """The text is no JSONPath; the message says where it stops making sense."""


@dataclass(frozen=True, slots=True)
class JSONPath:
    """A compiled path."""

    steps: tuple[Step, ...]

    def find(self, value: Any) -> list[Any]:
        """All values at the path; keys that are not there give nothing."""
        found: Iterable[Any] = (value,)
        for step in self.steps:
            found = step(found)
        return list(found)


def compile_path(text: str) -> JSONPath:
    """Compile a path such as `.status.conditions[?(@.type=="Ready")].status`.

    Raises:
        InvalidPath: the text is no path, or uses what columns cannot (templates, ranges).
    """
    steps: list[Step] = []
    at = 0
    while at < len(text):
        if text.startswith("..", at):
            steps.append(_descend)
            at += 1
        elif text[at] == "[":
            at = _bracket(text, at, steps)
        elif text[at] in "$@" and at == 0:
            at += 1
        elif text[at] == ".":
            at = _dotted(text, at + 1, steps)
        else:
            raise InvalidPath(f"unexpected {text[at]!r} at position {at} of path {text!r}")
    return JSONPath(tuple(steps))


def _dotted(text: str, at: int, steps: list[Step]) -> int:
    if at == len(text) or text[at] == "[":
        return at
    if text[at] == "*":
        steps.append(_members)
        return at + 1
    found = _NAME.match(text, at)
    if found is None:
        raise InvalidPath(f"no field name at position {at} of path {text!r}")
    steps.append(_field(_unescape(found.group())))
    return found.end()


def _bracket(text: str, at: int, steps: list[Step]) -> int:
    end = _closing(text, at)
    inner = text[at + 1 : end].strip()
    filtered = _FILTER.fullmatch(inner)
    if filtered:
        steps.append(_filter(filtered.group(1).strip()))
    elif inner == "*":
        steps.append(_members)
    else:
        parts = [_selector(part.strip()) for part in _split(inner)]
        steps.append(parts[0] if len(parts) == 1 else _union(parts))
    return end + 1


def _closing(text: str, start: int) -> int:
    depth, at = 0, start
    while at < len(text):
        quoted = _QUOTED.match(text, at)
        if quoted:
            at = quoted.end()
            continue
        depth += {"[": 1, "]": -1}.get(text[at], 0)
        if depth == 0:
            return at
        at += 1
    raise InvalidPath(f"unterminated array in path {text!r}")


def _split(text: str) -> list[str]:
    parts = re.findall(r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^,])+", text)
    return parts or [""]


def _selector(text: str) -> Step:
    quoted = _QUOTED.fullmatch(text)
    if quoted:
        return _field(_unescape(quoted.group(1) or quoted.group(2) or ""))
    sliced = _SLICE.fullmatch(text)
    if sliced:
        low, high, step = (int(part) if part else None for part in sliced.groups())
        return _slice(slice(low, high, step))
    if re.fullmatch(r"-?\d+", text):
        return _index(int(text))
    raise InvalidPath(f"invalid array index {text}")


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _field(name: str) -> Step:
    def step(values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            if isinstance(value, dict) and name in value:
                yield value[name]

    return step


def _index(index: int) -> Step:
    def step(values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            if isinstance(value, list) and -len(value) <= index < len(value):
                yield value[index]

    return step


def _slice(part: slice) -> Step:
    def step(values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            if isinstance(value, list):
                yield from value[part]

    return step


def _union(parts: list[Step]) -> Step:
    def step(values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            for part in parts:
                yield from part((value,))

    return step


def _members(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, dict):
            yield from value.values()
        elif isinstance(value, list):
            yield from value


def _descend(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        yield value
        yield from _descend(_members((value,)))


def _filter(text: str) -> Step:
    compared = _COMPARE.fullmatch(text)
    if compared is None:
        exists = compile_path(text).find
        return _where(lambda item: bool(exists(item)))
    left, sign, right = compared.groups()
    test = _OPERATORS[sign]
    first, second = _operand(left.strip()), _operand(right.strip())

    def holds(item: Any) -> bool:
        a, b = first(item), second(item)
        if len(a) != 1 or len(b) != 1 or not _comparable(a[0], b[0]):
            return False
        return test(a[0], b[0])

    return _where(holds)


def _comparable(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return isinstance(left, bool) and isinstance(right, bool)
    if isinstance(left, int | float):
        return isinstance(right, int | float)
    return isinstance(left, str) and isinstance(right, str)


def _operand(text: str) -> Callable[[Any], list[Any]]:
    if text.startswith("@"):
        return compile_path(text).find
    value = _literal(text)
    return lambda _item: [value]


def _literal(text: str) -> Any:
    quoted = _QUOTED.fullmatch(text)
    if quoted:
        return _unescape(quoted.group(1) or quoted.group(2) or "")
    if text in {"true", "false"}:
        return text == "true"
    try:
        return float(text) if "." in text else int(text)
    except ValueError as error:
        raise InvalidPath(f"unrecognized value {text!r} in a filter") from error


def _where(holds: Callable[[Any], bool]) -> Step:
    def step(values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            if isinstance(value, list):
                yield from (item for item in value if holds(item))

    return step
