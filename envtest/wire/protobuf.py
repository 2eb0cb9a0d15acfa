"""Decoding of protobuf bodies of built-in kinds, which kubectl sends, to decoded JSON.

`wire.json` describes the messages field by field. tests/realservers/harvest/wire.py generates it
and explains the kinds and shapes of fields.
"""

import base64
import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

MAGIC: Final = b"k8s\x00"

_MAX_DEPTH = 100
# The exceptions that decoding of malformed data raises: invalid UTF-8, times out of range, JSON
# that is nested too deeply.
_FAULTS = (IndexError, ValueError, struct.error, OverflowError, OSError, RecursionError)
_INT64_MAX = 2**63 - 1
# Go writes numbers from here on with an exponent.
_LONGEST_WHOLE = 1e21


class Field(NamedTuple):
    """The description of one field of a message."""

    number: int
    # The name of the field in JSON; empty if the message only wraps a list.
    name: str
    # How the value is encoded: string, bytes, int, bool, double or message.
    kind: str
    # When the field is in JSON. `value`: unless it is empty. `shown`: always. `pointer`: if it is
    # set. `list` and `map`: if they have elements. `inline`: its own fields belong to the message
    # around it.
    shape: str
    # The message type of the value, if it is a message.
    message: str


@cache
def _read_messages() -> Mapping[str, Mapping[str, list[str]]]:
    """Return the descriptions in `wire.json`: message name -> field number -> description."""
    content = files("envtest.kinds").joinpath("wire.json").read_text(encoding="utf-8")
    loaded: Mapping[str, Mapping[str, list[str]]] = json.loads(content)
    return loaded


@cache
def _get_message_fields(name: str) -> Mapping[int, Field] | None:
    """Return the fields of a message by number; None if the message is not described.

    Args:
        name: the OpenAPI name of the message type.
    """
    descriptions = _read_messages().get(name)
    if descriptions is None:
        return None
    fields = [Field(int(number), *description) for number, description in descriptions.items()]
    return {field.number: field for field in sorted(fields)}


def _is_list(fields: Mapping[int, Field]) -> bool:
    """Return whether a message only wraps a list, as protobuf needs for lists of lists."""
    return 1 in fields and fields[1].shape == "list" and not fields[1].name


class ProtobufError(Exception):
    """A body that cannot be decoded; the message says why."""


def read_protobuf(data: bytes, name: str) -> dict[str, Any]:
    """Decode a body to an object.

    Args:
        data: the body: a magic number, then an envelope with apiVersion, kind and the object.
        name: the OpenAPI name of the expected kind.

    Raises:
        ProtobufError: the body is malformed, or the kind is not described.
    """
    if not data.startswith(MAGIC):
        raise ProtobufError(
            "provided data does not appear to be a protobuf message, expected prefix "
            f"[{' '.join(map(str, MAGIC))}]"
        )
    if _get_message_fields(name) is None:
        raise ProtobufError(f"protobuf is not read for {name.rpartition('.')[2]}; send JSON")
    try:
        envelope = dict(_iterate_fields(data[len(MAGIC) :]))
        type_meta = dict(_iterate_fields(_require_bytes(envelope.get(1, b""))))
        head = {
            "apiVersion": _require_bytes(type_meta.get(1, b"")),
            "kind": _require_bytes(type_meta.get(2, b"")),
        }
        decoded = {key: value.decode() for key, value in head.items() if value}
        return {**decoded, **_decode_message(_require_bytes(envelope.get(2, b"")), name, 0)}
    except _FAULTS as error:
        raise ProtobufError(f"unexpected end or shape of data: {error}") from error


def _require_bytes(value: int | bytes) -> bytes:
    """Return a value that must be a string or a message; refuse a number."""
    if isinstance(value, int):
        raise ValueError("a number stands where a text or message belongs")  # noqa: TRY004
    return value


def _decode_message(data: bytes, name: str, depth: int) -> Any:
    """Decode a message; unknown fields are skipped, as the protobuf specification demands."""
    if depth > _MAX_DEPTH:
        raise ValueError("messages are nested too deeply")
    special = _DECODERS_BY_TYPE.get(name.rpartition(".")[2])
    if special is not None:
        return special(data, depth)
    message_fields = _get_message_fields(name) or {}
    body: dict[str, Any] = {}
    for number, value in _iterate_fields(data):
        field = message_fields.get(number)
        if field is not None:
            _store_field(body, field, value=value, depth=depth)
    return body.get("", []) if _is_list(message_fields) else body


def _store_field(body: dict[str, Any], field: Field, value: int | bytes, depth: int) -> None:
    """Store a field of a message in the JSON object `body`.

    Values that Go leaves out of JSON (omitempty) are left out: nulls and empty bytes, and empty
    strings, numbers and booleans of the shape `value`.
    """
    if field.shape == "map":
        # An entry of a map is a message: field 1 is the key, field 2 the value.
        entry = dict(_iterate_fields(_require_bytes(value)))
        member = entry.get(2, 0 if field.kind in {"int", "bool"} else b"")
        body.setdefault(field.name, {})[_require_bytes(entry.get(1, b"")).decode()] = _read_value(
            member, field, depth
        )
        return
    decoded = _read_value(value, field, depth)
    if field.shape == "list":
        body.setdefault(field.name, []).append(decoded)
    elif field.shape == "inline":
        body.update(decoded)
    elif decoded is None or (decoded == "" and field.kind == "bytes"):
        # A field may be sent repeatedly; the last value counts.
        body.pop(field.name, None)
    elif field.shape != "value" or field.kind == "message" or decoded not in ("", 0):
        body[field.name] = decoded


