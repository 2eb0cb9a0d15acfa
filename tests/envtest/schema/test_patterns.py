"""Regular expressions mean here what they mean to the API server."""

from __future__ import annotations

import pytest

from envtest.schema.formats import InvalidPattern, build_matcher, compile_pattern
from tests.envtest.schema.answers import read_recorded

_RECORDED = read_recorded("patterns.json")


@pytest.mark.parametrize("pattern", _RECORDED["matches"])
def test_a_pattern_is_found_where_the_server_found_it(pattern: str) -> None:
    matches = build_matcher(pattern)
    texts = [candidate for candidate in _RECORDED["texts"] if matches(candidate)]
    assert texts == _RECORDED["matches"][pattern]


@pytest.mark.parametrize("pattern", _RECORDED["refused"])
def test_a_pattern_is_refused_where_the_server_refuses_it(pattern: str) -> None:
    with pytest.raises(InvalidPattern, match="error parsing regexp: "):
        compile_pattern(pattern)


def test_a_hostile_pattern_does_not_hang() -> None:
    assert build_matcher("^(a+)+$")("a" * 5_000 + "!") is False
