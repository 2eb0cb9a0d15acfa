"""The recorded scenarios, without HTTP: bodies in, causes, warnings and cells out."""

from __future__ import annotations

import copy
import datetime
from typing import Any

import pytest

from envtest.patching.patches import apply_merge_patch
from envtest.schema import CompiledSchema, join_messages, read_json
from envtest.schema.tables import build_table_cells, build_table_columns
from tests.envtest.schema.answers import list_causes, read_transcript

_VALIDATION = read_transcript("validation")
_STATUS = read_transcript("status-subresource")
_DEFINITION = next(step for step in _VALIDATION if step["id"] == "setup-crd")["request"]["body"]
_VERSION = _DEFINITION["spec"]["versions"][0]


@pytest.fixture(scope="module")
def schema() -> CompiledSchema:
    """Return the schema of the version that the scenario uses."""
    return CompiledSchema.compile(_VERSION["schema"]["openAPIV3Schema"])


def _list_creations() -> list[dict[str, Any]]:
    return [
        step
        for step in _VALIDATION
        if step["request"]["method"] == "POST"
        and step["request"]["path"].endswith("/widgets")
        and isinstance(step["request"].get("body"), dict)
        and isinstance(step["response"].get("body"), dict)
        and step["response"]["status"] in {201, 422}
        and "dryRun=Nope" not in step["request"]["path"]
    ]


@pytest.mark.parametrize("step", _list_creations(), ids=lambda step: step["id"])
def test_a_creation_gets_the_recorded_answer(schema: CompiledSchema, step: dict[str, Any]) -> None:
    response = step["response"]
    obj = copy.deepcopy(step["request"]["body"])
    warnings = [f'299 - "unknown field \\"{path}\\""' for path in schema.prune(obj)]
    schema.set_defaults(obj)
    errors = schema.validate(obj)
    if response["status"] == 422:
        recorded = response["body"]["details"].get(
            "causes", [error.build_cause() for error in errors]
        )
        assert errors
        assert [error.build_cause() for error in errors] == recorded
    else:
        assert errors == []
        stored = obj.get("spec")
        assert stored == response["body"].get("spec", stored)
        assert warnings == response.get("warnings", [])


def test_the_message_of_several_errors_is_the_recorded_one(schema: CompiledSchema) -> None:
    step = next(step for step in _VALIDATION if step["id"] == "float-for-int")
    errors = schema.validate(step["request"]["body"])
    said = step["response"]["body"]["message"]
    assert said == f'Widget.lab.example.com "v" is invalid: {join_messages(errors)}'


def test_an_immutable_field_is_defended_and_others_may_change(schema: CompiledSchema) -> None:
    steps = {step["id"]: step for step in _VALIDATION}
    old = steps["immutable-create"]["response"]["body"]
    for name in ("immutable-change", "immutable-keep"):
        step = steps[name]
        errors = schema.validate(apply_merge_patch(old, step["request"]["body"]), old)
        recorded = step["response"]["body"].get("details", {}).get("causes", [])
        assert list_causes(errors) == recorded


@pytest.mark.parametrize("name", ["status-invalid", "status-enum"])
def test_a_status_patch_is_refused_as_recorded(schema: CompiledSchema, name: str) -> None:
    steps = {step["id"]: step for step in _STATUS}
    old = steps["status-metadata"]["response"]["body"]
    errors = schema.validate(apply_merge_patch(old, steps[name]["request"]["body"]), old)
    assert [error.build_cause() for error in errors] == steps[name]["response"]["body"]["details"][
        "causes"
    ]


def test_an_unknown_status_field_is_dropped_and_reported(schema: CompiledSchema) -> None:
    obj = {"metadata": {"name": "a"}, "status": {"mystery": 1}}
    assert schema.prune(obj) == ["status.mystery"]
    assert obj["status"] == {}


def test_a_field_that_stands_twice_is_reported_by_its_path() -> None:
    step = next(step for step in _VALIDATION if step["id"] == "duplicate-strict")
    _, reported = read_json(step["request"]["body"].encode())
    assert step["response"]["body"]["message"].endswith(f"strict decoding error: {reported[0]}")


def test_columns_and_cells_are_the_recorded_ones() -> None:
    columns = build_table_columns(_VERSION)
    now = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
    step = next(step for step in read_transcript("tables") if step["id"] == "table-full-object")
    table = step["response"]["body"]
    assert [column.build_definition() for column in columns] == table["columnDefinitions"]
    obj = table["rows"][0]["object"]
    obj["metadata"]["creationTimestamp"] = "2029-12-31T23:59:55Z"
    assert build_table_cells(columns, obj, now) == [*table["rows"][0]["cells"][:-1], "5s"]
