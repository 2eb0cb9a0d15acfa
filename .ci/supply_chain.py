"""Says what is shipped is made of: sbom.cdx.json (CycloneDX 1.6) and THIRD_PARTY_NOTICES.md.

Both are made from the lock of the image (requirements-run.txt) and from what the installed
packages say of themselves; licence texts are copied whole, as most licences ask. `make notices`
writes them; a test fails while they differ from the lock. Nothing in them depends on the time or
the machine. A release has a bill of the framework's wheel besides: what it depends on, as locked.
"""

import json
import re
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import yaml
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "pyproject.toml"
FRAMEWORK = ROOT / "controller/pyproject.toml"
LOCK = ROOT / "requirements-run.txt"
SBOM = ROOT / "sbom.cdx.json"
NOTICES = ROOT / "THIRD_PARTY_NOTICES.md"
BUILD_ONLY = {
    *("editables", "hatch-fancy-pypi-readme", "hatchling", "packaging", "pathspec", "pluggy"),
    *("tomlkit", "trove-classifiers"),
}
"""In the lock to build the wheel; removed from the image, so not part of what is shipped."""
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)(?: *; *([^\\]+?))? *\\?$", re.MULTILINE)
LICENCE_FILE = re.compile(r"(?i)(^|/)(licen[cs]e|copying|notice)[^/]*$")


def list_locked_packages() -> list[tuple[str, str]]:
    """Return name and version of every package that is shipped."""
    pins = PIN.finditer(LOCK.read_text(encoding="utf-8"))
    return [(pin[1], pin[2]) for pin in pins if pin[1] not in BUILD_ONLY]


def licence(package: Distribution) -> str:
    """Return the licence that a package declares: an SPDX expression where it has one."""
    meta = package.metadata
    if meta["License-Expression"]:
        return meta["License-Expression"]
    classified = [
        line.rpartition(" :: ")[2]
        for line in meta.get_all("Classifier") or []
        if line.startswith("License ::")
    ]
    licence_lines = (meta["License"] or "").strip().splitlines()
    if licence_lines and len(licence_lines[0]) < 60:
        return licence_lines[0]
    return ", ".join(classified) or "see its text"


def texts(package: Distribution) -> list[str]:
    """Return the licence texts that a package carries."""
    licence_texts = []
    for file in sorted(package.files or [], key=str):
        if LICENCE_FILE.search(str(file)) and ".dist-info" in str(file):
            content = file.read_text(encoding="utf-8")
            licence_texts.append("\n".join(line.rstrip() for line in content.strip().splitlines()))
    return list(dict.fromkeys(licence_texts))


def released_version() -> str:
    """Return the version that the files of the checkout name, the chart's."""
    chart = (ROOT / "manifests/chart/Chart.yaml").read_text(encoding="utf-8")
    return str(yaml.safe_load(chart)["version"])


def list_framework_packages() -> list[tuple[str, str]]:
    """Return name and locked version of every package that the framework's wheel needs."""
    pending = [Requirement(line) for line in read_project(FRAMEWORK)["dependencies"]]
    needed: set[str] = set()
    while pending:
        name = canonicalize_name(pending.pop().name)
        if name not in needed:
            needed.add(name)
            requirements = map(Requirement, find_installed(name).requires or ())
            pending += [
                requirement
                for requirement in requirements
                if requirement.marker is None or is_needed(requirement.marker)
            ]
    return [pin for pin in list_locked_packages() if canonicalize_name(pin[0]) in needed]


def is_needed(marker: Marker) -> bool:
    """Return whether a requirement applies without extras on a Python that is supported."""
    minors = range(11, 15)
    return any(
        marker.evaluate({"python_version": f"3.{minor}", "python_full_version": f"3.{minor}.0"})
        for minor in minors
    )


def read_project(path: Path) -> dict[str, Any]:
    """Return the table `project` of a pyproject.toml."""
    project: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    return project


def sbom(version: str = "") -> str:
    """Return the bill of materials of a version; of the one that the files name by default."""
    return _write_bill(
        PROJECT, ComponentType.APPLICATION, packages=list_locked_packages(), version=version
    )


def framework_sbom(version: str = "") -> str:
    """Return the bill of materials of the framework's wheel.

    Args:
        version: as for `sbom`.
    """
    return _write_bill(
        FRAMEWORK, ComponentType.LIBRARY, packages=list_framework_packages(), version=version
    )


def _write_bill(
    path: Path, sort: ComponentType, packages: list[tuple[str, str]], version: str
) -> str:
    """Return a bill of materials as JSON.

    Args:
        path: the pyproject.toml of what is shipped.
        sort: of what is shipped.
        packages: name and version of its parts.
        version: of what is shipped; empty for the one that the files name.
    """
    project = read_project(path)
    terms = DisjunctiveLicense(id=project["license"])
    own = component(project["name"], version or released_version(), terms)
    own.type = sort
    parts = [
        component(name, at, DisjunctiveLicense(name=licence(find_installed(name))))
        for name, at in packages
    ]
    bom = Bom(components=parts, metadata=BomMetaData(component=own))
    bom.register_dependency(own, parts)
    written = json.loads(JsonV1Dot6(bom).output_as_string())
    # A number and a time of its own would make two builds of one commit differ.
    del written["serialNumber"], written["metadata"]["timestamp"]
    return json.dumps(written, indent=2) + "\n"


def component(name: str, version: str, terms: DisjunctiveLicense) -> Component:
    """Return a package of the bill, with what it says its licence is."""
    purl = PackageURL("pypi", name=name, version=version)
    return Component(name=name, version=version, purl=purl, bom_ref=str(purl), licenses=[terms])


def notices() -> str:
    """Return the notices."""
    lines = [
        "# Third-party notices",
        "",
        "butler-ipam ships with these packages, each under its own licence (`make notices`).",
        "",
        "| package | version | licence |",
        "|---|---|---|",
    ]
    packages = [(name, at, find_installed(name)) for name, at in list_locked_packages()]
    lines += [f"| {name} | {at} | {licence(package)} |" for name, at, package in packages]
    for name, at, package in packages:
        for licence_text in texts(package):
            lines += [
                "",
                f"## {name} {at}",
                "",
                "```text",
                licence_text.replace("```", "'''"),
                "```",
            ]
    return "\n".join(lines) + "\n"


def find_installed(name: str) -> Distribution:
    """Return an installed package.

    Raises:
        SystemExit: it is not installed here; the sentence says what to do.
    """
    try:
        return distribution(name)
    except PackageNotFoundError:
        sys.exit(f"{name} is locked but not installed: run `make lint` first, which installs it")


if __name__ == "__main__":
    SBOM.write_text(sbom(), encoding="utf-8")
    NOTICES.write_text(notices(), encoding="utf-8")
