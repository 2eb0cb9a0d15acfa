"""Warnings that servers send in headers, as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.transport import warning_texts


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([], []),
        (['299 - "use v1"'], ["use v1"]),
        (['299 kube-apiserver "use v1"'], ["use v1"]),
        (['299 - "one"', '299 - "two"', '299 - "one"'], ["one", "two"]),
        (['299 - "one", 299 - "two"'], ["one", "two"]),
        (['110 - "Response is Stale"'], []),
        (["nonsense"], []),
        (['299 - "never closed'], []),
    ],
)
def test_each_warning_is_told_once(values: list[str], texts: list[str]) -> None:
    assert warning_texts(values) == texts


@given(st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126)), unique=True))
def test_what_was_escaped_comes_back_as_it_was(texts: list[str]) -> None:
    escaped = [text.replace("\\", "\\\\").replace('"', '\\"') for text in texts]
    assert warning_texts([f'299 - "{text}"' for text in escaped]) == texts
