"""Patches between documents: applying one gives the other, whatever the two are."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.webhooks.answers import create_patch_operations
from envtest.patching.patches import apply_json_patch

SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab/~", max_size=3)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.text("ab/~", max_size=2), DOCUMENTS, max_size=3)


def encode_canonical(document: Any) -> str:
    """Return a text that is the same for the same JSON; to Python True is 1."""
    return json.dumps(document, sort_keys=True)


@pytest.mark.slow
@settings(deadline=None)
@given(OBJECTS, OBJECTS)
def test_a_patch_turns_one_document_into_the_other(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    patched = apply_json_patch(before, list(create_patch_operations(before, after)))
    assert encode_canonical(patched) == encode_canonical(after)


@settings(deadline=None)
@given(DOCUMENTS)
def test_there_is_no_patch_between_a_document_and_itself(document: Any) -> None:
    assert list(create_patch_operations(document, document)) == []


def test_a_patch_names_only_the_fields_that_differ() -> None:
    before = {"keep": {"a": 1}, "list": [1, {"x": 2}], "gone": 0}
    after = {"keep": {"a": 1, "b": True}, "list": [1, {"x": 3}]}
    assert list(create_patch_operations(before, after)) == [
        {"op": "remove", "path": "/gone"},
        {"op": "add", "path": "/keep/b", "value": True},
        {"op": "replace", "path": "/list/1/x", "value": 3},
    ]
