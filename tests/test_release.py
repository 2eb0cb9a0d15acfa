"""What a release consists of, and that its files say one version."""

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.docs.text import OPERATING
from tests.scripts import load_script
from tests.servers import program

ROOT = Path(__file__).parent.parent
CHART: dict[str, Any] = yaml.safe_load((ROOT / "manifests/chart/Chart.yaml").read_text())
VERSION = str(CHART["version"])


@pytest.fixture(scope="module")
def release() -> ModuleType:
    return load_script(".ci/release.py")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All files of the version that the checkout names."""
    folder = tmp_path_factory.mktemp("release") / "dist"
    helm = Path(program("helm")).parent
    environment = {
        **os.environ,
        "BUTLER_IPAM_VERSION": VERSION,
        "PATH": f"{helm}:{os.environ['PATH']}",
    }
    command = (sys.executable, ".ci/release.py", str(folder))
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"release {VERSION}: ")
    return folder


def test_a_release_has_all_that_people_install_from(dist: Path) -> None:
    assert {path.name for path in dist.iterdir()} == {
        f"butler_ipam-{VERSION}-py3-none-any.whl",
        f"butler_ipam_controller-{VERSION}-py3-none-any.whl",
        f"butler_ipam-{VERSION}.tar.gz",
        f"butler-ipam-{VERSION}.tgz",
        f"butler-ipam-{VERSION}.cdx.json",
        f"butler-ipam-controller-{VERSION}.cdx.json",
        f"kubectl-ipam-{VERSION}.tar.gz",
        "install.yaml",
        "ipam-components.yaml",
        "ipam.yaml",
        "metadata.yaml",
        "SHA256SUMS",
    }


def test_the_checksums_are_those_of_the_files(dist: Path) -> None:
    lines = [line.split("  ") for line in (dist / "SHA256SUMS").read_text().splitlines()]
    digests = {name: sha256((dist / name).read_bytes()).hexdigest() for _, name in lines}
    assert digests == {name: digest for digest, name in lines}
    assert len(digests) == len(list(dist.iterdir())) - 1


def test_every_file_says_the_version(dist: Path) -> None:
    wheel = zipfile.ZipFile(dist / f"butler_ipam-{VERSION}-py3-none-any.whl")
    metadata = wheel.read(f"butler_ipam-{VERSION}.dist-info/METADATA").decode()
    assert f"\nVersion: {VERSION}\n" in metadata
    with tarfile.open(dist / f"butler-ipam-{VERSION}.tgz") as chart:
        inside = chart.extractfile("butler-ipam/Chart.yaml")
        assert inside is not None
        meta = yaml.safe_load(inside.read())
        assert "butler-ipam/README.md" in chart.getnames()
    assert (meta["version"], meta["appVersion"]) == (VERSION, VERSION)
    for name in ("butler-ipam", "butler-ipam-controller"):
        sbom = json.loads((dist / f"{name}-{VERSION}.cdx.json").read_text())
        own = sbom["metadata"]["component"]
        assert (own["name"], own["version"]) == (name, VERSION)


def test_what_is_installed_from_a_release_names_the_image_that_its_workflow_pushes(
    dist: Path,
) -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text())
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    own = urls["Repository"].removeprefix("https://github.com/")
    image = workflow["env"]["BUTLER_IPAM_IMAGE"].replace("${{ github.repository }}", own)
    [push] = [step for step in workflow["jobs"]["image"]["steps"] if step.get("id") == "push"]
    outputs = {"env.BUTLER_IPAM_IMAGE": image, "needs.build.outputs.version": VERSION}
    pushed = re.sub(
        r"\$\{\{ (\S+) \}\}", lambda expression: outputs[expression[1]], push["with"]["tags"]
    )
    chart = (program("helm"), "template", "x", str(dist / f"butler-ipam-{VERSION}.tgz"))
    done = subprocess.run(chart, check=True, capture_output=True, text=True)
    for sentence in (
        done.stdout,
        (dist / "install.yaml").read_text(),
        (dist / "ipam-components.yaml").read_text(),
    ):
        matches = re.findall(r'^ +(?:- )?image: "?([^"\s]+)"?$', sentence, re.MULTILINE)
        assert set(matches) == {pushed}
    process = subprocess.run(
        (program("helm"), "show", "readme", chart[-1]), check=True, capture_output=True, text=True
    )
    assert f'| `image.repository` | `"{image}"` |' in process.stdout


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive as its users do: Python before 3.11.4 has no safe way of its own."""
    subprocess.run(("tar", "-xf", archive, "-C", folder), check=True)


