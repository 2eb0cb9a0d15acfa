"""Claims get the lowest free address of their pool, of each kind of pool."""

import pytest

from tests.contract.clusterapi.lab import (
    ADDRESS_FINALIZER,
    CLAIM_FINALIZER,
    ClusterApiLab,
    find_condition,
    get_status,
)

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_a_claim_gets_the_lowest_free_address_and_the_pool_counts_it(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.12", gateway="10.0.0.1")
    await lab.create_claim("a", "p")
    assert await lab.wait_until_served("a") == "10.0.0.10"
    await lab.create_claim("b", "p")
    assert await lab.wait_until_served("b") == "10.0.0.11"
    await lab.wait_for_counts("p", total=3, used=2, free=1, out_of_range=0)


async def test_excluded_and_reserved_addresses_and_the_gateway_are_never_handed_out(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool(
        "p", "10.0.0.0/29", prefix=29, gateway="10.0.0.1", excludedAddresses=["10.0.0.3"]
    )
    for name, expected in (("a", "10.0.0.2"), ("b", "10.0.0.4"), ("c", "10.0.0.5")):
        await lab.create_claim(name, "p")
        assert await lab.wait_until_served(name) == expected
    await lab.create_claim("d", "p")
    assert await lab.wait_until_served("d") == "10.0.0.6"
    await lab.create_claim("e", "p")
    await lab.wait_for_reason("e", "PoolExhausted")
    await lab.wait_for_counts("p", total=4, used=4, free=0, out_of_range=0)


async def test_the_ipaddress_has_owners_finalizer_and_label_and_spells_the_gateway_as_its_pool(
    lab: ClusterApiLab,
) -> None:
    await lab.create("Cluster", "c", {})
    pool = await lab.create_pool("p", "2001:db8::10", prefix=64, gateway="2001:DB8:0::1")
    claim = await lab.create_claim("a", "p", cluster="c")
    await lab.wait_until_served("a")
    address = await lab.find("IPAddress", "a")
    assert address is not None
    assert address["spec"] == {
        "address": "2001:db8::10",
        "claimRef": {"name": "a"},
        "gateway": "2001:DB8:0::1",
        "poolRef": {
            "apiGroup": "ipam.cluster.x-k8s.io",
            "kind": "InClusterIPPool",
            "name": "p",
        },
        "prefix": 64,
    }
    meta = address["metadata"]
    assert meta["finalizers"] == [ADDRESS_FINALIZER]
    assert meta["labels"] == {"cluster.x-k8s.io/cluster-name": "c"}
    assert meta["ownerReferences"] == [
        {
            "apiVersion": "ipam.cluster.x-k8s.io/v1beta2",
            "kind": "IPAddressClaim",
            "name": "a",
            "uid": claim["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        },
        {
            "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2",
            "kind": "InClusterIPPool",
            "name": "p",
            "uid": pool["metadata"]["uid"],
            "controller": False,
            "blockOwnerDeletion": True,
        },
    ]
    served_claim = await lab.find("IPAddressClaim", "a")
    assert served_claim is not None
    assert served_claim["metadata"]["finalizers"] == [CLAIM_FINALIZER]
    assert find_condition(served_claim)["status"] == "True"
    assert find_condition(served_claim)["reason"] == "AddressAllocated"


async def test_ipaddresses_of_a_pool_without_gateway_have_no_gateway(lab: ClusterApiLab) -> None:
    await lab.create_pool("p", "10.0.0.10")
    await lab.create_claim("a", "p")
    await lab.wait_until_served("a")
    address = await lab.find("IPAddress", "a")
    assert address is not None
    assert "gateway" not in address["spec"]


async def test_a_global_pool_serves_claims_of_all_namespaces(lab: ClusterApiLab) -> None:
    name = f"global-{lab.namespace}"
    await lab.create_pool(name, "10.1.0.10-10.1.0.11", kind="GlobalInClusterIPPool")
    await lab.create_claim("a", name, "GlobalInClusterIPPool")
    assert await lab.wait_until_served("a") == "10.1.0.10"
    await lab.wait_for_counts(
        name, total=2, used=1, free=1, out_of_range=0, kind="GlobalInClusterIPPool"
    )


@pytest.mark.parametrize("kind", ["InClusterPrefixPool", "GlobalInClusterPrefixPool"])
async def test_a_prefix_pool_hands_out_aligned_prefixes_lowest_first(
    lab: ClusterApiLab, kind: str
) -> None:
    name = f"prefixes-{lab.namespace}"
    spec = {
        "prefixes": ["2001:db8:a::/62"],
        "allocationPrefixLength": 64,
        "excludedPrefixes": ["2001:db8:a:1::7"],
    }
    await lab.create(kind, name, spec)
    for claim, expected in (("a", "2001:db8:a::"), ("b", "2001:db8:a:2::")):
        await lab.create_claim(claim, name, kind)
        assert await lab.wait_until_served(claim) == expected
    address = await lab.find("IPAddress", "b")
    assert address is not None
    assert address["spec"]["prefix"] == 64
    await lab.wait_for_counts(name, total=3, used=2, free=1, out_of_range=0, kind=kind)


async def test_a_network_pool_serves_claims_and_allocations_from_one_space(
    lab: ClusterApiLab,
) -> None:
    await lab.create("NetworkPool", "p", {"cidr": "10.2.0.0/29", "gateway": "10.2.0.1"})
    spec = {
        "poolRef": {"name": "p"},
        "tenantClusterRef": {"name": "t", "namespace": lab.namespace},
        "type": "nodes",
        "count": 2,
    }
    await lab.create_claim("a", "p", "NetworkPool")
    assert await lab.wait_until_served("a") == "10.2.0.0"
    await lab.create("IPAllocation", "n", spec)
    allocation = await lab.until(
        "IPAllocation", "n", lambda body: body.get("status", {}).get("phase") == "Allocated"
    )
    assert allocation["status"]["startAddress"] == "10.2.0.2"
    await lab.create_claim("b", "p", "NetworkPool")
    assert await lab.wait_until_served("b") == "10.2.0.4"
    address = await lab.find("IPAddress", "b")
    assert address is not None
    assert (address["spec"]["prefix"], address["spec"]["gateway"]) == (29, "10.2.0.1")
    await lab.until("NetworkPool", "p", lambda pool: get_status(pool).get("allocatedIPs") == 4)


@pytest.mark.parametrize(
    ("addresses", "prefix", "expected"),
    [
        (["10.0.0.8/31"], 31, ["10.0.0.8", "10.0.0.9"]),
        (["10.0.0.8"], 32, ["10.0.0.8"]),
        (["10.0.0.9", "10.0.0.5-10.0.0.6"], 24, ["10.0.0.5", "10.0.0.6", "10.0.0.9"]),
        (["203.0.113.7", "198.51.100.3"], 0, ["198.51.100.3", "203.0.113.7"]),
        (["2001:db8::/126"], 126, ["2001:db8::1", "2001:db8::2", "2001:db8::3"]),
    ],
)
async def test_addresses_ranges_and_small_subnets_are_served_ascending(
    lab: ClusterApiLab, addresses: list[str], prefix: int, expected: list[str]
) -> None:
    await lab.create_pool("p", *addresses, prefix=prefix)
    for number in range(len(expected)):
        await lab.create_claim(f"a{number}", "p")
        assert await lab.wait_until_served(f"a{number}") == expected[number]
    await lab.create_claim("z", "p")
    await lab.wait_for_reason("z", "PoolExhausted")


async def test_claims_of_the_older_version_are_served_too(lab: ClusterApiLab) -> None:
    await lab.create_pool("p", "10.0.0.10")
    path = lab.build_path("IPAddressClaim").replace("v1beta2", "v1beta1")
    body = {
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta1",
        "kind": "IPAddressClaim",
        "metadata": {"name": "a"},
        "spec": {
            "poolRef": {
                "apiGroup": "ipam.cluster.x-k8s.io",
                "kind": "InClusterIPPool",
                "name": "p",
            }
        },
    }
    assert (await lab.admin.post(path, json=body)).status_code == 201
    assert await lab.wait_until_served("a") == "10.0.0.10"


async def test_claims_on_pools_of_other_providers_are_not_written(lab: ClusterApiLab) -> None:
    spec = {"poolRef": {"apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": "p"}}
    claim = await lab.create("IPAddressClaim", "a", spec)
    other = {"poolRef": {"apiGroup": "other.io", "kind": "InClusterIPPool", "name": "p"}}
    await lab.create("IPAddressClaim", "b", other)
    await lab.wait_until_settled()
    foreign_claim = await lab.find("IPAddressClaim", "a")
    assert foreign_claim is not None
    assert foreign_claim["metadata"]["resourceVersion"] == claim["metadata"]["resourceVersion"]
    assert "finalizers" not in (await lab.find("IPAddressClaim", "b") or {})["metadata"]
