"""Decoding of request bodies: JSON and YAML, with detection of duplicate fields.

Numbers are decoded as the server stores them. Integers of at most 64 bits are `int`, 1.0 becomes
1, and every other number is a `float`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

import msgspec
import yaml

from envtest.yamlerrors import YAML_ERRORS

# Values nested deeper than this are refused, because every later step (pruning, defaulting,
# validation) recurses. No schema in use is nearly as deep.
SUPPORTED_DEPTH: Final = 250
_MAX_REPORTED: Final = 100
# How many nodes aliases may add to those that a YAML text spells out.
_SPARE_NODES: Final = 100_000
_encode = msgspec.json.Encoder().encode
_INT64_MAX: Final = 2**63 - 1
# The server does not convert whole floats from here on to integers.
_TOO_LARGE: Final = 2.0**63
# Numbers of 19 digits may need more than 64 bits. To find them, all digits are mapped to 0 and 19
# zeros are searched, which takes a tenth of the time of a search for `\d{19}`.
_DIGITS_TO_ZERO: Final = bytes.maketrans(b"123456789", b"0" * 9)
_LONG_NUMBER: Final = b"0" * 19
_LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"


class MalformedJSON(ValueError):
    """A body that is no JSON document; the message says why."""


class MalformedYAML(ValueError):
    """A body that is no YAML document; the message says why."""


def read_json(data: bytes) -> tuple[Any, list[str]]:
    """Decode a JSON document; of a duplicate field, the last value is used.

    Args:
        data: one JSON document. Invalid UTF-8 and lone surrogates become U+FFFD, as in the server.

    Returns:
        The value, and one message per duplicate field (`duplicate field "spec.x"`), in document
        order.

    Raises:
        MalformedJSON: the document cannot be parsed.
    """
    plain = _decode_plain(data)
    return (plain, []) if plain is not None else _decode_strictly(data)


def _decode_strictly(data: bytes) -> tuple[Any, list[str]]:
    """Return the value of a JSON document, and messages about its duplicate fields."""
    if b"\\u" in data:
        data = _LONE_SURROGATE.sub(rb"\\ufffd", data)
    _refuse_deep_json(data)
    content = data.decode("utf-8", "replace")
    build_object = _ObjectBuilder()
    try:
        value = json.loads(
            content,
            object_pairs_hook=build_object,
            parse_int=_parse_integer,
            parse_float=_normalize_number,
            parse_constant=_refuse_constant,
        )
    except ValueError as error:
        raise MalformedJSON(str(error)) from error
    return value, (_list_duplicates(content) if build_object.has_repeated_names else [])


def _decode_plain(data: bytes) -> Any | None:
    """Decode a document that the fast encoder would write exactly like this; None for others.

    Such a document has no duplicate fields, unusual numbers, escapes or spaces, so the fast and
    the strict decoder agree about it. Most programs write such documents, and this takes a quarter
    of the time of the strict decoder.
    """
    # The comparison below would fail for a text with spaces between tokens, which has one near its
    # beginning. It may fail for long numbers.
    if b" " in data[:16] or _LONG_NUMBER in data.translate(_DIGITS_TO_ZERO):
        return None
    # Each level takes two bytes, an opening and a closing bracket, so short text is not too deep.
    if len(data) > 2 * SUPPORTED_DEPTH:
        _refuse_deep_json(data)
    try:
        value = _decode(data)
        return value if _encode(value) == data else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _normalize_number(literal: float | str) -> float:
    """Return a number as the server stores it: a whole number below 2**63 as `int`.

    Raises:
        ValueError: the number is too large for a float.
    """
    number = float(literal)
    if math.isinf(number):
        raise ValueError(f"cannot unmarshal number {literal} into Go value of type float64")
    return int(number) if number.is_integer() and abs(number) < _TOO_LARGE else number


_decode = msgspec.json.Decoder(float_hook=_normalize_number).decode


def _parse_integer(literal: str) -> float:
    """Return an integer of at most 64 bits as `int`, and a larger one as `float`."""
    # Longer than any 64-bit integer with its sign; int() takes quadratic time for long literals.
    if len(literal) > 20:
        return _normalize_number(literal)
    value = int(literal)
    return value if -_INT64_MAX - 1 <= value <= _INT64_MAX else float(value)


def _refuse_constant(literal: str) -> float:
    """Refuse NaN and Infinity, which Python's decoder accepts."""
    raise ValueError(f"{literal} is no JSON number")


def cut_snippet(data: bytes) -> str:
    """Return the first 30 bytes of a body that cannot be read, for messages."""
    beginning = data[:30].decode("utf-8", "replace")
    return (beginning + (" ..." if len(data) > 30 else "")) or "<empty>"


