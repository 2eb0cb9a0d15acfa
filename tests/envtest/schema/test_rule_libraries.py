"""Functions of every library that rules have, evaluated over one object, with recorded answers."""

from __future__ import annotations

import copy
import re

import pytest

from envtest.schema import CompiledSchema
from tests.envtest.schema.answers import recorded

_RECORDED = recorded("libraries.json")


@pytest.mark.parametrize(("rule", "refusals"), _RECORDED["rules"].items())
def test_a_rule_gives_the_recorded_answer(rule: str, refusals: list[str]) -> None:
    """Accepted, or refused in the same words."""
    spec = {**_RECORDED["schema"], "x-kubernetes-validations": [{"rule": rule}]}
    schema = CompiledSchema.compile({"type": "object", "properties": {"spec": spec}})
    obj = {"spec": copy.deepcopy(_RECORDED["value"])}
    schema.default(obj)
    found = [re.sub(r"selfType\d+", "selfType", one.message) for one in schema.validate(obj)]
    assert found == refusals
