"""Says what the product is made of: sbom.cdx.json (CycloneDX 1.6) and THIRD_PARTY_NOTICES.md.

Both are made from the lock of the image (requirements-run.txt) and from what the installed
packages say of themselves; licence texts are copied whole, as most licences ask. `make notices`
writes them; a test fails while they differ from the lock. Nothing in them depends on the time or
the machine.
"""

import json
import re
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
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


def locked() -> list[tuple[str, str]]:
    """Return name and version of every package that is shipped."""
    found = PIN.finditer(LOCK.read_text(encoding="utf-8"))
    return [(one[1], one[2]) for one in found if one[1] not in BUILD_ONLY]


def licence(package: Distribution) -> str:
    """Return what a package says its licence is: an SPDX expression where it has one."""
    meta = package.metadata
    if meta["License-Expression"]:
        return meta["License-Expression"]
    classified = [
        line.rpartition(" :: ")[2]
        for line in meta.get_all("Classifier") or []
        if line.startswith("License ::")
    ]
    named = (meta["License"] or "").strip().splitlines()
    if named and len(named[0]) < 60:
        return named[0]
    return ", ".join(classified) or "see its text"


def texts(package: Distribution) -> list[str]:
    """Return the licence texts that a package carries."""
    found = []
    for file in sorted(package.files or [], key=str):
        if LICENCE_FILE.search(str(file)) and ".dist-info" in str(file):
            text = file.read_text(encoding="utf-8")
            found.append("\n".join(line.rstrip() for line in text.strip().splitlines()))
    return list(dict.fromkeys(found))


def released_version() -> str:
    """Return the version that the files of the checkout name, the chart's."""
    chart = (ROOT / "manifests/chart/Chart.yaml").read_text(encoding="utf-8")
    return str(yaml.safe_load(chart)["version"])


def sbom(version: str = "") -> dict[str, Any]:
    """Return the bill of materials of a version; of the one that the files name by default."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name, version = project["name"], version or released_version()
    own = f"pkg:pypi/{name}@{version}"
    parts = []
    for package, at in locked():
        purl = f"pkg:pypi/{package}@{at}"
        parts.append(
            {
                "type": "library",
                "bom-ref": purl,
                "name": package,
                "version": at,
                "purl": purl,
                "licenses": [{"license": {"name": licence(installed(package))}}],
            }
        )
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": name,
                "version": version,
                "purl": own,
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": parts,
        "dependencies": [{"ref": own, "dependsOn": [part["bom-ref"] for part in parts]}],
    }


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
    packages = [(name, at, installed(name)) for name, at in locked()]
    lines += [f"| {name} | {at} | {licence(package)} |" for name, at, package in packages]
    for name, at, package in packages:
        for text in texts(package):
            lines += ["", f"## {name} {at}", "", "```text", text.replace("```", "'''"), "```"]
    return "\n".join(lines) + "\n"


def installed(name: str) -> Distribution:
    """Return an installed package.

    Raises:
        SystemExit: it is not installed here; the sentence says what to do.
    """
    try:
        return distribution(name)
    except PackageNotFoundError:
        sys.exit(f"{name} is locked but not installed: run `make lint` first, which installs it")


if __name__ == "__main__":
    SBOM.write_text(json.dumps(sbom(), indent=2) + "\n", encoding="utf-8")
    NOTICES.write_text(notices(), encoding="utf-8")
