"""One server with Cluster API's kinds, and the product as a process, for all of these tests."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from reconcilers.integrations.clusterapi import crds
from tests.contract.clusterapi.lab import ClusterApiLab
from tests.contract.product import Server, serving


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """A server on which the product serves claims."""
    async with serving(
        "clusterapi", tmp_path_factory.mktemp("clusterapi"), crds.build_pool_crds()
    ) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="package")
async def lab(server: Server) -> ClusterApiLab:
    """The objects of Cluster API in a namespace of each test's own."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "lab-"}}
    namespace = (await server.admin.post("/api/v1/namespaces", json=body)).json()
    return ClusterApiLab(server.admin, namespace["metadata"]["name"])
