"""Objects that were recreated from a backup: their owner references have uids of the past."""

from typing import Any

import pytest

from tests.contract.clusterapi.lab import (
    ADDRESS_FINALIZER,
    CLAIM_FINALIZER,
    IPAM,
    PAUSED,
    ClusterApiLab,
)

pytestmark = pytest.mark.asyncio(loop_scope="package")
STALE_UID = "00000000-0000-4000-8000-00000000000"
"""A uid of the past, without its last digit."""


def make_owner_reference(
    kind: str, name: str, uid: str, version: str = "v1beta2"
) -> dict[str, Any]:
    """Return an owner reference as a provider writes it."""
    return {
        "apiVersion": f"{IPAM}/{version}",
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": kind == "IPAddressClaim",
        "blockOwnerDeletion": True,
    }


async def restore_address(
    lab: ClusterApiLab, name: str, last: int, *, collected: bool = True
) -> None:
    """Create the IPAddress 10.0.0.LAST of a claim; the uids of its owners do not exist.

    Args:
        lab: the objects.
        name: of the IPAddress and its claim.
        last: the last byte of the address.
        collected: delete the IPAddress as a garbage collector does; its finalizer keeps it.
    """
    spec = {
        "claimRef": {"name": name},
        "poolRef": {"apiGroup": IPAM, "kind": "InClusterIPPool", "name": "p"},
        "address": f"10.0.0.{last}",
        "prefix": 24,
    }
    owners = [
        make_owner_reference("IPAddressClaim", name, f"{STALE_UID}1"),
        make_owner_reference("InClusterIPPool", "p", uid=f"{STALE_UID}2", version="v1alpha2"),
    ]
    await lab.create(
        "IPAddress", name, spec, finalizers=[ADDRESS_FINALIZER], ownerReferences=owners
    )
    if collected:
        await lab.delete("IPAddress", name)


async def restore_claim(lab: ClusterApiLab, name: str) -> None:
    """Create a claim with our finalizer and no status."""
    await lab.create_claim(name, "p", finalizers=[CLAIM_FINALIZER])


async def check_keeps_address(lab: ClusterApiLab, name: str, last: int) -> None:
    """Check that a claim gets 10.0.0.LAST, and that it owns an IPAddress that is not deleted."""
    assert await lab.wait_until_served(name) == f"10.0.0.{last}"
    claim = await lab.find("IPAddressClaim", name)
    assert claim is not None

    def is_kept(address: dict[str, Any]) -> bool:
        uids = [owner["uid"] for owner in address["metadata"].get("ownerReferences", ())]
        return "deletionTimestamp" not in address["metadata"] and claim["metadata"]["uid"] in uids

    address = await lab.until("IPAddress", name, is_kept)
    assert address["spec"]["address"] == f"10.0.0.{last}"
    assert address["metadata"]["finalizers"] == [ADDRESS_FINALIZER]


@pytest.mark.parametrize("addresses_first", [True, False])
async def test_each_restored_claim_gets_its_former_address(
    lab: ClusterApiLab, addresses_first: bool
) -> None:
    machines = {f"m{last}": last for last in (14, 12, 13, 10, 11)}
    await lab.create_pool("p", "10.0.0.5-10.0.0.14")
    if addresses_first:
        for name, last in machines.items():
            await restore_address(lab, name, last)
        await lab.wait_until_settled()
        for name in machines:
            await restore_claim(lab, name)
    else:
        await lab.patch("InClusterIPPool", "p", {"metadata": {"annotations": PAUSED}})
        await lab.wait_until_settled()
        for name, last in machines.items():
            await restore_claim(lab, name)
            await restore_address(lab, name, last)
        await lab.wait_until_settled()
        unpaused = {"metadata": {"annotations": dict.fromkeys(PAUSED)}}
        await lab.patch("InClusterIPPool", "p", unpaused)
    for name, last in machines.items():
        await check_keeps_address(lab, name, last)
    await lab.wait_for_counts("p", total=10, used=5, free=5, out_of_range=0)


async def test_a_restored_address_that_the_collector_has_not_seen_yet_is_adopted(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.14")
    await restore_address(lab, "m", 13, collected=False)
    await restore_claim(lab, "m")
    await check_keeps_address(lab, "m", 13)


async def test_a_restored_address_whose_claim_is_deleted_is_released(lab: ClusterApiLab) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.14")
    await restore_address(lab, "m", 13)
    await restore_claim(lab, "m")
    assert await lab.wait_until_served("m") == "10.0.0.13"
    await lab.delete("IPAddressClaim", "m")
    await lab.wait_until_gone("IPAddressClaim", "m")
    await lab.wait_until_gone("IPAddress", "m")
    await lab.wait_for_counts("p", total=5, used=0, free=5, out_of_range=0)


async def create_unclaimed_address(lab: ClusterApiLab, name: str, pool: str) -> None:
    """Create a pool and an IPAddress of it whose claim was deleted while no controller ran.

    The garbage collector has removed the owner reference to the claim.
    """
    created = await lab.create_pool(pool, "10.0.0.10-10.0.0.14")
    spec = {
        "claimRef": {"name": name},
        "poolRef": {"apiGroup": IPAM, "kind": "InClusterIPPool", "name": pool},
        "address": "10.0.0.13",
        "prefix": 24,
    }
    owners = [
        make_owner_reference(
            "InClusterIPPool", pool, uid=created["metadata"]["uid"], version="v1alpha2"
        )
    ]
    finalizers = [ADDRESS_FINALIZER]
    await lab.create("IPAddress", name, spec, finalizers=finalizers, ownerReferences=owners)


async def test_an_ipaddress_whose_claim_was_deleted_unseen_is_released_and_its_pool_can_be_deleted(
    lab: ClusterApiLab,
) -> None:
    await create_unclaimed_address(lab, "m", "p")
    await lab.delete("InClusterIPPool", "p")
    await lab.wait_until_gone("IPAddress", "m")
    await lab.wait_until_gone("InClusterIPPool", "p")


async def test_a_new_claim_takes_over_the_ipaddress_of_a_claim_that_was_deleted_unseen(
    lab: ClusterApiLab,
) -> None:
    await create_unclaimed_address(lab, "m", "p")
    await lab.create_claim("m", "p")
    await check_keeps_address(lab, "m", 13)
