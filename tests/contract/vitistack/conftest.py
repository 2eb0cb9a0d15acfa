"""One server with vitistack's kinds, and the product as a process, for all of these tests."""

from collections.abc import AsyncIterator
from itertools import count

import pytest
import pytest_asyncio

from tests.contract.product import Server, serving
from tests.contract.vitistack.lab import VitistackLab

_numbers = count()


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """A server on which the product serves IPAllocations of vitistack."""
    async with serving("vitistack", tmp_path_factory.mktemp("vitistack")) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="package")
async def lab(server: Server) -> VitistackLab:
    """The objects of vitistack in a namespace of each test's own."""
    name = f"v{next(_numbers)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    answer = await server.admin.post("/api/v1/namespaces", json=body)
    assert answer.status_code == 201, answer.text
    return VitistackLab(server.admin, name)
