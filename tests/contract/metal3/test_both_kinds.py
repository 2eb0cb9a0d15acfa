"""Claims of both kinds beside each other, and the conditions of an IPAddressClaim."""

import pytest

from tests.contract.metal3.lab import (
    ADDRESS_KINDS,
    CLAIM_KINDS,
    FINALIZERS,
    PAUSED,
    Body,
    Metal3Lab,
    get_address_name,
    get_status,
)
from tests.contract.metal3.test_adoption import create_address

pytestmark = pytest.mark.asyncio(loop_scope="package")
ENTRY = {"start": "10.0.0.1", "end": "10.0.0.9"}


def get_ready_condition(claim: Body) -> tuple[str, str]:
    """Return status and reason of the condition Ready of an IPAddressClaim."""
    [ready] = [entry for entry in get_status(claim)["conditions"] if entry["type"] == "Ready"]
    return ready["status"], ready["reason"]


async def test_claims_of_both_kinds_with_one_name_get_an_address_each(lab: Metal3Lab) -> None:
    await lab.create_pool("p", ENTRY)
    for kind in CLAIM_KINDS:
        await lab.create_claim("a", "p", kind)
    addresses = [await lab.wait_until_served("a", kind) for kind in CLAIM_KINDS]
    assert sorted(addresses) == ["10.0.0.1", "10.0.0.2"]
    for kind in CLAIM_KINDS:
        [address] = await lab.list_objects(ADDRESS_KINDS[kind])
        claim = await lab.find(kind, "a")
        assert claim is not None
        assert address["metadata"]["name"] == get_address_name(claim)


async def test_a_random_pool_gives_claims_of_both_kinds_one_address_each(lab: Metal3Lab) -> None:
    entry = {"start": "10.0.0.1", "end": "10.0.0.40"}
    await lab.create_pool("p", entry, allocationStrategy="random")
    claims = [(CLAIM_KINDS[number % 2], f"c{number}") for number in range(40)]
    for kind, name in claims:
        await lab.create_claim(name, "p", kind)
    addresses = [await lab.wait_until_served(name, kind) for kind, name in claims]
    assert len(set(addresses)) == len(claims)
    objects = [
        item for kind in CLAIM_KINDS for item in await lab.list_objects(ADDRESS_KINDS[kind])
    ]
    assert len(objects) == len(claims)


async def test_an_ipaddressclaim_shows_the_reason_of_its_error_and_of_its_address(
    lab: Metal3Lab,
) -> None:
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.1"})
    kind = "IPAddressClaim"
    await lab.create_claim("a", "p", kind)
    await lab.wait_until_served("a", kind)
    claim = await lab.find(kind, "a")
    assert claim is not None
    assert get_ready_condition(claim) == ("True", "AddressAllocated")
    await lab.create_claim("b", "p", kind)
    assert get_ready_condition(await lab.wait_until_refused("b", "Exhausted IP Pools", kind)) == (
        "False",
        "PoolExhausted",
    )
    await lab.create_claim("c", "p", kind, requested="10.0.0.9")
    assert get_ready_condition(
        await lab.wait_until_refused("c", "Requested IP out of bounds", kind)
    ) == (
        "False",
        "AllocationFailed",
    )


async def test_the_error_of_a_claim_is_removed_when_it_gets_an_address(lab: Metal3Lab) -> None:
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.1"})
    await lab.create_claim("a", "p")
    await lab.wait_until_served("a")
    await lab.create_claim("b", "p")
    await lab.wait_until_refused("b", "Exhausted IP Pools")
    await lab.delete("IPClaim", "a")
    claim = await lab.until("IPClaim", "b", lambda body: bool(get_address_name(body)))
    assert get_status(claim) == {"address": {"name": "p-10-0-0-1", "namespace": lab.namespace}}


async def test_an_ipaddressclaim_waits_while_its_cluster_is_paused(lab: Metal3Lab) -> None:
    await lab.create_pool("p", ENTRY)
    await lab.create("Cluster", "owner", {"paused": True})
    labels = {"cluster.x-k8s.io/cluster-name": "owner"}
    await lab.create_claim("a", "p", "IPAddressClaim", labels=labels)
    await lab.create_claim("b", "p")
    assert await lab.wait_until_served("b") == "10.0.0.1"
    await lab.check_waiting("a", "IPAddressClaim", seconds=0.5)
    await lab.patch("Cluster", "owner", {"spec": {"paused": False}})
    assert await lab.wait_until_served("a", "IPAddressClaim") == "10.0.0.2"


@pytest.mark.parametrize("kind", CLAIM_KINDS)
async def test_claims_that_are_restored_before_their_ipaddresses_keep_their_addresses(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create("Cluster", "c", {"paused": True})
    await lab.create_pool("p", ENTRY, clusterName="c")
    for name in ("a", "b"):
        await lab.create_claim(name, "p", kind, finalizers=[FINALIZERS[kind]])
    await lab.create_claim("new", "p", kind)
    await lab.check_waiting("new", kind, seconds=0.5)
    for name, last in (("a", 2), ("b", 1)):
        await create_address(
            lab, kind, name=f"p-10-0-0-{last}", address=f"10.0.0.{last}", claim=name
        )
    await lab.patch("Cluster", "c", {"spec": {"paused": False}})
    addresses = [await lab.wait_until_served(name, kind) for name in ("a", "b", "new")]
    assert addresses == ["10.0.0.2", "10.0.0.1", "10.0.0.3"]


@pytest.mark.parametrize("kind", CLAIM_KINDS)
async def test_an_ipaddress_without_its_claim_holds_its_address(lab: Metal3Lab, kind: str) -> None:
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.2"})
    await create_address(lab, kind, name="for-later", address="10.0.0.1", claim="never")
    await lab.create_claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.0.2"
    await lab.create_claim("b", "p", kind, requested="10.0.0.1")
    await lab.wait_until_refused("b", "Requested IP not available", kind)


@pytest.mark.parametrize("kind", CLAIM_KINDS)
@pytest.mark.parametrize("prefix", ["p.1", "10-0", "p-10-0-0"])
async def test_a_claim_whose_ipaddress_is_lost_holds_its_address_by_the_name_in_its_status(
    lab: Metal3Lab, kind: str, prefix: str
) -> None:
    await lab.create_pool("p", ENTRY, namePrefix=prefix)
    await lab.create_claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"
    name, addresses = f"{prefix}-10-0-0-1", ADDRESS_KINDS[kind]
    claim = await lab.patch(kind, "a", {"metadata": {"annotations": PAUSED}})
    assert get_address_name(claim) == name
    await lab.patch(addresses, name, {"metadata": {"finalizers": None}})
    await lab.delete(addresses, name)
    await lab.wait_until_gone(addresses, name)
    await lab.create_claim("b", "p", kind)
    assert await lab.wait_until_served("b", kind) == "10.0.0.2"