def _refuse_deep_json(data: bytes) -> None:
    """Refuse a document that is nested too deep, before a decoder recurses into it.

    Raises:
        MalformedJSON: it is nested too deep.
    """
    # Fewer brackets than levels: no need to find out which of them are in strings.
    if data.count(b"[") + data.count(b"{") <= SUPPORTED_DEPTH:
        return
    depth = 0
    for token in re.finditer(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', data, re.DOTALL):
        bracket = token.group()
        if bracket in (b"[", b"{"):
            depth += 1
            if depth > SUPPORTED_DEPTH:
                raise MalformedJSON(f"exceeded max depth of {SUPPORTED_DEPTH}")
        elif bracket in (b"]", b"}"):
            depth -= 1


class _ObjectBuilder:
    """Builds objects, and notes whether any had repeated names.

    Paths of repeated names are found by a second, slower pass, `_list_duplicates`.
    """

    def __init__(self) -> None:
        self.has_repeated_names = False

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            self.has_repeated_names = True
        return members


class _Members(list[tuple[str, Any]]):
    """The members of one object in document order, repeated names included."""


def _list_duplicates(content: str) -> list[str]:
    """Return a message for each path with a duplicate field, in document order."""
    paths = dict.fromkeys(_list_repeated_keys(json.loads(content, object_pairs_hook=_Members), ""))
    return [f'duplicate field "{path}"' for path in list(paths)[:_MAX_REPORTED]]


def _list_repeated_keys(value: Any, path: str) -> Iterator[str]:
    """Yield the path of each key that its mapping has more than once."""
    if isinstance(value, _Members):
        names: set[str] = set()
        for name, item in value:
            inner = f"{path}.{name}" if path else name
            if name in names:
                yield inner
            names.add(name)
            yield from _list_repeated_keys(item, inner)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _list_repeated_keys(item, f"{path}[{index}]")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # C if built
    """A loader of YAML 1.1 without dates, which JSON does not have; y and n are booleans."""

    bool_values: ClassVar[dict[str, bool]] = {**yaml.SafeLoader.bool_values, "y": True, "n": False}


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^[yYnN]$"), list("yYnN"))


def read_yaml(data: bytes) -> tuple[Any, list[str]]:
    """Return the first document (None if the body has none), and a message per duplicate field.

    Duplicate fields are found only in documents that are JSON, too.

    Raises:
        MalformedYAML: the document cannot be parsed.
    """
    if data.lstrip()[:1] == b"{":
        try:
            return read_json(data)
        except MalformedJSON:
            # YAML's flow style also begins with a brace.
            pass
    try:
        _refuse_deep_yaml(data)
        value = next(yaml.load_all(data, Loader=_Loader), None)
        return _YamlConverter(size=len(data)).to_json(value), []
    except YAML_ERRORS as error:
        raise MalformedYAML(f"yaml: {' '.join(str(error).split())}") from error


def _refuse_deep_yaml(data: bytes) -> None:
    """Refuse a document that is nested too deep, as the parser in C recurses without a limit.

    Raises:
        ValueError: it is nested too deep.
    """
    depth = 0
    for event in yaml.parse(data, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > SUPPORTED_DEPTH:
                raise ValueError(f"exceeded max depth of {SUPPORTED_DEPTH}")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def dump_yaml(value: Any) -> str:
    """Return a JSON value as YAML, keys in order."""
    return yaml.safe_dump(value, default_flow_style=False, allow_unicode=True)


class _YamlConverter:
    """Converts one YAML value to JSON types, up to a number of nodes.

    The limit stops aliases of aliases, which grow exponentially ("billion laughs").
    """

    def __init__(self, size: int) -> None:
        self._remaining = _SPARE_NODES + size

    def to_json(self, value: Any, depth: int = 0) -> Any:
        """Return a value with JSON types: string keys, and no dates or sets.

        Raises:
            ValueError: it has too many nodes, or contains itself.
        """
        self._remaining -= 1
        if self._remaining < 0 or depth > SUPPORTED_DEPTH:
            raise ValueError("document contains excessive aliasing")
        if isinstance(value, dict):
            return {
                self._to_key(key): self.to_json(item, depth + 1) for key, item in value.items()
            }
        if isinstance(value, list):
            return [self.to_json(item, depth + 1) for item in value]
        if isinstance(value, float):
            return _normalize_number(value)
        return value if isinstance(value, str | int | bool | type(None)) else str(value)

    @staticmethod
    def _to_key(key: Any) -> str:
        """Return the key of a YAML mapping as a JSON key: `true` for a boolean, for example."""
        if isinstance(key, bool):
            return "true" if key else "false"
        return str(key)
