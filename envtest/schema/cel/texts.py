"""String functions beyond the standard ones, and regular expressions that give what they find."""

from __future__ import annotations

from typing import Any, Final

from envtest.schema.cel.functions import CelError, Library, kind_of
from envtest.schema.cel.standard import to_text
from envtest.schema.gotext import quote
from envtest.schema.patterns import InvalidPattern, compile_pattern

TEXTS: Final = Library()
_define = TEXTS.define
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")

_define("lowerAscii", "string.() string")(
    lambda text: "".join(rune.lower() if rune.isascii() else rune for rune in text)
)
_define("upperAscii", "string.() string")(
    lambda text: "".join(rune.upper() if rune.isascii() else rune for rune in text)
)
_define("trim", "string.() string")(str.strip)
_define("strings.quote", "(string) string")(quote)


@_define("charAt", "string.(int) string")
def _char_at(text: str, index: int) -> str:
    if 0 <= index <= len(text):
        return text[index : index + 1]
    raise CelError(f"index out of range: {index}")


@_define("indexOf", "string.(string) int", "string.(string, int) int")
def _index_of(text: str, part: str, start: int = 0) -> int:
    if part and not 0 <= start < max(len(text), 1):
        raise CelError(f"index out of range: {start}")
    return text.find(part, start)


@_define("lastIndexOf", "string.(string) int", "string.(string, int) int")
def _last_index_of(text: str, part: str, end: int | None = None) -> int:
    if end is None:
        return text.rfind(part)
    if not 0 <= end < max(len(text), 1):
        raise CelError(f"index out of range: {end}")
    return text.rfind(part, 0, end + len(part))


@_define("replace", "string.(string, string) string", "string.(string, string, int) string")
def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    return text.replace(old, new, count)


@_define("split", "string.(string) list(string)", "string.(string, int) list(string)")
def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        runes = list(text)
        if 0 < limit < len(runes):
            return [*runes[: limit - 1], "".join(runes[limit - 1 :])]
        return runes
    return text.split(separator, limit - 1 if limit > 0 else -1)


@_define("substring", "string.(int) string", "string.(int, int) string")
def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    if not 0 <= stop <= len(text):
        raise CelError(f"index out of range: {stop}")
    if start > stop:
        raise CelError(f"invalid substring range. start: {start}, end: {stop}")
    return text[start:stop]


@_define("join", "list(string).() string", "list(string).(string) string")
def _join(items: list[Any], separator: str = "") -> str:
    for item in items:
        if not isinstance(item, str):
            raise CelError("no such overload")
    return separator.join(items)


@_define("format", "string.(list(dyn)) string")
def _format(template: str, args: list[Any]) -> str:
    out: list[str] = []
    rest = iter(args)
    at = 0
    while at < len(template):
        if template[at] != "%":
            out.append(template[at])
            at += 1
            continue
        clause, at = _clause(template, at)
        out.append("%" if clause == "%" else _formatted(clause, rest))
    return "".join(out)


def _clause(template: str, at: int) -> tuple[str, int]:
    end = at + 1
    while end < len(template) and template[end] in ".0123456789":
        end += 1
    if end >= len(template):
        raise CelError("unexpected end of string")
    return template[at + 1 : end + 1], end + 1


def _formatted(clause: str, rest: Any) -> str:
    try:
        value = next(rest)
    except StopIteration:
        raise CelError("index 0 out of range") from None
    verb, precision = clause[-1], clause[:-1].removeprefix(".")
    if verb == "s":
        return shown(value)
    if verb == "d" and kind_of(value) in {"int", "uint"}:
        return str(int(value))
    if verb in "fe" and kind_of(value) in {"int", "uint", "double"}:
        return _fixed(float(value), verb, precision or "6")
    if verb in "boxX":
        return _in_base(verb, value)
    raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')


def _fixed(value: float, verb: str, precision: str) -> str:
    text = f"{value:.{precision}{verb}}"
    if verb == "f":
        return text
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa} × 10{exponent.removeprefix('+').translate(_SUPERSCRIPT)}"


def _in_base(verb: str, value: Any) -> str:
    if verb in "xX" and isinstance(value, str | bytes):
        digits = (value.encode() if isinstance(value, str) else value).hex()
        return digits.upper() if verb == "X" else digits
    if isinstance(value, bool | int):
        return format(int(value), verb)
    raise CelError("error during formatting: only integers, strings and bytes have a base")


def shown(value: Any) -> str:
    """A value as `%s` prints it; lists and maps with their parts, texts among these in quotes."""
    if value is None:
        return "null"
    if isinstance(value, list):
        return "[" + ", ".join(map(_part, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_part(key)}: {_part(value[key])}" for key in sorted(value)) + "}"
    return to_text(value)


def _part(value: Any) -> str:
    return quote(value) if isinstance(value, str) else shown(value)


@_define("find", "string.(string) string")
def _find(text: str, pattern: str) -> str:
    found = _compiled(pattern).search(text)
    return found.group() if found else ""


@_define("findAll", "string.(string) list(string)", "string.(string, int) list(string)")
def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match.group() for match in _compiled(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


def _compiled(pattern: str) -> Any:
    try:
        return compile_pattern(pattern)
    except InvalidPattern as error:
        raise CelError(f"Illegal regex: {error}") from error
