"""Edits of pools, claims and annotations, and their effect on claims of either kind."""

import pytest

from tests.contract.metal3.lab import (
    ADDRESS_KINDS,
    CLAIM_KINDS,
    PAUSED,
    Body,
    Metal3Lab,
    get_address_name,
    get_problem,
    get_status,
)
from tests.contract.metal3.webhooks import without_webhooks
from tests.polling import keep_looking

pytestmark = [
    pytest.mark.asyncio(loop_scope="package"),
    pytest.mark.parametrize("kind", CLAIM_KINDS),
]
UNPAUSED = {"cluster.x-k8s.io/paused": None}


def get_network_settings(address: Body | None) -> tuple[str, int, list[str]]:
    """Return the gateway, the prefix length and the DNS servers of an IPAddress."""
    assert address is not None
    spec = address["spec"]
    return spec.get("gateway", ""), spec.get("prefix", 0), spec.get("dnsServers", [])


async def test_an_ipaddress_keeps_gateway_prefix_and_dns_servers_when_the_pool_is_edited(
    lab: Metal3Lab, kind: str
) -> None:
    entry = {"start": "10.0.0.1", "end": "10.0.0.9", "dnsServers": ["9.9.9.9"]}
    await lab.create_pool("p", entry, gateway="10.0.0.9", dnsServers=["1.1.1.1", "8.8.8.8"])
    await lab.create_claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"
    edited = {"pools": [{**entry, "dnsServers": []}], "gateway": "10.0.0.8", "prefix": 28}
    await lab.patch("IPPool", "p", {"spec": edited})
    await lab.create_claim("b", "p", kind)
    assert await lab.wait_until_served("b", kind) == "10.0.0.2"
    addresses = ADDRESS_KINDS[kind]
    is_metal3 = kind == "IPClaim"  # IPAddresses of Cluster API have no DNS servers
    old = get_network_settings(await lab.find(addresses, "p-10-0-0-1"))
    assert old == ("10.0.0.9", 24, ["9.9.9.9"] if is_metal3 else [])
    new = get_network_settings(await lab.find(addresses, "p-10-0-0-2"))
    assert new == ("10.0.0.8", 28, ["1.1.1.1", "8.8.8.8"] if is_metal3 else [])


