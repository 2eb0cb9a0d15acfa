"""The manifests of the integrations: made of the code, and off by default."""

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
def writer() -> ModuleType:
    return load_script(".ci/clusterapi.py")


def kustomization(component: str) -> dict[str, Any]:
    content = (MANIFESTS / component / "kustomization.yaml").read_text()
    read: dict[str, Any] = read_yaml(content)
    return read


def test_the_files_are_what_the_code_says(writer: ModuleType) -> None:
    generated = dict(writer.files())
    assert len(generated) == 7
    for path, content in generated.items():
        assert path.read_text() == content, f"{path}: run `make manifests`"


@pytest.mark.parametrize(
    "component", ["clusterapi", "clusterapi-crds", "kubermatic", "metal3", "vitistack", "ui"]
)
def test_a_component_names_every_file_that_there_is(component: str) -> None:
    read = kustomization(component)
    patches = {patch["path"] for patch in read.get("patches", []) if "path" in patch}
    there = {path.name for path in (MANIFESTS / component).iterdir()} - {"kustomization.yaml"}
    assert {*read["resources"], *patches} == there


def test_the_one_file_install_has_nothing_of_it() -> None:
    assert "cluster.x-k8s.io" not in rendering.INSTALL.read_text()
    assert "kubermatic" not in rendering.INSTALL.read_text()
    assert "metal3" not in rendering.INSTALL.read_text()
    assert "vitistack" not in rendering.INSTALL.read_text()


def test_the_chart_takes_definitions_of_ours_by_the_label_that_they_have() -> None:
    assert f'eq "{PROVIDER}"' in rendering.OURS_TO_DEFINE
