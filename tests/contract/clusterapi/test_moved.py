"""Addresses that `clusterctl move` leaves at its source are not handed out again there.

The command copies cluster-scoped pools and their IPAddresses, and deletes neither. It deletes
claims by force. Their addresses are in use by machines that another cluster manages now.
"""

import pytest

from reconcilers.integrations.clusterapi.api import DELETE_FOR_MOVE
from tests.contract.clusterapi.lab import ClusterApiLab

pytestmark = pytest.mark.asyncio(loop_scope="package")
KIND = "GlobalInClusterIPPool"


async def delete_like_clusterctl_move(lab: ClusterApiLab, name: str) -> None:
    """Delete a claim as `clusterctl move` does."""
    await lab.patch("IPAddressClaim", name, {"metadata": {"annotations": {DELETE_FOR_MOVE: ""}}})
    await lab.delete("IPAddressClaim", name)
    if await lab.find("IPAddressClaim", name) is not None:
        await lab.patch("IPAddressClaim", name, {"metadata": {"finalizers": None}})


async def create_global_pool(lab: ClusterApiLab) -> str:
    """Create a cluster-scoped pool of two addresses; return its name."""
    name = f"moved-{lab.namespace}"
    await lab.create_pool(name, "10.3.0.10-10.3.0.11", kind=KIND)
    return name


@pytest.mark.parametrize("has_cluster", [True, False])
async def test_the_address_of_a_claim_that_was_moved_away_stays_in_use(
    lab: ClusterApiLab, has_cluster: bool
) -> None:
    pool = await create_global_pool(lab)
    if has_cluster:
        await lab.create("Cluster", "c", {})
    await lab.create_claim("a", pool, KIND, **({"cluster": "c"} if has_cluster else {}))
    assert await lab.wait_until_served("a") == "10.3.0.10"
    if has_cluster:
        await lab.patch("Cluster", "c", {"spec": {"paused": True}})
    await delete_like_clusterctl_move(lab, "a")
    if has_cluster:
        await lab.delete("Cluster", "c")
    await lab.wait_until_settled()
    address = await lab.find("IPAddress", "a")
    assert address is not None
    assert "deletionTimestamp" not in address["metadata"]
    await lab.create_claim("b", pool, KIND)
    assert await lab.wait_until_served("b") == "10.3.0.11"
    await lab.wait_for_counts(pool, total=2, used=2, free=0, out_of_range=0, kind=KIND)


async def test_a_claim_that_is_moved_back_gets_its_former_address_and_can_release_it(
    lab: ClusterApiLab,
) -> None:
    pool = await create_global_pool(lab)
    await lab.create_claim("before", pool, KIND)
    await lab.wait_until_served("before")
    await lab.create_claim("a", pool, KIND)
    assert await lab.wait_until_served("a") == "10.3.0.11"
    await lab.delete("IPAddressClaim", "before")
    await lab.wait_until_gone("IPAddressClaim", "before")
    await delete_like_clusterctl_move(lab, "a")
    await lab.wait_until_settled()
    await lab.create_claim("a", pool, KIND)
    assert await lab.wait_until_served("a") == "10.3.0.11"
    await lab.patch("IPAddressClaim", "a", {"metadata": {"finalizers": None}})
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddress", "a")
    await lab.wait_for_counts(pool, total=2, used=0, free=2, out_of_range=0, kind=KIND)


async def test_a_claim_that_vanishes_while_its_cluster_is_there_releases_its_address(
    lab: ClusterApiLab,
) -> None:
    pool = await create_global_pool(lab)
    await lab.create("Cluster", "c", {})
    await lab.create_claim("a", pool, KIND, cluster="c")
    await lab.wait_until_served("a")
    await lab.patch("IPAddressClaim", "a", {"metadata": {"finalizers": None}})
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddress", "a")
    await lab.wait_for_counts(pool, total=2, used=0, free=2, out_of_range=0, kind=KIND)
