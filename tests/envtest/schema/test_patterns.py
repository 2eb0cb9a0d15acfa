"""Regular expressions mean here what they mean to the API server."""

from __future__ import annotations

import pytest

from envtest.schema import matching
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


@pytest.mark.parametrize("pattern", _RECORDED["matches"])
def test_both_engines_agree_with_the_server(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "_SHORT", -1)
    monkeypatch.setattr(matching, "may_explode", lambda _pattern: True)
    found = matching.matcher(pattern)
    texts = [text for text in _RECORDED["texts"] if found(text)]
    assert texts == _RECORDED["matches"][pattern]


@pytest.mark.parametrize(
    ("pattern", "explodes"),
    [
        ("^[a-z]+$", False),
        ("^(ab)+$", False),
        ("^(a+)+$", True),
        ("^((a|aa)b?)*$", True),
        (r"^(\(\+)*[(+]$", False),
        ("(a{1,3}){2,}", True),
        ("(a+)(b+)", False),
    ],
)
def test_patterns_that_could_take_forever_are_recognized(pattern: str, explodes: bool) -> None:
    assert matching.may_explode(pattern) is explodes


def test_a_hostile_pattern_does_not_hang() -> None:
    assert matching.matcher("^(a+)+$")("a" * 5_000 + "!") is False
