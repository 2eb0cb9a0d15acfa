"""Objects that a restore created anew: their owners' uids are those of before."""

from typing import Any

import pytest

from tests.contract.clusterapi.lab import ADDRESS_FINALIZER, CLAIM_FINALIZER, IPAM, PAUSED, Lab

pytestmark = pytest.mark.asyncio(loop_scope="package")
STALE = "00000000-0000-4000-8000-00000000000"


def owner(kind: str, name: str, uid: str, version: str = "v1beta2") -> dict[str, Any]:
    """Return an owner reference as a provider writes it."""
    return {
        "apiVersion": f"{IPAM}/{version}",
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": kind == "IPAddressClaim",
        "blockOwnerDeletion": True,
    }


async def restored_address(lab: Lab, name: str, last: int, *, collected: bool = True) -> None:
    """Create an IPAddress whose owners do not exist; a garbage collector deletes it."""
    spec = {
        "claimRef": {"name": name},
        "poolRef": {"apiGroup": IPAM, "kind": "InClusterIPPool", "name": "p"},
        "address": f"10.0.0.{last}",
        "prefix": 24,
    }
    owners = [
        owner("IPAddressClaim", name, f"{STALE}1"),
        owner("InClusterIPPool", "p", uid=f"{STALE}2", version="v1alpha2"),
    ]
    await lab.create(
        "IPAddress", name, spec, finalizers=[ADDRESS_FINALIZER], ownerReferences=owners
    )
    if collected:
        await lab.delete("IPAddress", name)


async def restored_claim(lab: Lab, name: str) -> None:
    """Create a claim with our finalizer and no status."""
    await lab.claim(name, "p", finalizers=[CLAIM_FINALIZER])


async def check_recreated(lab: Lab, name: str, last: int) -> None:
    """Assert that a claim is served with an address, and that its IPAddress is there to stay."""
    assert await lab.wait_until_served(name) == f"10.0.0.{last}"
    claim = await lab.find("IPAddressClaim", name)
    assert claim is not None

    def stays(address: dict[str, Any]) -> bool:
        uids = [owner["uid"] for owner in address["metadata"].get("ownerReferences", ())]
        return "deletionTimestamp" not in address["metadata"] and claim["metadata"]["uid"] in uids

    address = await lab.until("IPAddress", name, stays)
    assert address["spec"]["address"] == f"10.0.0.{last}"
    assert address["metadata"]["finalizers"] == [ADDRESS_FINALIZER]


@pytest.mark.parametrize("addresses_first", [True, False])
async def test_no_machine_of_a_restored_pool_gets_another_address(
    lab: Lab, addresses_first: bool
) -> None:
    machines = {f"m{last}": last for last in (14, 12, 13, 10, 11)}
    await lab.pool("p", "10.0.0.5-10.0.0.14")
    if addresses_first:
        for name, last in machines.items():
            await restored_address(lab, name, last)
        await lab.wait_until_settled()
        for name in machines:
            await restored_claim(lab, name)
    else:
        await lab.patch("InClusterIPPool", "p", {"metadata": {"annotations": PAUSED}})
        await lab.wait_until_settled()
        for name, last in machines.items():
            await restored_claim(lab, name)
            await restored_address(lab, name, last)
        await lab.wait_until_settled()
        unpaused = {"metadata": {"annotations": dict.fromkeys(PAUSED)}}
        await lab.patch("InClusterIPPool", "p", unpaused)
    for name, last in machines.items():
        await check_recreated(lab, name, last)
    await lab.counts("p", (10, 5, 5, 0))


async def test_a_restored_address_that_the_collector_has_not_seen_yet_is_adopted(lab: Lab) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.14")
    await restored_address(lab, "m", 13, collected=False)
    await restored_claim(lab, "m")
    await check_recreated(lab, "m", 13)


async def test_a_restored_address_whose_claim_is_deleted_is_released(lab: Lab) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.14")
    await restored_address(lab, "m", 13)
    await restored_claim(lab, "m")
    assert await lab.wait_until_served("m") == "10.0.0.13"
    await lab.delete("IPAddressClaim", "m")
    await lab.wait_until_gone("IPAddressClaim", "m")
    await lab.wait_until_gone("IPAddress", "m")
    await lab.counts("p", (5, 0, 5, 0))


async def left_over(lab: Lab, name: str, pool: str) -> None:
    """Create what is left of a claim that went while nobody looked: its owner was collected."""
    created = await lab.pool(pool, "10.0.0.10-10.0.0.14")
    spec = {
        "claimRef": {"name": name},
        "poolRef": {"apiGroup": IPAM, "kind": "InClusterIPPool", "name": pool},
        "address": "10.0.0.13",
        "prefix": 24,
    }
    owners = [owner("InClusterIPPool", pool, uid=created["metadata"]["uid"], version="v1alpha2")]
    finalizers = [ADDRESS_FINALIZER]
    await lab.create("IPAddress", name, spec, finalizers=finalizers, ownerReferences=owners)


async def test_an_address_whose_claim_went_unseen_is_released_and_its_pool_can_go(
    lab: Lab,
) -> None:
    await left_over(lab, "m", "p")
    await lab.delete("InClusterIPPool", "p")
    await lab.wait_until_gone("IPAddress", "m")
    await lab.wait_until_gone("InClusterIPPool", "p")


async def test_a_claim_of_the_pool_takes_over_an_address_whose_claim_went_unseen(
    lab: Lab,
) -> None:
    await left_over(lab, "m", "p")
    await lab.claim("m", "p")
    await check_recreated(lab, "m", 13)
