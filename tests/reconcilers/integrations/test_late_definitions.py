"""Kinds that are served only later: what their objects hold is unknown at first."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from controller.meta import Key
from controller.resource import Resource
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.configuration.integrationnames import CLUSTER_API, KUBERMATIC
from reconcilers.configuration.settings import KubermaticSettings, Settings
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.core.discovery import DEFINITIONS, SETTLING_SECONDS
from reconcilers.integrations.kubermatic.api import ALLOCATIONS
from tests.reconcilers.test_sharing import NAMESPACE, Cluster

CLAIMS = clusterapi.get_claim_kind("v1beta2")
WITH_CLAIMS = Settings(integration=(CLUSTER_API,))
WITH_OBSERVED = Settings(integration=(KUBERMATIC,), kubermatic=KubermaticSettings(observe=True))


@asynccontextmanager
async def cluster_without_kinds(settings: Settings) -> AsyncIterator[Cluster]:
    """Yield a cluster that serves no kind of an integration.

    Its replica has served allocation `first` of NetworkPool `lab`.
    """
    async with anyio.create_task_group() as group:
        cluster = Cluster(group, settings, 1)
        cluster.api.serve(DEFINITIONS)
        await cluster.create_pool("lab", 0)
        cluster.start_replicas("a")
        await cluster.pass_by(20)
        await cluster.create_allocation("first", "lab")
        await cluster.pass_by(5)
        assert set(await cluster.list_ranges()) == {"first"}
        yield cluster
        group.cancel_scope.cancel()


async def create_definition(cluster: Cluster, kind: Resource[Any], *, established: bool) -> None:
    """Create the CustomResourceDefinition of a kind that discovery does not list yet."""
    body: dict[str, Any] = {
        "metadata": {"name": kind.full_name},
        "spec": {"versions": [{"name": kind.version, "served": True}]},
    }
    created = await cluster.client.create(DEFINITIONS, "", body)
    if established:
        conditions = [{"type": "Established", "status": "True"}]
        await cluster.client.patch_status(DEFINITIONS, created, {"conditions": conditions})


KINDS = pytest.mark.parametrize(
    ("settings", "kind"), [(WITH_CLAIMS, CLAIMS), (WITH_OBSERVED, ALLOCATIONS)]
)


@KINDS
async def test_nothing_is_handed_out_while_discovery_lacks_a_kind_whose_definition_is_established(
    settings: Settings, kind: Resource[Any]
) -> None:
    async with cluster_without_kinds(settings) as cluster:
        await create_definition(cluster, kind, established=True)
        await cluster.pass_by(1)
        await cluster.create_allocation("second", "lab")
        await cluster.pass_by(20)
        assert set(await cluster.list_ranges()) == {"first"}
        pool = await cluster.client.get(NETWORK_POOL, Key(NAMESPACE, "lab"))
        ready = next(
            condition for condition in pool.status.conditions if condition.type == "Ready"
        )
        assert ready.reason == "HoldersUnknown"


@KINDS
async def test_pools_are_served_again_if_a_new_definition_is_not_established_for_long(
    settings: Settings, kind: Resource[Any]
) -> None:
    """A pool waits for the definition for SETTLING_SECONDS, no longer."""
    async with cluster_without_kinds(settings) as cluster:
        await create_definition(cluster, kind, established=False)
        await cluster.pass_by(1)
        await cluster.create_allocation("second", "lab")
        await cluster.pass_by(SETTLING_SECONDS / 2)
        assert set(await cluster.list_ranges()) == {"first"}
        await cluster.pass_by(SETTLING_SECONDS)
        assert set(await cluster.list_ranges()) == {"first", "second"}
