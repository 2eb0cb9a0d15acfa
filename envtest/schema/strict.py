"""Decoding of request bodies: JSON as the API server reads it, with the fields that stand twice.

Integers that fit 64 bits stay `int`; every other number becomes `float`, as in the server, so that
`1.0` and `1` can be told apart until the object is stored (`settle_numbers` ends the distinction
the way the server's encoder does).
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

import msgspec

from envtest.schema.jsonerrors import MalformedJSON, explain

# The server gives up at this nesting; Python's own scanner would raise RecursionError long before.
MAX_DEPTH: Final = 10_000
# Objects nested deeper than this are refused with the same words: no schema in use comes near, and
# every later step (pruning, defaulting, validation) recurses.
SUPPORTED_DEPTH: Final = 250
_MAX_REPORTED: Final = 100
_encode = msgspec.json.Encoder().encode
_INT64_MAX: Final = 2**63 - 1
# From here on a whole number is no integer to the server.
_TOO_LARGE: Final = 2.0**63
# Made once: a union in the middle of a walk would be made anew for each value.
_UNSETTLED: Final = (float, dict, list)
# Digits that may be more than 64 bits hold, once all digits look alike: a search for `\d{19}`
# takes ten times as long.
_ALIKE: Final = bytes.maketrans(b"123456789", b"0" * 9)
_LONG_NUMBER: Final = b"0" * 19
_LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


class NumberOutOfRange(MalformedJSON):
    """The text is JSON, but a number in it fits no float.

    The server words the refusal differently.
    """


def strict_json(data: bytes) -> tuple[Any, list[str]]:
    """Decode `data`; of a field that stands twice the last one counts.

    Args:
        data: one JSON document. Invalid UTF-8 and lone surrogates become U+FFFD, as in the server.

    Returns:
        The value, and one message per field that stands twice (`duplicate field "spec.x"`), in
        document order.

    Raises:
        MalformedJSON: the text is no JSON; the message is the server's.
    """
    plain = _plain(data)
    return (plain, []) if plain is not None else _strict(data)


def settled_json(data: bytes) -> tuple[Any, list[str]]:
    """As `strict_json` and then `settle_numbers`, but what is plain needs no second walk.

    Args:
        data: as there.

    Raises:
        MalformedJSON: as there.
    """
    plain = _plain(data)
    if plain is not None:
        return plain, []
    value, told = _strict(data)
    return settle_numbers(value), told


def _strict(data: bytes) -> tuple[Any, list[str]]:
    _bound_depth(data)
    if b"\\u" in data:
        data = _LONE_SURROGATE.sub(rb"\\ufffd", data)
    text = data.decode("utf-8", "replace")
    pairs = _Pairs()
    decoder = json.JSONDecoder(
        object_pairs_hook=pairs, parse_int=_integer, parse_float=_decimal, parse_constant=_constant
    )
    try:
        value, end = decoder.raw_decode(text, _skip_space(text, 0))
    except MalformedJSON:
        raise
    except ValueError as error:
        raise MalformedJSON(explain(data)) from error
    if _skip_space(text, end) != len(text):
        raise MalformedJSON(explain(data))
    return value, (_duplicates(text) if pairs.repeated else [])


def _plain(data: bytes) -> Any | None:
    """Decode what is written as the fast encoder would write it; None for everything else.

    Text that comes back byte by byte names nothing twice and has no odd numbers, escapes or
    spaces, so both decoders agree about it. Nor are there floats to settle: 1.0 comes back as 1.
    Programs mostly write such text, and this takes a quarter of the time of the strict reading.
    """
    # Spaced text is read strictly: writing it again by `json` to compare saves little.
    if b" " in data[:16] or _LONG_NUMBER in data.translate(_ALIKE):
        return None
    # What opens has to be closed, so a short text that can be read is not deep.
    if len(data) > 2 * SUPPORTED_DEPTH:
        _bound_depth(data)
    try:
        value = _decode(data)
        return value if _encode(value) == data else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def settle_numbers(value: Any) -> Any:
    """Replace, in place, floats that Go prints without a fraction by ints; return the value.

    The server stores JSON, and its encoder writes 1.0 as 1: what is read back is an integer.
    """
    if isinstance(value, float):
        return _settled(value)
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, _UNSETTLED):
                value[key] = settle_numbers(item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, _UNSETTLED):
                value[index] = settle_numbers(item)
    return value


def _settled(value: float | str) -> float:
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < _TOO_LARGE else number


_decode = msgspec.json.Decoder(float_hook=_settled).decode


def snippet(data: bytes) -> str:
    """The server's short picture of a body it cannot read.

    The start of the text, or hex where it is no object.
    """
    if not data:
        return "<empty>"
    if not data.startswith(b"{"):
        return data[:30].hex() + (" ..." if len(data) > 30 else "")
    shown = data[:30].decode("utf-8", "replace")
    return shown + (" ..." if len(data) > 30 else "")


class _Pairs:
    """Builds objects and notices repeated names; a second, slower reading finds their paths."""

    def __init__(self) -> None:
        self.repeated = False

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            self.repeated = True
        return members


def _integer(text: str) -> int | float:
    if len(text) < 19:
        return int(text)
    if len(text) > 20:
        return _decimal(text)
    value = int(text)
    return value if -_INT64_MAX - 1 <= value <= _INT64_MAX else float(value)


def _decimal(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise NumberOutOfRange(
            f"json: cannot unmarshal number {text} into Go value of type float64"
        )
    return value


def _constant(text: str) -> float:
    raise ValueError(f"{text} is no JSON number")


def _skip_space(text: str, start: int) -> int:
    position = start
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _bound_depth(data: bytes) -> None:
    if data.count(b"[") + data.count(b"{") <= SUPPORTED_DEPTH:
        return
    depth = 0
    for token in re.finditer(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', data, re.DOTALL):
        mark = token.group()
        if mark in (b"[", b"{"):
            depth += 1
            if depth > SUPPORTED_DEPTH:
                raise MalformedJSON(f"invalid character '{mark.decode()}' exceeded max depth")
        elif mark in (b"]", b"}"):
            depth -= 1


class _Seen(list[tuple[str, Any]]):
    """The members of one object in document order, repeated names included."""


def _duplicates(text: str) -> list[str]:
    decoder = json.JSONDecoder(object_pairs_hook=_Seen)
    document, _ = decoder.raw_decode(text, _skip_space(text, 0))
    paths: dict[str, None] = {}
    _collect(document, "", paths)
    return [f'duplicate field "{path}"' for path in list(paths)[:_MAX_REPORTED]]


def _collect(value: Any, path: str, paths: dict[str, None]) -> None:
    if isinstance(value, _Seen):
        names: set[str] = set()
        for name, item in value:
            inner = f"{path}.{name}" if path else name
            if name in names:
                paths[inner] = None
            names.add(name)
            _collect(item, inner, paths)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _collect(item, f"{path}[{index}]", paths)