def test_a_wheel_of_the_source_distribution_has_its_version(dist: Path, tmp_path: Path) -> None:
    unpack(dist / f"butler_ipam-{VERSION}.tar.gz", tmp_path)
    folder = tmp_path / f"butler_ipam-{VERSION}"
    build = (sys.executable, "-m", "hatchling", "version")
    done = subprocess.run(build, cwd=folder, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == VERSION


def test_krew_finds_the_plugin_in_the_archive_that_the_manifest_names(
    dist: Path, tmp_path: Path
) -> None:
    manifest = yaml.safe_load((dist / "ipam.yaml").read_text())
    assert manifest["spec"]["version"] == f"v{VERSION}"
    [platform] = manifest["spec"]["platforms"]
    archive = dist / platform["uri"].rpartition("/")[2]
    assert platform["sha256"] == sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as tar:
        assert {file["from"] for file in platform["files"]} == set(tar.getnames())
    unpack(archive, tmp_path)
    plugin = tmp_path / platform["bin"]
    (tmp_path / "bin").mkdir()
    path = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    for name, printed in (
        ("butler-ipam", "pools -A\n"),
        ("uvx", f"butler-ipam=={VERSION} pools -A\n"),
    ):
        program = tmp_path / "bin" / name
        program.write_text('#!/bin/sh\necho "$@"\n')
        program.chmod(0o755)
        command = (str(plugin), "pools", "-A")
        done = subprocess.run(command, env=path, check=True, capture_output=True, text=True)
        assert done.stdout == printed
        program.unlink()
    done = subprocess.run([str(plugin)], env=path, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "kubectl ipam needs Python" in done.stderr


def test_the_bills_of_materials_are_valid_cyclonedx(dist: Path) -> None:
    # Imported here: jsonschema's formats build forty parsers, two seconds in each worker.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    validator = JsonStrictValidator(SchemaVersion.V1_6)
    for path in (ROOT / "sbom.cdx.json", *dist.glob("*.cdx.json")):
        assert validator.validate_str(path.read_text()) is None


def test_a_tag_that_the_files_do_not_name_is_refused(
    release: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BUTLER_IPAM_VERSION", "9.9.9")
    with pytest.raises(SystemExit, match=rf"the tag says 9\.9\.9, and .* says {VERSION}"):
        release.build(tmp_path / "dist")
    assert not (tmp_path / "dist").exists()


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.2.3", "1.2.3"),
        ("1.2.3rc1", "1.2.3-rc1"),
        ("1.2.4.dev4+gabc", "1.2.4-dev4.gabc"),
    ],
)
def test_versions_of_snapshots_are_what_helm_takes(
    release: ModuleType, version: str, expected: str
) -> None:
    assert release.semver(version) == expected


def test_the_files_of_the_checkout_name_one_version() -> None:
    assert str(CHART["appVersion"]) == VERSION
    install = (ROOT / "manifests/install.yaml").read_text()
    assert re.findall(r"image: butler-ipam:(\S+)", install) == [VERSION]
    sbom = json.loads((ROOT / "sbom.cdx.json").read_text())
    assert sbom["metadata"]["component"]["version"] == VERSION
    guide = "".join((ROOT / page).read_text() for page in OPERATING)
    matches = re.findall(r"butler-ipam:([0-9][0-9.]*[0-9])|image\.tag=([0-9.]+[0-9])", guide)
    assert {name or other for name, other in matches} == {VERSION}


def test_a_snapshot_names_the_image_that_is_built_by_hand_unless_one_is_named(
    release: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BUTLER_IPAM_IMAGE", raising=False)
    assert release.image("1.2.4.dev4+gabc") == "butler-ipam"
    assert release.image("1.2.4").startswith("ghcr.io/")
    monkeypatch.setenv("BUTLER_IPAM_IMAGE", "ghcr.io/fork/name")
    assert release.image("1.2.4.dev4+gabc") == "ghcr.io/fork/name"
