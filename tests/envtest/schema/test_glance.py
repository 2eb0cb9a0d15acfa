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
