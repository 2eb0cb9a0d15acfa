"""The address that a claim of either kind gets from an IPPool."""

import pytest

from tests.contract.metal3.lab import (
    ADDRESS_KINDS,
    CLAIM_KINDS,
    FINALIZERS,
    IPAM,
    METAL3,
    Metal3Lab,
    get_address_name,
    get_status,
)
from tests.contract.metal3.webhooks import without_webhooks

pytestmark = [
    pytest.mark.asyncio(loop_scope="package"),
    pytest.mark.parametrize("kind", CLAIM_KINDS),
]


async def test_a_claim_gets_the_lowest_address_of_the_first_entry_with_room(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool(
        "p",
        {"start": "10.0.0.20", "end": "10.0.0.21"},
        {"start": "10.0.0.10", "end": "10.0.0.11", "prefix": 28, "gateway": "10.0.0.1"},
    )
    for name, address in (("a", "10.0.0.20"), ("b", "10.0.0.21"), ("c", "10.0.0.10")):
        await lab.create_claim(name, "p", kind)
        assert await lab.wait_until_served(name, kind) == address
    last = await lab.find(ADDRESS_KINDS[kind], "p-10-0-0-10")
    assert last is not None
    assert (last["spec"]["prefix"], last["spec"]["gateway"]) == (28, "10.0.0.1")


async def test_the_ipaddress_has_names_labels_owners_and_finalizers_of_metal3(
    lab: Metal3Lab, kind: str
) -> None:
    pool = await lab.create_pool(
        "p", {"start": "10.0.0.5", "end": "10.0.0.9"}, gateway="10.0.0.1", dnsServers=["9.9.9.9"]
    )
    claim = await lab.create_claim("a", "p", kind, labels={"x": "y"})
    await lab.wait_until_served("a", kind)
    claim = await lab.until(kind, "a", lambda body: bool(get_address_name(body)))
    assert claim["metadata"]["finalizers"] == [FINALIZERS[kind]]
    address = await lab.find(ADDRESS_KINDS[kind], "p-10-0-0-5")
    assert address is not None
    meta, spec = address["metadata"], address["spec"]
    assert meta["labels"] == {"x": "y"}
    assert meta["finalizers"] == [FINALIZERS[ADDRESS_KINDS[kind]]]
    assert [(owner["kind"], owner["name"], owner["uid"]) for owner in meta["ownerReferences"]] == [
        ("IPPool", "p", pool["metadata"]["uid"]),
        (kind, "a", claim["metadata"]["uid"]),
    ]
    if kind == "IPClaim":
        reference = {"namespace": lab.namespace}
        assert spec == {
            "address": "10.0.0.5",
            "prefix": 24,
            "gateway": "10.0.0.1",
            "dnsServers": ["9.9.9.9"],
            "pool": {"name": "p", **reference},
            "claim": {"name": "a", **reference},
        }
        assert get_status(claim)["address"] == {"name": "p-10-0-0-5", **reference}
        assert all("controller" not in owner for owner in meta["ownerReferences"])
    else:
        assert spec == {
            "address": "10.0.0.5",
            "prefix": 24,
            "gateway": "10.0.0.1",
            "poolRef": {"apiGroup": METAL3, "kind": "IPPool", "name": "p"},
            "claimRef": {"name": "a"},
        }
        flags = [
            (owner["controller"], owner["blockOwnerDeletion"]) for owner in meta["ownerReferences"]
        ]
        assert flags == [(False, True), (True, True)]
        assert claim["apiVersion"] == f"{IPAM}/v1beta2"


async def test_an_entry_of_a_subnet_begins_after_the_address_as_written(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", {"subnet": "10.0.0.1/30"})
    await lab.create_claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.0.2"
    await lab.create_claim("b", "p", kind)
    # The last address is the broadcast address.
    await lab.wait_until_refused("b", "Exhausted IP Pools", kind)


async def test_the_gateway_is_given_only_to_a_claim_that_asks_for_it(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.2"}, gateway="10.0.0.1")
    await lab.create_claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.0.2"
    await lab.create_claim("b", "p", kind, requested="10.0.0.1")
    assert await lab.wait_until_served("b", kind) == "10.0.0.1"


@without_webhooks
async def test_a_pre_allocated_address_is_kept_for_the_claim_of_its_name(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool(
        "p",
        {"subnet": "fd00::/126", "prefix": 64},
        preAllocations={"b": "FD00:0::1", "c": "10.0.0.1"},
    )
    await lab.create_claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "fd00::2"
    await lab.create_claim("b", "p", kind)
    assert await lab.wait_until_served("b", kind) == "fd00::1"
    await lab.create_claim("c", "p", kind)
    await lab.wait_until_refused("c", "Pre-allocated IP out of bounds", kind)
    await lab.create_claim("d", "p", kind, requested="fd00::1")
    await lab.wait_until_refused("d", "Requested IP not available", kind)


@without_webhooks
async def test_a_claim_gets_the_address_that_it_requests_or_none(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", {"subnet": "fd00::/64"}, preAllocations={"e": "fd00::9"})
    far = "fd00::ffff:ffff:ffff:fff0"
    await lab.create_claim("a", "p", kind, requested=far)
    assert await lab.wait_until_served("a", kind) == far
    await lab.create_claim("b", "p", kind, requested=far)
    await lab.wait_until_refused("b", "Requested IP not available", kind)
    await lab.create_claim("c", "p", kind, requested="fd01::1")
    await lab.wait_until_refused("c", "Requested IP out of bounds", kind)
    await lab.create_claim("d", "p", kind, requested="fd00::g")
    invalid = 'Invalid ipAddress annotation "fd00::g": not a valid IP address'
    await lab.wait_until_refused("d", invalid, kind)
    await lab.create_claim("e", "p", kind, requested="fd00::8")
    conflict = "PreAllocation and requested ip address are conflicting"
    await lab.wait_until_refused("e", conflict, kind)


async def test_a_refused_claim_is_served_once_the_cause_of_its_error_is_gone(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.1"})
    await lab.create_claim("a", "p", kind)
    await lab.wait_until_served("a", kind)
    await lab.create_claim("b", "p", kind)
    await lab.wait_until_refused("b", "Exhausted IP Pools", kind)
    await lab.create_claim("c", "p", kind, requested="10.0.0.4")
    await lab.wait_until_refused("c", "Requested IP out of bounds", kind)
    await lab.delete(kind, "a")
    assert await lab.wait_until_served("b", kind) == "10.0.0.1"
    entries = [{"start": "10.0.0.1", "end": "10.0.0.9"}]
    await lab.patch("IPPool", "p", {"spec": {"pools": entries}})
    assert await lab.wait_until_served("c", kind) == "10.0.0.4"


async def test_a_random_pool_gives_every_address_once(lab: Metal3Lab, kind: str) -> None:
    await lab.create_pool(
        "p", {"start": "10.0.0.1", "end": "10.0.0.12"}, allocationStrategy="random"
    )
    names = [f"c{number}" for number in range(12)]
    for name in names:
        await lab.create_claim(name, "p", kind)
    addresses = [await lab.wait_until_served(name, kind) for name in names]
    assert sorted(addresses) == sorted({f"10.0.0.{last}" for last in range(1, 13)})
    await lab.create_claim("more", "p", kind)
    await lab.wait_until_refused("more", "Exhausted IP Pools", kind)


async def test_pools_with_one_name_prefix_hand_out_different_addresses(
    lab: Metal3Lab, kind: str
) -> None:
    for pool in ("p", "q"):
        await lab.create_pool(pool, {"start": "10.0.0.1", "end": "10.0.0.2"}, namePrefix="same")
        await lab.create_claim(f"of-{pool}", pool, kind)
    addresses = [await lab.wait_until_served(f"of-{pool}", kind) for pool in ("p", "q")]
    assert sorted(addresses) == ["10.0.0.1", "10.0.0.2"]


async def test_the_status_of_the_pool_shows_the_addresses_of_claims(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.9"})
    await lab.create_claim("a", "p", kind)
    await lab.create_claim("b", "p", kind, requested="10.0.0.7")
    expected = {"a": "10.0.0.1", "b": "10.0.0.7"}
    pool = await lab.until("IPPool", "p", lambda body: get_status(body).get("indexes") == expected)
    assert get_status(pool)["lastUpdated"]
    await lab.delete(kind, "a")
    await lab.until("IPPool", "p", lambda body: get_status(body)["indexes"] == {"b": "10.0.0.7"})
