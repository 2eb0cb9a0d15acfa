"""Addresses are released with their claims, in the contract's order."""

import pytest

from tests.contract.clusterapi.lab import ADDRESS_FINALIZER, CLAIM_FINALIZER, PAUSED, Lab
from tests.contract.product import Server, release_line

pytestmark = pytest.mark.asyncio(loop_scope="package")
OTHER = "example.com/keep"


async def test_a_deleted_claim_takes_its_ipaddress_along_and_the_address_is_free(lab: Lab) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.11")
    for name in ("a", "b"):
        await lab.claim(name, "p")
        await lab.wait_until_served(name)
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddressClaim", "a")
    assert await lab.find("IPAddress", "a") is None
    await lab.counts("p", (2, 1, 1, 0))
    await lab.claim("c", "p")
    assert await lab.wait_until_served("c") == "10.0.0.10"


async def test_the_address_is_free_though_a_foreign_finalizer_keeps_the_deleted_claim(
    lab: Lab,
) -> None:
    await lab.pool("p", "10.0.0.10")
    await lab.claim("a", "p", finalizers=[OTHER])
    await lab.wait_until_served("a")
    await lab.claim("b", "p")
    await lab.says("b", "PoolExhausted")
    await lab.delete("IPAddressClaim", "a")
    assert await lab.wait_until_served("b") == "10.0.0.10"
    kept = await lab.find("IPAddressClaim", "a")
    assert kept is not None
    assert kept["metadata"]["finalizers"] == [OTHER]
    await lab.patch("IPAddressClaim", "a", {"metadata": {"finalizers": None}})
    await lab.wait_until_gone("IPAddressClaim", "a")


async def test_a_claim_that_is_deleted_before_it_was_seen_gets_nothing(lab: Lab) -> None:
    await lab.claim("a", "p", finalizers=[OTHER])
    await lab.until(
        "IPAddressClaim", "a", lambda claim: CLAIM_FINALIZER in claim["metadata"]["finalizers"]
    )
    await lab.delete("IPAddressClaim", "a")
    await lab.until(
        "IPAddressClaim", "a", lambda claim: claim["metadata"]["finalizers"] == [OTHER]
    )
    await lab.pool("p", "10.0.0.10")
    await lab.wait_until_settled()
    kept = await lab.find("IPAddressClaim", "a")
    assert kept is not None
    assert kept["metadata"]["finalizers"] == [OTHER]
    assert "addressRef" not in kept.get("status", {})
    assert await lab.find("IPAddress", "a") is None
    await lab.patch("IPAddressClaim", "a", {"metadata": {"finalizers": None}})


async def test_a_released_address_rests_for_the_grace_period_and_its_claim_does_not(
    lab: Lab,
) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.11", addressReuseGracePeriodSeconds=4)
    await lab.claim("a", "p")
    await lab.wait_until_served("a")
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddressClaim", "a")
    await lab.claim("b", "p")
    assert await lab.wait_until_served("b") == "10.0.0.11"
    await lab.claim("c", "p")
    assert await lab.wait_until_served("c") == "10.0.0.10"
    await lab.wait_until_gone("IPAddress", "a")


async def test_an_address_that_rests_is_released_though_no_claim_is_among_its_owners(
    lab: Lab,
) -> None:
    # Else a garbage collector takes that owner away, or keeps a claim for which it deletes first.
    await lab.pool("p", "10.0.0.10", addressReuseGracePeriodSeconds=2)
    await lab.claim("a", "p")
    await lab.wait_until_served("a")
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddressClaim", "a")
    address = await lab.find("IPAddress", "a")
    assert address is not None
    assert [owner["kind"] for owner in address["metadata"]["ownerReferences"]] == [
        "InClusterIPPool"
    ]
    await lab.wait_until_gone("IPAddress", "a")


async def test_an_ipaddress_whose_claim_vanished_is_released(lab: Lab) -> None:
    await lab.pool("p", "10.0.0.10")
    await lab.claim("a", "p")
    await lab.wait_until_served("a")
    await lab.patch("IPAddressClaim", "a", {"metadata": {"finalizers": None}})
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddress", "a")
    await lab.counts("p", (1, 0, 1, 0))


async def test_an_ipaddress_whose_claim_vanished_is_released_though_its_owner_was_collected(
    lab: Lab,
) -> None:
    await lab.pool("p", "10.0.0.10")
    await lab.claim("a", "p")
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


async def test_an_ipaddress_that_was_made_by_hand_is_never_released(lab: Lab) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.11")
    await lab.create("IPAddress", "mine", by_hand("mine", "p", "10.0.0.10"))
    await lab.counts("p", (2, 1, 1, 0))
    await lab.claim("a", "p")
    assert await lab.wait_until_served("a") == "10.0.0.11"
    address = await lab.find("IPAddress", "mine")
    assert address is not None
    assert "finalizers" not in address["metadata"]
    await lab.delete("IPAddress", "mine")
    await lab.counts("p", (2, 1, 1, 0))


def by_hand(claim: str, pool: str, address: str) -> dict[str, object]:
    """Return the spec of an IPAddress."""
    return {
        "claimRef": {"name": claim},
        "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": pool},
        "address": address,
        "prefix": 24,
    }


async def test_what_lacks_on_an_ipaddress_is_put_back(lab: Lab) -> None:
    await lab.pool("p", "10.0.0.10")
    await lab.claim("a", "p")
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
    lab: Lab,
) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.12", gateway="10.0.0.1")
    for name in ("a", "b"):
        await lab.claim(name, "p")
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


async def test_a_new_claim_of_the_name_gets_the_former_ones_address_while_it_is_being_deleted(
    lab: Lab,
) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.11")
    await lab.claim("a", "p", annotations={"cluster.x-k8s.io/paused": ""})
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
        by_hand("a", "p", "10.0.0.11"),
        ownerReferences=[owner],
        finalizers=[ADDRESS_FINALIZER],
    )
    await lab.delete("IPAddress", "a")
    await lab.patch("IPAddressClaim", "a", {"metadata": {"annotations": None}})
    assert await lab.wait_until_served("a") == "10.0.0.11"


async def test_a_claim_of_the_same_name_waits_while_its_former_address_rests(lab: Lab) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.11", addressReuseGracePeriodSeconds=3)
    await lab.claim("a", "p")
    assert await lab.wait_until_served("a") == "10.0.0.10"
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddressClaim", "a")
    await lab.claim("a", "p")
    await lab.says("a", "AllocationFailed")
    assert await lab.wait_until_served("a") == "10.0.0.10"


async def test_a_released_address_is_one_line_in_the_log(lab: Lab, server: Server) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.11")
    await lab.claim("a", "p")
    await lab.wait_until_served("a")
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddressClaim", "a")
    line = await release_line(server.log, f"IPAddressClaim {lab.namespace}/a")
    assert "range=10.0.0.10/24" in line
    assert "pool='InClusterIPPool p'" in line
    assert "reason='its claim is deleted'" in line
