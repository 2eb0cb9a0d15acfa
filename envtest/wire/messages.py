"""What `wire.json` knows: the protobuf messages of built-in kinds, field by field.

Kinds and shapes of fields are told where the file is made: `envtest.kinds.harvest_wire`.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

MAGIC: Final = b"k8s\x00"


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
    text = files("envtest.kinds").joinpath("wire.json").read_text(encoding="utf-8")
    loaded: Mapping[str, Mapping[str, list[str]]] = json.loads(text)
    return loaded


@cache
def message(name: str) -> Mapping[int, Field] | None:
    """Return the fields of a message by their numbers, in order, if the message is known.

    Args:
        name: the OpenAPI name of the type.
    """
    found = _file().get(name)
    if found is None:
        return None
    listed = [Field(int(number), *described) for number, described in found.items()]
    return {field.number: field for field in sorted(listed)}


def is_list(fields: Mapping[int, Field]) -> bool:
    """Tell whether a message is but a list: protobuf puts one around lists that are in lists."""
    return 1 in fields and fields[1].shape == "list" and not fields[1].name
