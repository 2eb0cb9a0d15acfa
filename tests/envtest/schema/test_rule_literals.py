"""Rules that are refused where they are made: templates that do not fit, loops without a name."""

from __future__ import annotations

import re

import pytest

from envtest.schema import CompiledSchema
from envtest.schema.cel.compiling import compile_rule
from envtest.schema.cel.types import type_from_schema
from tests.envtest.schema.answers import recorded

_RECORDED = recorded("formatting.json")


@pytest.mark.parametrize(("rule", "refusal"), _RECORDED["rules"].items())
def test_a_rule_is_refused_in_the_words_of_the_real_server(rule: str, refusal: str) -> None:
    """Or accepted, where it accepts it."""
    schema = _RECORDED["schema"]
    kind = type_from_schema(schema, "selfType", root=False)
    assert kind is not None
    compiled = compile_rule({"rule": rule}, kind, schema)
    assert re.sub("^compilation failed: ", "", compiled.failure) == refusal


def test_a_key_of_a_map_is_looked_for_whatever_its_values_are() -> None:
    """`has` of a map's key asks whether it is there."""
    labels = {"type": "object", "additionalProperties": {"type": "string"}}
    rule = {"rule": "has(self.labels.app) && self.labels.app == 'x'"}
    spec = {"type": "object", "properties": {"labels": labels}, "x-kubernetes-validations": [rule]}
    schema = CompiledSchema.compile({"type": "object", "properties": {"spec": spec}})
    assert schema.validate({"spec": {"labels": {"app": "x"}}}) == []
    (error,) = schema.validate({"spec": {"labels": {"tier": "x"}}})
    assert error.detail.startswith("failed rule: has(self.labels.app)")


def test_optional_items_of_a_list_can_be_unwrapped() -> None:
    """Both ways of writing it."""
    rules = [
        {"rule": "optional.unwrap([self.?a, self.?b]) == [1]"},
        {"rule": "[self.?a, self.?b].unwrapOpt().size() == 1"},
    ]
    number = {"type": "integer"}
    spec = {
        "type": "object",
        "properties": {"a": number, "b": number},
        "x-kubernetes-validations": rules,
    }
    schema = CompiledSchema.compile({"type": "object", "properties": {"spec": spec}})
    assert schema.validate({"spec": {"a": 1}}) == []
    assert len(schema.validate({"spec": {"a": 1, "b": 2}})) == 2


def test_a_message_cannot_tell_of_the_old_value_where_no_rule_compares_with_it() -> None:
    """The rule's own words are told instead."""
    for rule, told in (("false", "failed rule: false"), ("self != oldSelf", "y to y")):
        entry = {"rule": rule, "messageExpression": "oldSelf + ' to ' + self"}
        text = {"type": "string", "x-kubernetes-validations": [entry]}
        schema = CompiledSchema.compile({"type": "object", "properties": {"a": text}})
        new, old = ({"a": "y"}, {"a": "z"}) if rule == "false" else ({"a": "y"}, {"a": "y"})
        assert [error.detail for error in schema.validate(new, old)] == [told]
