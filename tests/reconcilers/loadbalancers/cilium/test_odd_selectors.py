"""A tenant may serve another definition of the kind, and write into our pools what it likes."""

from typing import Any

import pytest

from reconcilers.loadbalancers.port import Proven
from tests.reconcilers.loadbalancers.cilium.site import FIRST, Site


@pytest.mark.parametrize(
    "selector",
    [
        {"matchExpressions": ["nonsense"]},
        {"matchExpressions": 7},
        {"matchExpressions": {"a": "b"}},
        {"matchExpressions": [None]},
        {"matchLabels": 7},
        {"matchLabels": ["x"]},
        {"other": {"a": []}},
        "nonsense",
        ["x"],
    ],
)
async def test_a_selector_that_is_none_does_not_keep_a_range(selector: Any) -> None:
    site = Site()
    await site.project(FIRST)
    site.edit({"spec": {"serviceSelector": selector}})
    answers = await site.ask_often()
    assert isinstance(answers[-1], Proven)


@pytest.mark.parametrize(
    "selector", [{"matchExpressions": ["nonsense"]}, {"matchLabels": ["x"]}, "x"]
)
async def test_a_selector_that_is_none_is_undone(selector: Any) -> None:
    site = Site()
    await site.project(FIRST)
    site.edit({"spec": {"serviceSelector": selector}})
    await site.project(FIRST)
    assert "serviceSelector" not in site.pool()["spec"]
