"""Protobuf bodies of built-in kinds, as the JSON that they stand for.

The server only reads protobuf; it answers in JSON, which every client that sends protobuf takes.
"""

import base64
import json
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from envtest.wire.varints import fields

MAGIC = b"k8s\x00"
_DOUBLE, _BOOL, _STRING, _MESSAGE, _BYTES = 1, 8, 9, 11, 12
_DEPTH = 100
_INT64_MAX = 2**63 - 1
# Go writes the zero value of every field that is no pointer, which JSON would leave out. These are
# pointers: what is on the wire was meant.
_POINTERS = frozenset(
    {
        "allocateLoadBalancerNodePorts",
        "allowPrivilegeEscalation",
        "automountServiceAccountToken",
        "backoffLimit",
        "blockOwnerDeletion",
        "completions",
        "controller",
        "enableServiceLinks",
        "gracePeriodSeconds",
        "hostUsers",
        "immutable",
        "key",
        "leaseTransitions",
        "optional",
        "parallelism",
        "privileged",
        "readOnlyRootFilesystem",
        "replicas",
        "revisionHistoryLimit",
        "runAsGroup",
        "runAsNonRoot",
        "runAsUser",
        "suspend",
        "terminationGracePeriodSeconds",
        "tolerationSeconds",
        "ttlSecondsAfterFinished",
        "value",
    }
)


class ProtobufError(Exception):
    """A body that cannot be read; the message says why."""


@cache
def _messages() -> Mapping[str, Mapping[str, list[Any]]]:
    text = files("envtest.kinds").joinpath("wire.json").read_text(encoding="utf-8")
    loaded: Mapping[str, Mapping[str, list[Any]]] = json.loads(text)
    return loaded


def read_protobuf(data: bytes, name: str) -> dict[str, Any]:
    """Return the object that a body stands for.

    Args:
        data: the body: a magic number, then an envelope with apiVersion, kind and the object.
        name: the OpenAPI name of the kind that is expected.

    Raises:
        ProtobufError: this is no such body, or the kind is not known.
    """
    if not data.startswith(MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message")
    if name not in _messages():
        raise ProtobufError(f"protobuf is not read for {name.rpartition('.')[2]}; send JSON")
    try:
        envelope = dict(fields(data[len(MAGIC) :]))
        named = dict(fields(_bytes(envelope.get(1, b""))))
        body = _message(_bytes(envelope.get(2, b"")), name, 0)
    except (IndexError, ValueError, struct.error, OverflowError) as error:
        raise ProtobufError(f"unexpected end or shape of data: {error}") from error
    head = {"apiVersion": _bytes(named.get(1, b"")), "kind": _bytes(named.get(2, b""))}
    return {**{key: value.decode() for key, value in head.items() if value}, **body}


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number stands where a text or message belongs")  # noqa: TRY004
    return value


def _message(data: bytes, name: str, depth: int) -> dict[str, Any]:
    """Decode a message; fields that nobody knows are skipped, as protobuf wants it."""
    if depth > _DEPTH:
        raise ValueError("messages are nested too deeply")
    known = _messages().get(name, {})
    body: dict[str, Any] = {}
    for number, value in fields(data):
        described = known.get(str(number))
        if described is None:
            continue
        field, kind, repeated, inner, inline = described
        if repeated and inner.endswith("Entry") and inner.startswith(f"{name}."):
            entry = _message(_bytes(value), inner, depth + 1)
            body.setdefault(field, {})[entry.get("key", "")] = _entry_value(entry, inner)
            continue
        decoded = _value(value, kind, inner, depth)
        if repeated:
            body.setdefault(field, []).append(decoded)
        elif inline and isinstance(decoded, dict):
            body.update(decoded)
        elif decoded not in ("", 0, None) or (kind != _STRING and field in _POINTERS):
            body[field] = decoded
    return body


def _entry_value(entry: dict[str, Any], name: str) -> Any:
    """Return the value of a map entry; a zero value is not on the wire."""
    if "value" in entry:
        return entry["value"]
    kind = _messages()[name]["2"][1]
    return {_STRING: "", _BYTES: "", _BOOL: False, _MESSAGE: {}}.get(kind, 0)


def _value(value: int | bytes, kind: int, inner: str, depth: int) -> Any:
    """Decode one value."""
    if kind == _MESSAGE:
        return _special(_bytes(value), inner, depth)
    if kind == _STRING:
        return _bytes(value).decode()
    if kind == _BYTES:
        return base64.b64encode(_bytes(value)).decode()
    if kind == _DOUBLE:
        return struct.unpack("<d", _bytes(value))[0]
    if isinstance(value, bytes):
        raise ValueError("a text stands where a number belongs")  # noqa: TRY004
    if kind == _BOOL:
        return bool(value)
    return value - 2**64 if value > _INT64_MAX else value


def _special(data: bytes, name: str, depth: int) -> Any:
    """Decode a message; some types have a JSON of their own."""
    match name.rpartition(".")[2]:
        case "Time" | "MicroTime" as clock:
            return _time(data, micro=clock == "MicroTime")
        case "Quantity":
            return _bytes(dict(fields(data)).get(1, b"")).decode()
        case "IntOrString":
            parts = dict(fields(data))
            if parts.get(1, 0) == 1:
                return _bytes(parts.get(3, b"")).decode()
            return _value(parts.get(2, 0), 5, "", depth)
        case "RawExtension" | "FieldsV1":
            raw = _bytes(dict(fields(data)).get(1, b""))
            return json.loads(raw) if raw else {}
        case _:
            return _unwrapped(_message(data, name, depth + 1), name)


def _unwrapped(body: dict[str, Any], name: str) -> Any:
    """Return a list for the messages that only exist because protobuf has no list of lists."""
    known = _messages().get(name, {})
    if list(known) == ["1"] and known["1"][0] == "items" and known["1"][2]:
        return body.get("items", [])
    return body


def _time(data: bytes, *, micro: bool) -> str | None:
    """Return a time as JSON has it; the zero time is no time."""
    parts = dict(fields(data))
    if not parts:
        return None
    seconds = _value(parts.get(1, 0), 3, "", 0)
    nanos = _value(parts.get(2, 0), 5, "", 0)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")
