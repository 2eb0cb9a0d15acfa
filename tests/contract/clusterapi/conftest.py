"""One server with Cluster API's kinds, and the product as a process, for all of these tests."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from envtest import ControlPlane
from envtest.plane import ControlPlane as Plane
from reconcilers.api import crd
from reconcilers.integrations.clusterapi import crds
from tests.contract.clusterapi.lab import Lab
from tests.contract.conftest import administrator
from tests.reconcilers.cli.commands import butler_ipam, environment

DATA = Path(__file__).parents[2] / "data" / "clusterapi"


@contextmanager
def product(kubeconfig: Path, log: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the product with the integration as a process; it is killed at the end."""
    command = butler_ipam(
        "run",
        f"--kubeconfig={kubeconfig}",
        "--integration=clusterapi",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        "--log-format=console",
        *flags,
    )
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, env=environment(), cwd="/", stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def install(plane: Plane) -> None:
    """Install our kinds, Cluster API's, and the pools of this integration."""
    await plane.install_crds(crd.crds())
    await plane.install_crds(DATA / "crds.yaml")
    await plane.install_crds(crds.crds())


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def server(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[Plane, httpx.AsyncClient, Path]]:
    """A server on which the product serves claims; the path is that of the product's log."""
    folder = tmp_path_factory.mktemp("clusterapi")
    async with ControlPlane.start() as plane, administrator(plane) as admin:
        await install(plane)
        kubeconfig = plane.write_kubeconfig(folder / "kubeconfig")
        with product(kubeconfig, folder / "log"):
            yield plane, admin, folder / "log"


@pytest_asyncio.fixture(loop_scope="package")
async def lab(server: tuple[Plane, httpx.AsyncClient, Path]) -> Lab:
    """A namespace of its own for each test."""
    _, admin, _ = server
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "lab-"}}
    made = (await admin.post("/api/v1/namespaces", json=body)).json()
    return Lab(admin, made["metadata"]["name"])
