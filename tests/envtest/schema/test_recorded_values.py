"""Objects against schemas: defaults, pruning and refusals as the API server answered them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envtest.schema import CompiledSchema, validate_crd
from tests.envtest.schema.answers import answer, read_recorded

_GROUPS = read_recorded("values.json")
_CASES = [(group, case) for group, entry in enumerate(_GROUPS) for case in entry["cases"]]


@pytest.fixture(scope="module")
def compiled_schemas() -> list[CompiledSchema]:
    """Return the schema of each recorded group of cases."""
    return [CompiledSchema.compile(entry["schema"]) for entry in _GROUPS]


def _list_expected(case: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in case.items() if name != "object"}


def _name_case(value: Any) -> str | None:
    return json.dumps(value["object"])[:60] if isinstance(value, dict) else None


@pytest.mark.parametrize(("group", "case"), _CASES, ids=_name_case)
def test_an_object_gets_the_recorded_answer(
    compiled_schemas: list[CompiledSchema], group: int, case: dict[str, Any]
) -> None:
    assert answer(compiled_schemas[group], case["object"]) == _list_expected(case)


@pytest.mark.parametrize("group", range(len(_GROUPS)))
def test_the_schemas_are_accepted_in_a_definition(group: int) -> None:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _GROUPS[group]["schema"]},
    }
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    crd = {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
        "status": {"storedVersions": ["v1"]},
    }
    assert validate_crd(crd) == []
