"""A kind of ours whose definition comes late, or that may not be listed, waits alone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from controller.resource import Resource
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL, PROVIDER_CONFIG, TENANT_CLUSTER
from tests.reconcilers.test_sharing import Cluster

LONGEST_PAUSE = 35.0
"""Seconds between two attempts of an informer that fails, and some for the pass."""


@asynccontextmanager
async def open_cluster_without(*missing: Resource[Any]) -> AsyncIterator[Cluster]:
    """Yield a cluster that does not serve some kinds of ours, with a replica that leads."""
    async with anyio.create_task_group() as group:
        cluster = Cluster(group, missing=missing)
        cluster.start_replicas("a")
        await cluster.pass_by(60)
        yield cluster
        for replica in cluster.replicas:
            replica.link.cut = False
        group.cancel_scope.cancel()


@pytest.mark.parametrize("missing", [PROVIDER_CONFIG, TENANT_CLUSTER], ids=lambda kind: kind.kind)
async def test_pools_are_served_while_another_kind_of_ours_is_not(
    missing: Resource[Any],
) -> None:
    async with open_cluster_without(missing) as cluster:
        await cluster.create_pool("pool-0", 0)
        await cluster.create_allocation("a", "pool-0")
        await cluster.pass_by(30)
        assert set(await cluster.list_ranges()) == {"a"}


@pytest.mark.parametrize("missing", [NETWORK_POOL, IP_ALLOCATION], ids=lambda kind: kind.kind)
async def test_a_kind_that_comes_late_is_served_without_a_restart(
    missing: Resource[Any],
) -> None:
    async with open_cluster_without(missing) as cluster:
        cluster.serve(missing)
        await cluster.pass_by(LONGEST_PAUSE)
        await cluster.create_pool("pool-0", 0)
        await cluster.create_allocation("a", "pool-0")
        await cluster.pass_by(30)
        assert set(await cluster.list_ranges()) == {"a"}


@pytest.mark.parametrize("plural", ["providerconfigs", "tenantclusters"])
async def test_pools_are_served_while_another_kind_of_ours_is_forbidden(plural: str) -> None:
    async with anyio.create_task_group() as group:
        cluster = Cluster(group)
        [replica] = cluster.start_replicas("a")
        replica.link.forbid(plural)
        await cluster.pass_by(60)
        await cluster.create_pool("pool-0", 0)
        await cluster.create_allocation("a", "pool-0")
        await cluster.pass_by(30)
        assert set(await cluster.list_ranges()) == {"a"}
        group.cancel_scope.cancel()


@pytest.mark.parametrize("plural", ["networkpools", "ipallocations"])
async def test_a_kind_that_was_forbidden_is_served_without_a_restart(plural: str) -> None:
    async with anyio.create_task_group() as group:
        cluster = Cluster(group)
        [replica] = cluster.start_replicas("a")
        replica.link.forbid(plural)
        await cluster.create_pool("pool-0", 0)
        await cluster.create_allocation("a", "pool-0")
        await cluster.pass_by(60)
        assert await cluster.list_ranges() == {}
        replica.link.forbidden_plurals.clear()
        await cluster.pass_by(LONGEST_PAUSE + 30)
        assert set(await cluster.list_ranges()) == {"a"}
        group.cancel_scope.cancel()
