"""A glance spares the full judgement of what is right, and never changes a verdict."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from envtest.schema import CompiledSchema
from envtest.schema.glance import ObjectGlance
from envtest.schema.listtypes import ListNode
from envtest.schema.values import ValueSchema
from tests.bench.envtest_objects import allocation, served, status
from tests.envtest.schema.answers import recorded
from tests.envtest.schema.vocabulary import SCHEMAS, VALUES, Schema, fitting, near

_CRDS = Path(__file__).parents[3] / "manifests" / "crds"
_ROOT = {name: {"type": "string"} for name in ("apiVersion", "kind")}
_JUDGES = {"_values", "_lists"}


class _Blind(ObjectGlance):
    """Never sure of anything, so that everything is judged."""

    @override
    def passes(self, *_: Any) -> bool:
        return False


def _whole(spec: Schema, status_part: Schema) -> Schema:
    parts = {**_ROOT, "metadata": {"type": "object"}, "spec": spec, "status": status_part}
    return {"type": "object", "properties": parts, "required": ["spec"]}


def _blind(schema: Schema) -> CompiledSchema:
    compiled = CompiledSchema.compile(schema)
    vars(compiled)["_glance"] = _Blind(schema)
    return compiled


def _judged(compiled: CompiledSchema) -> bool:
    """Whether anything had to be judged in full so far."""
    return bool(_JUDGES & vars(compiled).keys())


def _faults(schema: Schema, value: Any) -> list[str]:
    found: list[Any] = []
    ValueSchema(schema).check(value, "", found)
    lists = ListNode.compile(schema)
    if lists is not None:
        lists.check(value, "", found)
    return [error.message for error in found]


def _schema_of(path: Path) -> Schema:
    version = yaml.safe_load(path.read_text())["spec"]["versions"][0]
    schema: Schema = version["schema"]["openAPIV3Schema"]
    return schema


_TEXT = {"type": "string"}
_TIME = "2026-02-28T00:00:00Z"
_KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["a"],
    "items": {"type": "object", "properties": {"a": _TEXT, "b": _TEXT}},
}
_CASES: list[tuple[Schema, list[Any], list[Any]]] = [
    (_TEXT, ["", "a"], [1, None, ["a"]]),
    ({**_TEXT, "nullable": True}, [None, "a"], [1]),
    ({**_TEXT, "enum": ["a", "b"], "nullable": True}, ["a"], ["c", None, 1]),
    ({**_TEXT, "minLength": 1, "maxLength": 2}, ["a", "ab"], ["", "abc"]),
    ({**_TEXT, "maxLength": 3, "pattern": "^a+$"}, ["a", "aaa"], ["b", "aaaa"]),
    ({**_TEXT, "pattern": "^a+$", "format": "hostname"}, ["a"], ["b", "a" * 64]),
    ({**_TEXT, "format": "date-time"}, [_TIME], ["2026-02-30T00:00:00Z", "now", _TIME * 9]),
    ({"type": "boolean"}, [True, False], [0, "true", None]),
    ({"type": "boolean", "enum": [True]}, [True], [False]),
    ({"type": "integer"}, [0, -5], [True, "1", 1.5, None]),
    ({"type": "integer", "enum": [1, 2]}, [1, 2], [3, True]),
    ({"type": "integer", "format": "int32"}, [2**31 - 1], [2**31, -(2**31) - 1]),
    ({"type": "integer", "minimum": 1, "maximum": 3}, [1, 3], [0, 4]),
    ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, [2], [1]),
    ({"type": "integer", "multipleOf": 5}, [10], [11]),
    ({"type": "number", "maximum": 1.5}, [1, 1.5], [2, 1.6, True]),
    ({"x-kubernetes-int-or-string": True}, [1, "1"], [True, 1.5, []]),
    ({"x-kubernetes-int-or-string": True, "pattern": "%$"}, [1, "1%"], ["1"]),
    ({"type": "array", "items": _TEXT}, [[], ["a"]], [[1], [None], "a", {}]),
    ({"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 2}, [["a"]], [[], ["a"] * 3]),
    (
        {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
        [["a", "b"]],
        [["a", "a"]],
    ),
    (_KEYED, [[{"a": "1"}, {"a": "2", "b": "1"}]], [[{"a": "1"}, {"a": "1", "b": "2"}], [1]]),
    (
        {**_KEYED, "x-kubernetes-list-map-keys": ["a", "b"]},
        [[{"a": "1"}, {"a": "1", "b": "2"}]],
        [[{"a": "1", "b": "2"}, {"b": "2", "a": "1"}]],
    ),
    ({"type": "object", "properties": {"a": _TEXT}, "required": ["a"]}, [{"a": ""}], [{}, []]),
    ({"type": "object", "properties": {"a": {"type": "integer"}}}, [{}, {"a": 1}], [{"a": "1"}]),
    ({"type": "object", "additionalProperties": _TEXT}, [{"x": "a"}], [{"x": 1}, {"x": None}]),
    (
        {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": _TEXT},
        [{"x": ""}],
        [{}, {"x": "", "y": ""}],
    ),
    ({**_TEXT, "anyOf": [{"pattern": "^a"}, {"maxLength": 1}]}, ["ab", "b"], ["bb"]),
    ({**_TEXT, "not": {"pattern": "^a"}}, ["b"], ["a"]),
    ({"type": "integer", "oneOf": [{"minimum": 3}, {"maximum": 5}]}, [6, 2], [4]),
]


@pytest.mark.parametrize(("schema", "right", "wrong"), _CASES, ids=lambda part: repr(part)[:60])
def test_right_values_pass_and_wrong_ones_do_not(
    schema: Schema, right: list[Any], wrong: list[Any]
) -> None:
    glance = ObjectGlance({"type": "object", "properties": {"p": schema}})
    passed = [one for one in right + wrong if glance.passes({"p": one}, {}, frozenset())]
    assert passed == right
    assert [one for one in right + wrong if not _faults(schema, one)] == right


@given(SCHEMAS, st.data())
def test_what_passes_at_a_glance_has_no_fault(schema: Schema, data: st.DataObject) -> None:
    value = data.draw(near(schema))
    whole = {"type": "object", "properties": {"spec": schema}, "required": ["spec"]}
    if ObjectGlance(whole).passes({"spec": value}, {}, frozenset()):
        assert _faults(schema, value) == []


@given(SCHEMAS, SCHEMAS, st.data())
def test_the_verdict_on_an_update_is_the_same_without_glances(
    spec: Schema, status_part: Schema, data: st.DataObject
) -> None:
    schema = _whole(spec, status_part)
    before = {"kind": "A", "spec": data.draw(near(spec)), "status": data.draw(VALUES)}
    # As a merge patch leaves it: what is not changed is shared.
    after = {**before, "status": data.draw(near(status_part))}
    apart = copy.deepcopy(after)
    for new in (after, apart):
        seen: list[list[str]] = []
        for compiled in (CompiledSchema.compile(schema), _blind(schema)):
            warnings: list[str] = []
            errors = compiled.validate(new, before, warnings=warnings)
            seen.append([error.message for error in errors] + warnings)
        assert seen[0] == seen[1]


@functools.cache
def _installed(path: Path) -> tuple[Schema, st.SearchStrategy[dict[str, Any]]]:
    """The schema of a kind, and objects of which most are right."""
    schema = _schema_of(path)
    parts = {name: fitting(schema["properties"][name]) for name in ("spec", "status")}
    return schema, st.fixed_dictionaries({"metadata": st.just({"name": "a"}), **parts})


@pytest.mark.parametrize("path", sorted(_CRDS.glob("*.yaml")), ids=lambda path: path.stem)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_what_is_right_for_the_installed_kinds_is_seen_at_a_glance(
    path: Path, data: st.DataObject
) -> None:
    schema, objects = _installed(path)
    obj = data.draw(objects)
    if not _faults(schema, obj):
        assert ObjectGlance(schema).passes(obj, {}, frozenset())


def test_allocations_are_written_without_a_full_judgement() -> None:
    (path,) = _CRDS.glob("*_ipallocations.yaml")
    compiled = CompiledSchema.compile(_schema_of(path))
    assert compiled.validate(allocation("a")) == []
    assert compiled.validate(served(7)) == []
    before = {**allocation("a"), "status": status(0)}
    assert compiled.validate({**before, "status": status(1)}, before) == []
    assert not _judged(compiled)
    wrong = {**before, "status": {**status(1), "phase": "Lost"}}
    assert compiled.validate(wrong, before)[0].field == "status.phase"
    assert _judged(compiled)


# What leans on comparisons that only the full judgement knows.
_ODD = (
    {"req": "x", "i64": 2**63},
    {"req": "x", "e": 1.0},
    {"set": [1, 1.0], "o": {"a": 1}},
    {"en": {"a": 1}, "o": {"a": 1}},
)


@pytest.mark.parametrize("group", recorded("values.json"))
def test_what_the_server_took_is_taken_at_a_glance(group: dict[str, Any]) -> None:
    compiled = CompiledSchema.compile(group["schema"])
    unsure = []
    for case in group["cases"]:
        obj = copy.deepcopy(case["object"])
        if case["status"] == 201:
            compiled.prune(obj)
            compiled.default(obj)
            if not ObjectGlance(group["schema"]).passes(obj, {}, frozenset()):
                unsure.append(obj["spec"])
    assert [spec for spec in unsure if spec not in _ODD] == []
