"""What the product is made of is said, and the wheel is the same on every machine."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.scripts import load_script

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def supply_chain() -> ModuleType:
    return load_script(".ci/supply_chain.py")


def test_the_bill_of_materials_has_every_locked_package(supply_chain: ModuleType) -> None:
    reported = json.loads((ROOT / "sbom.cdx.json").read_text())
    assert (reported["bomFormat"], reported["specVersion"]) == ("CycloneDX", "1.6")
    parts = {(part["name"], part["version"]) for part in reported["components"]}
    assert parts == set(supply_chain.list_locked_packages()), "run `make notices`"
    assert all(part["licenses"][0]["license"]["name"] for part in reported["components"])


def test_the_bill_of_materials_is_the_one_that_is_made_of_the_lock(
    supply_chain: ModuleType,
) -> None:
    assert (ROOT / "sbom.cdx.json").read_text() == supply_chain.sbom(), "run `make notices`"


def test_the_bill_of_the_framework_has_what_its_wheel_depends_on(supply_chain: ModuleType) -> None:
    project = tomllib.loads((ROOT / "controller/pyproject.toml").read_text())["project"]
    direct = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    reported = json.loads(supply_chain.framework_sbom("1.2.3"))
    assert reported["metadata"]["component"]["type"] == "library"
    parts = {(part["name"], part["version"]) for part in reported["components"]}
    assert parts < set(supply_chain.list_locked_packages())
    part_names = {canonicalize_name(name) for name, _ in parts}
    assert direct < part_names, "what they depend on is there, too"
    assert {"multidict", "cffi"} <= part_names
    assert "pydantic" not in part_names, "extras are not installed with the wheel"


def test_the_notices_have_every_locked_package_and_its_licence(supply_chain: ModuleType) -> None:
    content = (ROOT / "THIRD_PARTY_NOTICES.md").read_text()
    for name, version in supply_chain.list_locked_packages():
        assert f"| {name} | {version} | " in content, "run `make notices`"
        assert f"## {name} {version}\n" in content, f"no licence text of {name}"


def test_what_only_builds_is_removed_from_the_image(supply_chain: ModuleType) -> None:
    [removed] = [
        line
        for line in (ROOT / "Containerfile").read_text().splitlines()
        if "hatchling pack" in line
    ]
    assert set(removed.split()) >= supply_chain.BUILD_ONLY


def test_the_wheel_is_the_same_on_every_machine_and_at_every_time(tmp_path: Path) -> None:
    built = []
    for name, mask in (("first", 0o022), ("second", 0o077)):
        source = tmp_path / name
        ignore = shutil.ignore_patterns(".*", "__pycache__", "dist", "tests")
        shutil.copytree(ROOT, source, ignore=ignore)
        for path in source.rglob("*.py"):
            os.utime(path, (1_000_000_000 + mask, 1_000_000_000 + mask))
            path.chmod(0o666 & ~mask)
        subprocess.run(
            [
                sys.executable,
                "-m",
                "hatchling",
                "build",
                "-t",
                "wheel",
                "-d",
                str(tmp_path / name),
            ],
            cwd=source,
            check=True,
            capture_output=True,
            umask=mask,
        )
        [wheel] = source.glob("*.whl")
        built.append(wheel.read_bytes())
    assert built[0] == built[1]
