"""Decoding of request bodies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest.schema import MalformedJSON, cut_snippet, read_json
from envtest.schema.decoding import SUPPORTED_DEPTH


@pytest.mark.parametrize(
    "content", ['{"a":}', '{"a":1', '{"a" 1}', "{a:1}", '{"a":01}', '{"a":NaN}', '{"a":1} x', ""]
)
def test_text_that_is_no_json_is_refused(content: str) -> None:
    with pytest.raises(MalformedJSON):
        read_json(content.encode())


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ("1", 1),
        ("-0", 0),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", float(2**63)),
        ("1" + "0" * 30, 1e30),
    ],
)
def test_an_integer_stays_one_while_it_fits_64_bits(content: str, value: float) -> None:
    decoded, _ = read_json(content.encode())
    assert decoded == value
    assert type(decoded) is type(value)


def test_a_number_beyond_all_floats_is_refused_in_other_words() -> None:
    with pytest.raises(MalformedJSON, match="cannot unmarshal number 1e400 into Go value"):
        read_json(b'{"a": 1e400}')


def test_fields_that_stand_twice_are_reported_once_each_with_their_paths() -> None:
    body = b'{"a":1,"b":[{"c":1,"c":2}],"a":{"d":1,"d":2,"d":3},"e":{"f":1}}'
    value, reported = read_json(body)
    assert value == {"a": {"d": 3}, "b": [{"c": 2}], "e": {"f": 1}}
    assert reported == ['duplicate field "b[0].c"', 'duplicate field "a"', 'duplicate field "a.d"']


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_hostile_nesting_is_refused_and_does_not_exhaust_the_stack(opening: str) -> None:
    with pytest.raises(MalformedJSON, match="exceeded max depth"):
        read_json(opening.encode() * 100_000)


def test_brackets_inside_strings_are_no_nesting() -> None:
    body = json.dumps({"a": "[" * 5_000})
    assert read_json(body.encode())[0] == {"a": "[" * 5_000}


def test_bytes_and_escapes_that_are_no_characters_are_replaced() -> None:
    assert read_json(b'"\xff\xfe"')[0] == "\ufffd\ufffd"
    assert read_json(b'"\\ud800x"')[0] == "\ufffdx"
    assert read_json(b'"\\ud83d\\ude00"')[0] == "\U0001f600"


@pytest.mark.parametrize(
    ("data", "excerpt"),
    [
        (b"", "<empty>"),
        (b"null", "null"),
        (b'{"a":1}', '{"a":1}'),
        (b'{"apiVersion":"example.com/v1","kind":"Thing"}', '{"apiVersion":"example.com/v1" ...'),
    ],
)
def test_an_error_quotes_the_body_that_cannot_be_decoded(data: bytes, excerpt: str) -> None:
    assert cut_snippet(data) == excerpt


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(_JSON)
def test_a_value_encoded_as_json_is_decoded_to_the_same_value(value: Any) -> None:
    assert read_json(json.dumps(value).encode()) == (value, [])


@given(st.text(alphabet='{}[]",:0123456789.eE+-truefalsn \\\n\x01', max_size=30))
def test_any_input_is_decoded_or_refused_with_a_reason(content: str) -> None:
    reason = "decoded"
    try:
        read_json(content.encode())
    except MalformedJSON as error:
        reason = str(error)
    assert reason


_NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(_VALUES, st.booleans())
def test_compact_text_is_read_as_the_same_text_with_spaces(value: Any, ascii_only: bool) -> None:
    compact = json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))
    usual = json.dumps(value, ensure_ascii=ascii_only)
    spaced = json.dumps(value, ensure_ascii=ascii_only, indent=1)
    # By their texts: 1 is not 1.0, and true is not 1.
    read = repr(read_json(compact.encode()))
    assert read == repr(read_json(usual.encode()))
    assert read == repr(read_json(spaced.encode() + b" \n"))


@pytest.mark.parametrize("between", [":", ": "])
def test_a_name_that_stands_twice_is_reported_however_the_text_is_spaced(between: str) -> None:
    body = f'{{"a"{between}1,"b"{between}{{"a"{between}2}},"a"{between}3}}'
    assert read_json(body.encode()) == ({"a": 3, "b": {"a": 2}}, ['duplicate field "a"'])
    spread = body.replace(",", ", ")
    assert read_json(spread.encode()) == read_json(body.encode())


def test_half_a_surrogate_pair_is_replaced_in_spaced_text() -> None:
    assert read_json(b'{"a": "\\ud800"}') == ({"a": "\ufffd"}, [])


@pytest.mark.parametrize(
    ("content", "whole"),
    [
        ("[1.0]", [1]),
        ("[-0.0]", [0]),
        ("[1e21]", [1e21]),
        ("[2.50]", [2.5]),
        ("[1e2,3]", [100, 3]),
    ],
)
def test_numbers_are_read_as_go_would_print_them(content: str, whole: list[float]) -> None:
    assert repr(read_json(content.encode())[0]) == repr(whole)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_what_is_left_open_is_refused_whether_short_or_deep(opening: str) -> None:
    for count in (SUPPORTED_DEPTH, 490, 600):
        with pytest.raises(MalformedJSON):
            read_json(opening.encode() * count)
