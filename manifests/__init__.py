"""The manifests for a cluster, as package data: CRDs, RBAC, deployment, samples."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import yaml

# libyaml takes a tenth of the time, where PyYAML was built with it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def folder(name: str) -> Traversable:
    """Return the folder `name` of the shipped manifests, for example `crds` or `samples`.

    Raises:
        FileNotFoundError: there is no folder of that name in this installation.
    """
    found = files(__package__).joinpath(name)
    if not found.is_dir():
        raise FileNotFoundError(f"manifests: no folder {name!r} is shipped with this installation")
    return found


def documents(name: str) -> list[dict[str, Any]]:
    """Return the objects in the folder `name` of the shipped manifests, in the order of its files.

    Raises:
        FileNotFoundError: there is no folder of that name in this installation.
    """
    found = sorted(folder(name).iterdir(), key=lambda one: one.name)
    texts = [one.read_text(encoding="utf-8") for one in found if one.name.endswith(".yaml")]
    return [one for text in texts for one in yaml.load_all(text, Loader=_LOADER) if one]
