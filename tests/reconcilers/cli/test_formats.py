"""JSON and YAML that commands print conform to the schema in docs/formats."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.reconcilers.cli import test_platforms as platforms
from tests.reconcilers.cli.saved import make_saved_cluster, run_on_files
from tests.reconcilers.cli.test_claims import (
    make_address,
    make_claim,
    make_ip_pool,
    make_saved_object,
)

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "docs/formats/reports.schema.json").read_text(encoding="utf-8")
)
Draft202012Validator.check_schema(SCHEMA)
VALIDATOR = Draft202012Validator(SCHEMA)
ALLOCATION = {
    "poolRef": {"name": "site"},
    "tenantClusterRef": {"name": "one", "namespace": "others"},
    "type": "nodes",
    "count": 1,
}
OBJECTS: tuple[dict[str, Any], ...] = (
    make_saved_object(
        "NetworkPool",
        "site",
        {"cidr": "10.9.0.0/28", "gateway": "10.9.0.1", "secondary": {"cidr": "fd00::/64"}},
    ),
    make_saved_object(
        "NetworkPool", "broken", {"cidr": "10.9.1.0/28", "reserved": [{"cidr": "10.1.0.0/28"}]}
    ),
    make_saved_object(
        "IPAllocation",
        "holds",
        ALLOCATION,
        status={"phase": "Allocated", "startAddress": "10.9.0.4", "endAddress": "10.9.0.4"},
    ),
    make_saved_object("IPAllocation", "waits", ALLOCATION),
    make_saved_cluster(),
    make_claim("m", "site", "NetworkPool"),
    make_address("m", "site", ip="10.9.0.2", kind="NetworkPool"),
    make_ip_pool("machines", "10.0.0.10-10.0.0.13", gateway="10.0.0.9"),
    make_address("stray", "machines", "10.0.0.9"),
    make_claim("waits", "machines"),
    make_saved_object(
        "GlobalInClusterPrefixPool",
        "prefixes",
        spec={"prefixes": ["fd00:71::/60"], "allocationPrefixLength": 64},
        version="v1alpha2",
    ),
    platforms.make_ipam_pool("metallb", east=platforms.RANGE, west=platforms.PREFIX),
    platforms.make_kkp_cluster("a", "east"),
    platforms.make_ipam_allocation("metallb", "a", "east", addresses=["10.1.0.0-10.1.0.3"]),
    platforms.make_network(),
    platforms.make_vitistack_request("web", "10.3.0.11"),
)
COMMANDS = [
    ("pools",),
    ("pools", "NetworkPool/b/site"),
    ("map",),
    ("whois", "10.9.0.0/28", "10.1.0.1", "10.3.0.11", "10.0.0.9", "fd00::1"),
    ("tenants",),
    ("explain", "ipallocation/b/waits"),
    ("check",),
    ("status",),
]


@pytest.mark.parametrize("output", ["json", "yaml"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_document_of_a_command_conforms_to_the_schema(
    tmp_path: Path, command: tuple[str, ...], output: str
) -> None:
    outcome = run_on_files(tmp_path, *command, "-o", output, objects=OBJECTS)
    assert (outcome.code == 0) != (command in {("check",), ("status",)}), outcome.err
    document: Mapping[str, Any] = yaml.safe_load(outcome.out)
    VALIDATOR.validate(document)
    assert document.get("items") or document["findings"]


def test_a_forecast_conforms_to_the_schema(tmp_path: Path) -> None:
    outcome = run_on_files(tmp_path, "plan", "--fit", "1+2", "-o", "json", objects=OBJECTS)
    document: Mapping[str, Any] = json.loads(outcome.out)
    VALIDATOR.validate(document)
    assert document["kind"] == "PoolForecastList"
    assert document["items"]


def test_figures_that_are_not_known_are_null(tmp_path: Path) -> None:
    broken = make_address("m", "site", ip="10.9.0.2", kind="NetworkPool")
    broken["spec"]["prefix"] = "many"
    for command in ("pools", "map"):
        outcome = run_on_files(
            tmp_path, command, "site", "-o", "json", objects=(OBJECTS[0], broken)
        )
        document = json.loads(outcome.out)
        VALIDATOR.validate(document)
        [pool] = document["items"]
        assert pool["waiting"] is None
        assert pool["notRead"]
        assert {family["available"] for family in pool["families"]} == {None}


def test_the_schema_rejects_a_list_with_an_empty_item() -> None:
    document = {"apiVersion": "report.butler-ipam/v1", "kind": "PoolList", "items": [{}]}
    assert not VALIDATOR.is_valid(document)
