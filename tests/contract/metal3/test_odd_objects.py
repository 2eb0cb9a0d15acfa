"""Unexpected objects: they do not stop a pool, and they can all be deleted."""

import pytest

from reconcilers.api.names import ANNOTATION_MADE_FOR
from tests.contract.metal3.lab import (
    ADDRESS_KINDS,
    CLAIM_KINDS,
    FINALIZERS,
    METAL3,
    PAUSED,
    Metal3Lab,
    get_address_name,
    get_status,
)
from tests.contract.metal3.test_adoption import create_address, make_address_status

pytestmark = [
    pytest.mark.asyncio(loop_scope="package"),
    pytest.mark.parametrize("kind", CLAIM_KINDS),
]


async def test_a_pool_skips_addresses_whose_ipaddress_name_is_already_used(
    lab: Metal3Lab, kind: str
) -> None:
    await create_address(lab, kind, name="p-10-0-0-1", address="10.0.0.9", claim="x")
    await create_address(lab, kind, name="p-10-0-0-2", address="192.168.0.1", claim="y")
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.9"})
    await lab.create_claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.0.3"
    await lab.create_claim("b", "p", kind, requested="10.0.0.2")
    await lab.wait_until_refused("b", "Requested IP not available", kind)


async def test_an_ipv4_and_an_ipv6_address_with_one_ipaddress_name_are_not_both_handed_out(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool(
        "p", {"start": "1.2.3.4", "end": "1.2.3.4"}, {"start": "1:2:3:4::", "end": "1:2:3:4::9"}
    )
    await lab.create_claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "1.2.3.4"
    await lab.create_claim("b", "p", kind)
    assert await lab.wait_until_served("b", kind) == "1:2:3:4::1"


async def test_addresses_that_metal3_refuses_are_not_chosen(lab: Metal3Lab, kind: str) -> None:
    entry = {"start": "::fffe:ffff:ffff", "end": "::1:0:0:0"}
    await lab.create_pool("p", entry)
    await lab.create_claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "::fffe:ffff:ffff"
    await lab.create_claim("b", "p", kind)
    assert await lab.wait_until_served("b", kind) == "::1:0:0:0"


async def test_an_ipaddress_without_finalizer_is_released_with_its_claim(
    lab: Metal3Lab, kind: str
) -> None:
    pool = await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.9"})
    await lab.patch("IPPool", "p", {"metadata": {"annotations": PAUSED}})
    claim = await lab.create_claim("a", "p", kind, finalizers=[FINALIZERS[kind]])
    owners = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
        for owner in (pool, claim)
    ]
    await create_address(
        lab, kind, name="p-10-0-0-1", address="10.0.0.1", claim="a", ownerReferences=owners
    )
    await lab.patch(
        kind, "a", patch=make_address_status(lab, kind, "p-10-0-0-1"), subresource="status"
    )
    await lab.delete(kind, "a")
    unpaused = {"cluster.x-k8s.io/paused": None}
    await lab.patch("IPPool", "p", {"metadata": {"annotations": unpaused}})
    await lab.wait_until_gone(kind, "a")
    await lab.wait_until_gone(ADDRESS_KINDS[kind], "p-10-0-0-1")


async def test_an_ipaddress_with_an_invalid_address_does_not_stop_the_pool_and_its_status(
    lab: Metal3Lab, kind: str
) -> None:
    spec = {
        "address": "nonsense",
        "prefix": 24,
        "poolRef": {"apiGroup": METAL3, "kind": "IPPool", "name": "p"},
        "claimRef": {"name": "odd"},
    }
    await lab.create("IPAddress of Cluster API", "odd", spec)
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.9"})
    await lab.create_claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"
    expected = {"a": "10.0.0.1"}
    await lab.until("IPPool", "p", lambda body: get_status(body).get("indexes") == expected)


async def test_a_status_that_names_a_missing_ipaddress_is_corrected_to_the_claims_ipaddress(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.9"})
    await lab.patch("IPPool", "p", {"metadata": {"annotations": PAUSED}})
    await create_address(lab, kind, name="by-hand", address="10.0.0.1", claim="a")
    await lab.create_claim("a", "p", kind, finalizers=[FINALIZERS[kind]])
    await lab.patch(
        kind, "a", patch=make_address_status(lab, kind, "p-10-0-0-1"), subresource="status"
    )
    unpaused = {"cluster.x-k8s.io/paused": None}
    await lab.patch("IPPool", "p", {"metadata": {"annotations": unpaused}})
    await lab.until(kind, "a", lambda body: get_address_name(body) == "by-hand")
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"


async def test_a_claim_is_refused_if_an_ipaddress_of_another_pool_has_the_name_it_needs(
    lab: Metal3Lab, kind: str
) -> None:
    await create_address(lab, kind, name="p-10-0-0-5", address="10.0.0.5", claim="b")
    await lab.create_pool("r", {"start": "10.0.0.1", "end": "10.0.0.9"}, namePrefix="p")
    await lab.create_claim("b", "r", kind, requested="10.0.0.5")
    await lab.wait_until_refused("b", "Requested IP not available", kind)


async def test_a_claim_waits_without_error_while_a_late_ipaddress_for_it_has_a_held_address(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", {"start": "10.0.0.1", "end": "10.0.0.9"})
    [other] = {*CLAIM_KINDS} - {kind}
    await lab.create_claim("b", "p", other)
    assert await lab.wait_until_served("b", other) == "10.0.0.1"
    claim = await lab.create_claim("a", "p", kind, annotations=PAUSED)
    made_for = {ANNOTATION_MADE_FOR: claim["metadata"]["uid"]}
    await create_address(
        lab, kind, name="p-10-0-0-1", address="10.0.0.1", claim="a", annotations=made_for
    )
    unpaused = {"cluster.x-k8s.io/paused": None}
    await lab.patch(kind, "a", {"metadata": {"annotations": unpaused}})
    await lab.check_waiting("a", kind)
