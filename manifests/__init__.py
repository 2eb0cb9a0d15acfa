"""The manifests for a cluster, as package data: CRDs, RBAC, deployment, samples."""

from importlib.resources import files
from importlib.resources.abc import Traversable


def folder(name: str) -> Traversable:
    """Return the folder `name` of the shipped manifests, for example `crds` or `samples`.

    Raises:
        FileNotFoundError: there is no folder of that name in this installation.
    """
    found = files(__package__).joinpath(name)
    if not found.is_dir():
        raise FileNotFoundError(f"manifests: no folder {name!r} is shipped with this installation")
    return found
