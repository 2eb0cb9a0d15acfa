"""The integration of claims is off, and claims have addresses of NetworkPools from before."""

from ipaddress import IPv4Address

from reconcilers.api.resources import NETWORK_POOL
from reconcilers.configuration.settings import Settings
from tests.reconcilers.integrations.clusterapi.test_unreadable import (
    ADDRESSES,
    CLAIMS,
    CLUSTERS,
    WITH_CLAIMS,
    create_claim,
    read_address,
)
from tests.reconcilers.integrations.unreadable import Json, PlatformCluster, open_platform_cluster
from tests.reconcilers.test_sharing import Replica

WITHOUT_CLAIMS = Settings()
CLAIM_KINDS = (CLAIMS, ADDRESSES, CLUSTERS)
NO_JOURNAL: Json = {"status": {"assignments": None, "revisions": None}}
"""A patch that removes the journal from the status of a NetworkPool."""
LONG = 30.0
"""Seconds after which a pool reports what it waits for."""


async def _serve_claim_and_switch_off(cluster: PlatformCluster) -> None:
    """Serve claim `machine` of pool `lab`, then restart the replica without the integration."""
    await cluster.create_pool("lab", 0)
    await create_claim(cluster, "machine", pool="lab", kind=NETWORK_POOL)
    await cluster.pass_by(5)
    assert read_address(cluster, "machine")
    cluster.settings = WITHOUT_CLAIMS
    await cluster.restart_replica()


def _take_pool_writes(replica: Replica) -> list[str]:
    """Return the paths of the NetworkPools that a replica wrote since the last call."""
    paths = [path for method, path in replica.link.sent if method in {"PATCH", "PUT"}]
    replica.link.sent.clear()
    return [path for path in paths if "/networkpools/" in path]


async def test_a_pool_that_served_claims_hands_out_nothing_and_reports_what_to_do() -> None:
    async with open_platform_cluster(WITH_CLAIMS, *CLAIM_KINDS) as cluster:
        await _serve_claim_and_switch_off(cluster)
        await cluster.create_allocation("one", "lab")
        await cluster.pass_by(LONG)
        assert await cluster.list_ranges() == {}
        ready = cluster.get_ready_condition(NETWORK_POOL, "lab")
        assert ready["reason"] == "HoldersUnknown"
        assert "start the controller with --integration=clusterapi" in ready["message"]
        assert "set both fields to null" in ready["message"]


async def test_a_pool_is_served_again_once_the_integration_is_on_or_the_journal_is_gone() -> None:
    async with open_platform_cluster(WITH_CLAIMS, *CLAIM_KINDS) as cluster:
        await _serve_claim_and_switch_off(cluster)
        await cluster.create_allocation("one", "lab")
        await cluster.pass_by(LONG)
        cluster.settings = WITH_CLAIMS
        await cluster.restart_replica()
        [held_range] = (await cluster.list_ranges()).values()
        address = int(IPv4Address(read_address(cluster, "machine")))
        assert not held_range.first <= address <= held_range.last
        cluster.settings = WITHOUT_CLAIMS
        await cluster.restart_replica()
        await cluster.remove_by_force(CLAIMS, "machine")
        await cluster.remove_by_force(ADDRESSES, "machine")
        await cluster.create_allocation("two", "lab")
        await cluster.pass_by(LONG)
        assert set(await cluster.list_ranges()) == {"one"}
        await cluster.edit(NETWORK_POOL, "lab", dict(NO_JOURNAL))
        await cluster.pass_by(5)
        assert set(await cluster.list_ranges()) == {"one", "two"}
        assert cluster.get_ready_condition(NETWORK_POOL, "lab")["reason"] == "Ready"


async def test_other_pools_are_served_and_no_kind_of_claims_is_read_without_the_integration() -> (
    None
):
    async with open_platform_cluster(WITH_CLAIMS, *CLAIM_KINDS) as cluster:
        await _serve_claim_and_switch_off(cluster)
        await cluster.create_pool("other", 1)
        await cluster.create_allocation("one", "other")
        await cluster.pass_by(LONG)
        assert {held_range.pool for held_range in (await cluster.list_ranges()).values()} == {
            "other"
        }
        sent = cluster.replicas[-1].link.sent
        assert sent
        assert [path for _, path in sent if CLAIMS.group in path] == []


async def test_a_pool_that_served_claims_is_not_deleted_without_the_integration() -> None:
    async with open_platform_cluster(WITH_CLAIMS, *CLAIM_KINDS) as cluster:
        await _serve_claim_and_switch_off(cluster)
        await cluster.delete(NETWORK_POOL, "lab")
        await cluster.pass_by(LONG)
        ready = cluster.get_ready_condition(NETWORK_POOL, "lab")
        assert ready["reason"] == "HoldersUnknown"
        assert ready["message"].startswith("the pool is not deleted until that is known")
        await cluster.edit(NETWORK_POOL, "lab", dict(NO_JOURNAL))
        await cluster.pass_by(5)
        assert cluster.get_stored(NETWORK_POOL, "lab") == {}


async def _start_replicas_without_and_with_claims(
    cluster: PlatformCluster,
) -> tuple[Replica, Replica]:
    """Start a replica without the integration and one with it; both lead and work on all pools.

    Returns:
        The replica without the integration, then the one with it.
    """
    await _serve_claim_and_switch_off(cluster)
    cluster.stop_replicas()
    await cluster.pass_by(1)
    [without] = cluster.start_replicas("without", leader_elect=False)
    cluster.settings = WITH_CLAIMS
    [with_claims] = cluster.start_replicas("with", leader_elect=False)
    await cluster.pass_by(LONG)
    return without, with_claims


async def test_replicas_with_and_without_the_integration_do_not_overwrite_each_other() -> None:
    async with open_platform_cluster(WITH_CLAIMS, *CLAIM_KINDS) as cluster:
        cluster.shards = 0
        replicas = await _start_replicas_without_and_with_claims(cluster)
        assert cluster.get_ready_condition(NETWORK_POOL, "lab")["reason"] == "Ready"
        for replica in replicas:
            _take_pool_writes(replica)
        await cluster.pass_by(300)
        assert [_take_pool_writes(replica) for replica in replicas] == [[], []]
        await cluster.create_allocation("one", "lab")
        await cluster.pass_by(LONG)
        assert set(await cluster.list_ranges()) == {"one"}
        assert cluster.get_ready_condition(NETWORK_POOL, "lab")["reason"] == "Ready"


async def test_replicas_do_not_overwrite_each_other_on_a_pool_that_is_being_deleted() -> None:
    async with open_platform_cluster(WITH_CLAIMS, *CLAIM_KINDS) as cluster:
        cluster.shards = 0
        replicas = await _start_replicas_without_and_with_claims(cluster)
        await cluster.create_allocation("one", "lab")
        await cluster.pass_by(LONG)
        await cluster.delete(NETWORK_POOL, "lab")
        await cluster.pass_by(60)
        assert cluster.get_ready_condition(NETWORK_POOL, "lab")["reason"] == "Deleting"
        for replica in replicas:
            _take_pool_writes(replica)
        await cluster.pass_by(300)
        assert [_take_pool_writes(replica) for replica in replicas] == [[], []]
