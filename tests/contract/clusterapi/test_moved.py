"""What `clusterctl move` leaves behind at its source is not handed out again there.

It copies pools of the whole cluster and their IPAddresses, and deletes neither; claims it deletes
by force. The addresses are in use, by machines that another cluster manages now.
"""

import pytest

from reconcilers.integrations.clusterapi.api import DELETE_FOR_MOVE
from tests.contract.clusterapi.lab import Lab

pytestmark = pytest.mark.asyncio(loop_scope="package")
KIND = "GlobalInClusterIPPool"


async def moved_away(lab: Lab, name: str) -> None:
    """Delete a claim as `clusterctl move` does."""
    await lab.patch("IPAddressClaim", name, {"metadata": {"annotations": {DELETE_FOR_MOVE: ""}}})
    await lab.delete("IPAddressClaim", name)
    if await lab.find("IPAddressClaim", name) is not None:
        await lab.patch("IPAddressClaim", name, {"metadata": {"finalizers": None}})


async def of_both(lab: Lab) -> str:
    """Make a pool of the whole cluster, with two addresses; return its name."""
    name = f"moved-{lab.namespace}"
    await lab.pool(name, "10.3.0.10-10.3.0.11", kind=KIND)
    return name


@pytest.mark.parametrize("is_named", [True, False])
async def test_the_address_of_a_claim_that_was_moved_away_stays_in_use(
    lab: Lab, is_named: bool
) -> None:
    pool = await of_both(lab)
    if is_named:
        await lab.create("Cluster", "c", {})
    await lab.claim("a", pool, KIND, **({"cluster": "c"} if is_named else {}))
    assert await lab.wait_until_served("a") == "10.3.0.10"
    if is_named:
        await lab.patch("Cluster", "c", {"spec": {"paused": True}})
    await moved_away(lab, "a")
    if is_named:
        await lab.delete("Cluster", "c")
    await lab.wait_until_settled()
    address = await lab.find("IPAddress", "a")
    assert address is not None
    assert "deletionTimestamp" not in address["metadata"]
    await lab.claim("b", pool, KIND)
    assert await lab.wait_until_served("b") == "10.3.0.11"
    await lab.counts(pool, (2, 2, 0, 0), KIND)


async def test_a_claim_that_was_moved_back_has_its_address_and_releases_it_in_the_end(
    lab: Lab,
) -> None:
    pool = await of_both(lab)
    await lab.claim("before", pool, KIND)
    await lab.wait_until_served("before")
    await lab.claim("a", pool, KIND)
    assert await lab.wait_until_served("a") == "10.3.0.11"
    await lab.delete("IPAddressClaim", "before")
    await lab.wait_until_gone("IPAddressClaim", "before")
    await moved_away(lab, "a")
    await lab.wait_until_settled()
    await lab.claim("a", pool, KIND)
    assert await lab.wait_until_served("a") == "10.3.0.11"
    await lab.patch("IPAddressClaim", "a", {"metadata": {"finalizers": None}})
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddress", "a")
    await lab.counts(pool, (2, 0, 2, 0), KIND)


async def test_a_claim_that_vanishes_while_its_cluster_is_there_releases_its_address(
    lab: Lab,
) -> None:
    pool = await of_both(lab)
    await lab.create("Cluster", "c", {})
    await lab.claim("a", pool, KIND, cluster="c")
    await lab.wait_until_served("a")
    await lab.patch("IPAddressClaim", "a", {"metadata": {"finalizers": None}})
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddress", "a")
    await lab.counts(pool, (2, 0, 2, 0), KIND)
