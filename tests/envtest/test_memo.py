"""Texts of clients are remembered where that is quick and cannot fill the memory."""

import gc
import weakref

import pytest

from envtest.memo import LONGEST, remember_results
from envtest.schema.crd.versions import _find_schema_errors
from envtest.schema.names import find_label_value_errors, find_qualified_name_errors


class _Answer:
    """Something that can be told to be forgotten."""


@remember_results(2)
def _answer(content: str, *, loud: bool = False) -> _Answer:
    """Return a new answer each time that it has to be worked out."""
    del content, loud
    return _Answer()


def test_the_answer_to_a_short_text_is_remembered() -> None:
    assert _answer("name") is _answer("name")
    assert _answer("name") is not _answer("other")
    assert _answer("name") is not _answer("name", loud=True)


def test_the_answer_to_a_long_text_is_not_remembered() -> None:
    answer = weakref.ref(_answer("x" * (LONGEST + 1)))
    gc.collect()
    assert answer() is None


@pytest.mark.parametrize("judge", [find_qualified_name_errors, find_label_value_errors])
def test_long_labels_are_refused_like_short_ones(judge: object) -> None:
    assert callable(judge)
    assert judge("a" * 10_000)


def test_a_schema_with_errors_is_refused_wherever_a_good_one_was_taken_before() -> None:
    schema = {"type": "object", "properties": {"size": {"type": "integer"}}}
    for index, kind in enumerate(("integer", "int", "integer", "int")):
        schema["properties"] = {"size": {"type": kind}}
        errors = _find_schema_errors(schema, "spec", has_status=False)
        assert bool(errors) is (index % 2 == 1)
