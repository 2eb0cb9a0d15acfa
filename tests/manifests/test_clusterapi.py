"""The manifests of the integrations: generated, and not part of the one-file install."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from manifests import rendering
from reconcilers.integrations.clusterapi.api import PROVIDER
from tests.scripts import load_script
from tests.yamls import read_yaml

MANIFESTS = Path(rendering.__file__).parent


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """The script that generates the manifests of the integrations."""
    return load_script(".ci/clusterapi.py")


def read_kustomization(component: str) -> dict[str, Any]:
    """Return the kustomization of a component."""
    content = (MANIFESTS / component / "kustomization.yaml").read_text()
    document: dict[str, Any] = read_yaml(content)
    return document


def test_generated_files_are_up_to_date(generator: ModuleType) -> None:
    generated = dict(generator.files())
    assert len(generated) == 7
    for path, content in generated.items():
        assert path.read_text() == content, f"{path}: run `make manifests`"


@pytest.mark.parametrize(
    "component", ["clusterapi", "clusterapi-crds", "kubermatic", "metal3", "vitistack", "ui"]
)
def test_the_kustomization_of_a_component_names_all_its_files(component: str) -> None:
    document = read_kustomization(component)
    patches = {patch["path"] for patch in document.get("patches", []) if "path" in patch}
    file_names = {path.name for path in (MANIFESTS / component).iterdir()} - {"kustomization.yaml"}
    assert {*document["resources"], *patches} == file_names


def test_the_one_file_install_has_no_kind_of_an_integration() -> None:
    assert "cluster.x-k8s.io" not in rendering.INSTALL.read_text()
    assert "kubermatic" not in rendering.INSTALL.read_text()
    assert "metal3" not in rendering.INSTALL.read_text()
    assert "vitistack" not in rendering.INSTALL.read_text()


def test_the_chart_recognizes_our_definitions_by_their_provider_label() -> None:
    assert f'eq "{PROVIDER}"' in rendering.OURS_TO_DEFINE
