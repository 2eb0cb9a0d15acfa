"""One server with metal3's and Cluster API's kinds, and the product as a process."""

from collections.abc import AsyncIterator, Mapping

import pytest
import pytest_asyncio

from tests.contract.metal3.lab import Metal3Lab
from tests.contract.metal3.webhooks import (
    NAMESPACE_LABELS,
    choose_flags,
    register_metal3_webhooks,
    wait_until_called,
)
from tests.contract.product import DATA, Server, serving
from tests.yamls import read_all_yaml


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """A server on which the product serves IPPools."""
    content = (DATA / "clusterapi" / "crds.yaml").read_text(encoding="utf-8")
    where = tmp_path_factory.mktemp("metal3")
    port, flags = choose_flags()
    async with serving("metal3", where, more=read_all_yaml(content), flags=flags) as server:
        await register_metal3_webhooks(server.admin, port)
        await wait_until_called(await _create_lab(server, NAMESPACE_LABELS))
        yield server


@pytest_asyncio.fixture(
    loop_scope="package",
    params=[pytest.param({}, id="no webhooks"), pytest.param(NAMESPACE_LABELS, id="webhooks")],
)
async def lab(server: Server, request: pytest.FixtureRequest) -> Metal3Lab:
    """The objects of metal3 in a namespace of each test's own, without webhooks and with them.

    Tests of edits that the webhooks refuse, and of a product that is stopped and answers none, are
    marked `without_webhooks`. Tests of the webhooks themselves are marked `with_webhooks`.
    """
    return await _create_lab(server, request.param)


async def _create_lab(server: Server, labels: Mapping[str, str]) -> Metal3Lab:
    """Create a namespace with these labels."""
    metadata = {"generateName": "metal3-", "labels": dict(labels)}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    answer = await server.admin.post("/api/v1/namespaces", json=body)
    assert answer.status_code == 201, answer.text
    return Metal3Lab(server.admin, answer.json()["metadata"]["name"])
