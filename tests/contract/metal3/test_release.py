"""The release of addresses of claims of either kind, and what delays it."""

import pytest

from tests.contract.metal3.lab import (
    ADDRESS_KINDS,
    CLAIM_KINDS,
    FINALIZERS,
    PAUSED,
    Metal3Lab,
    get_address_name,
)

pytestmark = [
    pytest.mark.asyncio(loop_scope="package"),
    pytest.mark.parametrize("kind", CLAIM_KINDS),
]
FOREIGN_FINALIZER = "metal3data.infrastructure.cluster.x-k8s.io"
"""CAPM3 adds it to a claim for as long as a machine uses the address."""
ENTRY = {"start": "10.0.0.1", "end": "10.0.0.9"}


async def test_a_deleted_claim_keeps_its_address_until_the_finalizer_of_another_controller_is_gone(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", ENTRY)
    await lab.create_claim("a", "p", kind, finalizers=[FOREIGN_FINALIZER])
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"
    await lab.delete(kind, "a")
    await lab.create_claim("b", "p", kind)
    assert await lab.wait_until_served("b", kind) == "10.0.0.2"
    claim = await lab.find(kind, "a")
    assert claim is not None
    assert FINALIZERS[kind] in claim["metadata"]["finalizers"]
    assert await lab.find(ADDRESS_KINDS[kind], "p-10-0-0-1") is not None
    await lab.patch(kind, "a", {"metadata": {"finalizers": [FINALIZERS[kind]]}})
    await lab.wait_until_gone(kind, "a")
    assert await lab.find(ADDRESS_KINDS[kind], "p-10-0-0-1") is None
    await lab.create_claim("c", "p", kind)
    assert await lab.wait_until_served("c", kind) == "10.0.0.1"


async def test_a_claim_whose_pool_is_gone_is_released(lab: Metal3Lab, kind: str) -> None:
    await lab.create_pool("p", ENTRY)
    await lab.create_claim("a", "p", kind)
    await lab.wait_until_served("a", kind)
    await lab.delete("IPPool", "p")
    await lab.patch("IPPool", "p", {"metadata": {"finalizers": None}})
    await lab.wait_until_gone("IPPool", "p")
    await lab.delete(kind, "a")
    await lab.wait_until_gone(kind, "a")
    await lab.wait_until_gone(ADDRESS_KINDS[kind], "p-10-0-0-1")


async def test_an_ipaddress_that_is_deleted_by_force_is_created_again(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", ENTRY)
    await lab.create_claim("a", "p", kind)
    await lab.wait_until_served("a", kind)
    before = await lab.find(ADDRESS_KINDS[kind], "p-10-0-0-1")
    assert before is not None
    await lab.delete(ADDRESS_KINDS[kind], "p-10-0-0-1")
    await lab.until(
        ADDRESS_KINDS[kind],
        "p-10-0-0-1",
        lambda body: body["metadata"]["uid"] != before["metadata"]["uid"],
    )
    await lab.create_claim("b", "p", kind)
    assert await lab.wait_until_served("b", kind) == "10.0.0.2"


async def test_a_claim_that_is_recreated_at_once_gets_an_ipaddress_that_it_owns(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", ENTRY, preAllocations={"a": "10.0.0.5"})
    for _ in range(5):
        await lab.create_claim("a", "p", kind)
        assert await lab.wait_until_served("a", kind) == "10.0.0.5"
        claim = await lab.find(kind, "a")
        address = await lab.find(ADDRESS_KINDS[kind], "p-10-0-0-5")
        assert claim is not None
        assert address is not None
        owners = [owner["uid"] for owner in address["metadata"]["ownerReferences"]]
        assert claim["metadata"]["uid"] in owners
        await lab.delete(kind, "a")
        await lab.wait_until_gone(kind, "a")


async def test_a_deleted_pool_serves_no_claim_and_is_gone_after_its_last_release(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", ENTRY)
    await lab.create_claim("a", "p", kind)
    await lab.wait_until_served("a", kind)
    await lab.delete("IPPool", "p")
    await lab.create_claim("b", "p", kind)
    if kind == "IPClaim":
        [note] = await lab.wait_for_events("IPClaim", "b")
        assert "IPPool p is not ready: it is being deleted" in note
        await lab.check_waiting("b")
    else:
        await lab.wait_until_refused("b", "IPPool p is not ready: it is being deleted", kind)
    assert await lab.find("IPPool", "p") is not None
    await lab.delete(kind, "a")
    await lab.wait_until_gone("IPPool", "p")


async def test_a_claim_waits_for_its_pool_and_for_the_end_of_a_pause(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_claim("a", "p", kind)
    if kind == "IPClaim":
        assert await lab.wait_for_events("IPClaim", "a") == [
            "IPPool p is not ready: it does not exist"
        ]
    else:
        await lab.wait_until_refused("a", "IPPool p is not ready: it does not exist", kind)
    await lab.create_pool("q", ENTRY)
    await lab.patch("IPPool", "q", {"metadata": {"annotations": PAUSED}})
    await lab.create_claim("b", "q", kind)
    await lab.check_waiting("b", kind)
    await lab.create_pool("p", ENTRY)
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"
    unpaused = {"cluster.x-k8s.io/paused": None}
    await lab.patch("IPPool", "q", {"metadata": {"annotations": unpaused}})
    assert await lab.wait_until_served("b", kind) == "10.0.0.1"


async def test_a_pool_of_a_cluster_gets_its_labels_and_owner_and_waits_while_it_is_paused(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", ENTRY, clusterName="c")
    labels = {"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/provider": "ipam-metal3"}
    await lab.until("IPPool", "p", lambda body: body["metadata"].get("labels") == labels)
    await lab.create_claim("a", "p", kind)
    await lab.create("Cluster", "c", {"paused": True})
    pool = await lab.until("IPPool", "p", lambda body: "ownerReferences" in body["metadata"])
    [owner] = pool["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Cluster", "c", False)
    claim = await lab.find(kind, "a")
    assert claim is not None
    assert get_address_name(claim) == ""
    await lab.patch("Cluster", "c", {"spec": {"paused": False}})
    assert await lab.wait_until_served("a", kind) == "10.0.0.1"


async def test_claims_of_pools_of_other_kinds_or_namespaces_are_not_written(
    lab: Metal3Lab, kind: str
) -> None:
    await lab.create_pool("p", ENTRY)
    if kind == "IPClaim":
        await lab.create("IPClaim", "a", {"pool": {"name": "p", "namespace": "elsewhere"}})
        [note] = await lab.wait_for_events("IPClaim", "a")
        assert "alone" in note
    else:
        other = {"apiGroup": "example.com", "kind": "IPPool", "name": "p"}
        await lab.create(kind, "a", {"poolRef": other})
    await lab.create_claim("b", "p", kind)
    await lab.wait_until_served("b", kind)
    await lab.check_waiting("a", kind)
