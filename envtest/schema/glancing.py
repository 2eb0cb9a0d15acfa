"""Glances at texts, numbers and other single values; `glance` puts them together."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from envtest.schema import formats
from envtest.schema.composites import Composites
from envtest.schema.numbers import NumberRule, integer_range
from envtest.schema.values import ValueSchema, pattern_check, supported_format

Check = Callable[[Any], object]
# None lets every text pass, which saves a call for each.
TextCheck = Callable[[str], object] | None

ENDLESS: Final = float("inf")
_LONGEST_NAME: Final = 1024


class Glance(NamedTuple):
    """What is asked about the values of one schema node.

    Attributes:
        text: whether a text is surely right.
        other: whether a value that is no text is.
    """

    text: TextCheck
    other: Check


def no(_value: Any) -> bool:
    """Never sure."""
    return False


def anything(_value: Any) -> bool:
    """Always sure."""
    return True


NEVER: Final = Glance(no, no)
ALWAYS: Final = Glance(None, anything)


def both(first: Check, second: Check) -> Check:
    """A check that asks both."""
    return lambda value: first(value) and second(value)


def or_null(other: Check) -> Check:
    """A check that lets null pass."""
    return lambda value: value is None or other(value)


def booleans(schema: Mapping[str, Any]) -> Glance:
    """The glance at true and false."""
    return NEVER if supported_format(schema, "boolean") else Glance(no, _is_boolean)


def _is_boolean(value: Any) -> bool:
    return type(value) is bool


def texts(schema: Mapping[str, Any]) -> Glance:
    """The glance at texts."""
    return Glance(_text_check(schema, supported_format(schema, "string")), no)


def numbers(schema: Mapping[str, Any]) -> Glance:
    """The glance at integers and other numbers."""
    kind = schema["type"]
    return Glance(no, _number_check(schema, kind, supported_format(schema, kind)))


def integers_or_texts(schema: Mapping[str, Any]) -> Glance:
    """The glance at what may be either."""
    if supported_format(schema, ""):
        return NEVER
    return Glance(_text_check(schema, ""), _number_check(schema, "integer", ""))


def _text_check(schema: Mapping[str, Any], name: str) -> TextCheck:
    low, most = schema.get("minLength") or 0, schema.get("maxLength")
    pattern = schema.get("pattern")
    matches = pattern_check(pattern) if pattern else None
    if matches is not None and most is not None and most <= _LONGEST_NAME:
        # Names, types and reasons come again and again; long texts do not, and would be kept.
        matches = functools.lru_cache(maxsize=64)(matches)
    fits = formats.check_of(name)
    demand = both(matches, fits) if matches and fits else matches or fits
    if not low and most is None:
        return demand
    high = ENDLESS if most is None else most
    if demand is None:
        return lambda text: low <= len(text) <= high
    return lambda text: low <= len(text) <= high and demand(text)


def _number_check(schema: Mapping[str, Any], kind: str, name: str) -> Check:
    low, high = schema.get("minimum"), schema.get("maximum")
    ruled = bool({"exclusiveMinimum", "exclusiveMaximum", "multipleOf"} & schema.keys())
    if kind == "integer" and not ruled:
        least, most = integer_range(name)
        bounds = [bound for bound in (low, high) if bound is not None]
        # The rule holds its own bounds against the format too, as floats, which these fit exactly.
        if all(type(one) is int and least <= one <= most and abs(one) < 2**53 for one in bounds):
            return _within(least if low is None else low, most if high is None else high)
    rule = NumberRule(schema, kind, name)
    accepted = (int,) if kind == "integer" else (int, float)
    return lambda value: type(value) in accepted and _silent(rule.check, value)


def _within(low: int, high: int) -> Check:
    return lambda value: type(value) is int and low <= value <= high


def among(allowed: Sequence[Any], glance: Glance) -> Glance:
    """Narrow a glance to the values of an `enum`; floats, lists and objects are never sure."""
    known = frozenset(one for one in allowed if type(one) is str).__contains__
    others = frozenset((type(one), one) for one in allowed if type(one) in {bool, int})
    return Glance(
        known if glance.text is None else both(known, glance.text),
        both(glance.other, lambda value: _is_among(value, others)),
    )


def _is_among(value: Any, allowed: frozenset[tuple[type, Any]]) -> bool:
    return type(value) in {bool, int} and (type(value), value) in allowed


def composed(schema: Mapping[str, Any], glance: Glance) -> Glance:
    """Narrow a glance to what `anyOf` and the like demand.

    They are few and say of each branch whether it fits, so they are asked themselves.
    """
    composites = Composites.compile(schema, ValueSchema)
    if composites is None or _is_int_or_string(schema):
        return glance
    fits: Check = lambda value: _silent(composites.check, value)  # noqa: E731  # one of many
    return Glance(
        fits if glance.text is None else both(glance.text, fits), both(glance.other, fits)
    )


def has_composites(schema: Mapping[str, Any]) -> bool:
    """Whether `anyOf` or the like is there."""
    some = any(schema.get(name) for name in ("allOf", "anyOf", "oneOf"))
    return some or schema.get("not") is not None


def _is_int_or_string(schema: Mapping[str, Any]) -> bool:
    """Whether the only composite is the one that generators write beside the extension."""
    usual = schema.get("anyOf") == [{"type": "integer"}, {"type": "string"}]
    alone = not has_composites({**schema, "anyOf": None})
    return bool(schema.get("x-kubernetes-int-or-string") and usual and alone)


def _silent(check: Callable[[Any, str, list[Any]], object], value: Any) -> bool:
    """Whether a check that appends errors finds none."""
    found: list[Any] = []
    check(value, "", found)
    return not found
