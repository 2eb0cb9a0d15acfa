"""Addresses are released with their claims, in the contract's order."""

import pytest

from tests.contract.clusterapi.lab import (
    ADDRESS_FINALIZER,
    CLAIM_FINALIZER,
    PAUSED,
    ClusterApiLab,
    make_address_spec,
)
from tests.contract.product import Server, release_line

pytestmark = pytest.mark.asyncio(loop_scope="package")
FOREIGN_FINALIZER = "example.com/keep"


async def test_a_deleted_claim_takes_its_ipaddress_along_and_the_address_is_free(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.11")
    for name in ("a", "b"):
        await lab.create_claim(name, "p")
        await lab.wait_until_served(name)
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddressClaim", "a")
    assert await lab.find("IPAddress", "a") is None
    await lab.wait_for_counts("p", total=2, used=1, free=1, out_of_range=0)
    await lab.create_claim("c", "p")
    assert await lab.wait_until_served("c") == "10.0.0.10"


async def test_the_address_is_free_though_a_foreign_finalizer_keeps_the_deleted_claim(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10")
    await lab.create_claim("a", "p", finalizers=[FOREIGN_FINALIZER])
    await lab.wait_until_served("a")
    await lab.create_claim("b", "p")
    await lab.wait_for_reason("b", "PoolExhausted")
    await lab.delete("IPAddressClaim", "a")
    assert await lab.wait_until_served("b") == "10.0.0.10"
    claim = await lab.find("IPAddressClaim", "a")
    assert claim is not None
    assert claim["metadata"]["finalizers"] == [FOREIGN_FINALIZER]
    await lab.patch("IPAddressClaim", "a", {"metadata": {"finalizers": None}})
    await lab.wait_until_gone("IPAddressClaim", "a")


async def test_a_claim_that_is_deleted_before_its_pool_exists_gets_no_address(
    lab: ClusterApiLab,
) -> None:
    await lab.create_claim("a", "p", finalizers=[FOREIGN_FINALIZER])
    await lab.until(
        "IPAddressClaim", "a", lambda claim: CLAIM_FINALIZER in claim["metadata"]["finalizers"]
    )
    await lab.delete("IPAddressClaim", "a")
    await lab.until(
        "IPAddressClaim", "a", lambda claim: claim["metadata"]["finalizers"] == [FOREIGN_FINALIZER]
    )
    await lab.create_pool("p", "10.0.0.10")
    await lab.wait_until_settled()
    claim = await lab.find("IPAddressClaim", "a")
    assert claim is not None
    assert claim["metadata"]["finalizers"] == [FOREIGN_FINALIZER]
    assert "addressRef" not in claim.get("status", {})
    assert await lab.find("IPAddress", "a") is None
    await lab.patch("IPAddressClaim", "a", {"metadata": {"finalizers": None}})


async def test_a_released_address_is_not_reused_in_the_grace_period_though_its_claim_is_gone(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.11", addressReuseGracePeriodSeconds=4)
    await lab.create_claim("a", "p")
    await lab.wait_until_served("a")
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddressClaim", "a")
    await lab.create_claim("b", "p")
    assert await lab.wait_until_served("b") == "10.0.0.11"
    await lab.create_claim("c", "p")
    assert await lab.wait_until_served("c") == "10.0.0.10"
    await lab.wait_until_gone("IPAddress", "a")


async def test_an_ipaddress_in_its_grace_period_is_not_owned_by_its_claim_and_is_released_after_it(
    lab: ClusterApiLab,
) -> None:
    # If the claim stayed an owner, the garbage collector would remove the reference, or would keep
    # a claim that is deleted in the foreground.
    await lab.create_pool("p", "10.0.0.10", addressReuseGracePeriodSeconds=2)
    await lab.create_claim("a", "p")
    await lab.wait_until_served("a")
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddressClaim", "a")
    address = await lab.find("IPAddress", "a")
    assert address is not None
    assert [owner["kind"] for owner in address["metadata"]["ownerReferences"]] == [
        "InClusterIPPool"
    ]
    await lab.wait_until_gone("IPAddress", "a")


async def test_an_ipaddress_whose_claim_vanished_is_released(lab: ClusterApiLab) -> None:
    await lab.create_pool("p", "10.0.0.10")
    await lab.create_claim("a", "p")
    await lab.wait_until_served("a")
    await lab.patch("IPAddressClaim", "a", {"metadata": {"finalizers": None}})
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddress", "a")
    await lab.wait_for_counts("p", total=1, used=0, free=1, out_of_range=0)


async def test_an_ipaddress_whose_claim_vanished_is_released_though_its_owner_was_collected(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10")
    await lab.create_claim("a", "p")
    await lab.wait_until_served("a")
    await lab.patch("InClusterIPPool", "p", {"metadata": {"annotations": PAUSED}})
    await lab.wait_until_settled()
    await lab.delete("IPAddressClaim", "a")
    await lab.patch("IPAddressClaim", "a", {"metadata": {"finalizers": None}})
    await lab.wait_until_gone("IPAddressClaim", "a")
    await lab.wait_until_settled()
    address = await lab.find("IPAddress", "a")
    assert address is not None, "its pool is paused"
    [claim, pool] = address["metadata"]["ownerReferences"]
    assert claim["kind"] == "IPAddressClaim"
    await lab.patch("IPAddress", "a", {"metadata": {"ownerReferences": [pool]}})
    await lab.patch("InClusterIPPool", "p", {"metadata": {"annotations": dict.fromkeys(PAUSED)}})
    await lab.wait_until_gone("IPAddress", "a")


async def test_an_ipaddress_that_was_made_by_hand_is_never_released(lab: ClusterApiLab) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.11")
    await lab.create("IPAddress", "by-hand", make_address_spec("by-hand", "p", "10.0.0.10"))
    await lab.wait_for_counts("p", total=2, used=1, free=1, out_of_range=0)
    await lab.create_claim("a", "p")
    assert await lab.wait_until_served("a") == "10.0.0.11"
    address = await lab.find("IPAddress", "by-hand")
    assert address is not None
    assert "finalizers" not in address["metadata"]
    await lab.delete("IPAddress", "by-hand")
    await lab.wait_for_counts("p", total=2, used=1, free=1, out_of_range=0)


async def test_removed_finalizers_and_owners_of_an_ipaddress_are_restored(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10")
    await lab.create_claim("a", "p")
    await lab.wait_until_served("a")
    before = await lab.find("IPAddress", "a")
    assert before is not None
    await lab.patch("IPAddress", "a", {"metadata": {"finalizers": None, "ownerReferences": None}})
    after = await lab.until(
        "IPAddress", "a", lambda address: len(address["metadata"].get("ownerReferences", ())) == 2
    )
    assert after["metadata"]["finalizers"] == [ADDRESS_FINALIZER]
    assert after["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]


async def test_an_ipaddress_that_was_removed_by_force_comes_back_with_its_address(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.12", gateway="10.0.0.1")
    for name in ("a", "b"):
        await lab.create_claim(name, "p")
        await lab.wait_until_served(name)
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddressClaim", "a")
    before = await lab.find("IPAddress", "b")
    assert before is not None
    await lab.delete("IPAddress", "b")
    address = await lab.find("IPAddress", "b")
    assert address is not None, "the finalizer holds it"
    await lab.patch("IPAddress", "b", {"metadata": {"finalizers": None}})
    after = await lab.until(
        "IPAddress", "b", lambda body: body["metadata"]["uid"] != before["metadata"]["uid"]
    )
    assert after["spec"] == before["spec"]


async def test_a_new_claim_adopts_the_ipaddress_of_its_name_that_is_being_deleted(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.11")
    await lab.create_claim("a", "p", annotations={"cluster.x-k8s.io/paused": ""})
    owner = {
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2",
        "kind": "IPAddressClaim",
        "name": "a",
        "uid": "of-an-earlier-claim",
        "controller": True,
    }
    await lab.create(
        "IPAddress",
        "a",
        make_address_spec("a", "p", "10.0.0.11"),
        ownerReferences=[owner],
        finalizers=[ADDRESS_FINALIZER],
    )
    await lab.delete("IPAddress", "a")
    await lab.patch("IPAddressClaim", "a", {"metadata": {"annotations": None}})
    assert await lab.wait_until_served("a") == "10.0.0.11"


async def test_a_claim_of_the_same_name_waits_for_the_grace_period_of_the_earlier_ones_address(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.11", addressReuseGracePeriodSeconds=3)
    await lab.create_claim("a", "p")
    assert await lab.wait_until_served("a") == "10.0.0.10"
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddressClaim", "a")
    await lab.create_claim("a", "p")
    await lab.wait_for_reason("a", "AllocationFailed")
    assert await lab.wait_until_served("a") == "10.0.0.10"


async def test_a_released_address_is_one_line_in_the_log(
    lab: ClusterApiLab, server: Server
) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.11")
    await lab.create_claim("a", "p")
    await lab.wait_until_served("a")
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddressClaim", "a")
    line = await release_line(server.log, f"IPAddressClaim {lab.namespace}/a")
    assert "range=10.0.0.10/24" in line
    assert "pool='InClusterIPPool p'" in line
    assert "reason='its claim is deleted'" in line
