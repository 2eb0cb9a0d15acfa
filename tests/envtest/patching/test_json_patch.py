"""JSON patch: RFC 6902, and where the real server reads it in its own way."""

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest.patching import PatchError, check_operations, json_patch
from tests.envtest.patching.values import JSON, LAW, OBJECT

UNMARSHAL = "error decoding patch: json: cannot unmarshal"


@pytest.mark.parametrize(
    ("doc", "operations", "patched"),
    [
        ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
        ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ({"a": 1}, [{"op": "replace", "path": "/a", "value": 2}], {"a": 2}),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
        (
            {"a": {"x": 1}},
            [{"op": "copy", "from": "/a", "path": "/b"}],
            {"a": {"x": 1}, "b": {"x": 1}},
        ),
        ({"a/b": 1, "~": 2}, [{"op": "remove", "path": "/a~1b"}], {"~": 2}),
        ({"~1": 1}, [{"op": "replace", "path": "/~01", "value": 2}], {"~1": 2}),
        ({"a": 1}, [{"op": "test", "path": "/a", "value": 1}], {"a": 1}),
        ({"a": 1}, None, {"a": 1}),
    ],
)
def test_operations_do_what_rfc_6902_says(doc: Any, operations: Any, patched: Any) -> None:
    assert json_patch(doc, operations) == patched


@pytest.mark.parametrize(
    ("doc", "operations", "patched"),
    [
        ({}, [{"op": "replace", "path": "/b", "value": 1}], {"b": 1}),
        ({"a": [1, 2]}, [{"op": "remove", "path": "/a/-1"}], {"a": [1]}),
        ({"a": [1, 2]}, [{"op": "add", "path": "/a/-1", "value": 3}], {"a": [1, 2, 3]}),
        ({}, [{"op": "test", "path": "/a", "value": None}], {}),
        ({}, [{"op": "test", "path": "/a"}], {}),
        ({}, [{"op": "add", "path": "/a"}], {"a": None}),
        ({"a": 2.0}, [{"op": "test", "path": "/a", "value": 2}], {"a": 2.0}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 1}}], {"b": 1}),
    ],
)
def test_the_server_is_more_lenient_than_the_rfc(doc: Any, operations: Any, patched: Any) -> None:
    assert json_patch(doc, operations) == patched


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/nope"},
        {"op": "add", "path": "/nope/x", "value": 1},
        {"op": "add", "path": "/a/3", "value": 1},
        {"op": "add", "path": "/a/x", "value": 1},
        {"op": "add", "path": "", "value": {}},
        {"op": "replace", "path": "", "value": 5},
        {"op": "replace", "path": ""},
        {"op": "replace", "path": "/a/2", "value": 1},
        {"op": "move", "from": "/nope", "path": "/b"},
        {"op": "copy", "path": "/b"},
        {"op": "test", "path": "/a", "value": [2, 1]},
        {"op": "test", "path": "/t", "value": 1},
        {"op": "test", "path": "/whole", "value": 2.0},
        {"op": "test", "path": "/whole", "value": "2"},
        {"op": "test", "path": "/html", "value": "<b>"},
        {"op": "remove"},
        {"op": "zap", "path": "/a"},
        {},
        None,
    ],
)
def test_whatever_fails_the_answer_is_the_same(operation: Any) -> None:
    with pytest.raises(PatchError) as refused:
        json_patch({"a": [1, 2], "t": True, "html": "<b>", "whole": 2.0}, [operation])
    error = refused.value
    assert (error.status, error.reason, error.details) == (422, "Invalid", {})
    assert error.message == "the server rejected our request due to an error in our request"


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ({}, f"{UNMARSHAL} object into Go value of type []handlers.jsonPatchOp"),
        ("x", f"{UNMARSHAL} string into Go value of type []handlers.jsonPatchOp"),
        ([1], f"{UNMARSHAL} number into Go value of type handlers.jsonPatchOp"),
        (
            [{"op": "add", "path": 5}],
            f"{UNMARSHAL} number into Go struct field jsonPatchOp.path of type string",
        ),
    ],
)
def test_a_body_that_is_no_patch_is_refused_in_the_servers_words(
    operations: Any, message: str
) -> None:
    with pytest.raises(PatchError) as refused:
        json_patch({}, operations)
    assert (refused.value.status, refused.value.message) == (400, message)


def test_a_member_without_meaning_is_warned_about() -> None:
    operations = [{"op": "test", "path": "/a"}, {"op": "test", "path": "/a", "extra": 1}]
    assert check_operations(operations) == ['json patch unknown field "[1].extra"']


def test_more_than_ten_thousand_operations_are_too_many() -> None:
    with pytest.raises(PatchError) as refused:
        json_patch({}, [{"op": "test", "path": "/a"}] * 10_001)
    assert refused.value.status == 413
    assert refused.value.message == (
        "Request entity too large: "
        "The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


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
        _deface(json_patch(doc, operations))
    assert (doc, operations) == before


def _deface(value: Any) -> None:
    """Change every container of a value in place."""
    for inner in value.values() if isinstance(value, dict) else list(value):
        if isinstance(inner, dict | list):
            _deface(inner)
    if isinstance(value, dict):
        value["defaced"] = True
    else:
        value.append("defaced")


@LAW
@given(OBJECT, JSON)
def test_what_was_added_passes_a_test(doc: dict[str, Any], value: Any) -> None:
    operations = [
        {"op": "add", "path": "/new", "value": value},
        {"op": "test", "path": "/new", "value": value},
        {"op": "remove", "path": "/new"},
    ]
    assert json_patch(doc, operations) == {k: v for k, v in doc.items() if k != "new"}
