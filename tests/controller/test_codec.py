"""Bytes to typed values."""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.codec import (
    Added,
    Bookmark,
    DecodeFailure,
    Deleted,
    ErrorEvent,
    Modified,
    UnknownEvent,
    Unreadable,
    decode_event,
    decode_json,
    decode_page,
    encode,
)
from controller.errors import Expired, MalformedAnswer, ServerFailure, decode_status
from controller.meta import Key, ObjectMeta
from controller.watch import LineSplitter
from tests.controller.widgets import (
    WIDGETS,
    build_bookmark_line,
    build_error_line,
    build_event_line,
    build_widget,
    encode_widget,
)


@pytest.mark.parametrize("kind", [Added, Modified, Deleted])
def test_an_event_about_an_object_has_the_object(kind: type) -> None:
    event = decode_event(WIDGETS, build_event_line(kind.__name__.upper(), build_widget("a", 7)))
    assert event == kind(build_widget("a", 7))
    assert isinstance(event, kind)


def test_a_bookmark_has_its_revision_and_says_whether_it_ends_the_initial_events() -> None:
    assert decode_event(WIDGETS, build_bookmark_line(7)) == Bookmark(7)
    meta = {"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}}
    ended = decode_event(WIDGETS, build_event_line("BOOKMARK", {"metadata": meta}))
    assert ended == Bookmark(7, initial_end=True)


def test_an_error_event_is_the_error_that_it_stands_for() -> None:
    event = decode_event(WIDGETS, build_error_line(410, "Expired"))
    assert isinstance(event, ErrorEvent)
    assert isinstance(event.error, Expired)
    odd = decode_event(WIDGETS, build_event_line("ERROR", {"oops": 1}))
    assert isinstance(odd, ErrorEvent)
    assert isinstance(odd.error, ServerFailure)


def test_an_object_that_cannot_be_decoded_is_reported_with_its_key_and_field() -> None:
    obj = encode_widget(build_widget("a", 7)) | {"spec": {"size": "large"}}
    event = decode_event(WIDGETS, build_event_line("DELETED", obj))
    assert event == Unreadable(
        Key("default", "a"), 7, "Expected `int`, got `str` - at `$.spec.size`", deleted=True
    )


@pytest.mark.parametrize(
    "event",
    [
        build_event_line("RENAMED", build_widget("a", 7)),
        build_event_line("ADDED", {"metadata": {"resourceVersion": "7"}}),
        build_event_line("ADDED", {"metadata": {"name": "a"}}),
        build_event_line("ADDED", {"metadata": {"name": "a", "resourceVersion": "seven"}}),
        build_event_line("ADDED", {"metadata": 7}),
        build_event_line("BOOKMARK", {"metadata": {}}),
        build_event_line("BOOKMARK", {}),
    ],
)
def test_an_event_that_cannot_be_used_is_unknown(event: bytes) -> None:
    assert isinstance(decode_event(WIDGETS, event), UnknownEvent)


@given(st.binary(max_size=100))
def test_random_bytes_on_a_watch_are_malformed_and_nothing_else(noise: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        decode_event(WIDGETS, b"\x00" + noise)


def test_one_unreadable_item_does_not_make_the_others_fail() -> None:
    odd = encode_widget(build_widget("b", 2)) | {"spec": []}
    items = [
        encode_widget(build_widget("a", 1)),
        odd,
        {"metadata": []},
        encode_widget(build_widget("c", 3)),
    ]
    data = json.dumps({"metadata": {"resourceVersion": "9"}, "items": items}).encode()
    page = decode_page(WIDGETS, data)
    assert page.items == (build_widget("a", 1), build_widget("c", 3))
    assert set(page.unreadable) == {Key("default", "b"), Key("", "item 2")}


@dataclass(frozen=True)
class _OutlineSpec:
    """The field that is decoded even if the widget's own spec cannot be."""

    colour: str


@dataclass(frozen=True)
class _Outline:
    """The type as which a widget is decoded if it cannot be decoded as a Widget."""

    metadata: ObjectMeta
    spec: _OutlineSpec


OUTLINED = replace(WIDGETS, outline=_Outline)


def _decode_to_outlines(spec: object) -> list[_Outline | None]:
    """Return the outlines of a widget with this spec: of an event, and of a list."""
    odd = encode_widget(build_widget("a", 7)) | {"spec": spec}
    event = decode_event(OUTLINED, build_event_line("MODIFIED", odd))
    data = json.dumps({"metadata": {"resourceVersion": "9"}, "items": [odd]}).encode()
    page = decode_page(OUTLINED, data)
    assert isinstance(event, Unreadable)
    reasons = [event.reason, *page.unreadable.values()]
    return [cast("_Outline | None", cast("DecodeFailure", reason).outline) for reason in reasons]


def test_an_object_that_cannot_be_decoded_has_an_outline() -> None:
    for outline in _decode_to_outlines({"size": "large", "colour": "red"}):
        assert outline is not None
        assert (outline.metadata.name, outline.spec.colour) == ("a", "red")


def test_an_object_that_does_not_fit_the_outline_has_only_a_reason() -> None:
    assert _decode_to_outlines({"size": "large"}) == [None, None]


def test_an_empty_list_may_be_null() -> None:
    assert decode_page(WIDGETS, b'{"metadata":{"resourceVersion":"9"},"items":null}').items == ()


@pytest.mark.parametrize("data", [b"<html>", b"{}", b'{"metadata":{}}', b"[" * 100_000])
def test_a_response_that_is_no_list_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedAnswer, match="not a WidgetList"):
        decode_page(WIDGETS, data)


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b'{"kind":"Pod"}',
        b'{"kind":"Status","details":{"causes":[1]}}',
        b'{"kind":"Status","details":{"retryAfterSeconds":"soon"}}',
        b'{"kind":"Status","code":"404"}',
        b'{"kind":"Status","x":' + b"[" * 100_000,
        b"",
    ],
)
def test_json_that_is_no_valid_status_is_not_decoded_as_a_status(data: bytes) -> None:
    assert decode_status(data) is None


