"""Functions and operators of standard CEL."""

from __future__ import annotations

import datetime
import math
import operator
import re
from collections.abc import Callable
from typing import Any, Final
from zoneinfo import ZoneInfo

from envtest.schema.cel.functions import NO_OVERLOAD, CelError, Library, kind_of
from envtest.schema.cel.syntax import Uint
from envtest.schema.cel.types import CelType
from envtest.schema.gotext import json_text, number
from envtest.schema.matching import matcher
from envtest.schema.patterns import InvalidPattern

STANDARD: Final = Library()
_define = STANDARD.define

_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_UINT_MAX = 2**64 - 1
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DURATION = re.compile(r"([+-]?)((?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+|0)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_NUMBERS = frozenset({"int", "uint", "double"})


def equal(left: Any, right: Any) -> bool:
    """CEL's equality: numbers by value whatever their type; true is no number."""
    return bool(left == right) and _alike(left, right)


def _alike(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return isinstance(left, bool) and isinstance(right, bool)
    if isinstance(left, dict):
        return all(_alike(item, right[name]) for name, item in left.items())
    if isinstance(left, list):
        return all(map(_alike, left, right))
    return True


def checked_int(value: int) -> int:
    """An integer that fits 64 bits.

    Raises:
        CelError: it does not.
    """
    if _INT_MIN <= value <= _INT_MAX:
        return value
    raise CelError("integer overflow")


def _checked_uint(value: int) -> Uint:
    if 0 <= value <= _UINT_MAX:
        return Uint(value)
    raise CelError("unsigned integer overflow")


@_define("_==_", "(A, A) bool")
def _equals(left: Any, right: Any) -> bool:
    return equal(left, right)


@_define("_!=_", "(A, A) bool")
def _differs(left: Any, right: Any) -> bool:
    return not equal(left, right)


def _define_order(name: str, test: Callable[[Any, Any], bool]) -> None:
    same = ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration")
    crossed = [(a, b) for a in ("int", "uint", "double") for b in ("int", "uint", "double")]
    pairs = [(kind, kind) for kind in same] + [(a, b) for a, b in crossed if a != b]
    _define(name, *(f"({a}, {b}) bool" for a, b in pairs))(test)


_define_order("_<_", operator.lt)
_define_order("_<=_", operator.le)
_define_order("_>_", operator.gt)
_define_order("_>=_", operator.ge)


def _define_arithmetic(name: str, test: Callable[[Any, Any], Any]) -> None:
    _define(name, "(int, int) int")(lambda a, b: checked_int(test(int(a), int(b))))
    _define(name, "(uint, uint) uint")(lambda a, b: _checked_uint(test(int(a), int(b))))
    _define(name, "(double, double) double")(test)


_define_arithmetic("_+_", operator.add)
_define_arithmetic("_-_", operator.sub)
_define_arithmetic("_*_", operator.mul)
_define(
    "_+_",
    "(string, string) string",
    "(bytes, bytes) bytes",
    "(list(A), list(A)) list(A)",
    "(duration, duration) duration",
    "(timestamp, duration) timestamp",
    "(duration, timestamp) timestamp",
)(operator.add)
_define(
    "_-_",
    "(duration, duration) duration",
    "(timestamp, timestamp) duration",
    "(timestamp, duration) timestamp",
)(operator.sub)


@_define("_/_", "(int, int) int", "(uint, uint) uint")
def _divide(left: int, right: int) -> int:
    if right == 0:
        raise CelError("division by zero")
    quotient = abs(left) // abs(right)
    signed = checked_int(-quotient if (left < 0) != (right < 0) else quotient)
    return Uint(signed) if isinstance(left, Uint) else signed


@_define("_/_", "(double, double) double")
def _divide_double(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


@_define("_%_", "(int, int) int", "(uint, uint) uint")
def _remainder(left: int, right: int) -> int:
    if right == 0:
        raise CelError("modulus by zero")
    rest = abs(left) % abs(right)
    return Uint(rest) if isinstance(left, Uint) else (-rest if left < 0 else rest)


@_define("-_", "(int) int")
def _negate(value: int) -> int:
    return checked_int(-value)


@_define("-_", "(double) double")
def _negate_double(value: float) -> float:
    return -value


@_define("!_", "(bool) bool")
def _not(value: bool) -> bool:
    return not value


@_define("@in", "(A, list(A)) bool")
def _in_list(item: Any, items: list[Any]) -> bool:
    return any(equal(item, other) for other in items)


@_define("@in", "(A, map(A, B)) bool")
def _in_map(key: Any, members: dict[Any, Any]) -> bool:
    return key in members


@_define("_[_]", "(list(A), int) A")
def _item(items: list[Any], index: int) -> Any:
    if 0 <= index < len(items):
        return items[index]
    raise CelError(f"index out of bounds: {index}")


@_define("_[_]", "(map(A, B), A) B")
def _member(members: dict[Any, Any], key: Any) -> Any:
    if key in members:
        return members[key]
    raise CelError(f"no such key: {key}")


@_define(
    "size",
    *(f"({kind}) int" for kind in ("string", "bytes", "list(A)", "map(A, B)")),
    *(f"{kind}.() int" for kind in ("string", "bytes", "list(A)", "map(A, B)")),
)
def _size(value: Any) -> int:
    return len(value)


_define("contains", "string.(string) bool")(lambda text, part: part in text)
_define("startsWith", "string.(string) bool")(str.startswith)
_define("endsWith", "string.(string) bool")(str.endswith)
_define("dyn", "(A) dyn")(lambda value: value)


@_define("matches", "string.(string) bool", "(string, string) bool")
def _matches(text: str, pattern: str) -> bool:
    try:
        return bool(matcher(pattern)(text))
    except InvalidPattern as error:
        raise CelError(str(error)) from error


def _unconvertible(wanted: str) -> CelError:
    """A text that stands for no value of a type."""
    return CelError(f"type conversion error from 'string' to '{wanted}'")


@_define("type", "(A) type(A)")
def _type(value: Any) -> CelType:
    return CelType(kind_of(value))


@_define("int", "(int) int", "(uint) int", "(double) int", "(string) int", "(timestamp) int")
def _to_int(value: Any) -> int:
    if isinstance(value, datetime.datetime):
        return math.floor((value - _EPOCH).total_seconds())
    if isinstance(value, str):
        if not re.fullmatch(r"[+-]?[0-9]+", value):
            raise _unconvertible("int")
        return checked_int(int(value))
    if isinstance(value, float) and not math.isfinite(value):
        raise CelError("integer overflow")
    return checked_int(int(value))


@_define("uint", "(int) uint", "(uint) uint", "(double) uint", "(string) uint")
def _to_uint(value: Any) -> Uint:
    if isinstance(value, str) and not re.fullmatch(r"[0-9]+", value):
        raise _unconvertible("uint")
    return _checked_uint(int(value))


@_define("double", "(int) double", "(uint) double", "(double) double", "(string) double")
def _to_double(value: Any) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise _unconvertible("double") from error


@_define("bool", "(bool) bool", "(string) bool")
def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    known = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
    if value not in known and value not in {"T", "TRUE", "True", "F", "FALSE", "False"}:
        raise _unconvertible("bool")
    return known[value.lower()]


@_define(
    "string",
    *(f"({kind}) string" for kind in ("bool", "int", "uint", "double", "string", "bytes")),
    "(timestamp) string",
    "(duration) string",
)
def to_text(value: Any) -> str:
    """What `string(value)` gives."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, datetime.datetime):
        text = value.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
        fraction = f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
        return f"{text}{fraction}Z"
    if isinstance(value, datetime.timedelta):
        return f"{number(value.total_seconds())}s"
    return json_text(value) if isinstance(value, bool) else number(value)


@_define("bytes", "(string) bytes", "(bytes) bytes")
def _to_bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


@_define("timestamp", "(string) timestamp", "(int) timestamp", "(timestamp) timestamp")
def to_timestamp(value: Any) -> datetime.datetime:
    """A point in time from RFC 3339 text or from seconds since 1970.

    Raises:
        CelError: it is none.
    """
    if isinstance(value, datetime.datetime):
        return value
    try:
        if isinstance(value, int):
            return _EPOCH + datetime.timedelta(seconds=value)
        moment = datetime.datetime.fromisoformat(value.upper())
    except (ValueError, OverflowError) as error:
        if isinstance(value, int):
            raise CelError("timestamp overflow") from error
        raise _unconvertible("google.protobuf.Timestamp") from error
    if moment.tzinfo is None or "T" not in value.upper():
        raise _unconvertible("google.protobuf.Timestamp")
    return moment


@_define("duration", "(string) duration", "(duration) duration", "(int) duration")
def to_duration(value: Any) -> datetime.timedelta:
    """A span of time from Go's notation (`1h30m`) or from nanoseconds.

    Raises:
        CelError: it is none.
    """
    if isinstance(value, datetime.timedelta):
        return value
    if isinstance(value, int):
        return datetime.timedelta(microseconds=value / 1000)
    found = _DURATION.fullmatch(value)
    if found is None:
        raise _unconvertible("google.protobuf.Duration")
    parts = re.findall(r"(\d+\.?\d*|\.\d+)([a-zµμ]+)", found[2])
    seconds = sum(float(amount) * _UNITS[unit] for amount, unit in parts)
    return datetime.timedelta(seconds=-seconds if found[1] == "-" else seconds)


_CLOCK: dict[str, Callable[[datetime.datetime], int]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
    "getMilliseconds": lambda moment: moment.microsecond // 1000,
}
_SPAN = {"getHours": 3600.0, "getMinutes": 60.0, "getSeconds": 1.0, "getMilliseconds": 0.001}


def _define_getters() -> None:
    for name, get in _CLOCK.items():
        _define(name, "timestamp.() int", "timestamp.(string) int")(_getter(get))
    for name, unit in _SPAN.items():
        _define(name, "duration.() int")(_span_getter(unit))


def _getter(get: Callable[[datetime.datetime], int]) -> Callable[..., int]:
    def run(moment: datetime.datetime, zone: str = "UTC") -> int:
        return get(moment.astimezone(_zone(zone)))

    return run


def _span_getter(unit: float) -> Callable[[datetime.timedelta], int]:
    return lambda span: int(span.total_seconds() / unit)


def _zone(name: str) -> datetime.tzinfo:
    found = re.fullmatch(r"([+-]?)(\d{1,2}):(\d{2})", name)
    if found is not None:
        offset = datetime.timedelta(hours=int(found[2]), minutes=int(found[3]))
        return datetime.timezone(-offset if found[1] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError) as error:
        raise CelError(f"unknown time zone {name}") from error


_define_getters()


def comparable(left: Any, right: Any) -> None:
    """Make sure that two values can be put in order.

    Raises:
        CelError: they cannot.
    """
    kinds = {kind_of(left), kind_of(right)}
    if len(kinds) > 1 and not kinds <= _NUMBERS:
        raise CelError(NO_OVERLOAD)
