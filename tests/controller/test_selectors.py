"""Label selectors in object form, written as texts."""

from typing import Any

import pytest

from controller import write_selector
from controller.selectors import parse_label_selector

EXPRESSIONS: list[dict[str, Any]] = [
    {"key": "tier", "operator": "In", "values": ["a", "b"]},
    {"key": "zone", "operator": "NotIn", "values": ["x"]},
    {"key": "app", "operator": "Exists"},
    {"key": "old", "operator": "DoesNotExist"},
]


def test_the_text_of_a_selector_selects_what_its_object_form_says() -> None:
    selector = write_selector({"matchLabels": {"app": "web"}, "matchExpressions": EXPRESSIONS})
    assert selector == "app=web,tier in (a,b),zone notin (x),app,!old"
    matches = parse_label_selector(selector)
    assert matches({"app": "web", "tier": "b"})
    assert not matches({"app": "web", "tier": "b", "zone": "x"})
    assert not matches({"app": "web", "tier": "b", "old": ""})
    assert write_selector({}) == ""


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "tier", "operator": "In"},
        {"key": "tier", "operator": "Exists", "values": ["a"]},
        {"key": "tier", "operator": "Gt", "values": ["1"]},
    ],
)
def test_invalid_match_expressions_are_refused(expression: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="matchExpressions: tier"):
        write_selector({"matchExpressions": [expression]})
