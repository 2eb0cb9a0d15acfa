"""What rules may cost: estimates where a CRD is judged, and the budget that an object has."""

from __future__ import annotations

from typing import Any

import pytest

from envtest.schema import CompiledSchema, default_crd, validate_crd
from envtest.schema.cel import syntax
from envtest.schema.cel.checker import CheckFailed, check
from envtest.schema.cel.costs import worst_cost
from envtest.schema.cel.loops import EXCEEDED
from envtest.schema.cel.metered import MeteredProgram
from envtest.schema.cel.types import type_from_schema
from tests.envtest.schema.answers import recorded

_ESTIMATES = recorded("costs.json")["estimates"]
_TEXT = {"type": "string"}


def _object(*rules: str, **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if rules:
        schema["x-kubernetes-validations"] = [{"rule": rule} for rule in rules]
    return schema


def _list(items: dict[str, Any], **limits: int) -> dict[str, Any]:
    return {"type": "array", "items": items, **limits}


def _crd(*schemas: dict[str, Any]) -> dict[str, Any]:
    versions = [
        {
            "name": f"v{number}",
            "served": True,
            "storage": number == 1,
            "schema": {"openAPIV3Schema": schema},
        }
        for number, schema in enumerate(schemas, start=1)
    ]
    crd = {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": versions,
        },
        "status": {"storedVersions": ["v1"]},
    }
    default_crd(crd)
    return crd


