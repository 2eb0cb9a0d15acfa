"""IPAddresses that exist already: adopted by name, or in the way; moved, restored, taken over."""

from typing import Any

import pytest

from tests.contract.clusterapi.lab import (
    ADDRESS_FINALIZER,
    CLAIM_FINALIZER,
    Body,
    Lab,
    condition,
    reason,
    status,
)

pytestmark = pytest.mark.asyncio(loop_scope="package")


def spec(claim: str, pool: str, address: str, **more: Any) -> Body:
    """Return the spec of an IPAddress."""
    ref = {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": pool}
    return {
        "claimRef": {"name": claim},
        "poolRef": ref,
        "address": address,
        "prefix": 24,
    } | more


async def test_an_ipaddress_of_the_claims_name_is_adopted_with_its_spec(lab: Lab) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.20", gateway="10.0.0.1")
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1"}
    expected = spec("a", "p", "10.0.0.15", prefix=16, gateway="10.0.0.254")
    await lab.create("IPAddress", "a", expected, ownerReferences=[foreign])
    await lab.claim("a", "p", labels={"cluster.x-k8s.io/cluster-name": "c"})
    await lab.create("Cluster", "c", {})
    assert await lab.wait_until_served("a") == "10.0.0.15"
    address = await lab.find("IPAddress", "a")
    assert address is not None
    assert address["spec"] == expected
    assert address["metadata"]["finalizers"] == [ADDRESS_FINALIZER]
    owners = [owner["kind"] for owner in address["metadata"]["ownerReferences"]]
    assert owners == ["ConfigMap", "IPAddressClaim", "InClusterIPPool"]
    assert address["metadata"]["ownerReferences"][0] == foreign, "nothing is added to others"
    assert address["metadata"]["labels"] == {"cluster.x-k8s.io/cluster-name": "c"}


async def test_stale_owners_of_a_moved_ipaddress_are_replaced_where_they_stand(lab: Lab) -> None:
    owners = [
        {
            "apiVersion": "ipam.cluster.x-k8s.io/v1beta1",
            "kind": "IPAddressClaim",
            "name": "a",
            "uid": "old",
            "controller": True,
            "blockOwnerDeletion": True,
        },
        {
            "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2",
            "kind": "InClusterIPPool",
            "name": "p",
            "uid": "older",
            "controller": False,
            "blockOwnerDeletion": True,
        },
    ]
    pool = await lab.pool("p", "10.0.0.10-10.0.0.20")
    claim = await lab.claim("a", "p", annotations={"cluster.x-k8s.io/paused": ""})
    await lab.create(
        "IPAddress",
        "a",
        spec("a", "p", "10.0.0.12"),
        ownerReferences=owners,
        finalizers=[ADDRESS_FINALIZER],
    )
    await lab.patch("IPAddressClaim", "a", {"metadata": {"annotations": None}})
    assert await lab.wait_until_served("a") == "10.0.0.12"
    address = await lab.find("IPAddress", "a")
    assert address is not None
    uids = [owner["uid"] for owner in address["metadata"]["ownerReferences"]]
    assert uids == [claim["metadata"]["uid"], pool["metadata"]["uid"]]


async def test_an_ipaddress_that_was_restored_before_its_claim_is_adopted(lab: Lab) -> None:
    owner = {
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2",
        "kind": "IPAddressClaim",
        "name": "a",
        "uid": "of-before",
        "controller": True,
    }
    await lab.pool("p", "10.0.0.10-10.0.0.20")
    more = {"ownerReferences": [owner], "finalizers": [ADDRESS_FINALIZER]}
    address = await lab.create("IPAddress", "a", spec("a", "p", "10.0.0.12"), **more)
    await lab.wait_until_settled()
    await lab.claim("a", "p")
    assert await lab.wait_until_served("a") == "10.0.0.12"
    adopted = await lab.find("IPAddress", "a")
    assert adopted is not None
    assert adopted["metadata"]["uid"] == address["metadata"]["uid"]


async def test_an_ipaddress_of_another_pool_is_in_the_way_and_not_touched(lab: Lab) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.20")
    address = await lab.create("IPAddress", "a", spec("a", "other", "10.0.0.15"))
    await lab.claim("a", "p")
    said = await lab.says("a", "AllocationFailed")
    assert "other" in condition(said)["message"]
    adopted = await lab.find("IPAddress", "a")
    assert adopted == address
    await lab.wait_until_settled()
    await lab.delete("IPAddress", "a")
    assert await lab.wait_until_served("a") == "10.0.0.10"
    assert reason(await lab.find("IPAddressClaim", "a")) == "AddressAllocated"


async def test_an_adopted_address_that_another_has_too_is_refused(lab: Lab) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.20")
    await lab.claim("a", "p")
    assert await lab.wait_until_served("a") == "10.0.0.10"
    await lab.create("IPAddress", "b", spec("b", "p", "10.0.0.10"))
    await lab.claim("b", "p")
    await lab.says("b", "AllocationFailed")
    claim = await lab.find("IPAddressClaim", "b")
    assert claim is not None
    assert "addressRef" not in claim["status"]


async def test_claims_of_another_provider_keep_their_addresses(lab: Lab) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.20", annotations=None)
    await lab.create("IPAddress", "a", spec("a", "p", "10.0.0.13"), finalizers=[ADDRESS_FINALIZER])
    paused = {"cluster.x-k8s.io/paused": ""}
    await lab.claim("a", "p", finalizers=[CLAIM_FINALIZER], annotations=paused)
    await lab.patch(
        "IPAddressClaim", "a", patch={"status": {"addressRef": {"name": "a"}}}, sub="status"
    )
    await lab.patch("IPAddressClaim", "a", {"metadata": {"annotations": None}})
    await lab.says("a", "AddressAllocated")
    assert await lab.wait_until_served("a") == "10.0.0.13"
    await lab.claim("b", "p")
    assert await lab.wait_until_served("b") == "10.0.0.10"


async def test_ipaddresses_out_of_range_or_unreadable_block_no_claim_and_are_counted(
    lab: Lab,
) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.12")
    await lab.create("IPAddress", "outside", spec("outside", "p", "10.9.9.9"))
    await lab.create("IPAddress", "odd", spec("odd", "p", "nonsense"))
    await lab.create("IPAddress", "same", spec("same", "p", "10.0.0.11"))
    await lab.claim("a", "p")
    assert await lab.wait_until_served("a") == "10.0.0.10"
    await lab.claim("b", "p")
    assert await lab.wait_until_served("b") == "10.0.0.12"
    await lab.counts("p", (3, 5, 0, 2))


async def test_another_text_of_the_same_ipv6_address_holds_it(lab: Lab) -> None:
    await lab.pool("p", "2001:db8::10-2001:db8::11", prefix=64)
    await lab.create("IPAddress", "x", spec("x", "p", "2001:0DB8:0::10", prefix=64))
    await lab.claim("a", "p")
    assert await lab.wait_until_served("a") == "2001:db8::11"


async def test_shrinking_leaves_addresses_out_of_range_and_never_counts_below_zero(
    lab: Lab,
) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.13")
    for name in ("a", "b", "c"):
        await lab.claim(name, "p")
        await lab.wait_until_served(name)
    await lab.patch("InClusterIPPool", "p", {"spec": {"addresses": ["10.0.0.12-10.0.0.13"]}})
    await lab.counts("p", (2, 3, 1, 2))
    await lab.claim("d", "p")
    assert await lab.wait_until_served("d") == "10.0.0.13"
    await lab.counts("p", (2, 4, 0, 2))
    await lab.delete("IPAddressClaim", "a")
    await lab.counts("p", (2, 3, 0, 1))
    assert await lab.wait_until_served("b") == "10.0.0.11"


async def test_a_huge_pool_is_counted_to_the_largest_number_that_fits(lab: Lab) -> None:
    await lab.pool("p", "2001:db8::/32", prefix=32)
    most = 2**63 - 1
    await lab.counts("p", (most, 0, most, 0))
    await lab.claim("a", "p")
    assert await lab.wait_until_served("a") == "2001:db8::1"
    await lab.counts("p", (most, 1, most, 0))


async def test_an_address_ref_that_was_edited_to_that_of_another_claim_is_put_right(
    lab: Lab,
) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.13")
    for name in ("a", "b"):
        await lab.claim(name, "p")
    addresses = [await lab.wait_until_served(name) for name in ("a", "b")]
    await lab.patch(
        "IPAddressClaim", "a", patch={"status": {"addressRef": {"name": "b"}}}, sub="status"
    )
    await lab.until(
        "IPAddressClaim", "a", lambda claim: status(claim).get("addressRef") == {"name": "a"}
    )
    assert [await lab.wait_until_served(name) for name in ("a", "b")] == addresses
