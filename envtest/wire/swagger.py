"""OpenAPI 2 documents in protobuf, as kubectl and other Go clients ask for them.

The messages are those of gnostic's `openapi.v2`. Only what Kubernetes' documents contain is
written; extensions and values of any type go in as YAML, of which JSON is a part.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from envtest.wire.varints import bytes_field as _field
from envtest.wire.varints import number as _varint

_Writer = Callable[[Any], bytes]
# How a member of a JSON object becomes fields of its message: the field's number and the writer
# of its values; lists become several fields.
_Members = Mapping[str, tuple[int, _Writer]]


def swagger_protobuf(document: Mapping[str, Any]) -> bytes:
    """Return a document as a message.

    Args:
        document: an OpenAPI 2 document, decoded.
    """
    return _write(document, _DOCUMENT, extensions=16)


def _text(number: int) -> tuple[int, _Writer]:
    return number, lambda value: _field(number, value.encode())


def _flag(number: int) -> tuple[int, _Writer]:
    return number, lambda value: _varint(number << 3) + _varint(int(value))


def _integer(number: int) -> tuple[int, _Writer]:
    return number, lambda value: _varint(number << 3) + _varint(int(value))


def _double(number: int) -> tuple[int, _Writer]:
    return number, lambda value: _varint(number << 3 | 1) + struct.pack("<d", value)


def _any(number: int) -> tuple[int, _Writer]:
    return number, lambda value: _field(number, _yaml(value))


def _yaml(value: Any) -> bytes:
    return _field(2, msgspec.json.encode(value))


def _message(number: int, write: _Writer) -> tuple[int, _Writer]:
    return number, lambda value: _field(number, write(value))


def _named(value: Mapping[str, Any], write: _Writer, number: int = 1) -> bytes:
    """Return the members of an object as entries of name and value."""
    return b"".join(
        _field(number, _field(1, name.encode()) + _field(2, write(item)))
        for name, item in value.items()
    )


def _write(value: Mapping[str, Any], members: _Members, *, extensions: int = 0) -> bytes:
    """Return an object as a message; what starts with `x-` is an extension."""
    parts: list[bytes] = []
    for name, item in value.items():
        if name.startswith("x-") and extensions:
            parts.append(_field(extensions, _field(1, name.encode()) + _field(2, _yaml(item))))
        elif name in members:
            write = members[name][1]
            several = isinstance(item, list) and name != "type"
            parts += map(write, item) if several else [write(item)]
    return b"".join(parts)


def _schema(value: Mapping[str, Any]) -> bytes:
    return _write(value, _SCHEMA, extensions=31)


def _additional(value: Any) -> bytes:
    return _flag(2)[1](value) if isinstance(value, bool) else _field(1, _schema(value))


def _types(value: str | Sequence[str]) -> bytes:
    names = [value] if isinstance(value, str) else value
    return b"".join(_field(1, name.encode()) for name in names)


def _parameter(value: Mapping[str, Any]) -> bytes:
    """Return a parameter: in the body, or in the query."""
    if value.get("in") == "body":
        return _field(1, _field(1, _write(value, _BODY)))
    return _field(1, _field(2, _field(3, _write(value, _QUERY))))


def _response(value: Mapping[str, Any]) -> bytes:
    return _field(1, _write(value, _RESPONSE))


_INFO: Final[_Members] = {"title": _text(1), "version": _text(2)}
_SCHEMA: Final[_Members] = {
    "$ref": _text(1),
    "format": _text(2),
    "title": _text(3),
    "description": _text(4),
    "default": _any(5),
    "multipleOf": _double(6),
    "maximum": _double(7),
    "exclusiveMaximum": _flag(8),
    "minimum": _double(9),
    "exclusiveMinimum": _flag(10),
    "maxLength": _integer(11),
    "minLength": _integer(12),
    "pattern": _text(13),
    "maxItems": _integer(14),
    "minItems": _integer(15),
    "uniqueItems": _flag(16),
    "maxProperties": _integer(17),
    "minProperties": _integer(18),
    "required": _text(19),
    "enum": _any(20),
    "additionalProperties": _message(21, _additional),
    "type": _message(22, _types),
    "items": _message(23, lambda value: _field(1, _schema(value))),
    "allOf": _message(24, _schema),
    "properties": _message(25, lambda value: _named(value, _schema)),
}
_BODY: Final[_Members] = {
    "description": _text(1),
    "name": _text(2),
    "in": _text(3),
    "required": _flag(4),
    "schema": _message(5, _schema),
}
_QUERY: Final[_Members] = {
    "in": _text(2),
    "description": _text(3),
    "name": _text(4),
    "type": _text(6),
}
_RESPONSE: Final[_Members] = {
    "description": _text(1),
    "schema": _message(2, lambda value: _field(1, _schema(value))),
}
_OPERATION: Final[_Members] = {
    "description": _text(3),
    "operationId": _text(5),
    "parameters": _message(8, _parameter),
    "responses": _message(9, lambda value: _named(value, _response)),
}


def _operation(value: Mapping[str, Any]) -> bytes:
    return _write(value, _OPERATION, extensions=13)


_PATH: Final[_Members] = {
    "get": _message(2, _operation),
    "put": _message(3, _operation),
    "post": _message(4, _operation),
    "delete": _message(5, _operation),
    "patch": _message(8, _operation),
}
_DOCUMENT: Final[_Members] = {
    "swagger": _text(1),
    "info": _message(2, lambda value: _write(value, _INFO)),
    "paths": _message(8, lambda value: _named(value, lambda one: _write(one, _PATH), 2)),
    "definitions": _message(9, lambda value: _named(value, _schema)),
}
