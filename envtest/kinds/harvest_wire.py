"""Rebuild `wire.json` from a Go program: python -m envtest.kinds.harvest_wire KUBECTL.

Clients built with client-go send built-in kinds as protobuf. The numbers of the fields are in
every such program, as compressed descriptors; this reads them for the kinds that are served here.
"""

import json
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envtest.kinds.catalogue import resources, schema_name, schemas
from envtest.wire.varints import fields

_DESCRIPTOR = re.compile(rb"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff")
_LONGEST = 2_000_000
_REPEATED = 3
_ALSO = (
    "io.k8s.api.authentication.v1.TokenRequest",
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
)
# Types whose JSON is not that of their fields; the decoder knows them by name.
_SPECIAL = ("Time", "MicroTime", "Quantity", "IntOrString", "RawExtension", "FieldsV1")

Message = dict[int, list[Any]]


def main() -> int:
    """Read, choose and write; print what was written."""
    found: dict[str, Message] = {}
    data = Path(sys.argv[1]).read_bytes()
    for match in _DESCRIPTOR.finditer(data):
        chunk = data[match.start() : match.start() + _LONGEST]
        found.update(_messages(chunk))
    wanted = [
        schema_name(*_split(group_version), entry["kind"])
        for group_version, entries in resources().items()
        for entry in entries
        if "group" not in entry
    ]
    chosen = _reachable(found, [*wanted, *_ALSO])
    text = json.dumps(chosen, sort_keys=True, separators=(",", ":"))
    here = Path(__file__).with_name("wire.json")
    here.write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(f"{here}: {len(text)} bytes, {len(chosen)} messages\n")
    return 0


def _split(group_version: str) -> tuple[str, str]:
    group, _, version = group_version.rpartition("/")
    return group, version


def _messages(chunk: bytes) -> dict[str, Message]:
    """Return the messages of one compressed file descriptor; none if it is something else."""
    try:
        raw = zlib.decompressobj(31).decompress(chunk)
        parts = list(fields(raw))
    except (zlib.error, ValueError, IndexError):
        return {}
    package = next((value for number, value in parts if number == 2), b"")
    if not isinstance(package, bytes) or not package.startswith(b"k8s.io"):
        return {}
    prefix = package.decode().replace("k8s.io.", "io.k8s.", 1)
    found: dict[str, Message] = {}
    for number, value in parts:
        if number == 4 and isinstance(value, bytes):
            found.update(_message(value, prefix))
    return found


def _message(data: bytes, prefix: str) -> Iterator[tuple[str, Message]]:
    """Yield a message and those that it contains."""
    parts = [(number, value) for number, value in fields(data) if isinstance(value, bytes)]
    name = next(f"{prefix}.{value.decode()}" for number, value in parts if number == 1)
    message: Message = {}
    for number, value in parts:
        if number == 2:
            described = dict(fields(value))
            kind = _text(described.get(6)).lstrip(".").replace("k8s.io.", "io.k8s.", 1)
            repeated = described.get(4) == _REPEATED
            message[int(described[3])] = [_text(described[1]), described[5], repeated, kind]
        elif number == 3:
            yield from _message(value, name)
    yield name, message


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else ""


def _reachable(found: dict[str, Message], todo: list[str]) -> dict[str, Any]:
    """Keep what the wanted messages need; a field that JSON does not show is marked as inline."""
    chosen: dict[str, Any] = {}
    while todo:
        name = todo.pop()
        if name in chosen or name not in found or name.rpartition(".")[2] in _SPECIAL:
            continue
        shown = schemas().get(name, {}).get("properties") or {}
        spelled = {field.lower(): field for field in shown}
        chosen[name] = {
            number: [
                spelled.get(field.lower(), field),
                kind,
                repeated,
                inner,
                bool(shown) and field.lower() not in spelled,
            ]
            for number, (field, kind, repeated, inner) in found[name].items()
        }
        todo += [inner for _, _, _, inner in found[name].values() if inner]
    return chosen


if __name__ == "__main__":
    sys.exit(main())
