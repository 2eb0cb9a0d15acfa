"""The manifests for a cluster, as package data: CRDs, RBAC, deployment, samples."""

import json
from pathlib import Path
from typing import Any

import yaml

# libyaml takes a tenth of the time of the Python loader; not each build of PyYAML has it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_HERE = Path(__file__).parent
"""This package. importlib.resources would load 15 more modules, of archives among others."""


def get_folder(name: str) -> Path:
    """Return the folder `name` of the shipped manifests, for example `crds` or `samples`.

    Raises:
        FileNotFoundError: there is no folder of that name in this installation.
    """
    directory = _HERE / name
    if not directory.is_dir():
        raise FileNotFoundError(f"manifests: no folder {name!r} is shipped with this installation")
    return directory


def read_definitions() -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions in the folder `crds`.

    They are read from `crds.json`, one list with the same definitions. YAML takes twenty times as
    long to read, and each command that checks files reads them.
    """
    content = (_HERE / "crds.json").read_text(encoding="utf-8")
    definitions: list[dict[str, Any]] = json.loads(content)["items"]
    return definitions


def documents(name: str) -> list[dict[str, Any]]:
    """Return the objects in the folder `name` of the shipped manifests, in the order of its files.

    Raises:
        FileNotFoundError: there is no folder of that name in this installation.
    """
    entries = sorted(get_folder(name).iterdir(), key=lambda entry: entry.name)
    texts = [
        entry.read_text(encoding="utf-8") for entry in entries if entry.name.endswith(".yaml")
    ]
    return [
        document
        for content in texts
        for document in yaml.load_all(content, Loader=_LOADER)
        if document  # None between two separators, or for a file with nothing but comments
    ]
