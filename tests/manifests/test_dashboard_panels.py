"""Titles, units and layout of the dashboard's panels, and the alerts' links to panels."""

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
ADDRESS_METRICS = {
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
"""The number of columns of a dashboard."""


def get_title(panel: dict[str, Any]) -> str:
    """Return the title of a panel, as the id of a test case."""
    return str(panel["title"])


def find_metrics(expression: str) -> set[str]:
    """Return the metrics of a query; a recorded metric is replaced by the metrics of its rule."""
    for name, recorded_expression in RECORDED.items():
        expression = expression.replace(name, f"({recorded_expression})")
    return set(METRIC.findall(expression))


def get_unit(panel: dict[str, Any], target: dict[str, Any]) -> str:
    """Return the unit in which a panel shows the result of one of its queries."""
    for override in panel["fieldConfig"]["overrides"]:
        if override["matcher"] == {"id": "byFrameRefID", "options": target["refId"]}:
            for field_property in override["properties"]:
                if field_property["id"] == "unit":
                    return str(field_property["value"])
    return str(panel["fieldConfig"]["defaults"]["unit"])


@pytest.mark.parametrize("panel", PANELS, ids=get_title)
def test_every_panel_has_a_unique_title_a_description_a_unit_and_a_text_for_no_value(
    panel: dict[str, Any],
) -> None:
    assert [panel_of_board["title"] for panel_of_board in PANELS].count(panel["title"]) == 1
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["noValue"]
    assert panel["fieldConfig"]["defaults"]["unit"]


@pytest.mark.parametrize("panel", PANELS, ids=get_title)
def test_seconds_are_shown_as_seconds_and_rates_as_rates(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        expression, unit = target["expr"], get_unit(panel, target)
        is_time = re.search(r"_seconds(_bucket)?\b", expression) is not None
        assert is_time == (unit == "s"), expression
        is_rate = "rate(" in expression and not is_time
        assert is_rate == (unit in {"ops", "reqps"}), expression


@pytest.mark.parametrize("panel", PANELS, ids=get_title)
def test_every_alert_that_a_panel_names_exists(panel: dict[str, Any]) -> None:
    mentioned_names = set(
        re.findall(r"\b(?:NetworkPool|IPAlloc|Butler|Provider|Tenant)\w*", join_texts(panel))
    )
    known = {alert_rule["alert"] for alert_rule in ALERTS}
    kinds = {"NetworkPool", "IPAllocations", "TenantClusters", "ProviderConfig", "Tenants"}
    kinds |= {"TenantCluster", "IPAllocation"}
    assert mentioned_names - kinds <= known


def join_texts(panel: dict[str, Any]) -> str:
    """Return the description of a panel and its text for no value."""
    return f"{panel['description']} {panel['fieldConfig']['defaults']['noValue']}"


@pytest.mark.parametrize("alert", ALERTS, ids=lambda rule: str(rule["alert"]))
def test_every_alert_links_to_a_panel_with_one_of_its_metrics(alert: dict[str, Any]) -> None:
    annotations = alert["annotations"]
    assert annotations["__dashboardUid__"] == BOARD["uid"]
    [panel] = [
        panel_of_board
        for panel_of_board in PANELS
        if str(panel_of_board["id"]) == annotations["__panelId__"]
    ]
    targets = {name for target in panel["targets"] for name in find_metrics(target["expr"])}
    assert find_metrics(alert["expr"]) & targets, panel["title"]


@pytest.mark.parametrize("panel", PANELS, ids=get_title)
def test_only_panels_of_address_counts_have_a_logarithmic_scale_and_all_begin_at_zero(
    panel: dict[str, Any],
) -> None:
    """A pool of IPv4 has hundreds of addresses, a pool of IPv6 2^64; zero has to be visible."""
    targets = {name for target in panel["targets"] for name in find_metrics(target["expr"])}
    addresses = targets & ADDRESS_METRICS and panel["type"] == "timeseries"
    defaults = panel["fieldConfig"]["defaults"]
    scale = defaults.get("custom", {}).get("scaleDistribution", {}).get("type", "linear")
    assert scale == ("symlog" if addresses else "linear")
    assert defaults["min"] == 0


def test_no_panels_overlap_and_all_are_within_the_dashboards_width() -> None:
    panel_by_place: dict[tuple[int, int], str] = {}
    for panel in BOARD["panels"]:
        position = panel["gridPos"]
        assert position["x"] + position["w"] <= WIDTH, panel["title"]
        for x in range(position["x"], position["x"] + position["w"]):
            for y in range(position["y"], position["y"] + position["h"]):
                assert (x, y) not in panel_by_place, f"{panel['title']} and {panel_by_place[x, y]}"
                panel_by_place[x, y] = panel["title"]
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
