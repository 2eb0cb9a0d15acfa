"""Which fields of an object are in its conversion: by who names them, and what a function did."""

from typing import Any

import pytest

from controller.webhooks.carrying import UnfitResult, carry_over

Json = dict[str, Any]


def carry_spec(source: Json, known: Json, result: Json) -> Json:
    """Return the spec that `carry_over` makes of the specs of three objects with one metadata."""
    meta = {"metadata": {"name": "a"}}
    whole = carry_over(*({**meta, "spec": spec_of} for spec_of in (source, known, result)))
    assert whole["metadata"] == {"name": "a"}
    spec: Json = whole["spec"]
    return spec


@pytest.mark.parametrize(
    ("source", "known", "result", "after"),
    [
        # Named by neither type, at any depth.
        ({"x": 1}, {}, {}, {"x": 1}),
        ({"a": {"x": 1, "b": 1}}, {"a": {"b": 1}}, {"a": {"b": 2}}, {"a": {"x": 1, "b": 2}}),
        ({"x": None}, {}, {}, {"x": None}),
        # Named by the result's type alone.
        ({}, {}, {"b": 1}, {"b": 1}),
        ({"b": 1}, {}, {"b": 1}, {"b": 1}),
        ({"b": None}, {}, {"b": 1}, {"b": 1}),
        ({"b": 1}, {}, {"b": None}, {"b": 1}),
        # Named by the source's type alone.
        ({"a": 1}, {"a": 1}, {}, {}),
        # Named by both: as the function says, or as it was.
        ({"a": 1}, {"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1}, {"a": 1}, {"a": None}, {}),
        ({"a": 1}, {"a": 1}, {"a": True}, {"a": True}),
        ({"a": None}, {"a": None}, {"a": None}, {"a": None}),
        ({"t": "1.50s"}, {"t": "1.5s"}, {"t": "1.5s"}, {"t": "1.50s"}),
        ({"l": [{"x": 1}]}, {"l": [{}]}, {"l": [{}]}, {"l": [{"x": 1}]}),
        # Defaults of types stay absent.
        ({}, {"a": ""}, {"a": ""}, {}),
        ({}, {"a": {"b": 0}}, {"a": {"b": 0, "c": None}}, {}),
        ({}, {"a": {"b": 0}}, {"a": {"b": 0, "c": 1}}, {"a": {"c": 1}}),
        # What a function returned has no nulls.
        ({}, {}, {"b": {"c": None, "d": [{"e": None}]}}, {"b": {"d": [{}]}}),
    ],
)
def test_a_field_is_carried_by_who_names_it(
    source: Json, known: Json, result: Json, after: Json
) -> None:
    assert carry_spec(source, known, result) == after


@pytest.mark.parametrize(
    ("source", "known", "result", "where"),
    [
        ({"b": 1}, {}, {"b": 2}, "spec.b: the function returned another value"),
        ({"a": {"x": 1}}, {"a": {}}, {}, "spec.a.x: the type of this version does not name"),
        ({"a": {"x": 1}}, {"a": {}}, {"a": "flat"}, "spec.a.x: the type of this version"),
        ({"l": [1, {"x": 1}]}, {"l": [1, {}]}, {"l": [2, {}]}, "spec.l[1].x: the type of this"),
    ],
)
def test_a_field_without_a_place_is_an_error_that_names_it(
    source: Json, known: Json, result: Json, where: str
) -> None:
    with pytest.raises(UnfitResult) as raised:
        carry_spec(source, known, result)
    assert str(raised.value).startswith(where)


def test_metadata_that_a_type_does_not_name_is_kept() -> None:
    meta = {"metadata": {"name": "a"}}
    assert carry_over(meta, {}, {"metadata": {"name": ""}}) == meta
    assert carry_over(meta, {"metadata": {"name": "a", "labels": {}}}, {}) == meta