@pytest.mark.parametrize(
    ("retry_after_seconds", "seconds"), [(7, 7), (86_400, 1000), (10**400, 1000), (-7, 0)]
)
def test_a_server_cannot_ask_for_an_endless_pause(
    retry_after_seconds: int, seconds: float
) -> None:
    status = {"kind": "Status", "code": 429, "details": {"retryAfterSeconds": retry_after_seconds}}
    data = json.dumps({"type": "ERROR", "object": status}).encode()
    event = decode_event(WIDGETS, data)
    assert isinstance(event, ErrorEvent)
    assert event.error.retry_after == seconds


def test_deeply_nested_json_is_malformed() -> None:
    with pytest.raises(MalformedAnswer):
        decode_json(b"[" * 1_000_000)


def test_bodies_may_contain_mappings_tuples_and_times_but_no_other_objects() -> None:
    body = {"a": MappingProxyType({"b": (1, 2)}), "t": datetime(2026, 1, 1, tzinfo=UTC)}
    assert json.loads(encode(body)) == {"a": {"b": [1, 2]}, "t": "2026-01-01T00:00:00Z"}
    with pytest.raises(TypeError, match="a object cannot be sent"):
        encode({"a": object()})


@given(
    st.lists(st.binary(max_size=20).map(lambda chunk: chunk.replace(b"\n", b"")), max_size=10),
    st.data(),
)
def test_the_lines_of_a_stream_do_not_depend_on_its_chunks(
    lines: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    splitter = LineSplitter()
    lines_split: list[bytes] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        lines_split += splitter.feed(stream[:size])
        stream = stream[size:]
    assert lines_split == [line for line in lines if line]


def test_a_line_that_is_too_long_is_refused_and_not_buffered() -> None:
    splitter = LineSplitter(max_line=100)
    assert splitter.feed(b"x" * 100) == []
    with pytest.raises(MalformedAnswer, match="longer than 100 bytes"):
        splitter.feed(b"x")
