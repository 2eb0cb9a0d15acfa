"""Rules as the API server evaluated them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envtest.schema import CompiledSchema
from tests.envtest.schema.answers import answer, read_recorded

_RULES = read_recorded("rules.json")


@pytest.fixture(scope="module")
def compiled_schema() -> CompiledSchema:
    """Return the schema to which the recorded cases belong."""
    return CompiledSchema.compile(_RULES["schema"])


def _name_case(value: Any) -> str:
    return json.dumps(value.get("object", {}).get("spec", value))[:60]


@pytest.mark.parametrize("case", _RULES["cases"], ids=_name_case)
def test_rules_give_the_recorded_answer(
    compiled_schema: CompiledSchema, case: dict[str, Any]
) -> None:
    expected = {name: value for name, value in case.items() if name != "object"}
    assert answer(compiled_schema, case["object"]) == expected


@pytest.mark.parametrize("case", _RULES["updates"], ids=_name_case)
def test_updates_give_the_recorded_answer(
    compiled_schema: CompiledSchema, case: dict[str, Any]
) -> None:
    head = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}
    errors = answer(
        compiled_schema, {**head, "spec": case["after"]}, {**head, "spec": case["before"]}
    )
    by_text = sorted(case["causes"], key=lambda cause: json.dumps(cause, sort_keys=True))
    assert errors.get("causes", []) == by_text
