"""What edits of pools, claims and annotations change for claims of either kind, and what not."""

import pytest

from tests.contract.metal3.lab import (
    ADDRESS_KINDS,
    CLAIM_KINDS,
    PAUSED,
    Body,
    Metal3Lab,
    address_name,
    problem,
    status,
)
from tests.polling import keep_looking

pytestmark = [
    pytest.mark.asyncio(loop_scope="package"),
    pytest.mark.parametrize("kind", CLAIM_KINDS),
]
UNPAUSED = {"cluster.x-k8s.io/paused": None}


def settings_of(address: Body | None) -> tuple[str, int, list[str]]:
    """Return the settings of an IPAddress: gateway, prefix and DNS servers."""
    assert address is not None
    spec = address["spec"]
    return spec.get("gateway", ""), spec.get("prefix", 0), spec.get("dnsServers", [])


async def test_an_ipaddress_keeps_its_settings_when_the_pool_is_edited(
    lab: Metal3Lab, kind: str
) -> None:
    entry = {"start": "10.0.0.1", "end": "10.0.0.9", "dnsServers": ["9.9.9.9"]}
    await lab.pool("p", entry, gateway="10.0.0.9", dnsServers=["1.1.1.1", "8.8.8.8"])
    await lab.claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"
    edited = {"pools": [{**entry, "dnsServers": []}], "gateway": "10.0.0.8", "prefix": 28}
    await lab.patch("IPPool", "p", {"spec": edited})
    await lab.claim("b", "p", kind)
    assert await lab.wait_until_served("b", kind) == "10.0.0.2"
    addresses = ADDRESS_KINDS[kind]
    is_metal3 = kind == "IPClaim"  # IPAddresses of Cluster API have no DNS servers
    old = settings_of(await lab.find(addresses, "p-10-0-0-1"))
    assert old == ("10.0.0.9", 24, ["9.9.9.9"] if is_metal3 else [])
    new = settings_of(await lab.find(addresses, "p-10-0-0-2"))
    assert new == ("10.0.0.8", 28, ["1.1.1.1", "8.8.8.8"] if is_metal3 else [])


