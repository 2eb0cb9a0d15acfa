"""Updates: unchanged parts are forgiven, changed ones are not."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from envtest.schema import CompiledSchema

_ITEM = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "size": {"type": "integer", "minimum": 1}},
}
_SCHEMA = CompiledSchema.compile(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "mode": {"type": "string", "enum": ["a", "b"]},
                    "note": {"type": "string"},
                    "disks": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": _ITEM,
                    },
                    "loose": {"type": "array", "items": _ITEM},
                    "tags": {
                        "type": "array",
                        "x-kubernetes-list-type": "set",
                        "items": {"type": "string"},
                    },
                    "branch": {
                        "type": "object",
                        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
                        "allOf": [{"properties": {"x": {"minimum": 5}}}],
                    },
                    "free": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                        "properties": {"n": {"type": "integer"}},
                    },
                    "even": {
                        "type": "integer",
                        "x-kubernetes-validations": [{"rule": "self % 2 == 0"}],
                    },
                },
            }
        },
    }
)


def _list_refused_fields(new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    """Return the refused fields; the error that rules were skipped is left out."""
    errors = _SCHEMA.validate({"spec": new}, {"spec": old})
    skipped = "some validation rules were not checked"
    return [error.field for error in errors if not error.detail.startswith(skipped)]


def test_a_value_that_was_wrong_may_stay_wrong() -> None:
    assert _list_refused_fields({"mode": "z", "note": "new"}, {"mode": "z", "note": "old"}) == []


def test_a_wrong_value_may_not_become_another_wrong_value() -> None:
    assert _list_refused_fields({"mode": "y"}, {"mode": "z"}) == ["spec.mode"]


def test_one_is_not_true_when_values_are_compared() -> None:
    assert set(_list_refused_fields({"mode": True}, {"mode": 1})) == {"spec.mode"}


def test_items_of_a_map_list_are_recognized_by_their_keys() -> None:
    old = [{"name": "a", "size": 0}, {"name": "b", "size": 2}]
    moved = [{"name": "b", "size": 3}, {"name": "a", "size": 0}]
    assert _list_refused_fields({"disks": moved}, {"disks": old}) == []
    renamed = [{"name": "c", "size": 0}]
    assert _list_refused_fields({"disks": renamed}, {"disks": old}) == ["spec.disks[0].size"]


def test_a_plain_list_is_forgiven_as_a_whole_only() -> None:
    old = [{"name": "a", "size": 0}]
    assert _list_refused_fields({"loose": old, "note": "x"}, {"loose": old}) == []
    longer = [*old, {"name": "b", "size": 1}]
    assert _list_refused_fields({"loose": longer}, {"loose": old}) == ["spec.loose[0].size"]


def test_duplicates_may_stay_where_there_were_some() -> None:
    assert _list_refused_fields({"tags": ["a", "a", "b"]}, {"tags": ["a", "a"]}) == []
    assert _list_refused_fields({"tags": ["a", "a"]}, {"tags": ["a"]}) == ["spec.tags[1]"]


def test_errors_inside_alternatives_are_forgiven_with_the_whole_node_only() -> None:
    assert _list_refused_fields({"branch": {"x": 1}, "note": "n"}, {"branch": {"x": 1}}) == []
    fields = _list_refused_fields({"branch": {"x": 1, "y": 2}}, {"branch": {"x": 1}})
    assert fields == ["spec.branch.x", "<nil>"]


def test_what_the_schema_does_not_describe_counts_as_changed() -> None:
    same = {"n": "wrong", "unknown": 1}
    assert _list_refused_fields({"free": same, "note": "n"}, {"free": same}) == []
    outer = CompiledSchema.compile(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "required": ["must"],
                    "x-kubernetes-preserve-unknown-fields": True,
                }
            },
        }
    )
    stored = {"spec": {"unknown": 1}}
    assert [error.field for error in outer.validate(stored, stored)] == ["spec.must"]


def test_a_rule_that_an_unchanged_value_breaks_gives_a_warning() -> None:
    warnings: list[str] = []
    new, old = {"spec": {"even": 3, "note": "n"}}, {"spec": {"even": 3}}
    assert _SCHEMA.validate(new, old, warnings=warnings) == []
    assert warnings == ["spec.even: Invalid value: 3: failed rule: self % 2 == 0"]


@pytest.mark.parametrize("first", [True, False])
def test_errors_found_before_come_first_and_decide_with_the_others(first: bool) -> None:
    earlier = [error for error in _SCHEMA.validate({"spec": {"mode": "z"}}) if first][:1]
    errors = _SCHEMA.validate({"spec": {"even": 3}}, first=earlier)
    expected = ["spec.mode", "<nil>"] if first else ["spec.even"]
    assert [error.field for error in errors] == expected


@pytest.mark.parametrize(
    "spec",
    [
        {"mode": "a", "disks": [{"name": "x", "size": 1}]},
        {"mode": "c", "note": 5, "loose": [{"size": 0}]},
        {"disks": [{"name": "x"}, {"name": "x"}]},
        {"disks": [{"size": 0}]},
        {"tags": ["a", "a"]},
        {"branch": {"x": 1}},
        None,
    ],
)
def test_a_pruned_part_that_both_objects_share_is_judged_as_an_equal_one(spec: Any) -> None:
    shared = _SCHEMA.validate({"spec": spec, "status": 1}, {"spec": spec})
    equal = _SCHEMA.validate({"spec": spec, "status": 1}, {"spec": copy.deepcopy(spec)})
    assert [error.message for error in shared] == [error.message for error in equal]


def test_rules_of_a_part_that_patches_leave_alone_are_not_forgotten() -> None:
    rules = [
        {"rule": "self.size == oldSelf.size", "message": "size is fixed"},
        {"rule": "self.size < 5", "message": "size is too large"},
    ]
    spec = {
        "type": "object",
        "properties": {"size": {"type": "integer"}},
        "x-kubernetes-validations": rules,
    }
    schema = CompiledSchema.compile({"type": "object", "properties": {"spec": spec}})

    def report_problems(new: dict[str, Any], old: dict[str, Any]) -> tuple[list[str], list[str]]:
        warnings: list[str] = []
        problems = schema.validate({"spec": new}, {"spec": old}, warnings=warnings)
        return [error.detail for error in problems], warnings

    small, large = {"size": 1}, {"size": 9}
    for _ in range(2):
        assert report_problems(small, small) == ([], [])
        assert report_problems({"size": 2}, small) == (["size is fixed"], [])
        # A field that was invalid before may stay, but each update warns about it.
        assert report_problems(large, large)[0] == []
        assert len(report_problems(large, large)[1]) == 1
