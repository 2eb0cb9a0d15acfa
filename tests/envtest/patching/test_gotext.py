"""How Go prints JSON values: what messages of the real server and keys of fields consist of."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest.patching import gotext
from tests.envtest.patching.values import JSON, LAW


@pytest.mark.parametrize(
    ("value", "plain", "text"),
    [
        (1.5, "1.5", "1.5"),
        (-2.5, "-2.5", "-2.5"),
        (1.0, "1", "1"),
        (-0.0, "0", "0"),
        (100000.0, "100000", "100000"),
        (1e6, "1e+06", "1000000"),
        (12345678.9, "1.23456789e+07", "12345678.9"),
        (1e20, "1e+20", "100000000000000000000"),
        (1e21, "1e+21", "1e+21"),
        (0.0001, "0.0001", "0.0001"),
        (0.00001, "1e-05", "0.00001"),
        (1e-7, "1e-07", "1e-7"),
        (5e-324, "5e-324", "5e-324"),
        (7, "7", "7"),
        (True, "true", "true"),
        (None, "<nil>", "null"),
        ({"b": [1, "x"], "a": None}, "map[a:<nil> b:[1 x]]", '{"a":null,"b":[1,"x"]}'),
        ("<a> & b", "<a> & b", '"\\u003ca\\u003e \\u0026 b"'),
        ("é\u2028", "é\u2028", '"é\\u2028"'),
    ],
)
def test_values_are_printed_as_go_prints_them(value: Any, plain: str, text: str) -> None:
    assert (gotext.plain(value), gotext.json_text(value)) == (plain, text)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("a", '"a"'),
        ('"\\', '"\\"\\\\"'),
        ("\n\t\a\x01\x7f", '"\\n\\t\\a\\x01\\x7f"'),
        ("é\u00a0\u200b\U000e0001", '"é\\u00a0\\u200b\\U000e0001"'),
    ],
)
def test_texts_are_quoted_as_go_quotes_them(text: str, quoted: str) -> None:
    assert gotext.quoted(text) == quoted


@LAW
@given(JSON)
def test_json_text_says_what_it_was_made_of(value: Any) -> None:
    assert json.loads(gotext.json_text(value)) == value


@LAW
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_no_digit_of_a_float_is_lost(value: float) -> None:
    assert math.isclose(float(gotext.plain(value)), value, rel_tol=0, abs_tol=0)
    assert float(gotext.json_text(value)) == value