async def test_addresses_that_an_edit_leaves_outside_stay_held_and_shown(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.pool("p", {"start": "10.0.0.1", "end": "10.0.0.2"})
    await lab.claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"
    await lab.patch("IPPool", "p", {"spec": {"pools": [{"start": "10.0.0.2"}]}})
    await lab.claim("b", "p", kind)
    assert await lab.wait_until_served("b", kind) == "10.0.0.2"
    indexes = {"a": "10.0.0.1", "b": "10.0.0.2"}
    await lab.until("IPPool", "p", lambda body: status(body).get("indexes") == indexes)
    await lab.patch("IPPool", "p", {"spec": {"pools": [{"start": "10.0.0.1"}]}})
    await lab.claim("c", "p", kind)
    assert await lab.wait_until_served("c", kind) == "10.0.0.3"
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"


async def test_a_wish_that_comes_after_the_address_moves_nothing(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.pool("p", {"start": "10.0.0.1", "end": "10.0.0.9"}, preAllocations={})
    await lab.claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"
    await lab.patch(kind, "a", {"metadata": {"annotations": {"ipAddress": "10.0.0.7"}}})
    await lab.patch("IPPool", "p", {"spec": {"preAllocations": {"a": "10.0.0.6"}}})
    await lab.claim("b", "p", kind)  # a later pass over the same pool
    assert await lab.wait_until_served("b", kind) == "10.0.0.2"
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"


async def test_a_corrected_wish_is_granted(lab: Metal3Lab, kind: str) -> None:
    await lab.pool("p", {"start": "10.0.0.1", "end": "10.0.0.9"})
    await lab.claim("a", "p", kind, wish="nonsense")
    invalid = 'Invalid ipAddress annotation "nonsense": not a valid IP address'
    await lab.wait_until_refused("a", invalid, kind)
    await lab.patch(kind, "a", {"metadata": {"annotations": {"ipAddress": "10.0.0.7"}}})
    assert await lab.wait_until_served("a", kind) == "10.0.0.7"


async def test_an_empty_annotation_is_no_wish(lab: Metal3Lab, kind: str) -> None:
    await lab.pool("p", {"start": "10.0.0.1", "end": "10.0.0.9"})
    await lab.claim("a", "p", kind, annotations={"ipAddress": ""})
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"


async def test_a_pre_allocated_address_has_the_settings_of_its_entry_and_stays_kept(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.pool(
        "p",
        {"start": "10.0.0.1", "end": "10.0.0.1"},
        {"start": "10.0.1.1", "end": "10.0.1.2", "prefix": 28, "gateway": "10.0.1.14"},
        preAllocations={"a": "10.0.1.1"},
    )
    await lab.claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.1.1"
    address = await lab.find(ADDRESS_KINDS[kind], "p-10-0-1-1")
    assert settings_of(address)[:2] == ("10.0.1.14", 28)
    await lab.delete(kind, "a")
    await lab.wait_until_gone(kind, "a")
    for name, expected in (("b", "10.0.0.1"), ("c", "10.0.1.2")):
        await lab.claim(name, "p", kind)
        assert await lab.wait_until_served(name, kind) == expected
    await lab.claim("d", "p", kind)
    await lab.wait_until_refused("d", "Exhausted IP Pools", kind)


async def test_a_pre_allocation_of_a_held_address_waits_for_it_and_stops_nobody(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.pool("p", {"start": "10.0.0.1", "end": "10.0.0.9"})
    await lab.claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"
    await lab.patch("IPPool", "p", {"spec": {"preAllocations": {"b": "10.0.0.1"}}})
    await lab.claim("b", "p", kind)
    await lab.wait_until_refused("b", "Pre-allocated IP not available", kind)
    await lab.claim("c", "p", kind)
    assert await lab.wait_until_served("c", kind) == "10.0.0.2"
    await lab.delete(kind, "a")
    assert await lab.wait_until_served("b", kind) == "10.0.0.1"


async def test_the_oldest_claim_that_waits_gets_the_address_that_is_released(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.pool("p", {"start": "10.0.0.1", "end": "10.0.0.1"})
    await lab.claim("z", "p", kind)
    await lab.wait_until_served("z", kind)
    created: list[str] = []
    for name in ("y", "x"):  # not in the order of the names
        claim = await lab.claim(name, "p", kind)
        created.append(claim["metadata"]["creationTimestamp"])
        refused = await lab.wait_until_refused(name, "Exhausted IP Pools", kind)
        assert problem(refused) == "Exhausted IP Pools"
        await lab.until_later(created[-1])
    assert created[0] < created[1]
    await lab.delete(kind, "z")
    assert await lab.wait_until_served("y", kind) == "10.0.0.1"
    await lab.wait_until_refused("x", "Exhausted IP Pools", kind)


async def test_a_paused_claim_is_neither_served_nor_released(lab: Metal3Lab, kind: str) -> None:
    await lab.pool("p", {"start": "10.0.0.1", "end": "10.0.0.9"})
    await lab.claim("a", "p", kind, annotations=PAUSED)
    await lab.claim("b", "p", kind)
    assert await lab.wait_until_served("b", kind) == "10.0.0.1"
    await lab.waits("a", kind, seconds=0.5)
    await lab.patch(kind, "a", {"metadata": {"annotations": UNPAUSED}})
    assert await lab.wait_until_served("a", kind) == "10.0.0.2"
    await lab.patch(kind, "a", {"metadata": {"annotations": PAUSED}})
    await lab.delete(kind, "a")
    await lab.claim("c", "p", kind)
    assert await lab.wait_until_served("c", kind) == "10.0.0.3"
    assert await lab.find(ADDRESS_KINDS[kind], "p-10-0-0-2") is not None
    await lab.patch(kind, "a", {"metadata": {"annotations": UNPAUSED}})
    await lab.wait_until_gone(kind, "a")
    await lab.wait_until_gone(ADDRESS_KINDS[kind], "p-10-0-0-2")


async def test_claims_that_are_deleted_at_once_leave_no_ipaddress_behind(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.pool("p", {"subnet": "10.0.0.0/24"})
    names = [f"c{number}" for number in range(20)]
    for name in names:
        await lab.claim(name, "p", kind)
        await lab.delete(kind, name)
    for name in names:
        await lab.wait_until_gone(kind, name)
    await lab.no_items(ADDRESS_KINDS[kind])
    await lab.claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"
    claim = await lab.find(kind, "a")
    assert claim is not None
    assert address_name(claim) == "p-10-0-0-1"


async def test_an_ipaddress_stays_with_its_pool_when_its_claim_names_another_one(
    lab: Metal3Lab, kind: str
) -> None:
    for pool, network in (("p", "10.0.0"), ("q", "10.0.1")):
        await lab.pool(pool, {"start": f"{network}.1", "end": f"{network}.9"})
    await lab.claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"
    reference = "pool" if kind == "IPClaim" else "poolRef"
    await lab.patch(kind, "a", {"spec": {reference: {"name": "q"}}})
    await lab.claim("b", "q", kind)
    assert await lab.wait_until_served("b", kind) == "10.0.1.1"
    for body in await keep_looking(lambda: lab.find(ADDRESS_KINDS[kind], "p-10-0-0-1"), 0.5):
        assert body is not None
        owners = [owner["name"] for owner in body["metadata"]["ownerReferences"]]
        assert owners == ["p", "a"]
    await lab.delete(kind, "a")
    await lab.wait_until_gone(ADDRESS_KINDS[kind], "p-10-0-0-1")
