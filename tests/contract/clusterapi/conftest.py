"""One server with Cluster API's kinds, and the product as a process, for all of these tests."""

import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx
import pytest
import pytest_asyncio

from envtest import ControlPlane
from envtest.plane import ControlPlane as Plane
from reconcilers.api import crd
from reconcilers.integrations.clusterapi import crds
from tests.contract.clusterapi.lab import Lab
from tests.contract.conftest import administrator
from tests.contract.product import product, under_shipped_roles
from tests.reconcilers.cli.commands import installed

DATA = Path(__file__).parents[2] / "data" / "clusterapi"


async def install(plane: Plane) -> None:
    """Install our kinds, Cluster API's, and the pools of this integration."""
    await plane.install_crds(crd.crds())
    await plane.install_crds(DATA / "crds.yaml")
    await plane.install_crds(crds.crds())


@dataclass(frozen=True, slots=True)
class Server:
    """A server on which the product serves claims.

    Args:
        plane: the server.
        admin: the administrator's client.
        kubeconfig: the administrator's.
        account: the product's, with the roles that it is installed with.
        log: what the product logs.
        process: the product.
    """

    plane: Plane
    admin: httpx.AsyncClient
    kubeconfig: Path
    account: Path
    log: Path
    process: subprocess.Popen[bytes]


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """A server on which the product serves claims."""
    folder = tmp_path_factory.mktemp("clusterapi")
    async with ControlPlane.start() as plane, administrator(plane) as admin:
        await install(plane)
        kubeconfig = plane.write_kubeconfig(folder / "kubeconfig")
        account = await under_shipped_roles(plane, admin, folder, "clusterapi")
        log = folder / "log"
        with product("clusterapi", account, log, program=installed) as process:
            yield Server(plane, admin, kubeconfig, account, log, process)
        text = await anyio.Path(log).read_text(encoding="utf-8")
        assert "403 Forbidden" not in text, "the shipped roles do not suffice"


@pytest_asyncio.fixture(loop_scope="package")
async def lab(server: Server) -> Lab:
    """A namespace of its own for each test."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "lab-"}}
    made = (await server.admin.post("/api/v1/namespaces", json=body)).json()
    return Lab(server.admin, made["metadata"]["name"])
