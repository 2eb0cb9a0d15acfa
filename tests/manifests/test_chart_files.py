"""The chart's generated files and its metadata."""

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
def generator() -> ModuleType:
    """The script that generates the chart's README and schema."""
    return load_script(".ci/chart.py")


def test_the_readme_is_generated_from_the_values(generator: ModuleType) -> None:
    assert (CHART / "README.md").read_text() == generator.readme(), "run `make manifests`"


def test_the_schema_is_generated_from_the_settings(generator: ModuleType) -> None:
    assert (CHART / "values.schema.json").read_text() == generator.schema(), "run `make manifests`"


def test_only_kubernetes_own_objects_in_the_schema_allow_unknown_fields() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    open_paths = {
        path
        for path, subschema in list_object_schemas(schema, "")
        if "additionalProperties" not in subschema
    }
    assert open_paths == {
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


def list_object_schemas(schema: dict[str, Any], path: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the paths and schemas of all objects in a schema; `path` is that of the schema."""
    subschemas = [(path, schema)] if schema.get("type") == "object" else []
    for name, subschema in schema.get("properties", {}).items():
        subschemas += list_object_schemas(subschema, f"{path}.{name}")
    if "items" in schema:
        subschemas += list_object_schemas(schema["items"], f"{path}[]")
    return subschemas


def test_no_template_has_a_fixed_name_of_an_object() -> None:
    for path in (CHART / "templates").rglob("*.yaml"):
        content = path.read_text()
        assert "name: butler-ipam\n" not in content, path


def test_the_metadata_of_the_chart_lists_its_crds_and_links_that_exist() -> None:
    assert META["home"] in META["sources"]
    assert all({"name", "url"} <= maintainer.keys() for maintainer in META["maintainers"])
    annotations = META["annotations"]
    kinds = {entry["name"] for entry in read_yaml(annotations["artifacthub.io/crds"])}
    shipped = {
        rendering.get_definition_name(path) for path in (CHART.parent / "crds").glob("*.yaml")
    }
    assert kinds == shipped
    links = [entry["url"] for entry in read_yaml(annotations["artifacthub.io/links"])]
    for url in [META["icon"], *links]:
        _, _, path = url.partition("/main/")
        assert (ROOT / path).is_file(), url
