"""Decoding of request bodies: JSON and YAML, with detection of duplicate fields.

Numbers come as the server stores them: integers that fit 64 bits stay `int`, 1.0 becomes 1, and
every other number is a `float`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

import msgspec
import yaml

# Objects nested deeper than this are refused: no schema in use comes near, and every later step
# (pruning, defaulting, validation) recurses.
SUPPORTED_DEPTH: Final = 250
_MAX_REPORTED: Final = 100
# What aliases may add to what a YAML text holds.
_SPARE_NODES: Final = 100_000
_encode = msgspec.json.Encoder().encode
_INT64_MAX: Final = 2**63 - 1
# From here on a whole number is no integer to the server.
_TOO_LARGE: Final = 2.0**63
# Digits that may be more than 64 bits hold, once all digits look alike: a search for `\d{19}`
# takes ten times as long.
_ALIKE: Final = bytes.maketrans(b"123456789", b"0" * 9)
_LONG_NUMBER: Final = b"0" * 19
_LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"


class MalformedJSON(ValueError):
    """A body that is no JSON document; the text says what is wrong."""


class MalformedYAML(ValueError):
    """A body that is no YAML document; the text says what is wrong."""


def read_json(data: bytes) -> tuple[Any, list[str]]:
    """Decode `data`; the last value of a duplicate field counts.

    Args:
        data: one JSON document. Invalid UTF-8 and lone surrogates become U+FFFD, as in the server.

    Returns:
        The value, and one message per duplicate field (`duplicate field "spec.x"`), in document
        order.

    Raises:
        MalformedJSON: the text is no JSON.
    """
    plain = _plain(data)
    return (plain, []) if plain is not None else _strict(data)


def _strict(data: bytes) -> tuple[Any, list[str]]:
    if b"\\u" in data:
        data = _LONE_SURROGATE.sub(rb"\\ufffd", data)
    _bound_depth(data)
    content = data.decode("utf-8", "replace")
    pairs = _Pairs()
    try:
        value = json.loads(
            content,
            object_pairs_hook=pairs,
            parse_int=_integer,
            parse_float=_normalize_number,
            parse_constant=_constant,
        )
    except ValueError as error:
        raise MalformedJSON(str(error)) from error
    return value, (_duplicates(content) if pairs.repeated else [])


def _plain(data: bytes) -> Any | None:
    """Decode what is written as the fast encoder would write it; None for everything else.

    Text that comes back byte by byte has no duplicate fields and no odd numbers, escapes or
    spaces, so both decoders agree about it. Programs mostly write such text, and this takes a
    quarter of the time of the strict reading.
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


def _normalize_number(literal: float | str) -> float:
    number = float(literal)
    if math.isinf(number):
        raise ValueError(f"cannot unmarshal number {literal} into Go value of type float64")
    return int(number) if number.is_integer() and abs(number) < _TOO_LARGE else number


_decode = msgspec.json.Decoder(float_hook=_normalize_number).decode


def _integer(literal: str) -> float:
    if len(literal) > 20:
        return _normalize_number(literal)
    value = int(literal)
    return value if -_INT64_MAX - 1 <= value <= _INT64_MAX else float(value)


def _constant(literal: str) -> float:
    raise ValueError(f"{literal} is no JSON number")


def snippet(data: bytes) -> str:
    """Return the beginning of a body that cannot be read, for messages."""
    beginning = data[:30].decode("utf-8", "replace")
    return (beginning + (" ..." if len(data) > 30 else "")) or "<empty>"


def _bound_depth(data: bytes) -> None:
    """Refuse what is nested too deep before anything recurses into it.

    Raises:
        MalformedJSON: it is.
    """
    if data.count(b"[") + data.count(b"{") <= SUPPORTED_DEPTH:
        return
    depth = 0
    for token in re.finditer(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', data, re.DOTALL):
        mark = token.group()
        if mark in (b"[", b"{"):
            depth += 1
            if depth > SUPPORTED_DEPTH:
                raise MalformedJSON(f"exceeded max depth of {SUPPORTED_DEPTH}")
        elif mark in (b"]", b"}"):
            depth -= 1


class _Pairs:
    """Builds objects and notices repeated names; a second, slower reading finds their paths."""

    def __init__(self) -> None:
        self.repeated = False

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            self.repeated = True
        return members


class _Seen(list[tuple[str, Any]]):
    """The members of one object in document order, repeated names included."""


def _duplicates(content: str) -> list[str]:
    paths = dict.fromkeys(_list_repeated_keys(json.loads(content, object_pairs_hook=_Seen), ""))
    return [f'duplicate field "{path}"' for path in list(paths)[:_MAX_REPORTED]]


def _list_repeated_keys(value: Any, path: str) -> Iterator[str]:
    """Yield the path of each key that its mapping has more than once."""
    if isinstance(value, _Seen):
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
    """YAML 1.1 without dates, which JSON does not have; a bare y or n is a truth value."""

    bool_values: ClassVar[dict[str, bool]] = {**yaml.SafeLoader.bool_values, "y": True, "n": False}


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^[yYnN]$"), list("yYnN"))


def read_yaml(data: bytes) -> tuple[Any, list[str]]:
    """Return the first document and, where it is JSON, the complaints about fields said twice.

    Args:
        data: the text; JSON is YAML, too.

    Raises:
        MalformedYAML: the text is not YAML.
    """
    if data.lstrip()[:1] == b"{":
        try:
            return read_json(data)
        except MalformedJSON:
            # YAML has a flow style that looks alike.
            pass
    try:
        _bound_yaml(data)
        value = next(yaml.load_all(data, Loader=_Loader), None)
        return _Plain(len(data)).to_json(value), []
    except (yaml.YAMLError, ValueError) as error:
        raise MalformedYAML(f"yaml: {' '.join(str(error).split())}") from error


def _bound_yaml(data: bytes) -> None:
    """Refuse what is nested too deep: the parser in C recurses without a bound of its own."""
    depth = 0
    for event in yaml.parse(data, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > SUPPORTED_DEPTH:
                raise ValueError(f"exceeded max depth of {SUPPORTED_DEPTH}")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def write_yaml(value: Any) -> str:
    """Return a JSON value as YAML, keys in order."""
    return yaml.safe_dump(value, default_flow_style=False, allow_unicode=True)


class _Plain:
    """Makes JSON of YAML values; bounds what aliases of aliases can grow into."""

    def __init__(self, size: int) -> None:
        self._left = _SPARE_NODES + size

    def to_json(self, value: Any, depth: int = 0) -> Any:
        """Return a value as JSON has it.

        Raises:
            ValueError: it has too many parts, or contains itself.
        """
        self._left -= 1
        if self._left < 0 or depth > SUPPORTED_DEPTH:
            raise ValueError("document contains excessive aliasing")
        if isinstance(value, dict):
            return {self._key(key): self.to_json(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self.to_json(item, depth + 1) for item in value]
        if isinstance(value, float):
            return _normalize_number(value)
        return value if isinstance(value, str | int | bool | type(None)) else str(value)

    @staticmethod
    def _key(key: Any) -> str:
        return ("true" if key else "false") if isinstance(key, bool) else str(key)
