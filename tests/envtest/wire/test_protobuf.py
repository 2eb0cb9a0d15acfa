"""Protobuf as Go writes it, there and back."""

import base64
import json
from contextlib import suppress
from importlib import resources
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envtest.server.protobuf import encoded, message_name
from envtest.wire.encoding import write_event, write_list
from envtest.wire.messages import message
from envtest.wire.protobuf import ProtobufError, read_protobuf
from envtest.wire.varints import bytes_field, fields
from tests.envtest.wire.messages import KINDS, objects

# What a Go program printed: objects as JSON and as protobuf, events of a watch, a list.
GOLDEN = json.loads(
    resources.files("tests.envtest.wire").joinpath("golden.json").read_text("utf-8")
)


def present(value: Any) -> Any:
    """Leave out what Go's JSON has as null; protobuf has nothing there."""
    if isinstance(value, dict):
        return {name: present(item) for name, item in value.items() if item is not None}
    return [present(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("golden", GOLDEN["objects"], ids=lambda one: one["body"]["kind"])
class TestGoldens:
    def test_an_object_has_the_bytes_that_go_writes(self, golden: dict[str, Any]) -> None:
        assert encoded(golden["body"]) == base64.b64decode(golden["bytes"])

    def test_the_bytes_that_go_writes_are_read_as_the_object(self, golden: dict[str, Any]) -> None:
        body = golden["body"]
        name = message_name(body["apiVersion"], body["kind"])

        assert read_protobuf(base64.b64decode(golden["bytes"]), name) == present(body)


def test_events_of_a_watch_have_the_bytes_that_go_writes() -> None:
    frames = [
        write_event(
            kind,
            encoded(
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "a", "resourceVersion": "3"},
                    "data": {"k": kind},
                }
            ),
        )
        for kind in ("ADDED", "DELETED")
    ]

    assert [base64.b64encode(frame).decode() for frame in frames] == GOLDEN["frames"]


def test_a_list_has_the_bytes_that_go_writes() -> None:
    items = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}, "data": {"x": "y"}}]
    meta = {"resourceVersion": "9", "continue": "c", "remainingItemCount": 0}

    data = write_list("v1", "ConfigMapList", meta, items, message_name("v1", "ConfigMap"))

    assert base64.b64encode(data).decode() == GOLDEN["list"]


@settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(body=objects())
def test_what_is_written_is_read_again(body: dict[str, Any]) -> None:
    name = message_name(body["apiVersion"], body["kind"])

    assert read_protobuf(encoded(body), name) == body


@pytest.mark.parametrize(("api_version", "kind"), KINDS)
def test_every_kind_that_is_served_has_a_message(api_version: str, kind: str) -> None:
    known = message(message_name(api_version, kind))

    assert known, "run python -m envtest.kinds.harvest_wire"


def test_keys_of_maps_stand_in_order_whatever_theirs_was() -> None:
    head = {"apiVersion": "v1", "kind": "ConfigMap"}

    assert encoded({**head, "data": {"b": "1", "a": "2"}}) == encoded(
        {**head, "data": {"a": "2", "b": "1"}}
    )


def test_fields_that_nobody_knows_are_skipped() -> None:
    data = encoded({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}})
    name = message_name("v1", "ConfigMap")
    envelope = [(at, value) for at, value in fields(data[4:]) if isinstance(value, bytes)]
    unknown = bytes_field(4000, b"from a newer version")
    newer = b"".join(
        bytes_field(at, value + unknown if at == 2 else value) for at, value in envelope
    )

    assert read_protobuf(b"k8s\x00" + newer, name) == read_protobuf(data, name)


def test_an_empty_text_that_a_pointer_holds_is_kept() -> None:
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {},
        "spec": {"storageClassName": "", "resources": {}},
        "status": {},
    }

    assert read_protobuf(encoded(body), message_name("v1", "PersistentVolumeClaim")) == body


@settings(deadline=None, max_examples=100)
@given(
    golden=st.sampled_from(GOLDEN["objects"]),
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
    name = message_name(golden["body"]["apiVersion"], golden["body"]["kind"])

    with suppress(ProtobufError):
        assert isinstance(read_protobuf(bytes(data), name), dict)


@pytest.mark.parametrize(
    "spec",
    [
        b"\xff\xff",
        bytes_field(2, b"[" * 100_000),
        bytes_field(2, bytes_field(1, b"[" * 100_000)),
    ],
)
def test_raw_json_that_is_none_is_refused(spec: bytes) -> None:
    head = bytes_field(1, bytes_field(1, b"apps/v1") + bytes_field(2, b"ControllerRevision"))
    data = b"k8s\x00" + head + bytes_field(2, spec)

    with pytest.raises(ProtobufError, match="unexpected end or shape"):
        read_protobuf(data, message_name("apps/v1", "ControllerRevision"))


def test_a_kind_that_is_no_text_is_refused() -> None:
    data = b"k8s\x00" + bytes_field(1, bytes_field(2, b"\x80"))

    with pytest.raises(ProtobufError, match="unexpected end or shape"):
        read_protobuf(data, message_name("v1", "ConfigMap"))


def test_a_number_that_json_cannot_say_is_refused() -> None:
    body: dict[str, Any] = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"maximum": float("inf")}}}]
        },
    }
    name = message_name(body["apiVersion"], body["kind"])

    with pytest.raises(ProtobufError, match="infinite"):
        read_protobuf(encoded(body), name)
