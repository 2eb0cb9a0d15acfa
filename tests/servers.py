"""The API servers that tests of the manifests are held against, and where their programs are.

`asked` is what the environment asks for: the embedded server, or real binaries. `oldest` is the
oldest Kubernetes that the documents promise, if its programs are on this machine.
"""

import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import anyio
import pytest

from controller.tenantconfig import parse_kubeconfig, tenant_transport
from envtest import ControlPlane
from envtest.plane import ControlPlane as Plane
from envtest.settings import read_settings
from reconcilers.cli.local.servers import (
    ANSWER_LIMIT,
    REQUEST_SECONDS,
    ApiServer,
    Definitions,
)
from tests import keptservers

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
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} on this machine: neither in {ASSETS} nor on the PATH")
    return found


def oldest_assets() -> Path:
    """Return the folder with the programs of the oldest Kubernetes that the documents promise.

    The test is skipped where there is none. A folder that is named has to be one.
    """
    named, asked = os.environ.get(OLDEST_ASSETS), os.environ.get(ASSETS)
    if named:
        return Path(named)
    oldest = Path(asked).parent / "oldest" if asked else None
    if oldest is None or not (oldest / "kube-apiserver").exists():
        pytest.skip(
            f"no oldest Kubernetes on this machine: {OLDEST_ASSETS} is not set, and there is no"
            f" folder `oldest` beside {ASSETS} ({asked or 'not set'}); `make real` builds it"
        )
    return oldest


@asynccontextmanager
async def running(server: Server = "asked") -> AsyncIterator[Plane]:
    """Run an empty control plane of a server; a real one is borrowed (keptservers.py).

    A test that stops or freezes the server, or needs its controllers, starts its own by
    ControlPlane.start().
    """
    settings = read_settings({ASSETS: str(oldest_assets())} if server == "oldest" else None)
    if settings.kind == "binaries":
        async with keptservers.borrowed(settings) as real:
            yield real
    else:
        async with ControlPlane.start() as plane:
            yield plane


@asynccontextmanager
async def api_server(name: str, kinds: Definitions) -> AsyncIterator[ApiServer]:
    """Give an empty control plane that serves `kinds`, in the form that our commands start one.

    Unlike theirs it has no controllers: a test of what namespaces or owners take with them starts
    one by reconcilers.cli.local.servers.
    """
    async with running() as plane:
        await plane.install_crds([dict(kind) for kind in kinds])
        config = parse_kubeconfig(plane.kubeconfig().encode())
        transport = tenant_transport(config, max_bytes=ANSWER_LIMIT, timeout=REQUEST_SECONDS)
        try:
            version = json.loads(await transport.request("GET", "/version"))["gitVersion"]
            yield ApiServer(name, plane.url, plane.kind, plane.kubeconfig(), transport, version)
        finally:
            with anyio.CancelScope(shield=True):
                await transport.aclose()
