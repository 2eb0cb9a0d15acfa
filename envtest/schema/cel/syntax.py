"""Syntax trees of CEL expressions, read from the library's parser."""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional


class CelSyntaxError(ValueError):
    """The text is no CEL expression; the message is cel-go's, with position and picture."""


class Uint(int):
    """An unsigned integer: a type of its own in CEL."""


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an expression; `at` is the offset in the source that errors point to."""

    at: int


@dataclass(frozen=True, slots=True)
class Const(Node):
    """A literal."""

    value: Any


@dataclass(frozen=True, slots=True)
class Ident(Node):
    """A variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Select(Node):
    """`operand.field`, or `has(operand.field)` where `test` is set."""

    operand: Node
    field: str
    test: bool


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function, method or operator."""

    target: Node | None
    function: str
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ListLiteral(Node):
    """`[a, ?b]`; `optional` holds the indices with a question mark."""

    items: tuple[Node, ...]
    optional: frozenset[int]


@dataclass(frozen=True, slots=True)
class MapLiteral(Node):
    """`{k: v, ?k: v}`; each entry is key, value and whether it is optional."""

    entries: tuple[tuple[Node, Node, bool], ...]


@dataclass(frozen=True, slots=True)
class StructLiteral(Node):
    """`Name{…}`; no rule has types to build, so only the name matters."""

    name: str


@dataclass(frozen=True, slots=True)
class Comprehension(Node):
    """What the macros `all`, `exists`, `exists_one`, `map` and `filter` stand for."""

    variable: str
    range: Node
    accumulator: str
    start: Node
    condition: Node
    step: Node
    result: Node


@dataclass(frozen=True, slots=True)
class PairLoop(Node):
    """Macros over keys (or indices) and values, such as `all(k, v, …)`.

    The library's parser leaves them alone. `sortBy(x, …)` is one of them here, with no name for
    the index.
    """

    function: str
    range: Node
    variables: tuple[str, str]
    args: tuple[Node, ...]


# How many arguments each macro of two variables has.
_PAIR_MACROS: Final = {
    "all": (3,),
    "exists": (3,),
    "existsOne": (3,),
    "exists_one": (3,),
    "sortBy": (2,),
    "transformList": (3, 4),
    "transformMap": (3, 4),
    "transformMapEntry": (3, 4),
}


# The parser's words for a loop without a name for its variable, which are not cel-go's.
_TESTED: Final = re.compile(
    r"(?:all|exists|exists_one)\(\) variable name must be a simple identifier"
)
_MADE: Final = re.compile(r"(?:map|filter)\(\) variable name must be a simple identifier")


@functools.cache
def _parser() -> Any:
    return cel.NewEnv(variables={}, extensions=[ext_optional.ExtOptional(1)])


def parse(source: str) -> Node:
    """Parse an expression; macros come expanded.

    Raises:
        CelSyntaxError: it is none.
    """
    try:
        parsed = _parser().compile(source, disable_check=True).serialize()
    except RuntimeError as error:
        text = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
        text = text.replace(
            "has() argument must be a field selection", "invalid argument to has() macro"
        )
        text = _TESTED.sub("argument must be a simple name", text)
        raise CelSyntaxError(_MADE.sub("argument is not an identifier", text)) from error
    envelope = _message(parsed)
    tree = _message(_bytes(envelope, 2))
    positions: dict[int, int] = {}
    for entry in _message(_bytes(tree, 3)).get(4, ()):
        fields = _message(entry)
        positions[_int(fields, 1)] = _int(fields, 2)
    return _Decoder(positions).node(_bytes(tree, 2))


_Fields = dict[int, list[Any]]
_ACCUMULATOR: Final = "@result"


def _message(data: bytes) -> _Fields:
    """The fields of a protocol buffer message by number, each as the list of its values."""
    fields: _Fields = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        value: Any
        if wire == 0:
            value, at = _varint(data, at)
        elif wire == 1:
            value, at = data[at : at + 8], at + 8
        else:
            length, at = _varint(data, at)
            value, at = data[at : at + length], at + length
        fields.setdefault(number, []).append(value)
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _bytes(fields: _Fields, number: int) -> bytes:
    value = fields.get(number, [b""])[0]
    assert isinstance(value, bytes)
    return value


def _text(fields: _Fields, number: int) -> str:
    return _bytes(fields, number).decode()


def _int(fields: _Fields, number: int) -> int:
    value = fields.get(number, [0])[0]
    assert isinstance(value, int)
    return value


class _Decoder:
    def __init__(self, positions: dict[int, int]) -> None:
        self._positions = positions

    def node(self, data: bytes) -> Node:
        fields = _message(data)
        at = self._positions.get(_int(fields, 2), 0)
        for number, build in (
            (3, self._const),
            (4, self._ident),
            (5, self._select),
            (6, self._call),
            (7, self._list),
            (8, self._struct),
            (9, self._comprehension),
        ):
            if number in fields:
                return build(at, _message(_bytes(fields, number)))
        raise CelSyntaxError("empty expression")

    def _const(self, at: int, fields: _Fields) -> Node:
        return Const(at, next(_constants(fields), None))

    def _ident(self, at: int, fields: _Fields) -> Node:
        return Ident(at, _text(fields, 1))

    def _select(self, at: int, fields: _Fields) -> Node:
        operand = self.node(_bytes(fields, 1))
        return Select(at, operand, _text(fields, 2), bool(_int(fields, 3)))

    def _call(self, at: int, fields: _Fields) -> Node:
        target = self.node(_bytes(fields, 1)) if 1 in fields else None
        args = tuple(self.node(arg) for arg in fields.get(3, ()))
        name = _text(fields, 2)
        loop = None if target is None else _pair_loop(at, target, name, args)
        return loop or Call(at, target, name, args)

    def _list(self, at: int, fields: _Fields) -> Node:
        items = tuple(self.node(item) for item in fields.get(1, ()))
        packed = _bytes(fields, 2)
        return ListLiteral(at, items, frozenset(packed))

    def _struct(self, at: int, fields: _Fields) -> Node:
        if 1 in fields:
            name = _text(fields, 1)
            return StructLiteral(at + len(name), name)
        entries = [_message(entry) for entry in fields.get(2, ())]
        return MapLiteral(
            at,
            tuple(
                (self.node(_bytes(entry, 3)), self.node(_bytes(entry, 4)), bool(_int(entry, 5)))
                for entry in entries
            ),
        )

    def _comprehension(self, at: int, fields: _Fields) -> Node:
        iterated, start, condition, step, result = (
            self.node(_bytes(fields, number)) for number in (2, 4, 5, 6, 7)
        )
        names = _text(fields, 1), _text(fields, 3)
        return Comprehension(at, names[0], iterated, names[1], start, condition, step, result)


def _pair_loop(at: int, target: Node, name: str, args: tuple[Node, ...]) -> PairLoop | None:
    if len(args) not in _PAIR_MACROS.get(name, ()):
        return None
    first, second = args[:2]
    if not isinstance(first, Ident):
        return None
    if name == "sortBy":
        return PairLoop(at, name, target, ("", first.name), args[1:])
    if not isinstance(second, Ident):
        return None
    return PairLoop(at, name, target, (first.name, second.name), args[2:])


def _constants(fields: _Fields) -> Iterator[Any]:
    if 2 in fields:
        yield bool(fields[2][0])
    if 3 in fields:
        raw = fields[3][0]
        yield raw - 2**64 if raw >= 2**63 else raw
    if 4 in fields:
        yield Uint(fields[4][0])
    if 5 in fields:
        yield struct.unpack("<d", fields[5][0])[0]
    if 6 in fields:
        yield fields[6][0].decode()
    if 7 in fields:
        yield bytes(fields[7][0])
