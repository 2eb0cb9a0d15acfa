"""One server with metal3's and Cluster API's kinds, and the product as a process."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.contract.metal3.lab import Metal3Lab
from tests.contract.product import DATA, Server, serving
from tests.yamls import read_all_yaml


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """A server on which the product serves IPPools."""
    content = (DATA / "clusterapi" / "crds.yaml").read_text(encoding="utf-8")
    where = tmp_path_factory.mktemp("metal3")
    async with serving("metal3", where, read_all_yaml(content)) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="package")
async def lab(server: Server) -> Metal3Lab:
    """The objects of metal3 in a namespace of each test's own."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "metal3-"}}
    answer = await server.admin.post("/api/v1/namespaces", json=body)
    assert answer.status_code == 201, answer.text
    return Metal3Lab(server.admin, answer.json()["metadata"]["name"])