@without_webhooks
async def test_addresses_outside_an_edited_pool_stay_held_and_in_its_status(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.2"})
    await lab.create_claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"
    await lab.patch("IPPool", "p", {"spec": {"pools": [{"start": "10.0.0.2"}]}})
    await lab.create_claim("b", "p", kind)
    assert await lab.wait_until_served("b", kind) == "10.0.0.2"
    indexes = {"a": "10.0.0.1", "b": "10.0.0.2"}
    await lab.until("IPPool", "p", lambda body: get_status(body).get("indexes") == indexes)
    await lab.patch("IPPool", "p", {"spec": {"pools": [{"start": "10.0.0.1"}]}})
    await lab.create_claim("c", "p", kind)
    assert await lab.wait_until_served("c", kind) == "10.0.0.3"
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"


async def test_a_claim_that_requests_another_address_later_keeps_its_own(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.9"}, preAllocations={})
    await lab.create_claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"
    await lab.patch(kind, "a", {"metadata": {"annotations": {"ipAddress": "10.0.0.7"}}})
    await lab.patch("IPPool", "p", {"spec": {"preAllocations": {"a": "10.0.0.6"}}})
    await lab.create_claim("b", "p", kind)  # a later pass over the same pool
    assert await lab.wait_until_served("b", kind) == "10.0.0.2"
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"


@without_webhooks
async def test_a_claim_gets_the_requested_address_after_an_invalid_request_is_corrected(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.9"})
    await lab.create_claim("a", "p", kind, requested="nonsense")
    invalid = 'Invalid ipAddress annotation "nonsense": not a valid IP address'
    await lab.wait_until_refused("a", invalid, kind)
    await lab.patch(kind, "a", {"metadata": {"annotations": {"ipAddress": "10.0.0.7"}}})
    assert await lab.wait_until_served("a", kind) == "10.0.0.7"


async def test_a_claim_with_an_empty_ipaddress_annotation_gets_the_lowest_address(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.9"})
    await lab.create_claim("a", "p", kind, annotations={"ipAddress": ""})
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"


async def test_a_pre_allocated_address_has_the_settings_of_its_entry_and_stays_reserved(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool(
        "p",
        {"start": "10.0.0.1", "end": "10.0.0.1"},
        {"start": "10.0.1.1", "end": "10.0.1.2", "prefix": 28, "gateway": "10.0.1.14"},
        preAllocations={"a": "10.0.1.1"},
    )
    await lab.create_claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.1.1"
    address = await lab.find(ADDRESS_KINDS[kind], "p-10-0-1-1")
    gateway, prefix, _ = get_network_settings(address)
    assert (gateway, prefix) == ("10.0.1.14", 28), "those of the second entry"
    await lab.delete(kind, "a")
    await lab.wait_until_gone(kind, "a")
    # All other claims together get the other two addresses, never 10.0.1.1.
    for name, expected in (("b", "10.0.0.1"), ("c", "10.0.1.2")):
        await lab.create_claim(name, "p", kind)
        assert await lab.wait_until_served(name, kind) == expected
    await lab.create_claim("d", "p", kind)
    await lab.wait_until_refused("d", "Exhausted IP Pools", kind)


async def test_a_claim_waits_for_its_pre_allocated_address_that_another_claim_holds(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.9"})
    await lab.create_claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"
    await lab.patch("IPPool", "p", {"spec": {"preAllocations": {"b": "10.0.0.1"}}})
    await lab.create_claim("b", "p", kind)
    await lab.wait_until_refused("b", "Pre-allocated IP not available", kind)
    await lab.create_claim("c", "p", kind)
    assert await lab.wait_until_served("c", kind) == "10.0.0.2"
    await lab.delete(kind, "a")
    assert await lab.wait_until_served("b", kind) == "10.0.0.1"


async def test_the_oldest_waiting_claim_gets_an_address_that_is_released(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.1"})
    await lab.create_claim("z", "p", kind)
    await lab.wait_until_served("z", kind)
    creation_times: list[str] = []
    for name in ("y", "x"):  # not in the order of the names
        claim = await lab.create_claim(name, "p", kind)
        creation_times.append(claim["metadata"]["creationTimestamp"])
        refused = await lab.wait_until_refused(name, "Exhausted IP Pools", kind)
        assert get_problem(refused) == "Exhausted IP Pools"
        await lab.wait_until_later_than(creation_times[-1])
    assert creation_times[0] < creation_times[1]
    await lab.delete(kind, "z")
    assert await lab.wait_until_served("y", kind) == "10.0.0.1"
    await lab.wait_until_refused("x", "Exhausted IP Pools", kind)


async def test_a_paused_claim_is_neither_served_nor_released(lab: Metal3Lab, kind: str) -> None:
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.9"})
    await lab.create_claim("a", "p", kind, annotations=PAUSED)
    await lab.create_claim("b", "p", kind)
    assert await lab.wait_until_served("b", kind) == "10.0.0.1"
    await lab.check_waiting("a", kind, seconds=0.5)
    await lab.patch(kind, "a", {"metadata": {"annotations": UNPAUSED}})
    assert await lab.wait_until_served("a", kind) == "10.0.0.2"
    await lab.patch(kind, "a", {"metadata": {"annotations": PAUSED}})
    await lab.delete(kind, "a")
    await lab.create_claim("c", "p", kind)
    assert await lab.wait_until_served("c", kind) == "10.0.0.3"
    assert await lab.find(ADDRESS_KINDS[kind], "p-10-0-0-2") is not None
    await lab.patch(kind, "a", {"metadata": {"annotations": UNPAUSED}})
    await lab.wait_until_gone(kind, "a")
    await lab.wait_until_gone(ADDRESS_KINDS[kind], "p-10-0-0-2")


async def test_claims_that_are_deleted_right_after_their_creation_leave_no_ipaddress(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", {"subnet": "10.0.0.0/24"})
    names = [f"c{number}" for number in range(20)]
    for name in names:
        await lab.create_claim(name, "p", kind)
        await lab.delete(kind, name)
    for name in names:
        await lab.wait_until_gone(kind, name)
    await lab.wait_until_none(ADDRESS_KINDS[kind])
    await lab.create_claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"
    claim = await lab.find(kind, "a")
    assert claim is not None
    assert get_address_name(claim) == "p-10-0-0-1"


@without_webhooks
async def test_an_ipaddress_keeps_its_pool_when_its_claim_is_edited_to_another_pool(
    lab: Metal3Lab, kind: str
) -> None:
    for pool, network in (("p", "10.0.0"), ("q", "10.0.1")):
        await lab.create_pool(pool, {"start": f"{network}.1", "end": f"{network}.9"})
    await lab.create_claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"
    reference = "pool" if kind == "IPClaim" else "poolRef"
    await lab.patch(kind, "a", {"spec": {reference: {"name": "q"}}})
    await lab.create_claim("b", "q", kind)
    assert await lab.wait_until_served("b", kind) == "10.0.1.1"
    for body in await keep_looking(lambda: lab.find(ADDRESS_KINDS[kind], "p-10-0-0-1"), 0.5):
        assert body is not None
        owners = [owner["name"] for owner in body["metadata"]["ownerReferences"]]
        assert owners == ["p", "a"]
    await lab.delete(kind, "a")
    await lab.wait_until_gone(ADDRESS_KINDS[kind], "p-10-0-0-1")
