"""Rules as the API server compiled and evaluated them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from envtest.schema import CompiledSchema
from envtest.schema.cel.compiling import compile_rule
from envtest.schema.cel.types import type_from_schema
from tests.envtest.schema.answers import answer, recorded

_RULES = recorded("rules.json")
_MESSAGES = recorded("rule-messages.json")


@pytest.fixture(scope="module")
def compiled() -> CompiledSchema:
    return CompiledSchema.compile(_RULES["schema"])


def _id(value: Any) -> str:
    return json.dumps(value.get("object", {}).get("spec", value))[:60]


@pytest.mark.parametrize("case", _RULES["cases"], ids=_id)
def test_rules_give_the_recorded_answer(compiled: CompiledSchema, case: dict[str, Any]) -> None:
    wanted = {name: value for name, value in case.items() if name != "object"}
    assert answer(compiled, case["object"]) == wanted


@pytest.mark.parametrize("case", _RULES["updates"], ids=_id)
def test_updates_give_the_recorded_answer(compiled: CompiledSchema, case: dict[str, Any]) -> None:
    head = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}
    found = answer(compiled, {**head, "spec": case["after"]}, {**head, "spec": case["before"]})
    by_text = sorted(case["causes"], key=lambda cause: json.dumps(cause, sort_keys=True))
    assert found.get("causes", []) == by_text


@pytest.mark.parametrize("rule", _MESSAGES["messages"])
def test_a_rule_compiles_or_fails_as_recorded(rule: str) -> None:
    kind = type_from_schema(_MESSAGES["schema"], "selfType", root=False)
    assert kind is not None
    failure = compile_rule({"rule": rule}, kind, _MESSAGES["schema"]).failure
    assert re.sub(r"selfType\d+", "selfType", failure) == _MESSAGES["messages"][rule]


_EVALUATIONS = recorded("evaluations.json")


@pytest.mark.parametrize("rule", _EVALUATIONS["results"])
def test_an_expression_has_the_recorded_result(rule: str) -> None:
    node = {**_EVALUATIONS["schema"], "x-kubernetes-validations": [{"rule": rule}]}
    schema = CompiledSchema.compile({"type": "object", "properties": {"p": node}})
    errors = schema.validate({"p": _EVALUATIONS["object"]})
    said = [error.body.removesuffix(rule) for error in errors]
    wanted = _EVALUATIONS["results"][rule]
    assert said == ([wanted] if wanted else [])
