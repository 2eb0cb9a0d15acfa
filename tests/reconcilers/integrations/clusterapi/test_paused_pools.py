"""A NetworkPool that is paused serves IPAllocations, and no claim."""

from collections.abc import Iterable
from typing import Any

import pytest

from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi import api
from reconcilers.networkpool.statusjournal import JOURNAL_FIELDS
from tests.reconcilers.integrations.clusterapi.test_unreadable import (
    CLAIMS,
    SERVED,
    WITH_CLAIMS,
    create_claim,
    read_address,
)
from tests.reconcilers.integrations.unreadable import PlatformCluster, open_platform_cluster


async def annotate(cluster: PlatformCluster, annotations: dict[str, str | None]) -> None:
    """Set or remove annotations of NetworkPool lab."""
    patch: dict[str, Any] = {"metadata": {"annotations": annotations}}
    await cluster.edit(NETWORK_POOL, "lab", patch)


async def lose_journal(cluster: PlatformCluster, fields: Iterable[str] = JOURNAL_FIELDS) -> None:
    """Remove the journal of NetworkPool lab, or some fields of it."""
    await cluster.edit(NETWORK_POOL, "lab", {"status": dict.fromkeys(fields)})


@pytest.mark.parametrize("fields", [JOURNAL_FIELDS, {"journalOf"}], ids=["removed", "unsealed"])
async def test_an_allocation_is_served_while_a_paused_pool_has_lost_its_journal(
    fields: Iterable[str],
) -> None:
    """A claim of the pool waits until the pause ends."""
    async with open_platform_cluster(WITH_CLAIMS, *SERVED) as cluster:
        await cluster.create_pool("lab", 0)
        await cluster.pass_by(5)
        await annotate(cluster, {api.PAUSED: ""})
        await lose_journal(cluster, fields)
        await create_claim(cluster, "a", pool="lab", kind=NETWORK_POOL)
        await cluster.create_allocation("x", "lab")
        await cluster.pass_by(10)
        assert set(await cluster.list_ranges()) == {"x"}
        assert read_address(cluster, "a") == ""
        await annotate(cluster, {api.PAUSED: None})
        await cluster.pass_by(5)
        assert read_address(cluster, "a") == "10.0.0.8"


async def test_a_waiting_claim_of_a_paused_pool_is_written_once_to_void_lost_promises() -> None:
    """A fence: a pool without a journal writes each waiting claim, which voids old promises."""
    async with open_platform_cluster(WITH_CLAIMS, *SERVED) as cluster:
        await cluster.create_pool("lab", 0)
        await cluster.pass_by(5)
        await annotate(cluster, {api.PAUSED: ""})
        await create_claim(cluster, "a", pool="lab", kind=NETWORK_POOL)
        await cluster.pass_by(10)
        assert cluster.get_ready_condition(CLAIMS, "a") == {}, (
            "a pause alone is no reason to write a claim"
        )
        await lose_journal(cluster)
        await cluster.pass_by(10)
        ready = cluster.get_ready_condition(CLAIMS, "a")
        assert ready["reason"] == "PoolNotReady"
        assert "NetworkPool lab has no valid record of its promises" in ready["message"]
        assert "are void" in ready["message"]
        version = cluster.get_stored(CLAIMS, "a")["metadata"]["resourceVersion"]
        await cluster.pass_by(60)
        assert cluster.get_stored(CLAIMS, "a")["metadata"]["resourceVersion"] == version
