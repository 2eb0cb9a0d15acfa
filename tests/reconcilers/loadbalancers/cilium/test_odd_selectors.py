"""Selectors in our pools that no API server of Cilium accepts, but another definition does."""

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
async def test_a_selector_that_cannot_be_parsed_does_not_block_a_release(selector: Any) -> None:
    site = Site()
    await site.project(FIRST)
    site.edit({"spec": {"serviceSelector": selector}})
    answers = await site.ask_six_times()
    assert isinstance(answers[-1], Proven)


@pytest.mark.parametrize(
    "selector", [{"matchExpressions": ["nonsense"]}, {"matchLabels": ["x"]}, "x"]
)
async def test_a_selector_that_cannot_be_parsed_is_removed(selector: Any) -> None:
    site = Site()
    await site.project(FIRST)
    site.edit({"spec": {"serviceSelector": selector}})
    await site.project(FIRST)
    assert "serviceSelector" not in site.pool()["spec"]
