"""One server with vitistack's kinds, and the product as a process, for all of these tests."""

import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import anyio
import httpx
import pytest
import pytest_asyncio

from envtest import ControlPlane
from reconcilers.api import crd
from tests.contract.conftest import administrator
from tests.contract.product import product, under_shipped_roles
from tests.contract.vitistack.lab import Lab
from tests.reconcilers.cli.commands import installed

DATA = Path(__file__).parents[2] / "data" / "vitistack"
_numbers = count()


@dataclass(frozen=True, slots=True)
class Server:
    """A server on which the product serves IPAllocations of vitistack.

    Args:
        admin: the administrator's client.
        kubeconfig: of the product, with the roles that it is installed with.
        admin_kubeconfig: the administrator's.
        process: the product.
    """

    admin: httpx.AsyncClient
    kubeconfig: Path
    admin_kubeconfig: Path
    process: subprocess.Popen[bytes]


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """A server on which the product serves IPAllocations of vitistack."""
    folder = tmp_path_factory.mktemp("vitistack")
    async with ControlPlane.start() as plane, administrator(plane) as admin:
        await plane.install_crds(crd.crds())
        await plane.install_crds(DATA / "crds.yaml")
        kubeconfig = await under_shipped_roles(plane, admin, folder, "vitistack")
        log = folder / "log"
        with product("vitistack", kubeconfig, log, program=installed) as process:
            admin_kubeconfig = plane.write_kubeconfig(folder / "admin")
            yield Server(admin, kubeconfig, admin_kubeconfig, process)
        text = await anyio.Path(log).read_text(encoding="utf-8")
        assert "403 Forbidden" not in text, "the shipped roles do not suffice"


@pytest_asyncio.fixture(loop_scope="package")
async def lab(server: Server) -> Lab:
    """A namespace of its own for each test."""
    name = f"v{next(_numbers)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    answer = await server.admin.post("/api/v1/namespaces", json=body)
    assert answer.status_code == 201, answer.text
    return Lab(server.admin, name)
