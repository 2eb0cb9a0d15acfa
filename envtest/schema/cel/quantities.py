"""Quantities (`500m`, `2Gi`) and semantic versions in rules."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Final

from envtest.schema.cel.functions import CelError, Library

QUANTITIES: Final = Library()
_define = QUANTITIES.define

_FORM = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?"
)
_SUFFIXES: dict[str, Fraction] = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", start=1)},
}


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An exact amount; `1000m` and `1` are equal.

    Attributes:
        amount: how much.
        broken: whether it was written with a fraction of a power of two, as `1.5Gi`. Such a
            quantity is never an integer, whatever its amount is.
    """

    cel_type: ClassVar[str] = "kubernetes.Quantity"
    amount: Fraction
    broken: bool = field(default=False, compare=False)


def parse_quantity(text: str) -> Quantity | None:
    """Read a quantity; None where the text is none."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return None
    suffix = found[2] or ""
    if suffix in _SUFFIXES:
        broken = suffix.endswith("i") and "." in found[1].rstrip(".")
        return Quantity(Fraction(found[1]) * _SUFFIXES[suffix], broken)
    exponent = int(suffix[1:])
    return Quantity(Fraction(found[1]) * Fraction(10) ** exponent) if abs(exponent) < 64 else None


@_define("quantity", "(string) kubernetes.Quantity")
def _quantity(text: str) -> Quantity:
    parsed = parse_quantity(text)
    if parsed is None:
        raise CelError(f"quantities must match the regular expression '{_FORM}'")
    return parsed


_define("isQuantity", "(string) bool")(lambda text: parse_quantity(text) is not None)


# Not a method: the server has it as a function only.
@_define("sign", "(kubernetes.Quantity) int")
def _sign(held: Quantity) -> int:
    return (held.amount > 0) - (held.amount < 0)


@_define("isInteger", "kubernetes.Quantity.() bool")
def _is_integer(held: Quantity) -> bool:
    return not held.broken and held.amount.denominator == 1 and -(2**63) <= held.amount < 2**63


@_define("asInteger", "kubernetes.Quantity.() int")
def _as_integer(held: Quantity) -> int:
    if not _is_integer(held):
        raise CelError("cannot convert value to integer")
    return int(held.amount)


_define("asApproximateFloat", "kubernetes.Quantity.() double")(lambda held: float(held.amount))
_TWO = "kubernetes.Quantity.(kubernetes.Quantity)"
_define("isLessThan", f"{_TWO} bool")(lambda held, other: held < other)
_define("isGreaterThan", f"{_TWO} bool")(lambda held, other: held > other)
_define("compareTo", f"{_TWO} int")(lambda held, other: (held > other) - (held < other))


@_define("add", f"{_TWO} kubernetes.Quantity", "kubernetes.Quantity.(int) kubernetes.Quantity")
def _add(held: Quantity, other: Quantity | int) -> Quantity:
    return Quantity(held.amount + (other.amount if isinstance(other, Quantity) else other))


@_define("sub", f"{_TWO} kubernetes.Quantity", "kubernetes.Quantity.(int) kubernetes.Quantity")
def _sub(held: Quantity, other: Quantity | int) -> Quantity:
    return Quantity(held.amount - (other.amount if isinstance(other, Quantity) else other))


_NUMBER = r"(0|[1-9][0-9]*)"
_IDENTIFIERS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_IDENTIFIERS}))?(?:\+{_IDENTIFIERS})?"
)


@functools.total_ordering
@dataclass(frozen=True, slots=True, eq=True)
class Semver:
    """A semantic version; build metadata does not count."""

    cel_type: ClassVar[str] = "kubernetes.Semver"
    numbers: tuple[int, int, int]
    pre: tuple[str, ...]

    def __lt__(self, other: Semver) -> bool:
        return self._rank() < other._rank()

    def _rank(self) -> tuple[tuple[int, int, int], bool, list[tuple[bool, int, str]]]:
        marks = [(not p.isdigit(), int(p) if p.isdigit() else 0, p) for p in self.pre]
        return self.numbers, not self.pre, marks


def parse_semver(text: str, normalize: bool = False) -> Semver | None:
    """Read a version; `normalize` allows a leading v and missing parts."""
    if normalize:
        bare = text.removeprefix("v")
        core, dash, rest = bare.partition("-")
        parts = [part.lstrip("0") or "0" for part in core.split(".")]
        text = ".".join([*parts, "0", "0"][: max(3, len(parts))]) + dash + rest
    found = _SEMVER.fullmatch(text)
    if found is None:
        return None
    numbers = (int(found[1]), int(found[2]), int(found[3]))
    return Semver(numbers, tuple(found[4].split(".")) if found[4] else ())


@_define("semver", "(string) kubernetes.Semver", "(string, bool) kubernetes.Semver")
def _semver(text: str, normalize: bool = False) -> Semver:
    parsed = parse_semver(text, normalize)
    if parsed is None:
        raise CelError("No Major.Minor.Patch elements found")
    return parsed


@_define("isSemver", "(string) bool", "(string, bool) bool")
def _is_semver(text: str, normalize: bool = False) -> bool:
    return parse_semver(text, normalize) is not None


for _place, _name in enumerate(("major", "minor", "patch")):
    _define(_name, "kubernetes.Semver.() int")(lambda held, _place=_place: held.numbers[_place])
_PAIR = "kubernetes.Semver.(kubernetes.Semver)"
_define("isLessThan", f"{_PAIR} bool")(lambda held, other: held < other)
_define("isGreaterThan", f"{_PAIR} bool")(lambda held, other: held > other)
_define("compareTo", f"{_PAIR} int")(lambda held, other: (held > other) - (held < other))
