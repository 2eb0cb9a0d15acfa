"""IPAddresses that exist before their claim: adopted by name, moved, restored, or in conflict."""

import pytest

from tests.contract.clusterapi.lab import (
    ADDRESS_FINALIZER,
    CLAIM_FINALIZER,
    ClusterApiLab,
    find_condition,
    get_reason,
    get_status,
    make_address_spec,
)

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_an_ipaddress_of_the_claims_name_is_adopted_with_its_spec(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.20", gateway="10.0.0.1")
    foreign_owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1"}
    expected = make_address_spec("a", "p", "10.0.0.15", prefix=16, gateway="10.0.0.254")
    await lab.create("IPAddress", "a", expected, ownerReferences=[foreign_owner])
    await lab.create_claim("a", "p", labels={"cluster.x-k8s.io/cluster-name": "c"})
    await lab.create("Cluster", "c", {})
    assert await lab.wait_until_served("a") == "10.0.0.15"
    address = await lab.find("IPAddress", "a")
    assert address is not None
    assert address["spec"] == expected
    assert address["metadata"]["finalizers"] == [ADDRESS_FINALIZER]
    owners = [owner["kind"] for owner in address["metadata"]["ownerReferences"]]
    assert owners == ["ConfigMap", "IPAddressClaim", "InClusterIPPool"]
    assert address["metadata"]["ownerReferences"][0] == foreign_owner, "it is unchanged"
    assert address["metadata"]["labels"] == {"cluster.x-k8s.io/cluster-name": "c"}


async def test_stale_owners_of_a_moved_ipaddress_get_the_uids_of_the_new_claim_and_pool(
    lab: ClusterApiLab,
) -> None:
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
    pool = await lab.create_pool("p", "10.0.0.10-10.0.0.20")
    claim = await lab.create_claim("a", "p", annotations={"cluster.x-k8s.io/paused": ""})
    await lab.create(
        "IPAddress",
        "a",
        make_address_spec("a", "p", "10.0.0.12"),
        ownerReferences=owners,
        finalizers=[ADDRESS_FINALIZER],
    )
    await lab.patch("IPAddressClaim", "a", {"metadata": {"annotations": None}})
    assert await lab.wait_until_served("a") == "10.0.0.12"
    address = await lab.find("IPAddress", "a")
    assert address is not None
    uids = [owner["uid"] for owner in address["metadata"]["ownerReferences"]]
    assert uids == [claim["metadata"]["uid"], pool["metadata"]["uid"]]


async def test_an_ipaddress_that_was_restored_before_its_claim_is_adopted(
    lab: ClusterApiLab,
) -> None:
    owner = {
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2",
        "kind": "IPAddressClaim",
        "name": "a",
        "uid": "of-before",
        "controller": True,
    }
    await lab.create_pool("p", "10.0.0.10-10.0.0.20")
    address = await lab.create(
        "IPAddress",
        "a",
        make_address_spec("a", "p", "10.0.0.12"),
        ownerReferences=[owner],
        finalizers=[ADDRESS_FINALIZER],
    )
    await lab.wait_until_settled()
    await lab.create_claim("a", "p")
    assert await lab.wait_until_served("a") == "10.0.0.12"
    adopted = await lab.find("IPAddress", "a")
    assert adopted is not None
    assert adopted["metadata"]["uid"] == address["metadata"]["uid"]


async def test_a_claim_fails_while_an_ipaddress_of_its_name_belongs_to_another_pool(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.20")
    address = await lab.create("IPAddress", "a", make_address_spec("a", "other", "10.0.0.15"))
    await lab.create_claim("a", "p")
    waiting_claim = await lab.wait_for_reason("a", "AllocationFailed")
    assert "other" in find_condition(waiting_claim)["message"]
    assert await lab.find("IPAddress", "a") == address, "it is left as it was"
    await lab.wait_until_settled()
    await lab.delete("IPAddress", "a")
    assert await lab.wait_until_served("a") == "10.0.0.10"
    assert get_reason(await lab.find("IPAddressClaim", "a")) == "AddressAllocated"


async def test_a_claim_fails_if_its_ipaddress_has_the_address_of_another_claim(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.20")
    await lab.create_claim("a", "p")
    assert await lab.wait_until_served("a") == "10.0.0.10"
    await lab.create("IPAddress", "b", make_address_spec("b", "p", "10.0.0.10"))
    await lab.create_claim("b", "p")
    await lab.wait_for_reason("b", "AllocationFailed")
    claim = await lab.find("IPAddressClaim", "b")
    assert claim is not None
    assert "addressRef" not in claim["status"]


async def test_a_claim_that_another_provider_served_keeps_its_address(lab: ClusterApiLab) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.20", annotations=None)
    await lab.create(
        "IPAddress", "a", make_address_spec("a", "p", "10.0.0.13"), finalizers=[ADDRESS_FINALIZER]
    )
    paused = {"cluster.x-k8s.io/paused": ""}
    await lab.create_claim("a", "p", finalizers=[CLAIM_FINALIZER], annotations=paused)
    await lab.patch(
        "IPAddressClaim",
        "a",
        patch={"status": {"addressRef": {"name": "a"}}},
        subresource="status",
    )
    await lab.patch("IPAddressClaim", "a", {"metadata": {"annotations": None}})
    await lab.wait_for_reason("a", "AddressAllocated")
    assert await lab.wait_until_served("a") == "10.0.0.13"
    await lab.create_claim("b", "p")
    assert await lab.wait_until_served("b") == "10.0.0.10"


async def test_ipaddresses_out_of_range_or_unreadable_block_no_claim_and_are_counted(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.12")
    await lab.create("IPAddress", "outside", make_address_spec("outside", "p", "10.9.9.9"))
    await lab.create("IPAddress", "odd", make_address_spec("odd", "p", "nonsense"))
    await lab.create("IPAddress", "same", make_address_spec("same", "p", "10.0.0.11"))
    await lab.create_claim("a", "p")
    assert await lab.wait_until_served("a") == "10.0.0.10"
    await lab.create_claim("b", "p")
    assert await lab.wait_until_served("b") == "10.0.0.12"
    await lab.wait_for_counts("p", total=3, used=5, free=0, out_of_range=2)


async def test_an_ipv6_address_is_held_by_an_ipaddress_that_spells_it_differently(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "2001:db8::10-2001:db8::11", prefix=64)
    await lab.create("IPAddress", "x", make_address_spec("x", "p", "2001:0DB8:0::10", prefix=64))
    await lab.create_claim("a", "p")
    assert await lab.wait_until_served("a") == "2001:db8::11"


async def test_addresses_outside_a_shrunk_pool_are_out_of_range_and_free_is_never_negative(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.13")
    for name in ("a", "b", "c"):
        await lab.create_claim(name, "p")
        await lab.wait_until_served(name)
    await lab.patch("InClusterIPPool", "p", {"spec": {"addresses": ["10.0.0.12-10.0.0.13"]}})
    await lab.wait_for_counts("p", total=2, used=3, free=1, out_of_range=2)
    await lab.create_claim("d", "p")
    assert await lab.wait_until_served("d") == "10.0.0.13"
    await lab.wait_for_counts("p", total=2, used=4, free=0, out_of_range=2)
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_for_counts("p", total=2, used=3, free=0, out_of_range=1)
    assert await lab.wait_until_served("b") == "10.0.0.11"


async def test_the_counts_of_a_huge_pool_end_at_the_largest_int64(lab: ClusterApiLab) -> None:
    await lab.create_pool("p", "2001:db8::/32", prefix=32)
    largest = 2**63 - 1
    await lab.wait_for_counts("p", total=largest, used=0, free=largest, out_of_range=0)
    await lab.create_claim("a", "p")
    assert await lab.wait_until_served("a") == "2001:db8::1"
    await lab.wait_for_counts("p", total=largest, used=1, free=largest, out_of_range=0)


async def test_an_address_ref_that_was_edited_to_that_of_another_claim_is_put_right(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.13")
    for name in ("a", "b"):
        await lab.create_claim(name, "p")
    addresses = [await lab.wait_until_served(name) for name in ("a", "b")]
    await lab.patch(
        "IPAddressClaim",
        "a",
        patch={"status": {"addressRef": {"name": "b"}}},
        subresource="status",
    )
    await lab.until(
        "IPAddressClaim", "a", lambda claim: get_status(claim).get("addressRef") == {"name": "a"}
    )
    assert [await lab.wait_until_served(name) for name in ("a", "b")] == addresses
