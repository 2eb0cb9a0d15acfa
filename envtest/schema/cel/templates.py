"""What can be said of `format` before it runs: whether a literal template fits its arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from envtest.schema.cel.types import CelType
from envtest.schema.gotext import quote

_ANY: Final = frozenset({"dyn", "!error!", "_var0"})
_FLOATS: Final = frozenset({"double", "string"})
_INTEGERS: Final = frozenset({"int", "uint"})
_SHOWN: Final = frozenset(
    {"bool", "bytes", "double", "duration", "int", "list", "map", "null", "string", "timestamp"}
    | {"type", "uint"}
)
# Verb -> the types that it takes, and how its refusal begins.
_VERBS: Final = {
    "s": (
        _SHOWN,
        (
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
            "types, durations, and timestamps"
        ),
    ),
    "d": (_INTEGERS, "decimal clause can only be used on integers"),
    "f": (_FLOATS, "fixed-point clause can only be used on doubles"),
    "e": (_FLOATS, "scientific clause can only be used on doubles"),
    "b": (_INTEGERS | {"bool"}, "only integers and bools can be formatted as binary"),
    "o": (_INTEGERS, "octal clause can only be used on integers"),
    **dict.fromkeys(
        ("x", "X"),
        (
            _INTEGERS | {"bytes", "string"},
            "only integers, byte buffers, and strings can be formatted as hex",
        ),
    ),
}
_PRECISION: Final = re.compile(r"\.(\d*)")


@dataclass(frozen=True, slots=True)
class Misfit:
    """The first thing that is wrong: with the argument of that number, or with the template."""

    argument: int | None
    text: str


def misfit(template: str, kinds: Sequence[CelType]) -> Misfit | None:
    """What would go wrong when a template is filled in.

    Args:
        template: the text with its clauses.
        kinds: the types of the arguments.
    """
    used = 0
    for clause in _clauses(template):
        if isinstance(clause, Misfit):
            return clause
        if used >= len(kinds):
            return Misfit(None, f"index {used} out of range")
        kind = kinds[used].name
        known, refusal = _VERBS[clause]
        if kind not in known and kind not in _ANY:
            return Misfit(used, f"error during formatting: {refusal}, was given {kind}")
        used += 1
    if used < len(kinds):
        told = f"too many arguments supplied to string.format (expected {used}, got {len(kinds)})"
        return Misfit(None, told)
    return None


def _clauses(template: str) -> Iterator[str | Misfit]:
    """Yield the verbs of a template, and what ends it early."""
    at = 0
    while (at := template.find("%", at)) >= 0:
        at += 1
        if template[at : at + 1] == "%":
            at += 1
            continue
        verb, at = _verb(template, at)
        yield verb
        if isinstance(verb, Misfit):
            return


def _verb(template: str, at: int) -> tuple[str | Misfit, int]:
    broken = "could not parse formatting clause: "
    precision = _PRECISION.match(template, at)
    if precision is not None:
        at = precision.end()
        parsing = f"{broken}error while parsing precision: "
        if at >= len(template):
            return Misfit(None, f"{parsing}could not find end of precision specifier"), at
        if not precision[1]:
            why = 'error while converting precision to integer: strconv.Atoi: parsing ""'
            return Misfit(None, f"{parsing}{why}: invalid syntax"), at
    if at >= len(template):
        return Misfit(None, "unexpected end of string"), at
    verb = template[at]
    if verb not in _VERBS:
        return Misfit(None, f"{broken}unrecognized formatting clause {quote(verb)}"), at
    return verb, at + 1
