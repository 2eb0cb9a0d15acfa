"""Kinds that may not be read, at first or later: what their objects hold is unknown, not free."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from controller.health import run_checks
from controller.meta import Key
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.configuration.integrationnames import CLUSTER_API, KUBERMATIC
from reconcilers.configuration.settings import KubermaticSettings, Settings
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.core.discovery import DEFINITIONS
from reconcilers.integrations.kubermatic.api import ALLOCATIONS
from reconcilers.promises.waitlog import PATIENCE_SECONDS
from tests.reconcilers.test_sharing import NAMESPACE, Cluster, Replica

CLAIMS = clusterapi.get_claim_kind("v1beta2")
ADDRESSES = clusterapi.get_address_kind("v1beta2")
WITH_CLAIMS = Settings(integration=(CLUSTER_API,))
WITH_OBSERVED = Settings(integration=(KUBERMATIC,), kubermatic=KubermaticSettings(observe=True))


@asynccontextmanager
async def open_cluster(settings: Settings, *kinds: Any) -> AsyncIterator[Cluster]:
    """Yield a cluster that serves the kinds of an integration, with NetworkPool `lab`."""
    async with anyio.create_task_group() as group:
        cluster = Cluster(group, settings, 1)
        for kind in (DEFINITIONS, *kinds):
            cluster.api.serve(kind)
        await cluster.create_pool("lab", 0)
        yield cluster
        group.cancel_scope.cancel()


async def create_ipam_allocation(cluster: Cluster, name: str, addresses: str) -> None:
    """Create an IPAMAllocation as KKP does; `addresses` is a range."""
    spec = {"type": "range", "dc": "dc", "addresses": [addresses]}
    await cluster.client.create(ALLOCATIONS, NAMESPACE, {"metadata": {"name": name}, "spec": spec})


async def read_ready(cluster: Cluster) -> Any:
    """Return the condition Ready of NetworkPool `lab`."""
    pool = await cluster.client.get(NETWORK_POOL, Key(NAMESPACE, "lab"))
    return next(condition for condition in pool.status.conditions if condition.type == "Ready")


def read_readiness(replica: Replica) -> str:
    """Return the answer of /readyz?verbose."""
    return run_checks("readyz", replica.manager._list_readiness_checks(), verbose=True).body


async def start_replica(cluster: Cluster, *, hidden_group: str = "") -> Replica:
    """Start a replica that may not read CustomResourceDefinitions.

    Args:
        cluster: where it is started.
        hidden_group: an API group that discovery does not show to the replica; empty for none.
    """
    [replica] = cluster.start_replicas("a")
    replica.link.forbidden_plurals.add(DEFINITIONS.plural)
    if hidden_group:
        replica.link.hidden_groups.add(hidden_group)
    return replica


async def test_nothing_of_a_hidden_kind_is_handed_out_where_definitions_may_not_be_read() -> None:
    async with open_cluster(WITH_OBSERVED, ALLOCATIONS) as cluster:
        await create_ipam_allocation(cluster, "kkp", "10.0.0.0-10.0.0.127")
        replica = await start_replica(cluster, hidden_group=ALLOCATIONS.group)
        await cluster.create_allocation("first", "lab", 64)
        await cluster.pass_by(PATIENCE_SECONDS + 5)
        assert await cluster.list_ranges() == {}
        assert (await read_ready(cluster)).reason == "HoldersUnknown"
        assert "grant list and watch of customresourcedefinitions" in read_readiness(replica)
        replica.link.hidden_groups.clear()
        await cluster.pass_by(10)
        [held_range] = (await cluster.list_ranges()).values()
        assert held_range.first % 256 == 128
        assert held_range.last % 256 == 191


async def test_a_kind_counts_as_absent_after_discovery_lacked_it_for_half_a_minute() -> None:
    """The replica may not read definitions, so discovery alone shows which kinds are served."""
    for settings in (WITH_CLAIMS, WITH_OBSERVED):
        async with open_cluster(settings) as cluster:
            replica = await start_replica(cluster)
            await cluster.create_allocation("first", "lab")
            await cluster.pass_by(15)
            assert await cluster.list_ranges() == {}
            await cluster.pass_by(15)
            assert set(await cluster.list_ranges()) == {"first"}
            assert "it is not known which kinds are served" not in read_readiness(replica)


@pytest.mark.parametrize("kind", [CLAIMS, ADDRESSES], ids=["claims", "addresses"])
async def test_a_kind_that_is_served_and_may_not_be_listed_fails_the_probe(kind: Any) -> None:
    async with open_cluster(WITH_CLAIMS, CLAIMS, ADDRESSES) as cluster:
        [replica] = cluster.start_replicas("a")
        replica.link.forbidden_plurals.add(kind.plural)
        await cluster.pass_by(20)
        await cluster.create_allocation("first", "lab")
        await cluster.pass_by(PATIENCE_SECONDS + 5)
        assert await cluster.list_ranges() == {}
        assert f"cannot list {kind.full_name}" in read_readiness(replica)
        replica.link.forbidden_plurals.clear()
        await cluster.pass_by(60)
        assert set(await cluster.list_ranges()) == {"first"}
        assert read_readiness(replica).endswith("readyz check passed\n")


async def test_observed_allocations_that_may_no_longer_be_read_are_unknown() -> None:
    async with open_cluster(WITH_OBSERVED, ALLOCATIONS) as cluster:
        [replica] = cluster.start_replicas("a")
        await cluster.pass_by(20)
        await cluster.create_allocation("first", "lab")
        await cluster.pass_by(5)
        assert set(await cluster.list_ranges()) == {"first"}
        replica.link.forbid(ALLOCATIONS.plural)
        await cluster.pass_by(5)
        await create_ipam_allocation(cluster, "kkp", "10.0.0.0-10.0.0.127")
        await cluster.create_allocation("second", "lab", 64)
        await cluster.pass_by(PATIENCE_SECONDS + 5)
        assert set(await cluster.list_ranges()) == {"first"}
        ready = await read_ready(cluster)
        assert ready.reason == "HoldersUnknown"
        assert "not allowed, a role has to grant it" in ready.message
        assert "ipamallocations.kubermatic.k8c.io" in read_readiness(replica)
        replica.link.forbidden_plurals.clear()
        await cluster.pass_by(60)
        assert (await cluster.list_ranges())["second"].first % 256 >= 128


async def test_replicas_do_not_overwrite_each_other_if_only_one_may_read_a_kind() -> None:
    """Both replicas lead and work on the pool; replica `b` may not read IPAMAllocations."""
    async with open_cluster(WITH_OBSERVED, ALLOCATIONS) as cluster:
        cluster.shards = 0
        allowed, forbidden = cluster.start_replicas("a", "b", leader_elect=False)
        forbidden.link.forbidden_plurals.add(ALLOCATIONS.plural)
        await cluster.pass_by(PATIENCE_SECONDS + 5)
        for number in range(3):
            await cluster.create_allocation(f"ask-{number}", "lab")
            await cluster.pass_by(5)
        assert len(await cluster.list_ranges()) == 3
        await cluster.pass_by(60)  # settled promises are dropped
        allowed.link.sent.clear()
        forbidden.link.sent.clear()
        await cluster.pass_by(60)
        assert (await read_ready(cluster)).reason == "Ready"
        assert allowed.take_written_names()["networkpools"] == set()
        assert forbidden.take_written_names()["networkpools"] == set()
