"""Laws of field sets and of applying, on random sets and objects."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.managedfields import ApplyConflict, FieldModel, apply, are_equal_except_times
from controller.managedfields import fieldset as fs
from controller.managedfields.compare import compare_objects, list_claims
from controller.managedfields.fieldset import Fields
from tests.envtest.patching.values import LAW

Path = tuple[str, ...]
ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"id":1}', 'k:{"id":10}', 'v:"x"'])
PATHS = st.frozensets(st.lists(ELEMENTS, min_size=1, max_size=3).map(tuple), max_size=6)


def _set(paths: frozenset[Path]) -> Fields:
    """Return the field set of some paths, built one path at a time."""
    out: Fields = {}
    for path in paths:
        single: Fields = {}
        for element in reversed(path):
            single = {element: single}
        out = fs.union(out, single)
    return out


def _list_paths(fields: Fields) -> frozenset[Path]:
    return frozenset(fs.list_paths(fields))


@LAW
@given(PATHS)
def test_a_set_holds_the_paths_that_were_put_in(paths: frozenset[Path]) -> None:
    fields = _set(paths)
    assert _list_paths(fields) == paths
    assert fs.read_fields(fields) == fields
    assert fs.order_elements(fields) == fields
    assert all(fs.contains_path(fields, path) for path in paths)


@LAW
@given(PATHS, PATHS)
@pytest.mark.parametrize(
    ("operation", "of_paths"),
    [
        (fs.union, frozenset.union),
        (fs.difference, frozenset.difference),
        (fs.intersection, frozenset.intersection),
    ],
)
def test_operations_on_field_sets_are_those_on_sets_of_paths(
    operation: Callable[[Fields, Fields], Fields],
    of_paths: Callable[[frozenset[Path], frozenset[Path]], frozenset[Path]],
    paths: frozenset[Path],
    right: frozenset[Path],
) -> None:
    first_set, other = _set(paths), _set(right)
    before = copy.deepcopy((first_set, other))
    result = operation(first_set, other)
    assert _list_paths(result) == of_paths(paths, right)
    assert result == _set(of_paths(paths, right))
    assert (first_set, other) == before


@LAW
@given(PATHS, PATHS)
def test_a_set_covers_another_if_their_difference_is_empty(
    paths: frozenset[Path], right: frozenset[Path]
) -> None:
    first_set, other = _set(paths), _set(right)
    assert fs.covers(first_set, other) == (right <= paths)
    if not paths & right:
        assert fs.difference(first_set, other) is first_set


@LAW
@given(PATHS, PATHS)
def test_taking_trees_away_takes_all_paths_below_them(
    paths: frozenset[Path], right: frozenset[Path]
) -> None:
    def is_below(path: Path) -> bool:
        return any(path[: len(root)] == root for root in right)

    kept = frozenset(path for path in paths if not is_below(path))
    assert fs.subtract_trees(_set(paths), _set(right)) == _set(kept)


TEXT = {"type": "string"}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "text": TEXT,
                "free": {"type": "object", "additionalProperties": TEXT},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                "items": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["id"],
                    "items": {
                        "type": "object",
                        "properties": {"id": {"type": "integer"}, "value": TEXT},
                    },
                },
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        }
    },
}
MODEL = FieldModel.from_schema(SCHEMA)
WORDS = st.sampled_from(["1", "2"])
ITEMS = st.lists(
    st.fixed_dictionaries({"id": st.sampled_from([1, 2, 10])}, optional={"value": WORDS}),
    max_size=3,
    unique_by=lambda item: int(str(item["id"])),
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "text": WORDS,
        "free": st.dictionaries(st.sampled_from("ab"), WORDS, max_size=2),
        "tags": st.lists(WORDS, unique=True, max_size=2),
        "items": ITEMS,
        "any": st.dictionaries(st.sampled_from("ab"), WORDS | st.lists(WORDS), max_size=2),
    },
)
NOW = "2026-01-01T00:00:00Z"


def _build_body(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec}


def _apply(
    live: dict[str, Any] | None, spec: dict[str, Any], manager: str, *, force: bool = True
) -> dict[str, Any]:
    return apply(live, _build_body(spec), manager=manager, force=force, fields=MODEL, now=NOW)


def _get_fields(obj: dict[str, Any], manager: str) -> Fields:
    for entry in obj["metadata"].get("managedFields", ()):
        if entry["manager"] == manager:
            fields: Fields = entry["fieldsV1"]
            return fields
    return {}


@LAW
@given(SPECS, SPECS)
def test_applying_the_same_twice_changes_nothing_the_second_time(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    once = _apply(_apply(None, first, "a"), second, "b")
    assert are_equal_except_times(once, _apply(once, second, "b", force=False))


@LAW
@given(SPECS, SPECS)
def test_a_forced_applier_gets_its_values_and_owns_them(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    merged = _apply(_apply(None, first, "a"), second, "b")
    claims = list_claims(MODEL.root, {"spec": second})
    assert _get_fields(merged, "b") == fs.order_elements(claims)
    change = compare_objects(MODEL.root, merged, {**merged, "spec": second})
    assert not fs.intersection(claims, fs.union(change.modified, change.removed))


@LAW
@given(SPECS, SPECS)
def test_what_two_appliers_own_both_is_the_same_for_both(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    merged = _apply(_apply(None, first, "a"), second, "b")
    both = fs.intersection(_get_fields(merged, "a"), _get_fields(merged, "b"))
    change = compare_objects(MODEL.root, _build_body(first), _build_body(second))
    assert not fs.intersection(both, change.modified)


@LAW
@given(SPECS, SPECS)
def test_a_conflict_names_exactly_the_fields_that_force_would_take(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    created = _apply(None, first, "a")
    forced = _apply(created, second, "b")
    difference = fs.difference(_get_fields(created, "a"), _get_fields(forced, "a"))
    if not difference:
        assert are_equal_except_times(forced, _apply(created, second, "b", force=False))
        return
    with pytest.raises(ApplyConflict) as refused:
        _apply(created, second, "b", force=False)
    fields = [cause.field for cause in refused.value.causes]
    assert fields == [fs.format_path(path) for path in fs.list_paths(difference)]


@LAW
@given(SPECS, SPECS)
def test_applying_nothing_keeps_the_fields_of_other_managers(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    # (An empty spec that is owned for its own sake goes together with its last field, on the
    # real server as well; so the first applier always has a field in it.)
    merged = _apply(_apply(None, {"text": "0"} | first, "a"), second, "b")
    remaining = _apply(merged, {}, "b")
    kept = _get_fields(remaining, "a")
    assert kept == _get_fields(merged, "a")
    change = compare_objects(MODEL.root, merged, remaining)
    assert not fs.intersection(kept, fs.union(change.modified, change.removed))


@LAW
@given(SPECS, SPECS)
def test_inputs_of_an_apply_are_never_changed(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    live, body = _apply(None, first, "a"), _build_body(second)
    before = copy.deepcopy((live, body))
    apply(live, body, manager="b", force=True, fields=MODEL, now=NOW)
    assert (live, body) == before
