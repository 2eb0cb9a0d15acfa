"""Protobuf bodies of built-in kinds, which kubectl sends, as the JSON that they stand for.

`wire.json` has the messages field by field; tests/realservers/harvest/wire.py, which makes it,
describes the kinds and shapes of fields.
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

_DEPTH = 100
# What is raised on the way through bad data: bytes that are no text, times out of range, JSON
# that is nested too deeply.
_FAULTS = (IndexError, ValueError, struct.error, OverflowError, OSError, RecursionError)
_INT64_MAX = 2**63 - 1
# From there on Go writes a number with an exponent.
_LONGEST_WHOLE = 1e21


class Field(NamedTuple):
    """What stands behind a field number."""

    number: int
    # The member of the JSON object; nothing where the message is a list alone.
    name: str
    kind: str
    shape: str
    # The message that the value is.
    inner: str


@cache
def _file() -> Mapping[str, Mapping[str, list[str]]]:
    content = files("envtest.kinds").joinpath("wire.json").read_text(encoding="utf-8")
    loaded: Mapping[str, Mapping[str, list[str]]] = json.loads(content)
    return loaded


@cache
def _message_fields(name: str) -> Mapping[int, Field] | None:
    """Return the fields of a message by their numbers, in order, if the message is known.

    Args:
        name: the OpenAPI name of the type.
    """
    descriptions = _file().get(name)
    if descriptions is None:
        return None
    listed = [Field(int(number), *described) for number, described in descriptions.items()]
    return {field.number: field for field in sorted(listed)}


def _is_list(fields: Mapping[int, Field]) -> bool:
    """Return whether a message only wraps a list, as protobuf needs for lists within lists."""
    return 1 in fields and fields[1].shape == "list" and not fields[1].name


class ProtobufError(Exception):
    """A body that cannot be read; the message says why."""


def read_protobuf(data: bytes, name: str) -> dict[str, Any]:
    """Return the object that a body stands for.

    Args:
        data: the body: a magic number, then an envelope with apiVersion, kind and the object.
        name: the OpenAPI name of the kind that is expected.

    Raises:
        ProtobufError: this is no such body, or the kind is not known.
    """
    if not data.startswith(MAGIC):
        raise ProtobufError(
            "provided data does not appear to be a protobuf message, expected prefix "
            f"[{' '.join(map(str, MAGIC))}]"
        )
    if _message_fields(name) is None:
        raise ProtobufError(f"protobuf is not read for {name.rpartition('.')[2]}; send JSON")
    try:
        envelope = dict(_fields(data[len(MAGIC) :]))
        type_meta = dict(_fields(_bytes(envelope.get(1, b""))))
        head = {"apiVersion": _bytes(type_meta.get(1, b"")), "kind": _bytes(type_meta.get(2, b""))}
        decoded = {key: value.decode() for key, value in head.items() if value}
        return {**decoded, **_message(_bytes(envelope.get(2, b"")), name, 0)}
    except _FAULTS as error:
        raise ProtobufError(f"unexpected end or shape of data: {error}") from error


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number stands where a text or message belongs")  # noqa: TRY004
    return value


def _message(data: bytes, name: str, depth: int) -> Any:
    """Decode a message; unknown fields are skipped, as protobuf wants it."""
    if depth > _DEPTH:
        raise ValueError("messages are nested too deeply")
    special = _SPECIAL.get(name.rpartition(".")[2])
    if special is not None:
        return special(data, depth)
    known = _message_fields(name) or {}
    body: dict[str, Any] = {}
    for number, value in _fields(data):
        field = known.get(number)
        if field is not None:
            _take(body, field, value=value, depth=depth)
    return body.get("", []) if _is_list(known) else body


def _take(body: dict[str, Any], field: Field, value: int | bytes, depth: int) -> None:
    """Put what a field holds where JSON has it; what Go's JSON leaves out is left out."""
    if field.shape == "map":
        entry = dict(_fields(_bytes(value)))
        member = entry.get(2, 0 if field.kind in {"int", "bool"} else b"")
        body.setdefault(field.name, {})[_bytes(entry.get(1, b"")).decode()] = _read_value(
            member, field, depth
        )
        return
    decoded = _read_value(value, field, depth)
    if field.shape == "list":
        body.setdefault(field.name, []).append(decoded)
    elif field.shape == "inline":
        body.update(decoded)
    elif decoded is None or (decoded == "" and field.kind == "bytes"):
        body.pop(field.name, None)
    elif field.shape != "value" or field.kind == "message" or decoded not in ("", 0):
        body[field.name] = decoded


