"""JSON merge patch: the examples of RFC 7386, the server's refusals, and laws."""

from typing import Any

import pytest
from hypothesis import given

from controller.managedfields import PatchError
from envtest.patching import apply_merge_patch
from tests.envtest.patching.values import LAW, LISTLESS, OBJECT

_NO_OBJECT = "json: cannot unmarshal {} into Go value of type map[string]interface {{}}"


@pytest.mark.parametrize(
    ("doc", "patch", "merged"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], {"a": "c"}, {"a": "c"}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_rfc_7386_hold(doc: Any, patch: Any, merged: Any) -> None:
    assert apply_merge_patch(doc, patch) == merged


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (None, "Invalid JSON Patch"),
        ([], "error decoding patch: " + _NO_OBJECT.format("array")),
        (5, "error decoding patch: " + _NO_OBJECT.format("number")),
    ],
)
def test_a_patch_that_is_no_object_is_refused_in_the_servers_words(
    patch: Any, message: str
) -> None:
    with pytest.raises(PatchError) as refused:
        apply_merge_patch({}, patch)
    assert (refused.value.status, refused.value.reason, refused.value.message) == (
        400,
        "BadRequest",
        message,
    )


def test_nulls_inside_a_new_list_are_dropped_but_null_items_stay() -> None:
    assert apply_merge_patch({}, {"a": [None, {"b": None, "c": 1}]}) == {"a": [None, {"c": 1}]}


def test_a_list_that_replaces_an_object_keeps_the_nulls_in_it() -> None:
    assert apply_merge_patch({"a": {}}, {"a": [{"b": None}]}) == {"a": [{"b": None}]}


@LAW
@given(OBJECT, LISTLESS)
def test_a_patch_applied_twice_is_a_patch_applied_once(
    doc: dict[str, Any], patch: dict[str, Any]
) -> None:
    once = apply_merge_patch(doc, patch)
    assert apply_merge_patch(once, patch) == once


@LAW
@given(OBJECT)
def test_an_empty_patch_changes_nothing(doc: dict[str, Any]) -> None:
    assert apply_merge_patch(doc, {}) == doc


@LAW
@given(OBJECT, OBJECT)
def test_members_that_a_patch_does_not_name_are_unchanged(
    doc: dict[str, Any], patch: dict[str, Any]
) -> None:
    merged = apply_merge_patch(doc, patch)
    for name in doc.keys() - patch.keys():
        assert merged[name] == doc[name]
    for name, value in patch.items():
        assert (name in merged) is (value is not None)


@LAW
@given(OBJECT, OBJECT)
def test_a_merged_object_shares_no_container_with_the_patch(
    doc: dict[str, Any], patch: dict[str, Any]
) -> None:
    """So that it may be changed in place, and the patch be applied again."""
    merged = apply_merge_patch(doc, patch)
    assert not list_container_ids(merged) & (list_container_ids(patch) - list_container_ids(doc))


def list_container_ids(value: Any) -> set[int]:
    """Return the identities of the objects and lists in a value."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = {id(value)} if isinstance(value, dict | list) else set()
    return own.union(*map(list_container_ids, inner))
