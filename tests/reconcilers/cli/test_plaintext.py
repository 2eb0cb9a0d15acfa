"""What people write into objects moves no terminal and breaks no table, picture or document."""

import json
import unicodedata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from reconcilers.api.names import GROUP
from tests.reconcilers.cli.saved import ask

EVIL = "first\nsecond\x1b[2J\x9b31m\u202eGOOD"
SHOWN = r"first\nsecond\x1b[2J\x9b31m\u202eGOOD"
OBJECTS: tuple[dict[str, Any], ...] = (
    {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "NetworkPool",
        "metadata": {"name": "block", "namespace": "butler-system"},
        "spec": {
            "cidr": "10.94.0.0/27",
            "reserved": [{"cidr": "10.94.0.0/30", "description": EVIL}],
        },
        "status": {
            "observedGeneration": 1,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "False",
                    "reason": "Stalled",
                    "message": EVIL,
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
                    "message": EVIL,
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
            "poolRef": {"name": EVIL},
            "tenantClusterRef": {"name": "shop", "namespace": EVIL},
            "type": "nodes",
        },
    },
)


def controls(printed: str) -> list[str]:
    """Return the characters of a text that a terminal acts on, line ends aside."""
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
    answered = ask(tmp_path, *command, "-o", output, objects=OBJECTS)
    assert controls(answered.out + answered.err) == []
    lines = (answered.out + answered.err).splitlines()
    assert not [line for line in lines if line.startswith("second")]


def test_names_that_no_server_accepts_are_printed_in_one_line(tmp_path: Path) -> None:
    pool = {
        "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2",
        "kind": "InClusterIPPool",
        "metadata": {"name": EVIL, "namespace": "default"},
        "spec": {"addresses": ["10.4.0.2-10.4.0.20"], "prefix": 24},
    }
    answered = ask(tmp_path, "pools", "-o", "name", objects=(pool,))
    assert controls(answered.out) == []
    assert len(answered.out.splitlines()) == 1


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml"])
def test_plan_prints_no_control_characters(tmp_path: Path, output: str) -> None:
    answered = ask(tmp_path, "plan", "-o", output, objects=OBJECTS)
    assert controls(answered.out + answered.err) == []


def test_a_description_is_in_the_row_of_its_range(tmp_path: Path) -> None:
    printed = ask(tmp_path, "map", objects=OBJECTS[:1]).out
    row = next(line for line in printed.splitlines() if SHOWN in line)
    assert row.split()[:3] == ["10.94.0.0", "10.94.0.3", "4"]


def test_documents_keep_the_text_as_it_is_written(tmp_path: Path) -> None:
    printed = ask(tmp_path, "map", "-o", "json", objects=OBJECTS[:1]).out
    as_yaml = ask(tmp_path, "map", "-o", "yaml", objects=OBJECTS[:1]).out
    for document in (json.loads(printed), yaml.safe_load(as_yaml)):
        notes = [extent["note"] for extent in document["items"][0]["families"][0]["extents"]]
        assert EVIL in notes


def test_a_picture_is_well_formed_whatever_objects_say(tmp_path: Path) -> None:
    drawn = ask(tmp_path, "map", "--svg", "-", objects=OBJECTS[:1]).out
    assert SHOWN in "".join(ElementTree.fromstring(drawn).itertext())


def test_the_page_shows_escapes(tmp_path: Path) -> None:
    page = ask(tmp_path, "map", "--html", "-", objects=OBJECTS[:1]).out
    assert controls(page) == []
    assert json.dumps(SHOWN)[1:-1] in page
