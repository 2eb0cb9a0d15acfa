"""A pool of Cluster API that is being deleted: its counts stay current while it waits."""

from typing import Any

from tests.reconcilers.integrations.clusterapi.test_unreadable import (
    CLAIMS,
    POOLS,
    SERVED,
    WITH_CLAIMS,
    create_claim,
    create_ip_pool,
    read_address,
)
from tests.reconcilers.integrations.unreadable import Json, PlatformCluster, open_platform_cluster


def _read_counts(cluster: PlatformCluster) -> Json:
    """Return the counts of addresses in the status of pool `p`."""
    return dict(cluster.get_stored(POOLS, "p")["status"]["ipAddresses"])


def _read_condition(cluster: PlatformCluster) -> tuple[Any, Any]:
    """Return reason and message of the condition Ready of pool `p`."""
    ready = cluster.get_ready_condition(POOLS, "p")
    return ready["reason"], ready["message"]


async def test_released_addresses_are_free_in_the_counts_of_a_pool_that_is_being_deleted() -> None:
    async with open_platform_cluster(WITH_CLAIMS, *SERVED) as cluster:
        await create_ip_pool(cluster, "p", 0)
        for name in ("a", "b"):
            await create_claim(cluster, name, "p")
        await cluster.pass_by(5)
        assert read_address(cluster, "b")
        await cluster.delete(POOLS, "p")
        await cluster.pass_by(15)
        assert _read_condition(cluster) == ("Deleting", "2 IPAddresses are in use")
        assert _read_counts(cluster) == {"total": 5, "used": 2, "free": 3, "outOfRange": 0}
        await cluster.delete(CLAIMS, "a")
        await cluster.pass_by(15)
        assert _read_condition(cluster) == ("Deleting", "1 IPAddress is in use")
        assert _read_counts(cluster) == {"total": 5, "used": 1, "free": 4, "outOfRange": 0}


async def test_a_pool_whose_spec_turns_invalid_still_says_what_its_deletion_waits_for() -> None:
    async with open_platform_cluster(WITH_CLAIMS, *SERVED) as cluster:
        await create_ip_pool(cluster, "p", 0)
        await create_claim(cluster, "a", "p")
        await cluster.pass_by(5)
        await cluster.delete(POOLS, "p")
        await cluster.edit(POOLS, "p", {"spec": {"addresses": ["nonsense"]}})
        await cluster.pass_by(15)
        assert _read_condition(cluster) == ("Deleting", "1 IPAddress is in use")