def _read_value(value: int | bytes, field: Field, depth: int) -> Any:
    """Decode one value."""
    match field.kind:
        case "message":
            return _message(_bytes(value), field.inner, depth + 1)
        case "string":
            return _bytes(value).decode()
        case "bytes":
            return base64.b64encode(_bytes(value)).decode()
        case "double":
            return _double(_bytes(value))
        case "bool":
            return bool(_to_signed(value))
        case _:
            return _to_signed(value)


def _to_signed(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise ValueError("a text stands where a number belongs")  # noqa: TRY004
    return value - 2**64 if value > _INT64_MAX else value


def _double(data: bytes) -> float | int:
    """Return a number as JSON has it: whole ones without a point."""
    (value,) = struct.unpack("<d", data)
    if not math.isfinite(value):
        raise ValueError("a number is infinite or none, which JSON cannot say")
    return int(value) if value.is_integer() and abs(value) < _LONGEST_WHOLE else value


def _time(data: bytes, *, micro: bool) -> str | None:
    """Return a time as JSON has it; the zero time is no time."""
    parts = dict(_fields(data))
    if not parts:
        return None
    seconds, nanos = _to_signed(parts.get(1, 0)), _to_signed(parts.get(2, 0))
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000)
    return moment.isoformat(timespec="microseconds" if micro else "seconds").replace("+00:00", "Z")


def _quantity(data: bytes) -> str:
    return _bytes(dict(_fields(data)).get(1, b"")).decode()


def _int_or_string(data: bytes) -> int | str:
    parts = dict(_fields(data))
    if parts.get(1, 0) == 1:
        return _bytes(parts.get(3, b"")).decode()
    return _to_signed(parts.get(2, 0))


def _raw(data: bytes) -> Any:
    """Return the JSON that stands there as it is, if any does."""
    raw = _bytes(dict(_fields(data)).get(1, b""))
    return json.loads(raw) if raw else None


def _schema_or(data: bytes, depth: int) -> Any:
    """Decode what is a schema or else a flag."""
    parts = dict(_fields(data))
    if 2 in parts:
        return _message(_bytes(parts[2]), _SCHEMA, depth + 1)
    return bool(_to_signed(parts.get(1, 0)))


def _schema_or_list(data: bytes, depth: int, *, texts: bool) -> Any:
    """Decode what is a schema or else a list, of schemas or of texts."""
    several: list[Any] = []
    for number, value in _fields(data):
        if number == 1:
            return _message(_bytes(value), _SCHEMA, depth + 1)
        item = _bytes(value)
        several.append(item.decode() if texts else _message(item, _SCHEMA, depth + 1))
    return several


_SCHEMA: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
# Types whose JSON is not that of their fields.
_SPECIAL: Final[dict[str, Callable[[bytes, int], Any]]] = {
    "Time": lambda data, _: _time(data, micro=False),
    "MicroTime": lambda data, _: _time(data, micro=True),
    "Quantity": lambda data, _: _quantity(data),
    "IntOrString": lambda data, _: _int_or_string(data),
    "RawExtension": lambda data, _: _raw(data),
    "FieldsV1": lambda data, _: _raw(data),
    "JSON": lambda data, _: _raw(data),
    "JSONSchemaPropsOrBool": _schema_or,
    "JSONSchemaPropsOrArray": lambda data, depth: _schema_or_list(data, depth, texts=False),
    "JSONSchemaPropsOrStringArray": lambda data, depth: _schema_or_list(data, depth, texts=True),
}


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at an offset and the offset behind it.

    Raises:
        IndexError: the data ends within it.
        ValueError: it has more than 64 bits.
    """
    value = data[at]
    if value < 0x80:
        return value, at + 1
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number has more than 64 bits")


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value) of one message; texts and messages are bytes.

    Raises:
        IndexError, ValueError: this is no message.
    """
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            case 2:
                length, at = _varint(data, at)
                if at + length > end:
                    raise ValueError("a field is longer than the message")
                yield tag >> 3, data[at : at + length]
                at += length
            case 1 | 5 as width:
                size = 8 if width == 1 else 4
                yield tag >> 3, data[at : at + size]
                at += size
            case other:
                raise ValueError(f"wire type {other} is not used")