def _read_value(value: int | bytes, field: Field, depth: int) -> Any:
    """Decode one value by the kind of its field."""
    match field.kind:
        case "message":
            return _decode_message(_require_bytes(value), field.message, depth + 1)
        case "string":
            return _require_bytes(value).decode()
        case "bytes":
            return base64.b64encode(_require_bytes(value)).decode()
        case "double":
            return _decode_double(_require_bytes(value))
        case "bool":
            return bool(_to_signed(value))
        case _:
            return _to_signed(value)


def _to_signed(value: int | bytes) -> int:
    """Return a number as signed, from 64 bits in two's complement; refuse anything else."""
    if isinstance(value, bytes):
        raise ValueError("a text stands where a number belongs")  # noqa: TRY004
    return value - 2**64 if value > _INT64_MAX else value


def _decode_double(data: bytes) -> float | int:
    """Decode a floating-point number; a whole number becomes an int, as Go writes it in JSON."""
    (value,) = struct.unpack("<d", data)
    if not math.isfinite(value):
        raise ValueError("a number is infinite or NaN, which JSON cannot express")
    return int(value) if value.is_integer() and abs(value) < _LONGEST_WHOLE else value


def _decode_time(data: bytes, *, micro: bool) -> str | None:
    """Decode a time to RFC 3339; None for an empty message, which is Go's zero time."""
    parts = dict(_iterate_fields(data))
    if not parts:
        return None
    seconds, nanos = _to_signed(parts.get(1, 0)), _to_signed(parts.get(2, 0))
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000)
    return moment.isoformat(timespec="microseconds" if micro else "seconds").replace("+00:00", "Z")


def _decode_quantity(data: bytes) -> str:
    """Decode a quantity, a message with a single string."""
    return _require_bytes(dict(_iterate_fields(data)).get(1, b"")).decode()


def _decode_int_or_string(data: bytes) -> int | str:
    """Decode an IntOrString: field 1 is its type (1 for a string), 2 the int, 3 the string."""
    parts = dict(_iterate_fields(data))
    if parts.get(1, 0) == 1:
        return _require_bytes(parts.get(3, b"")).decode()
    return _to_signed(parts.get(2, 0))


def _decode_raw(data: bytes) -> Any:
    """Decode a message with JSON in its field 1; None if it is empty."""
    raw = _require_bytes(dict(_iterate_fields(data)).get(1, b""))
    return json.loads(raw) if raw else None


def _decode_schema_or_bool(data: bytes, depth: int) -> Any:
    """Decode a JSONSchemaPropsOrBool: field 1 is the boolean, field 2 the schema."""
    parts = dict(_iterate_fields(data))
    if 2 in parts:
        return _decode_message(_require_bytes(parts[2]), _SCHEMA, depth + 1)
    return bool(_to_signed(parts.get(1, 0)))


def _decode_schema_or_list(data: bytes, depth: int, *, are_strings: bool) -> Any:
    """Decode a schema (field 1), or else a list (field 2) of strings or schemas."""
    items: list[Any] = []
    for number, value in _iterate_fields(data):
        if number == 1:
            return _decode_message(_require_bytes(value), _SCHEMA, depth + 1)
        item = _require_bytes(value)
        items.append(item.decode() if are_strings else _decode_message(item, _SCHEMA, depth + 1))
    return items


_SCHEMA: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
# Types whose JSON is not an object of their fields -> their decoders.
_DECODERS_BY_TYPE: Final[dict[str, Callable[[bytes, int], Any]]] = {
    "Time": lambda data, _: _decode_time(data, micro=False),
    "MicroTime": lambda data, _: _decode_time(data, micro=True),
    "Quantity": lambda data, _: _decode_quantity(data),
    "IntOrString": lambda data, _: _decode_int_or_string(data),
    "RawExtension": lambda data, _: _decode_raw(data),
    "FieldsV1": lambda data, _: _decode_raw(data),
    "JSON": lambda data, _: _decode_raw(data),
    "JSONSchemaPropsOrBool": _decode_schema_or_bool,
    "JSONSchemaPropsOrArray": lambda data, depth: _decode_schema_or_list(
        data, depth, are_strings=False
    ),
    "JSONSchemaPropsOrStringArray": lambda data, depth: _decode_schema_or_list(
        data, depth, are_strings=True
    ),
}


def _decode_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Decode the variable-length number at an offset; return it and the offset after it.

    Raises:
        IndexError: the data ends within the number.
        ValueError: the number has more than 64 bits.
    """
    # Each byte has seven bits of the number, the lowest ones first. The highest bit of a byte says
    # that another byte follows.
    value = data[offset]
    if value < 0x80:
        # Most numbers have one byte.
        return value, offset + 1
    value = shift = 0
    while True:
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
        shift += 7
        if shift > 63:
            raise ValueError("a number has more than 64 bits")


def _iterate_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the field number and value of each field of a message.

    Numbers are ints; strings, messages and fixed-width numbers are bytes.

    Raises:
        IndexError, ValueError: the message is malformed.
    """
    offset, end = 0, len(data)
    while offset < end:
        # The tag of a field has its wire type in the lowest three bits, and its number above them.
        tag, offset = _decode_varint(data, offset)
        match tag & 7:
            case 0:
                value, offset = _decode_varint(data, offset)
                yield tag >> 3, value
            case 2:
                length, offset = _decode_varint(data, offset)
                if offset + length > end:
                    raise ValueError("a field is longer than the message")
                yield tag >> 3, data[offset : offset + length]
                offset += length
            case 1 | 5 as width:
                size = 8 if width == 1 else 4
                yield tag >> 3, data[offset : offset + size]
                offset += size
            case other:
                raise ValueError(f"wire type {other} is not used")
