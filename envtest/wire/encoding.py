"""Built-in kinds as protobuf: objects, lists and events of watches, as Go writes them.

Fields stand in the order of their numbers, maps in the order of their keys; a field that is no
pointer in Go is written even when it is empty. The bytes are those of Go's own encoder, but for
lists and maps that JSON has empty: Go may know them from absent ones, protobuf does not.
"""

import base64
import struct
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

import msgspec

from envtest.wire.messages import MAGIC, Field, is_list, message
from envtest.wire.varints import bytes_field, delimited, number

_LIST_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_Writer = Callable[[Any], bytes]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_MICROSECOND = timedelta(microseconds=1)
# Wire types: a number, eight bytes, or a length and what has it.
_WIRE_TYPES: Final = {"int": 0, "bool": 0, "double": 1}


def write_protobuf(body: Mapping[str, Any], name: str) -> bytes:
    """Return an object in its envelope.

    Args:
        body: the object as JSON has it, with kind and, if it has one, apiVersion.
        name: the OpenAPI name of the kind.

    Raises:
        KeyError: the kind is not known.
    """
    return _enveloped(body.get("apiVersion", ""), body["kind"], _message(body, name))


def write_list(
    api_version: str,
    kind: str,
    meta: Mapping[str, Any],
    items: Iterable[Mapping[str, Any]],
    name: str,
) -> bytes:
    """Return a list in its envelope; those of all built-in kinds have the same two fields.

    Args:
        api_version: of the list and of its items.
        kind: the kind of the list.
        meta: the list's own metadata.
        items: the objects as JSON has them, with or without apiVersion and kind.
        name: the OpenAPI name of their kind.

    Raises:
        KeyError: the kind is not known.
    """
    parts = [bytes_field(1, _message(meta, _LIST_META))]
    parts += [bytes_field(2, _message(item, name)) for item in items]
    return _enveloped(api_version, kind, b"".join(parts))


def write_event(kind: str, enveloped: bytes) -> bytes:
    """Return an event of a watch behind its length.

    Args:
        kind: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
        enveloped: the object in its envelope.
    """
    frame = bytes_field(1, kind.encode()) + bytes_field(2, bytes_field(1, enveloped))
    return struct.pack(">I", len(frame)) + frame


def _enveloped(api_version: str, kind: str, raw: bytes) -> bytes:
    """Return a message behind the magic number and with its type; of encodings it has none."""
    named = bytes_field(1, api_version.encode()) + bytes_field(2, kind.encode())
    envelope = (
        bytes_field(1, named),
        bytes_field(2, raw),
        bytes_field(3, b""),
        bytes_field(4, b""),
    )
    return MAGIC + b"".join(envelope)


class _Message:
    """Writes the messages of one type: what has no value is ready-made."""

    def __init__(self, known: Mapping[int, Field]) -> None:
        self._list = is_list(known)
        self._fields = list(known.values())
        # Made when first used: types contain each other.
        self._plan: list[tuple[str | None, _Writer, bytes]] = []
        self._empty = b""

    def __call__(self, value: Any) -> bytes:
        """Return a message; no value stands for an empty one."""
        if not self._plan:
            self._prepare()
        if not value:
            return self._empty
        body = {"": value} if self._list else value
        get = body.get
        return b"".join(
            [
                write(body if name is None else held)
                if name is None or (held := get(name)) is not None
                else nothing
                for name, write, nothing in self._plan
            ]
        )

    def _prepare(self) -> None:
        plan: list[tuple[str | None, _Writer, bytes]] = []
        for field in self._fields:
            write = _field(field)
            name = None if field.shape == "inline" else field.name
            plan.append((name, write, write(None)))
        self._empty = b"".join([nothing for _, _, nothing in plan])
        self._plan = plan


@cache
def _writer(name: str) -> _Writer:
    """Return what writes a message.

    Raises:
        KeyError: the message is not known.
    """
    special = _SPECIAL.get(name.rpartition(".")[2])
    if special is not None:
        return special
    known = message(name)
    if known is None:
        raise KeyError(f"no protobuf is known for {name}")
    return _Message(known)


