"""Claims and IPAddresses that metal3, a move or a person created before."""

from typing import Any

import pytest

from tests.contract.metal3.lab import (
    ADDRESS_KINDS,
    CLAIM_KINDS,
    FINALIZERS,
    METAL3,
    PAUSED,
    Body,
    Metal3Lab,
    get_address_name,
)

pytestmark = [
    pytest.mark.asyncio(loop_scope="package"),
    pytest.mark.parametrize("kind", CLAIM_KINDS),
]
ENTRY = {"start": "10.0.0.1", "end": "10.0.0.9"}


async def create_address(
    lab: Metal3Lab, kind: str, name: str, address: str, claim: str, **metadata: Any
) -> Body:
    """Create an IPAddress as another controller or a person does.

    Args:
        lab: the objects.
        kind: of the claim.
        name: of the IPAddress.
        address: a single one.
        claim: the name of the claim.
        metadata: further metadata of the IPAddress.
    """
    spec: Body = {"address": address, "prefix": 24}
    if kind == "IPClaim":
        spec |= {"pool": {"name": "p"}, "claim": {"name": claim}}
    else:
        spec |= {
            "poolRef": {"apiGroup": METAL3, "kind": "IPPool", "name": "p"},
            "claimRef": {"name": claim},
        }
    return await lab.create(ADDRESS_KINDS[kind], name, spec, **metadata)


def make_address_status(lab: Metal3Lab, kind: str, name: str) -> Body:
    """Return a patch of a claim's status that names an IPAddress."""
    if kind == "IPClaim":
        return {"status": {"address": {"name": name, "namespace": lab.namespace}}}
    return {"status": {"addressRef": {"name": name}}}


async def test_claims_that_metal3_served_keep_their_addresses(lab: Metal3Lab, kind: str) -> None:
    await lab.create_pool("p", ENTRY)
    await lab.patch("IPPool", "p", {"metadata": {"annotations": PAUSED}})
    for number in (3, 1):
        claim, name = f"c{number}", f"p-10-0-0-{number}"
        await lab.create_claim(claim, "p", kind, finalizers=[FINALIZERS[kind]])
        finalizers = [FINALIZERS[ADDRESS_KINDS[kind]]]
        await create_address(
            lab, kind, name=name, address=f"10.0.0.{number}", claim=claim, finalizers=finalizers
        )
        await lab.patch(
            kind, claim, patch=make_address_status(lab, kind, name), subresource="status"
        )
    await lab.patch(
        "IPPool",
        "p",
        patch={"status": {"indexes": {"c1": "10.0.0.1", "c3": "10.0.0.3"}}},
        subresource="status",
    )
    unpaused = {"cluster.x-k8s.io/paused": None}
    await lab.patch("IPPool", "p", {"metadata": {"annotations": unpaused}})
    for name in ("new", "newer"):
        await lab.create_claim(name, "p", kind)
    assert {await lab.wait_until_served(name, kind) for name in ("new", "newer")} == {
        "10.0.0.2",
        "10.0.0.4",
    }
    assert [await lab.wait_until_served(name, kind) for name in ("c1", "c3")] == [
        "10.0.0.1",
        "10.0.0.3",
    ]
    await lab.delete(kind, "c1")
    await lab.wait_until_gone(ADDRESS_KINDS[kind], "p-10-0-0-1")


async def test_a_moved_claim_without_status_gets_the_ipaddress_that_names_the_claim(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", ENTRY)
    stale = {"apiVersion": f"{METAL3}/v1alpha1", "kind": "IPPool", "name": "p", "uid": "before"}
    await lab.create_claim("a", "p", kind, finalizers=[FINALIZERS[kind]])
    await create_address(
        lab, kind, name="p-10-0-0-7", address="10.0.0.7", claim="a", ownerReferences=[stale]
    )
    assert await lab.wait_until_served("a", kind) == "10.0.0.7"
    address = await lab.until(
        ADDRESS_KINDS[kind],
        "p-10-0-0-7",
        lambda body: len(body["metadata"]["ownerReferences"]) == 2,
    )
    assert "before" not in {owner["uid"] for owner in address["metadata"]["ownerReferences"]}


async def test_an_ipaddress_made_by_hand_is_adopted_whatever_its_name_and_spelling(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", {"subnet": "fd00::/120"})
    await create_address(lab, kind, name="by-hand", address="FD00:0:0::1", claim="b")
    await lab.create_claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "fd00::2"
    await lab.create_claim("b", "p", kind)
    claim = await lab.until(kind, "b", lambda body: bool(get_address_name(body)))
    assert get_address_name(claim) == "by-hand"


async def test_claims_of_both_kinds_with_one_name_do_not_share_a_pre_allocated_address(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", ENTRY, preAllocations={"a": "10.0.0.5"})
    await lab.create_claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.0.5"
    [other] = {*CLAIM_KINDS} - {kind}
    await lab.create_claim("a", "p", other)
    await lab.wait_until_refused("a", "Pre-allocated IP not available", other)
    await lab.delete(kind, "a")
    assert await lab.wait_until_served("a", other) == "10.0.0.5"


async def test_the_address_of_two_claims_stays_held_after_one_of_them_is_deleted(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", ENTRY)
    await lab.create_claim("a", "p", kind)
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"
    await lab.create_claim("b", "p", kind, finalizers=[FINALIZERS[kind]], annotations=PAUSED)
    await lab.patch(
        kind, "b", patch=make_address_status(lab, kind, "p-10-0-0-1"), subresource="status"
    )
    unpaused = {"cluster.x-k8s.io/paused": None}
    await lab.patch(kind, "b", {"metadata": {"annotations": unpaused}})
    await lab.delete(kind, "a")
    await lab.wait_until_gone(kind, "a")
    await lab.create_claim("c", "p", kind)
    assert await lab.wait_until_served("c", kind) == "10.0.0.2"