def _refusals(crd: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return [error.message for error in validate_crd(crd, old)]


@pytest.mark.parametrize(("rule", "cost"), _ESTIMATES["rules"].items())
def test_an_expression_is_estimated_as_the_real_server_does(rule: str, cost: int) -> None:
    """The number decides whether a CRD is accepted, so it has to be that very number."""
    root = type_from_schema(_ESTIMATES["schema"], "selfType", root=False)
    assert root is not None
    checked = check(syntax.parse(rule), rule, {"self": root, "oldSelf": root})
    assert worst_cost(checked, root) == cost


@pytest.mark.parametrize("rule", _ESTIMATES["refused"])
def test_an_expression_that_the_real_server_does_not_know_is_refused(rule: str) -> None:
    """Functions of other CEL environments are not among those that rules have."""
    root = type_from_schema(_ESTIMATES["schema"], "selfType", root=False)
    assert root is not None
    with pytest.raises(CheckFailed):
        check(syntax.parse(rule), rule, {"self": root, "oldSelf": root})


_ADVICE = (
    " (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, "
    "maps, and strings are declared)"
)
_SPEC = "spec.validation.openAPIV3Schema.properties[spec]"
_SHARE = (
    "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
)
_WHOLE = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"


def test_a_rule_over_lists_and_texts_without_limits_is_too_expensive() -> None:
    """By itself, for its share in the whole, and so is the whole."""
    spec = _object("self.l.all(x, x.contains(self.s))", l=_list(_TEXT), s=_TEXT)
    rule = f"{_SPEC}.x-kubernetes-validations[0].rule: Forbidden: "
    factor = "exceeds budget by factor of more than 100x"
    assert _refusals(_crd(_object(spec=spec))) == [
        f"{rule}estimated rule cost {factor}{_ADVICE}",
        f"{rule}{_SHARE}",
        f"spec.validation.openAPIV3Schema: Forbidden: {_WHOLE} {factor}{_ADVICE}",
    ]


def test_limits_in_the_schema_make_a_rule_affordable() -> None:
    """The same rule with the limits that the message advises."""
    text = {"type": "string", "maxLength": 50}
    spec = _object("self.l.all(x, x.contains(self.s))", l=_list(text, maxItems=50), s=text)
    assert _refusals(_crd(_object(spec=spec))) == []


def test_a_rule_is_counted_once_for_each_item_that_a_list_may_have() -> None:
    """1,000 items with a cheap rule are fine; without limit there may be a million."""
    item = _object("self.n.matches('^[a-z]+$')", n={"type": "string", "maxLength": 100})
    assert _refusals(_crd(_object(spec=_object(l=_list(item, maxItems=1000))))) == []
    where = f"{_SPEC}.properties[l].items.x-kubernetes-validations[0].rule"
    refusals = _refusals(_crd(_object(spec=_object(l=_list(item)))))
    assert refusals[0] == (
        f"{where}: Forbidden: estimated rule cost exceeds budget by factor of 8.8x{_ADVICE}"
    )


def test_the_expression_for_a_message_has_a_limit_of_its_own() -> None:
    """It is named as what it is."""
    spec = _object(l=_list(_TEXT), s=_TEXT)
    message = "self.l.map(x, x + self.s).join(',')"
    spec["x-kubernetes-validations"] = [{"rule": "true", "messageExpression": message}]
    first = _refusals(_crd(_object(spec=spec)))[0]
    assert first.startswith(
        f"{_SPEC}.x-kubernetes-validations[0].messageExpression: Forbidden: "
        "estimated messageExpression cost exceeds budget by factor of more than 100x"
    )


def test_a_schema_that_was_accepted_once_may_stay_as_it_is() -> None:
    """Rules in a version that does not change are not held to the limit for one rule again."""
    spec = _object(l=_list(_object("self.n.matches('^[a-z]+$')", n={**_TEXT, "maxLength": 100})))
    schema = _object(spec=spec)
    assert _refusals(_crd(schema), _crd(schema)) == []
    changed = {**schema, "description": "New words."}
    assert len(_refusals(_crd(changed), _crd(schema))) == 1


def test_rules_that_are_affordable_one_by_one_may_be_too_expensive_together() -> None:
    """The four most expensive ones are named."""
    rules = [f"self.all(x, x.contains('{'a' * 40}{number}'))" for number in range(30)]
    items = _list({"type": "string", "maxLength": 1000}, maxItems=2000)
    items["x-kubernetes-validations"] = [{"rule": rule} for rule in rules]
    refusals = _refusals(_crd(_object(spec=_object(l=items))))
    assert [_SHARE in refusal for refusal in refusals] == [True, True, True, True, False]
    assert f"{_WHOLE} exceeds budget by factor of 1." in refusals[-1]


_EVALUATIONS = recorded("costs.json")["evaluations"]


@pytest.mark.parametrize(("rule", "cost"), _EVALUATIONS["rules"].items())
def test_an_evaluation_costs_what_it_costs_in_the_real_server(rule: str, cost: int) -> None:
    """Whether an object's budget lasts hangs on these numbers."""
    root = type_from_schema(_EVALUATIONS["schema"], "selfType", root=False)
    assert root is not None
    checked = check(syntax.parse(rule), rule, {"self": root, "oldSelf": root})
    variables = {"self": _EVALUATIONS["value"]}
    assert MeteredProgram(checked).evaluate(variables, 10_000) == (True, cost)
    value, spent = MeteredProgram(checked).evaluate(variables, 0)
    assert (str(value) == EXCEEDED) is (cost > 0)
    assert spent <= max(cost, 0) + 400


_NESTED = "self.l.all(x, self.l.exists(y, x == y))"


def _numbers(*rules: str) -> CompiledSchema:
    items = _list({"type": "integer"}, maxItems=1000)
    return CompiledSchema.compile(_object(spec=_object(*rules, l=items)))


def test_a_rule_is_stopped_when_one_evaluation_costs_too_much() -> None:
    """No other rule is evaluated after it."""
    schema = _numbers(_NESTED, "self.l.size() < 3")
    obj = {"spec": {"l": list(range(1000))}}
    assert [error.message for error in schema.validate(obj)] == [
        (
            "spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': "
            "no further validation rules will be run due to call cost exceeds limit for rule: "
            f"{_NESTED}"
        )
    ]


def test_the_budget_of_an_object_is_for_all_its_rules() -> None:
    """Each of them is affordable; the last ones are not evaluated."""
    schema = _numbers(*[f"{_NESTED} || {number} == 0" for number in range(1, 20)])
    assert schema.validate({"spec": {"l": list(range(200))}}) == []
    refused = schema.validate({"spec": {"l": list(range(500))}})
    assert [error.message for error in refused] == [
        (
            'spec: Invalid value: "object": validation failed due to running out of cost budget, '
            "no further validation rules will be run"
        )
    ]


def test_an_expression_for_a_message_may_use_up_what_is_left() -> None:
    """What it was to say is lost; the budget's own words are told."""
    items = _list({"type": "integer"}, maxItems=1000)
    spec = _object(l=items)
    message = f"{_NESTED} ? 'yes' : 'no'"
    spec["x-kubernetes-validations"] = [{"rule": "false", "messageExpression": message}]
    schema = CompiledSchema.compile(_object(spec=spec))
    assert [error.message for error in schema.validate({"spec": {"l": [1]}})] == [
        "spec: Invalid value: yes"
    ]
    (error,) = schema.validate({"spec": {"l": list(range(1000))}})
    assert error.message == (
        'spec: Invalid value: "object": no further validation rules will be run due to call cost '
        f'exceeds limit for messageExpression: "{message}"'
    )


def test_an_alternative_for_a_missing_value_is_only_evaluated_when_it_is_needed() -> None:
    """An error in it is none while there is a value."""
    spec = _object("self.?l.orValue([self.l[7]]).size() == 1", l=_list({"type": "integer"}))
    schema = CompiledSchema.compile(_object(spec=spec))
    assert schema.validate({"spec": {"l": [1]}}) == []
    assert len(schema.validate({"spec": {}})) == 1
