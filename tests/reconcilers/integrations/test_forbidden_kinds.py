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

CLAIMS = clusterapi.claims("v1beta2")
ADDRESSES = clusterapi.addresses("v1beta2")
WITH_CLAIMS = Settings(integration=(CLUSTER_API,))
WITH_OBSERVED = Settings(integration=(KUBERMATIC,), kubermatic=KubermaticSettings(observe=True))
DEFINED = "customresourcedefinitions"


@asynccontextmanager
async def cluster(settings: Settings, *kinds: Any) -> AsyncIterator[Cluster]:
    """Return a cluster with the pool `lab` and kinds of an integration."""
    async with anyio.create_task_group() as group:
        home = Cluster(group, settings, 1)
        for kind in (DEFINITIONS, *kinds):
            home.api.serve(kind)
        await home.pool("lab", 0)
        yield home
        group.cancel_scope.cancel()


async def create_observed(home: Cluster, name: str, addresses: str) -> None:
    """Create an IPAMAllocation as KKP makes them."""
    spec = {"type": "range", "dc": "dc", "addresses": [addresses]}
    await home.client.create(ALLOCATIONS, NAMESPACE, {"metadata": {"name": name}, "spec": spec})


async def ready(home: Cluster) -> Any:
    """Return condition Ready of the pool."""
    pool = await home.client.get(NETWORK_POOL, Key(NAMESPACE, "lab"))
    return next(condition for condition in pool.status.conditions if condition.type == "Ready")


def probe(replica: Replica) -> str:
    """Return the answer of /readyz?verbose."""
    return run_checks("readyz", replica.manager._list_readiness_checks(), verbose=True).body


async def start(home: Cluster, *, hidden: str = "") -> Replica:
    """Start a replica that may not read definitions, and whose discovery lacks a group."""
    [replica] = home.start("a")
    replica.link.forbidden_plurals.add(DEFINED)
    if hidden:
        replica.link.hidden_groups.add(hidden)
    return replica


async def test_nothing_of_a_hidden_kind_is_handed_out_where_definitions_may_not_be_read() -> None:
    async with cluster(WITH_OBSERVED, ALLOCATIONS) as home:
        await create_observed(home, "kkp", "10.0.0.0-10.0.0.127")
        replica = await start(home, hidden=ALLOCATIONS.group)
        await home.ask("first", "lab", 64)
        await home.pass_by(PATIENCE_SECONDS + 5)
        assert await home.ranges() == {}
        assert (await ready(home)).reason == "HoldersUnknown"
        assert "grant list and watch of customresourcedefinitions" in probe(replica)
        replica.link.hidden_groups.clear()
        await home.pass_by(10)
        [(_, first, last)] = (await home.ranges()).values()
        assert first % 256 == 128
        assert last % 256 == 191


async def test_an_absent_kind_is_believed_after_looks_where_definitions_may_not_be_read() -> None:
    for settings in (WITH_CLAIMS, WITH_OBSERVED):
        async with cluster(settings) as home:
            replica = await start(home)
            await home.ask("first", "lab")
            await home.pass_by(15)
            assert await home.ranges() == {}
            # All kinds of Cluster API are looked up at once.
            await home.pass_by(15)
            assert set(await home.ranges()) == {"first"}
            assert "it is not known which kinds are served" not in probe(replica)


@pytest.mark.parametrize("kind", [CLAIMS, ADDRESSES], ids=["claims", "addresses"])
async def test_a_kind_that_is_served_and_may_not_be_listed_fails_the_probe(kind: Any) -> None:
    async with cluster(WITH_CLAIMS, CLAIMS, ADDRESSES) as home:
        [replica] = home.start("a")
        replica.link.forbidden_plurals.add(kind.plural)
        await home.pass_by(20)
        await home.ask("first", "lab")
        await home.pass_by(PATIENCE_SECONDS + 5)
        assert await home.ranges() == {}
        assert f"cannot list {kind.full_name}" in probe(replica)
        replica.link.forbidden_plurals.clear()
        await home.pass_by(60)
        assert set(await home.ranges()) == {"first"}
        assert probe(replica).endswith("readyz check passed\n")


async def test_observed_allocations_that_may_no_longer_be_read_are_unknown() -> None:
    async with cluster(WITH_OBSERVED, ALLOCATIONS) as home:
        [replica] = home.start("a")
        await home.pass_by(20)
        await home.ask("first", "lab")
        await home.pass_by(5)
        assert set(await home.ranges()) == {"first"}
        replica.link.forbid(ALLOCATIONS.plural)
        await home.pass_by(5)
        await create_observed(home, "kkp", "10.0.0.0-10.0.0.127")
        await home.ask("second", "lab", 64)
        await home.pass_by(PATIENCE_SECONDS + 5)
        assert set(await home.ranges()) == {"first"}
        unknown = await ready(home)
        assert unknown.reason == "HoldersUnknown"
        assert "not allowed, a role has to grant it" in unknown.message
        assert "ipamallocations.kubermatic.k8c.io" in probe(replica)
        replica.link.forbidden_plurals.clear()
        await home.pass_by(60)
        _, first, _ = (await home.ranges())["second"]
        assert first % 256 >= 128


async def test_a_leader_that_does_not_know_the_holders_rewrites_no_status_of_one_that_does() -> (
    None
):
    async with cluster(WITH_OBSERVED, ALLOCATIONS) as home:
        home.shards = 0
        knowing, unknowing = home.start("a", "b", leader_elect=False)
        unknowing.link.forbidden_plurals.add(ALLOCATIONS.plural)
        await home.pass_by(PATIENCE_SECONDS + 5)
        for number in range(3):
            await home.ask(f"ask-{number}", "lab")
            await home.pass_by(5)
        assert len(await home.ranges()) == 3
        await home.pass_by(60)  # settled promises are dropped
        knowing.link.sent.clear()
        unknowing.link.sent.clear()
        await home.pass_by(60)
        assert (await ready(home)).reason == "Ready"
        assert knowing.take_written_names()["networkpools"] == set()
        assert unknowing.take_written_names()["networkpools"] == set()
