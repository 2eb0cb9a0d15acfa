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

CLAIMS = clusterapi.claims("v1beta2")
WITH_CLAIMS = Settings(integration=(CLUSTER_API,))
WITH_OBSERVED = Settings(integration=(KUBERMATIC,), kubermatic=KubermaticSettings(observe=True))


@asynccontextmanager
async def cluster_without_kinds(settings: Settings) -> AsyncIterator[Cluster]:
    """Return a cluster with a pool and a replica, without the kinds of an integration."""
    async with anyio.create_task_group() as group:
        home = Cluster(group, settings, 1)
        home.api.serve(DEFINITIONS)
        await home.pool("lab", 0)
        home.start("a")
        await home.pass_by(20)
        await home.ask("first", "lab")
        await home.pass_by(5)
        assert set(await home.ranges()) == {"first"}
        yield home
        group.cancel_scope.cancel()


async def define(home: Cluster, kind: Resource[Any], *, established: bool) -> None:
    """Create the definition of a kind, which discovery does not list yet."""
    body: dict[str, Any] = {
        "metadata": {"name": kind.full_name},
        "spec": {"versions": [{"name": kind.version, "served": True}]},
    }
    created = await home.client.create(DEFINITIONS, "", body)
    if established:
        conditions = [{"type": "Established", "status": "True"}]
        await home.client.patch_status(DEFINITIONS, created, {"conditions": conditions})


KINDS = pytest.mark.parametrize(
    ("settings", "kind"), [(WITH_CLAIMS, CLAIMS), (WITH_OBSERVED, ALLOCATIONS)]
)


@KINDS
async def test_nothing_is_handed_out_while_discovery_lacks_a_kind_that_is_defined_now(
    settings: Settings, kind: Resource[Any]
) -> None:
    async with cluster_without_kinds(settings) as home:
        await define(home, kind, established=True)
        await home.pass_by(1)
        await home.ask("second", "lab")
        await home.pass_by(20)
        assert set(await home.ranges()) == {"first"}
        pool = await home.client.get(NETWORK_POOL, Key(NAMESPACE, "lab"))
        ready = next(
            condition for condition in pool.status.conditions if condition.type == "Ready"
        )
        assert ready.reason == "HoldersUnknown"


@KINDS
async def test_pools_are_served_again_once_a_definition_is_known_not_to_serve_the_kind(
    settings: Settings, kind: Resource[Any]
) -> None:
    async with cluster_without_kinds(settings) as home:
        await define(home, kind, established=False)
        await home.pass_by(1)
        await home.ask("second", "lab")
        await home.pass_by(SETTLING_SECONDS / 2)
        assert set(await home.ranges()) == {"first"}
        await home.pass_by(SETTLING_SECONDS)
        assert set(await home.ranges()) == {"first", "second"}
