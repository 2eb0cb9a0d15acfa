"""Claims that cannot be served say why, and are served once they can be."""

import pytest

from tests.contract.clusterapi.lab import Lab, condition, reason

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_a_claim_waits_for_its_pool_and_is_served_when_that_is_made(lab: Lab) -> None:
    await lab.claim("a", "p")
    said = await lab.says("a", "PoolNotReady")
    assert condition(said)["status"] == "False"
    await lab.pool("p", "10.0.0.10")
    assert await lab.wait_until_served("a") == "10.0.0.10"
    assert reason(await lab.find("IPAddressClaim", "a")) == "AddressAllocated"


async def test_those_who_wait_are_served_oldest_first_when_an_address_is_released(
    lab: Lab,
) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.11")
    for name in ("a", "b"):
        await lab.claim(name, "p")
        await lab.wait_until_served(name)
    for name in ("z", "y", "x"):  # not in the order of their names
        await lab.claim(name, "p")
        await lab.says(name, "PoolExhausted")
    await lab.delete("IPAddressClaim", "a")
    first, *others = sorted([await _place(lab, name) for name in ("z", "y", "x")])
    assert await lab.wait_until_served(first[1]) == "10.0.0.10"
    for _, name in others:
        assert reason(await lab.find("IPAddressClaim", name)) == "PoolExhausted"


async def _place(lab: Lab, name: str) -> tuple[str, str]:
    """Return the sort key of a waiting claim: creation, to the second; name."""
    body = await lab.find("IPAddressClaim", name)
    assert body is not None
    return str(body["metadata"]["creationTimestamp"]), name


async def test_growth_of_the_pool_and_a_lifted_exclusion_serve_who_waits(lab: Lab) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.11", excludedAddresses=["10.0.0.11"])
    await lab.claim("a", "p")
    await lab.wait_until_served("a")
    await lab.claim("b", "p")
    await lab.says("b", "PoolExhausted")
    await lab.patch("InClusterIPPool", "p", {"spec": {"excludedAddresses": None}})
    assert await lab.wait_until_served("b") == "10.0.0.11"
    await lab.claim("c", "p")
    await lab.says("c", "PoolExhausted")
    addresses = ["10.0.0.10-10.0.0.11", "10.0.0.20"]
    await lab.patch("InClusterIPPool", "p", {"spec": {"addresses": addresses}})
    assert await lab.wait_until_served("c") == "10.0.0.20"
    await lab.counts("p", (3, 3, 0, 0))


async def test_what_waits_and_what_is_served_is_not_written_again(lab: Lab) -> None:
    await lab.pool("p", "10.0.0.10")
    await lab.claim("a", "p")
    await lab.wait_until_served("a")
    await lab.claim("b", "p")
    await lab.says("b", "PoolExhausted")
    await lab.counts("p", (1, 1, 0, 0))
    await lab.wait_until_settled()
    before = await _versions(lab)
    await lab.wait_until_settled()
    assert await _versions(lab) == before


async def _versions(lab: Lab) -> dict[str, str]:
    """Return the resourceVersions of this test's objects."""
    conditions = [
        await lab.find(kind, name)
        for kind, name in (
            ("IPAddressClaim", "a"),
            ("IPAddressClaim", "b"),
            ("IPAddress", "a"),
            ("InClusterIPPool", "p"),
        )
    ]
    assert None not in conditions
    return {
        f"{claim['kind']}/{claim['metadata']['name']}": claim["metadata"]["resourceVersion"]
        for claim in conditions
        if claim is not None
    }


async def test_a_pool_that_is_being_deleted_serves_no_claim_and_goes_with_its_last_address(
    lab: Lab,
) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.11")
    await lab.claim("a", "p")
    await lab.wait_until_served("a")
    await lab.delete("InClusterIPPool", "p")
    await lab.claim("b", "p")
    await lab.says("b", "PoolNotReady")
    assert await lab.find("InClusterIPPool", "p") is not None
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddressClaim", "a")
    await lab.wait_until_gone("InClusterIPPool", "p")
    await lab.pool("p", "10.0.0.10")
    assert await lab.wait_until_served("b") == "10.0.0.10"


async def test_a_pool_has_its_finalizer_and_its_ready_condition_from_the_beginning(
    lab: Lab,
) -> None:
    await lab.pool("p", "10.0.0.10")
    await lab.counts("p", (1, 0, 1, 0))
    pool = await lab.find("InClusterIPPool", "p")
    assert pool is not None
    assert pool["metadata"]["finalizers"] == ["ipam.cluster.x-k8s.io/ProtectPool"]
    assert condition(pool)["status"] == "True"
    await lab.delete("InClusterIPPool", "p")
    await lab.wait_until_gone("InClusterIPPool", "p")


async def test_a_claim_says_that_its_pool_cannot_be_read_and_is_served_once_it_can(
    lab: Lab,
) -> None:
    spec = {
        "cidr": "10.3.0.0/24",
        "tenantAllocation": {"start": "10.3.0.10", "end": "10.3.0.20"},
        "reserved": [{"cidr": "10.3.0.16/28"}],  # beyond the end of the range
    }
    await lab.create("NetworkPool", "p", spec)
    await lab.claim("a", "p", "NetworkPool")
    await lab.until(
        "IPAddressClaim", "a", lambda claim: "straddles" in condition(claim).get("message", "")
    )
    assert reason(await lab.find("IPAddressClaim", "a")) == "PoolNotReady"
    await lab.patch("NetworkPool", "p", {"spec": {"reserved": None}})
    assert await lab.wait_until_served("a") == "10.3.0.10"


async def test_a_claim_says_that_its_pool_cannot_be_written_and_is_served_once_it_can(
    lab: Lab,
) -> None:
    label = {"metadata": {"labels": {"broken": lab.namespace}}}
    merge = {"Content-Type": "application/merge-patch+json"}
    home = f"/api/v1/namespaces/{lab.namespace}"
    assert (await lab.admin.patch(home, json=label, headers=merge)).status_code == 200
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
    kind = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    body = {"metadata": {"name": lab.namespace}, "webhooks": [webhook]}
    assert (await lab.admin.post(kind, json=body)).status_code == 201
    try:
        await lab.pool("p", "10.0.0.10")
        await lab.claim("a", "p")
        await lab.until(
            "IPAddressClaim", "a", lambda claim: "webhook" in condition(claim).get("message", "")
        )
        assert reason(await lab.find("IPAddressClaim", "a")) == "PoolNotReady"
    finally:
        assert (await lab.admin.delete(f"{kind}/{lab.namespace}")).status_code == 200
    assert await lab.wait_until_served("a") == "10.0.0.10"
