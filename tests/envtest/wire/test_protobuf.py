"""Protobuf as Go writes it, read as the JSON that it stands for."""

import base64
import json
from contextlib import suppress
from importlib import resources
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envtest.kinds import catalogue
from envtest.kinds.catalogue import build_schema_name
from envtest.wire.protobuf import ProtobufError, read_protobuf

# What a Go program printed: objects as JSON and as protobuf.
GOLDEN = json.loads(
    resources.files("tests.envtest.wire").joinpath("golden.json").read_text("utf-8")
)["objects"]
KINDS = sorted(
    {
        (group_version, entry["kind"])
        for group_version, entries in catalogue.list_resources().items()
        for entry in entries
        if "group" not in entry
    }
)


def name_of(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    return build_schema_name(group, version, kind)


def encode_part(at: int, value: bytes) -> bytes:
    """Return a text or message as the field of a number below 16; it is shorter than 128 bytes."""
    return bytes((at << 3 | 2, len(value))) + value


def drop_nulls(value: Any) -> Any:
    """Leave out what Go's JSON has as null; protobuf has nothing there."""
    if isinstance(value, dict):
        return {name: drop_nulls(item) for name, item in value.items() if item is not None}
    return [drop_nulls(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden_object: golden_object["body"]["kind"])
def test_protobuf_that_golang_wrote_is_read_as_the_same_object(golden: dict[str, Any]) -> None:
    body = golden["body"]
    name = name_of(body["apiVersion"], body["kind"])

    assert read_protobuf(base64.b64decode(golden["bytes"]), name) == drop_nulls(body)


@pytest.mark.parametrize(("api_version", "kind"), KINDS)
def test_every_kind_that_is_served_can_be_read(api_version: str, kind: str) -> None:
    head = encode_part(1, encode_part(1, api_version.encode()) + encode_part(2, kind.encode()))

    protobuf = read_protobuf(b"k8s\x00" + head, name_of(api_version, kind))

    assert (protobuf["apiVersion"], protobuf["kind"]) == (api_version, kind)


def test_unknown_fields_are_skipped() -> None:
    raw = encode_part(2, encode_part(1, b"a") + encode_part(2, b"1")) + encode_part(
        15, b"from a newer version"
    )

    assert read_protobuf(b"k8s\x00" + encode_part(2, raw), name_of("v1", "ConfigMap")) == {
        "data": {"a": "1"}
    }


@settings(deadline=None, max_examples=100)
@given(
    golden=st.sampled_from(GOLDEN),
    changes=st.lists(st.tuples(st.integers(4, 2**16), st.integers(0, 255)), max_size=4),
    length=st.integers(4, 2**16),
)
def test_bad_data_is_refused_or_read(
    golden: dict[str, Any], changes: list[tuple[int, int]], length: int
) -> None:
    data = bytearray(base64.b64decode(golden["bytes"])[:length])
    for at, byte in changes:
        if len(data) > 4:
            data[4 + at % (len(data) - 4)] = byte
    name = name_of(golden["body"]["apiVersion"], golden["body"]["kind"])

    with suppress(ProtobufError):
        assert isinstance(read_protobuf(bytes(data), name), dict)


def test_a_kind_that_is_no_text_is_refused() -> None:
    data = b"k8s\x00" + encode_part(1, encode_part(2, b"\x80"))

    with pytest.raises(ProtobufError, match="unexpected end or shape"):
        read_protobuf(data, name_of("v1", "ConfigMap"))
