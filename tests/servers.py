"""The API servers that tests of manifests run on, and where their programs are.

`asked` is the server that the environment names: the embedded one, or real binaries. `oldest` is
the oldest Kubernetes that the documents promise, if its programs are on this machine.
"""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest

from envtest import ControlPlane
from envtest.binaries import run_real_control_plane
from envtest.plane import RunningControlPlane as Plane
from envtest.settings import read_settings

ASSETS = "KUBEBUILDER_ASSETS"
OLDEST_ASSETS = "BUTLER_IPAM_TEST_OLDEST_ASSETS"

Server = Literal["asked", "oldest"]
SERVERS: tuple[Server, ...] = ("asked", "oldest")


def program(name: str) -> str:
    """Return the path of kubectl or helm: beside KUBEBUILDER_ASSETS, else on the PATH.

    The test is skipped where there is none.
    """
    folder = os.environ.get(ASSETS)
    if folder and (Path(folder) / name).exists():
        return str(Path(folder) / name)
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"no {name} on this machine: neither in {ASSETS} nor on the PATH")
    return path


def oldest_assets() -> Path:
    """Return the folder with the programs of the oldest Kubernetes that the documents promise.

    The test is skipped if there is none. A folder that OLDEST_ASSETS names is not checked.
    """
    environ, asked = os.environ.get(OLDEST_ASSETS), os.environ.get(ASSETS)
    if environ:
        return Path(environ)
    oldest = Path(asked).parent / "oldest" if asked else None
    if oldest is None or not (oldest / "kube-apiserver").exists():
        pytest.skip(
            f"no oldest Kubernetes on this machine: {OLDEST_ASSETS} is not set, and there is no"
            f" folder `oldest` beside {ASSETS} ({asked or 'not set'}); `make real` builds it"
        )
    return oldest


@asynccontextmanager
async def running(server: Server) -> AsyncIterator[Plane]:
    """Run the control plane of a server."""
    if server == "oldest":
        settings = read_settings({ASSETS: str(oldest_assets())})
        async with run_real_control_plane(settings, None, listen="127.0.0.1:0", tokens="") as real:
            yield real
    else:
        async with ControlPlane.start() as plane:
            yield plane
