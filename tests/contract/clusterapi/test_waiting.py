"""Claims that cannot be served report the reason, and are served once it is gone."""

import pytest

from tests.contract.clusterapi.lab import ClusterApiLab, find_condition, get_reason

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_a_claim_without_a_pool_is_served_when_the_pool_is_created(
    lab: ClusterApiLab,
) -> None:
    await lab.create_claim("a", "p")
    waiting_claim = await lab.wait_for_reason("a", "PoolNotReady")
    assert find_condition(waiting_claim)["status"] == "False"
    await lab.create_pool("p", "10.0.0.10")
    assert await lab.wait_until_served("a") == "10.0.0.10"
    assert get_reason(await lab.find("IPAddressClaim", "a")) == "AddressAllocated"


async def test_the_oldest_waiting_claim_gets_an_address_that_is_released(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.11")
    for name in ("a", "b"):
        await lab.create_claim(name, "p")
        await lab.wait_until_served(name)
    for name in ("z", "y", "x"):  # not in the order of their names
        await lab.create_claim(name, "p")
        await lab.wait_for_reason(name, "PoolExhausted")
    await lab.delete("IPAddressClaim", "a")
    (_, oldest), *others = sorted([await _read_age_key(lab, name) for name in ("z", "y", "x")])
    assert await lab.wait_until_served(oldest) == "10.0.0.10"
    for _, name in others:
        assert get_reason(await lab.find("IPAddressClaim", name)) == "PoolExhausted"


async def _read_age_key(lab: ClusterApiLab, name: str) -> tuple[str, str]:
    """Return the key by which claims are served: creationTimestamp (in seconds), then name."""
    body = await lab.find("IPAddressClaim", name)
    assert body is not None
    return str(body["metadata"]["creationTimestamp"]), name


async def test_waiting_claims_are_served_when_an_exclusion_ends_and_when_the_pool_grows(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.11", excludedAddresses=["10.0.0.11"])
    await lab.create_claim("a", "p")
    await lab.wait_until_served("a")
    await lab.create_claim("b", "p")
    await lab.wait_for_reason("b", "PoolExhausted")
    await lab.patch("InClusterIPPool", "p", {"spec": {"excludedAddresses": None}})
    assert await lab.wait_until_served("b") == "10.0.0.11"
    await lab.create_claim("c", "p")
    await lab.wait_for_reason("c", "PoolExhausted")
    addresses = ["10.0.0.10-10.0.0.11", "10.0.0.20"]
    await lab.patch("InClusterIPPool", "p", {"spec": {"addresses": addresses}})
    assert await lab.wait_until_served("c") == "10.0.0.20"
    await lab.wait_for_counts("p", total=3, used=3, free=0, out_of_range=0)


async def test_waiting_and_served_claims_are_not_written_again(lab: ClusterApiLab) -> None:
    await lab.create_pool("p", "10.0.0.10")
    await lab.create_claim("a", "p")
    await lab.wait_until_served("a")
    await lab.create_claim("b", "p")
    await lab.wait_for_reason("b", "PoolExhausted")
    await lab.wait_for_counts("p", total=1, used=1, free=0, out_of_range=0)
    await lab.wait_until_settled()
    before = await _read_versions(lab)
    await lab.wait_until_settled()
    assert await _read_versions(lab) == before


async def _read_versions(lab: ClusterApiLab) -> dict[str, str]:
    """Return the resourceVersions of the claims `a` and `b`, the IPAddress `a` and the pool."""
    bodies = [
        await lab.find(kind, name)
        for kind, name in (
            ("IPAddressClaim", "a"),
            ("IPAddressClaim", "b"),
            ("IPAddress", "a"),
            ("InClusterIPPool", "p"),
        )
    ]
    assert None not in bodies
    return {
        f"{body['kind']}/{body['metadata']['name']}": body["metadata"]["resourceVersion"]
        for body in bodies
        if body is not None
    }


async def test_a_pool_that_is_being_deleted_serves_no_claim_and_is_gone_after_its_last_release(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.11")
    await lab.create_claim("a", "p")
    await lab.wait_until_served("a")
    await lab.delete("InClusterIPPool", "p")
    await lab.create_claim("b", "p")
    await lab.wait_for_reason("b", "PoolNotReady")
    assert await lab.find("InClusterIPPool", "p") is not None
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddressClaim", "a")
    await lab.wait_until_gone("InClusterIPPool", "p")
    await lab.create_pool("p", "10.0.0.10")
    assert await lab.wait_until_served("b") == "10.0.0.10"


async def test_a_pool_has_its_finalizer_and_its_ready_condition_from_the_beginning(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10")
    await lab.wait_for_counts("p", total=1, used=0, free=1, out_of_range=0)
    pool = await lab.find("InClusterIPPool", "p")
    assert pool is not None
    assert pool["metadata"]["finalizers"] == ["ipam.cluster.x-k8s.io/ProtectPool"]
    assert find_condition(pool)["status"] == "True"
    await lab.delete("InClusterIPPool", "p")
    await lab.wait_until_gone("InClusterIPPool", "p")


async def test_a_claim_reports_the_invalid_spec_of_its_pool_and_is_served_once_it_is_valid(
    lab: ClusterApiLab,
) -> None:
    spec = {
        "cidr": "10.3.0.0/24",
        "tenantAllocation": {"start": "10.3.0.10", "end": "10.3.0.20"},
        "reserved": [{"cidr": "10.3.0.16/28"}],  # beyond the end of the range
    }
    await lab.create("NetworkPool", "p", spec)
    await lab.create_claim("a", "p", "NetworkPool")
    await lab.until(
        "IPAddressClaim",
        "a",
        lambda claim: "straddles" in find_condition(claim).get("message", ""),
    )
    assert get_reason(await lab.find("IPAddressClaim", "a")) == "PoolNotReady"
    await lab.patch("NetworkPool", "p", {"spec": {"reserved": None}})
    assert await lab.wait_until_served("a") == "10.3.0.10"


async def test_a_claim_reports_that_its_pool_cannot_be_written_and_is_served_once_it_can_be(
    lab: ClusterApiLab,
) -> None:
    label = {"metadata": {"labels": {"broken": lab.namespace}}}
    merge = {"Content-Type": "application/merge-patch+json"}
    namespace_path = f"/api/v1/namespaces/{lab.namespace}"
    assert (await lab.admin.patch(namespace_path, json=label, headers=merge)).status_code == 200
    webhook = {
        "name": "unreachable.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/unreachable"},
        "rules": [
            {
                "apiGroups": ["ipam.cluster.x-k8s.io"],
                "apiVersions": ["v1alpha2"],
                "operations": ["UPDATE"],
                "resources": ["inclusterippools"],
            }
        ],
        "namespaceSelector": {"matchLabels": {"broken": lab.namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 2,
    }
    collection = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    body = {"metadata": {"name": lab.namespace}, "webhooks": [webhook]}
    assert (await lab.admin.post(collection, json=body)).status_code == 201
    try:
        await lab.create_pool("p", "10.0.0.10")
        await lab.create_claim("a", "p")
        await lab.until(
            "IPAddressClaim",
            "a",
            lambda claim: "webhook" in find_condition(claim).get("message", ""),
        )
        assert get_reason(await lab.find("IPAddressClaim", "a")) == "PoolNotReady"
    finally:
        assert (await lab.admin.delete(f"{collection}/{lab.namespace}")).status_code == 200
    assert await lab.wait_until_served("a") == "10.0.0.10"
