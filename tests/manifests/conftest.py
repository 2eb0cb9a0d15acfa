"""Clusters to install things on: one for each module and server, as starting one takes seconds."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.manifests.clusters import STAND_INS, Cluster, run_empty_cluster
from tests.servers import SERVERS


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=SERVERS)
async def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Cluster]:
    """An empty cluster: on the server that the environment selects, and on the oldest one."""
    async with run_empty_cluster(
        request.param, tmp_path_factory.mktemp("cluster")
    ) as opened_cluster:
        yield opened_cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def with_stand_ins(cluster: Cluster) -> Cluster:
    """The cluster, with stand-ins for the kinds of cert-manager and the Prometheus operator."""
    await cluster.apply("-f", STAND_INS)
    await cluster.wait_until_established()
    return cluster