def _message(value: Any, name: str) -> bytes:
    """Return a message; no value stands for an empty one."""
    return _writer(name)(value)


def _field(field: Field) -> _Writer:
    """Return what writes a field of a message, key and value, given its value or None."""
    wire_type = 2 if field.shape == "map" else _WIRE_TYPES.get(field.kind, 2)
    key = number(field.number << 3 | wire_type)
    encode = _value(field)
    match field.shape:
        case "list":
            return lambda items: b"".join([key + encode(item) for item in items or ()])
        case "map":
            return lambda items: b"".join(
                [
                    key + delimited(_entry(name, items[name], field, encode))
                    for name in sorted(items or ())
                ]
            )
        case "pointer":
            return lambda value: b"" if value is None else key + encode(value)
        case _:
            return lambda value: key + encode(value)


def _entry(name: str, value: Any, field: Field, encode: _Writer) -> bytes:
    """Return an entry of a map: a message of key and value."""
    key = number(2 << 3 | _WIRE_TYPES.get(field.kind, 2))
    return bytes_field(1, name.encode()) + key + encode(value)


def _value(field: Field) -> _Writer:
    """Return what writes a value, with its length if it needs one; None is the zero value."""
    match field.kind:
        case "message":
            write = _writer(field.inner)
            return lambda value: delimited(write(value))
        case "string":
            return lambda value: delimited((value or "").encode())
        case "bytes":
            return lambda value: delimited(base64.b64decode(value or ""))
        case "double":
            return lambda value: struct.pack("<d", value or 0)
        case _:
            return lambda value: number(int(value or 0))


def _numbers(first: int, second: int) -> bytes:
    """Return a message of two numbers."""
    return b"".join((number(1 << 3), number(first), number(2 << 3), number(second)))


def _time(value: str | None) -> bytes:
    """Return a time; none is an empty message."""
    if not value:
        return b""
    since = datetime.fromisoformat(value) - _EPOCH
    return _numbers(since // _SECOND, since % _SECOND // _MICROSECOND * 1000)


def _quantity(value: Any) -> bytes:
    return bytes_field(1, ("0" if value is None else str(value)).encode())


def _int_or_string(value: int | str | None) -> bytes:
    """Return which of the two it is, and both."""
    if isinstance(value, str):
        return _numbers(1, 0) + bytes_field(3, value.encode())
    return _numbers(0, value or 0) + bytes_field(3, b"")


def _raw(value: Any) -> bytes:
    """Return JSON as it is; no value is an empty message."""
    return b"" if value is None else bytes_field(1, msgspec.json.encode(value))


def _schema_or_flag(value: Any) -> bytes:
    """Encode what is a schema, which allows, or else a flag."""
    if not isinstance(value, Mapping):
        return number(1 << 3) + number(int(value or 0))
    return number(1 << 3) + number(1) + bytes_field(2, _message(value, _SCHEMA))


def _schema_or_list(value: Any) -> bytes:
    """Encode what is a schema or else a list, of schemas or of texts."""
    if isinstance(value, Mapping):
        return bytes_field(1, _message(value, _SCHEMA))
    several = (
        item.encode() if isinstance(item, str) else _message(item, _SCHEMA) for item in value or ()
    )
    return b"".join(bytes_field(2, item) for item in several)


_SCHEMA: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
# Types whose JSON is not that of their fields.
_SPECIAL: Final[dict[str, _Writer]] = {
    "Time": _time,
    "MicroTime": _time,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "RawExtension": _raw,
    "FieldsV1": _raw,
    "JSON": _raw,
    "JSONSchemaPropsOrBool": _schema_or_flag,
    "JSONSchemaPropsOrArray": _schema_or_list,
    "JSONSchemaPropsOrStringArray": _schema_or_list,
}
