"""Properties of pruning, defaulting and validation that hold whatever the object is."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from envtest.schema import CompiledSchema

_SCHEMA = CompiledSchema.compile(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["a"],
                "properties": {
                    "a": {"type": "string", "maxLength": 3, "default": "x"},
                    "b": {"type": "integer", "minimum": 0, "maximum": 9, "format": "int32"},
                    "c": {
                        "type": "array",
                        "x-kubernetes-list-type": "set",
                        "items": {"type": "string"},
                    },
                    "d": {
                        "type": "object",
                        "default": {},
                        "properties": {"e": {"type": "boolean", "default": False}},
                    },
                    "f": {"type": "object", "additionalProperties": {"type": "integer"}},
                    "g": {"type": "string", "nullable": True, "format": "ipv4"},
                },
                "anyOf": [{"required": ["b"]}, {"properties": {"a": {"pattern": "^x"}}}],
            }
        },
    }
)
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 12)
    | st.sampled_from(["", "x", "abcd", "1.2.3.4"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("abcdefgz"), inner, max_size=5)
    ),
    max_leaves=12,
)
_OBJECTS = st.fixed_dictionaries({"spec": st.dictionaries(st.sampled_from("abcdefgz"), _VALUES)})


@given(_OBJECTS)
def test_pruning_twice_drops_nothing_more(obj: dict[str, Any]) -> None:
    _SCHEMA.prune(obj)
    once = copy.deepcopy(obj)
    assert _SCHEMA.prune(obj) == []
    assert obj == once


@given(_OBJECTS)
def test_defaulting_twice_changes_nothing_more(obj: dict[str, Any]) -> None:
    _SCHEMA.set_defaults(obj)
    once = copy.deepcopy(obj)
    _SCHEMA.set_defaults(obj)
    assert obj == once


@given(_OBJECTS)
def test_validation_leaves_the_object_alone(obj: dict[str, Any]) -> None:
    before = copy.deepcopy(obj)
    _SCHEMA.validate(obj)
    assert obj == before


@given(_OBJECTS)
def test_an_update_that_leaves_an_invalid_spec_unchanged_is_accepted(obj: dict[str, Any]) -> None:
    _SCHEMA.prune(obj)
    _SCHEMA.set_defaults(obj)
    errors = _SCHEMA.validate({**obj, "metadata": {"name": "new"}}, copy.deepcopy(obj))
    assert errors == []


@given(_OBJECTS)
def test_every_error_is_about_the_spec_or_about_the_whole_object(obj: dict[str, Any]) -> None:
    _SCHEMA.prune(obj)
    for error in _SCHEMA.validate(obj):
        # The server writes <nil> for the whole object.
        assert error.field == "<nil>" or error.field.startswith("spec")
        assert error.message == f"{error.field}: {error.build_cause()['message']}"


def test_defaults_are_not_shared_between_objects() -> None:
    first: dict[str, Any] = {"spec": {}}
    second: dict[str, Any] = {"spec": {}}
    _SCHEMA.set_defaults(first)
    _SCHEMA.set_defaults(second)
    first["spec"]["d"]["e"] = True
    assert second["spec"] == {"a": "x", "d": {"e": False}}


def test_a_default_inside_of_an_absent_object_is_not_set() -> None:
    obj: dict[str, Any] = {}
    _SCHEMA.set_defaults(obj)
    assert obj == {}
