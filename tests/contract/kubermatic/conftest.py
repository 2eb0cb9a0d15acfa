"""One server with KKP's kinds, and the product as a process, for all of these tests."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from envtest import ControlPlane
from reconcilers.api import crd
from tests.contract.conftest import administrator
from tests.contract.kubermatic.lab import Lab
from tests.reconcilers.cli.commands import butler_ipam, environment

DATA = Path(__file__).parents[2] / "data" / "kubermatic"
_numbers = count()


@contextmanager
def product(kubeconfig: Path, log: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the product with the integration as a process; it is killed at the end."""
    command = butler_ipam(
        "run",
        f"--kubeconfig={kubeconfig}",
        "--integration=kubermatic",
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


@dataclass(frozen=True, slots=True)
class Server:
    """A server on which the product serves IPAMPools.

    Args:
        admin: the administrator's client.
        kubeconfig: the administrator's.
        process: the product.
    """

    admin: httpx.AsyncClient
    kubeconfig: Path
    process: subprocess.Popen[bytes]


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """A server on which the product serves IPAMPools."""
    folder = tmp_path_factory.mktemp("kubermatic")
    async with ControlPlane.start() as plane, administrator(plane) as admin:
        await plane.install_crds(crd.crds())
        await plane.install_crds(DATA / "crds.yaml")
        kubeconfig = plane.write_kubeconfig(folder / "kubeconfig")
        with product(kubeconfig, folder / "log") as process:
            yield Server(admin, kubeconfig, process)


@pytest_asyncio.fixture(loop_scope="package")
async def lab(server: Server) -> Lab:
    """Names of its own for each test."""
    return Lab(server.admin, f"t{next(_numbers)}")
