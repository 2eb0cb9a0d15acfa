"""What each panel of the dashboard tells an operator, and that alerts lead to it."""

import json
import re
from typing import Any

import pytest

from tests.manifests.clusters import MANIFESTS
from tests.yamls import read_yaml

BOARD = json.loads((MANIFESTS / "prometheus/dashboard.json").read_text())
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
RULES = [
    rule
    for group in read_yaml((MANIFESTS / "prometheus/alerts.yaml").read_text())["spec"]["groups"]
    for rule in group["rules"]
]
ALERTS = [rule for rule in RULES if "alert" in rule]
RECORDED = {rule["record"]: rule["expr"] for rule in RULES if "record" in rule}
METRIC = re.compile(r"\b(?:butler|controller|workqueue|leader|rest|process)_[a-z_]+")
OF_ADDRESSES = {
    "butler_network_pool_available_ips",
    "butler_network_pool_largest_free_block",
    "butler_provider_config_available_ips",
    "butler_provider_config_estimated_tenants",
    "butler_claim_pool_free",
    "butler_claim_pool_total",
    "butler_kkp_pool_free",
    "butler_kkp_pool_total",
    "butler_vitistack_network_free",
    "butler_vitistack_network_total",
    "butler_metal3_pool_free",
    "butler_metal3_pool_total",
}
WIDTH = 24
"""Columns of a dashboard."""


def title(panel: dict[str, Any]) -> str:
    return str(panel["title"])


def metrics(expression: str) -> set[str]:
    """Return the metrics of a query; recorded ones are those that they are made of."""
    for name, made_of in RECORDED.items():
        expression = expression.replace(name, f"({made_of})")
    return set(METRIC.findall(expression))


def unit_of(panel: dict[str, Any], target: dict[str, Any]) -> str:
    """Return the unit in which a panel shows the answer to one of its queries."""
    for override in panel["fieldConfig"]["overrides"]:
        if override["matcher"] == {"id": "byFrameRefID", "options": target["refId"]}:
            for field_property in override["properties"]:
                if field_property["id"] == "unit":
                    return str(field_property["value"])
    return str(panel["fieldConfig"]["defaults"]["unit"])


@pytest.mark.parametrize("panel", PANELS, ids=title)
def test_every_panel_has_a_title_a_unit_and_a_sentence_for_when_it_is_empty(
    panel: dict[str, Any],
) -> None:
    assert [panel_of_board["title"] for panel_of_board in PANELS].count(panel["title"]) == 1
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["noValue"]
    assert panel["fieldConfig"]["defaults"]["unit"]


@pytest.mark.parametrize("panel", PANELS, ids=title)
def test_seconds_are_shown_as_seconds_and_rates_as_rates(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        expression, unit = target["expr"], unit_of(panel, target)
        is_time = re.search(r"_seconds(_bucket)?\b", expression) is not None
        assert is_time == (unit == "s"), expression
        is_rate = "rate(" in expression and not is_time
        assert is_rate == (unit in {"ops", "reqps"}), expression


@pytest.mark.parametrize("panel", PANELS, ids=title)
def test_every_alert_that_a_panel_names_exists(panel: dict[str, Any]) -> None:
    matches = set(
        re.findall(r"\b(?:NetworkPool|IPAlloc|Butler|Provider|Tenant)\w*", title_text(panel))
    )
    known = {alert_rule["alert"] for alert_rule in ALERTS}
    kinds = {"NetworkPool", "IPAllocations", "TenantClusters", "ProviderConfig", "Tenants"}
    kinds |= {"TenantCluster", "IPAllocation"}
    assert matches - kinds <= known


def title_text(panel: dict[str, Any]) -> str:
    return f"{panel['description']} {panel['fieldConfig']['defaults']['noValue']}"


@pytest.mark.parametrize("alert", ALERTS, ids=lambda rule: str(rule["alert"]))
def test_every_alert_leads_to_a_panel_that_shows_what_it_is_about(alert: dict[str, Any]) -> None:
    notes = alert["annotations"]
    assert notes["__dashboardUid__"] == BOARD["uid"]
    [panel] = [
        panel_of_board
        for panel_of_board in PANELS
        if str(panel_of_board["id"]) == notes["__panelId__"]
    ]
    targets = {name for target in panel["targets"] for name in metrics(target["expr"])}
    assert metrics(alert["expr"]) & targets, panel["title"]


@pytest.mark.parametrize("panel", PANELS, ids=title)
def test_a_pool_of_ipv4_can_be_seen_beside_one_of_ipv6(panel: dict[str, Any]) -> None:
    """One has hundreds of addresses, the other 2^64; and none at all is what people look for."""
    targets = {name for target in panel["targets"] for name in metrics(target["expr"])}
    addresses = targets & OF_ADDRESSES and panel["type"] == "timeseries"
    defaults = panel["fieldConfig"]["defaults"]
    scale = defaults.get("custom", {}).get("scaleDistribution", {}).get("type", "linear")
    assert scale == ("symlog" if addresses else "linear")
    assert defaults["min"] == 0


def test_no_panel_lies_over_another_or_outside() -> None:
    panel_by_place: dict[tuple[int, int], str] = {}
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= WIDTH, panel["title"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in panel_by_place, f"{panel['title']} and {panel_by_place[x, y]}"
                panel_by_place[x, y] = panel["title"]
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
