"""Text in objects with control characters: tables, pictures and pages contain them escaped."""

import json
import unicodedata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from reconcilers.api.names import GROUP
from tests.reconcilers.cli.saved import run_on_files

RAW_TEXT = "first\nsecond\x1b[2J\x9b31m\u202eGOOD"
ESCAPED_TEXT = r"first\nsecond\x1b[2J\x9b31m\u202eGOOD"
OBJECTS: tuple[dict[str, Any], ...] = (
    {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "NetworkPool",
        "metadata": {"name": "block", "namespace": "butler-system"},
        "spec": {
            "cidr": "10.94.0.0/27",
            "reserved": [{"cidr": "10.94.0.0/30", "description": RAW_TEXT}],
        },
        "status": {
            "observedGeneration": 1,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "False",
                    "reason": "Stalled",
                    "message": RAW_TEXT,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ],
        },
    },
    {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "TenantCluster",
        "metadata": {"name": "shop", "namespace": "team"},
        "spec": {"kubernetesVersion": "v1.33.1", "workers": {"replicas": 1}},
        "status": {
            "conditions": [
                {
                    "type": "NetworkReady",
                    "status": "False",
                    "reason": "Stalled",
                    "message": RAW_TEXT,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ]
        },
    },
    {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "IPAllocation",
        "metadata": {"name": "odd", "namespace": "butler-system"},
        "spec": {
            "poolRef": {"name": RAW_TEXT},
            "tenantClusterRef": {"name": "shop", "namespace": RAW_TEXT},
            "type": "nodes",
        },
    },
)


def list_control_characters(printed: str) -> list[str]:
    """Return the control characters of a text except line ends."""
    return [
        character
        for character in printed
        if character != "\n" and unicodedata.category(character) in {"Cc", "Cf", "Zl", "Zp", "Cs"}
    ]


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml"])
@pytest.mark.parametrize(
    "command",
    [
        ("pools",),
        ("tenants",),
        ("map",),
        ("check",),
        ("whois", "10.94.0.1"),
        ("explain", "tc/team/shop"),
        ("explain", "ipa/butler-system/odd"),
    ],
    ids=" ".join,
)
def test_no_command_prints_control_characters_of_objects(
    tmp_path: Path, command: tuple[str, ...], output: str
) -> None:
    outcome = run_on_files(tmp_path, *command, "-o", output, objects=OBJECTS)
    assert list_control_characters(outcome.out + outcome.err) == []
    lines = (outcome.out + outcome.err).splitlines()
    assert not [line for line in lines if line.startswith("second")]


def test_names_that_no_server_accepts_are_printed_in_one_line(tmp_path: Path) -> None:
    pool = {
        "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2",
        "kind": "InClusterIPPool",
        "metadata": {"name": RAW_TEXT, "namespace": "default"},
        "spec": {"addresses": ["10.4.0.2-10.4.0.20"], "prefix": 24},
    }
    outcome = run_on_files(tmp_path, "pools", "-o", "name", objects=(pool,))
    assert list_control_characters(outcome.out) == []
    assert len(outcome.out.splitlines()) == 1


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml"])
def test_plan_prints_no_control_characters(tmp_path: Path, output: str) -> None:
    outcome = run_on_files(tmp_path, "plan", "-o", output, objects=OBJECTS)
    assert list_control_characters(outcome.out + outcome.err) == []


def test_the_map_shows_an_escaped_description_in_the_row_of_its_range(tmp_path: Path) -> None:
    printed = run_on_files(tmp_path, "map", objects=OBJECTS[:1]).out
    row = next(line for line in printed.splitlines() if ESCAPED_TEXT in line)
    assert row.split()[:3] == ["10.94.0.0", "10.94.0.3", "4"]


def test_json_and_yaml_contain_the_original_text(tmp_path: Path) -> None:
    printed = run_on_files(tmp_path, "map", "-o", "json", objects=OBJECTS[:1]).out
    as_yaml = run_on_files(tmp_path, "map", "-o", "yaml", objects=OBJECTS[:1]).out
    for document in (json.loads(printed), yaml.safe_load(as_yaml)):
        notes = [extent["note"] for extent in document["items"][0]["families"][0]["extents"]]
        assert RAW_TEXT in notes


def test_an_svg_with_escaped_text_is_well_formed(tmp_path: Path) -> None:
    drawn = run_on_files(tmp_path, "map", "--svg", "-", objects=OBJECTS[:1]).out
    assert ESCAPED_TEXT in "".join(ElementTree.fromstring(drawn).itertext())


def test_the_page_contains_the_escaped_text(tmp_path: Path) -> None:
    page = run_on_files(tmp_path, "map", "--html", "-", objects=OBJECTS[:1]).out
    assert list_control_characters(page) == []
    assert json.dumps(ESCAPED_TEXT)[1:-1] in page
