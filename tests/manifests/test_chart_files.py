"""The chart's files that are made of others, and what it says of itself."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from manifests import rendering
from tests.scripts import load_script
from tests.yamls import read_yaml

ROOT = Path(__file__).parents[2]
CHART = Path(rendering.__file__).parent / "chart"
META: dict[str, Any] = read_yaml((CHART / "Chart.yaml").read_text())


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    return load_script(".ci/chart.py")


def test_the_readme_has_the_values_that_there_are(writer: ModuleType) -> None:
    assert (CHART / "README.md").read_text() == writer.readme(), "run `make manifests`"


def test_the_schema_has_the_settings_that_there_are(writer: ModuleType) -> None:
    assert (CHART / "values.schema.json").read_text() == writer.schema(), "run `make manifests`"


def test_objects_of_the_schema_are_closed_but_for_those_that_are_kubernetes_own() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    open_ones = {
        path for path, subschema in objects(schema, "") if "additionalProperties" not in subschema
    }
    assert open_ones == {
        *(f".affinity.{kind}" for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity")),
        ".extraEnv[].valueFrom",
        ".extraVolumes[]",
        ".global",
        ".resources.claims[]",
        *(
            f".networkPolicy.{peers}[].{selector}.matchExpressions[]"
            for peers in ("scrapesFrom", "admissionFrom", "pageFrom", "apiServers")
            for selector in ("namespaceSelector", "podSelector")
        ),
    }


def objects(schema: dict[str, Any], path: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the schemas of objects with their paths."""
    subschemas = [(path, schema)] if schema.get("type") == "object" else []
    for name, subschema in schema.get("properties", {}).items():
        subschemas += objects(subschema, f"{path}.{name}")
    if "items" in schema:
        subschemas += objects(schema["items"], f"{path}[]")
    return subschemas


def test_every_template_but_the_notes_is_under_the_charts_own_names() -> None:
    for path in (CHART / "templates").rglob("*.yaml"):
        content = path.read_text()
        assert "name: butler-ipam\n" not in content, path


def test_the_chart_says_who_keeps_it_and_what_is_in_it() -> None:
    assert META["home"] in META["sources"]
    assert all({"name", "url"} <= maintainer.keys() for maintainer in META["maintainers"])
    notes = META["annotations"]
    kinds = {entry["name"] for entry in read_yaml(notes["artifacthub.io/crds"])}
    shipped = {
        rendering.get_definition_name(path) for path in (CHART.parent / "crds").glob("*.yaml")
    }
    assert kinds == shipped
    links = [entry["url"] for entry in read_yaml(notes["artifacthub.io/links"])]
    for url in [META["icon"], *links]:
        _, _, path = url.partition("/main/")
        assert (ROOT / path).is_file(), url
