"""JSON patch: what the API server does that the RFC leaves open, and what it refuses."""

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.managedfields import PatchError
from envtest.patching import apply_json_patch, check_operations
from tests.envtest.patching.values import JSON, LAW, OBJECT

UNMARSHAL = "error decoding patch: json: cannot unmarshal"


def test_operations_are_carried_out_in_their_order() -> None:
    operations = [
        {"op": "add", "path": "/a/-", "value": 3},
        {"op": "remove", "path": "/a/0"},
        {"op": "move", "from": "/b/x~1y", "path": "/c"},
        {"op": "copy", "from": "/c", "path": "/d"},
        {"op": "test", "path": "/d", "value": 1},
    ]
    doc = {"a": [1, 2], "b": {"x/y": 1}}
    assert apply_json_patch(doc, operations) == {"a": [2, 3], "b": {}, "c": 1, "d": 1}


def test_a_member_that_is_not_there_can_be_replaced() -> None:
    operations = [{"op": "replace", "path": "/a/b", "value": 1}]
    assert apply_json_patch({"a": {}}, operations) == {"a": {"b": 1}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/nope"},
        {"op": "add", "path": "/nope/x", "value": 1},
        {"op": "replace", "path": "/nope/x", "value": 1},
        {"op": "add", "path": "/a/3", "value": 1},
        {"op": "add", "path": "/a/x", "value": 1},
        {"op": "replace", "path": "/a/2", "value": 1},
        {"op": "move", "from": "/nope", "path": "/b"},
        {"op": "copy", "path": "/b"},
        {"op": "test", "path": "/a", "value": [2, 1]},
        {"op": "test", "path": "/t", "value": 1},
        {"op": "add", "path": 5, "value": 1},
        {"op": "remove"},
        {"op": "zap", "path": "/a"},
        {"op": "add", "path": "/t/x", "value": 1},
        {},
    ],
)
def test_whatever_fails_the_answer_is_the_same(operation: Any) -> None:
    with pytest.raises(PatchError) as refused:
        apply_json_patch({"a": [1, 2], "t": True}, [operation])
    error = refused.value
    assert (error.status, error.reason, error.details) == (422, "Invalid", {})
    assert error.message == "the server rejected our request due to an error in our request"


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ({}, f"{UNMARSHAL} object into Go value of type []handlers.jsonPatchOp"),
        ("x", f"{UNMARSHAL} string into Go value of type []handlers.jsonPatchOp"),
        ([1], f"{UNMARSHAL} number into Go value of type handlers.jsonPatchOp"),
    ],
)
def test_a_body_that_is_no_patch_is_refused(operations: Any, message: str) -> None:
    with pytest.raises(PatchError) as refused:
        apply_json_patch({}, operations)
    assert (refused.value.status, refused.value.message) == (400, message)


def test_a_member_without_meaning_is_warned_about() -> None:
    operations = [{"op": "test", "path": "/a"}, {"op": "test", "path": "/a", "extra": 1}]
    assert check_operations(operations) == ['json patch unknown field "[1].extra"']


def test_more_than_ten_thousand_operations_are_too_many() -> None:
    with pytest.raises(PatchError) as refused:
        apply_json_patch({}, [{"op": "test", "path": "/a"}] * 10_001)
    assert refused.value.status == 413


PATHS = st.lists(st.sampled_from(["a", "b", "0", "1", "-", "-1", "x"]), max_size=3).map(
    lambda tokens: "".join("/" + token for token in tokens)
)
OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
            "path": PATHS,
            "from": PATHS,
            "value": JSON,
        }
    ),
    max_size=4,
)


@LAW
@given(OBJECT, OPERATIONS)
def test_inputs_are_never_changed_nor_shared_with_the_result(
    doc: dict[str, Any], operations: list[dict[str, Any]]
) -> None:
    before = copy.deepcopy((doc, operations))
    with contextlib.suppress(PatchError):
        _deface(apply_json_patch(doc, operations))
    assert (doc, operations) == before


def _deface(value: Any) -> None:
    """Change every container of a value in place."""
    if not isinstance(value, dict | list):
        return
    for inner in list(value.values() if isinstance(value, dict) else value):
        _deface(inner)
    if isinstance(value, dict):
        value["defaced"] = True
    else:
        value.append("defaced")
