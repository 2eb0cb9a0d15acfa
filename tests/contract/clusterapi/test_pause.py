"""What is paused, or belongs to a Cluster that is paused or missing, is left alone."""

import pytest

from tests.contract.clusterapi.lab import PAUSED, Lab

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def rests(lab: Lab, name: str) -> None:
    """Assert that nothing is done about a claim while the product looks around."""
    before = await lab.find("IPAddressClaim", name)
    await lab.wait_until_settled()
    assert before == await lab.find("IPAddressClaim", name)


@pytest.mark.parametrize("by_label", [False, True])
async def test_a_claim_whose_cluster_is_missing_waits_without_a_finalizer(
    lab: Lab, by_label: bool
) -> None:
    await lab.pool("p", "10.0.0.10")
    if by_label:
        await lab.claim("a", "p", labels={"cluster.x-k8s.io/cluster-name": "c"})
    else:
        await lab.claim("a", "p", cluster="c")
    await rests(lab, "a")
    assert "finalizers" not in (await lab.find("IPAddressClaim", "a") or {})["metadata"]
    await lab.create("Cluster", "c", {})
    assert await lab.wait_until_served("a") == "10.0.0.10"


@pytest.mark.parametrize("by_annotation", [False, True])
async def test_a_paused_cluster_stops_serving_and_release(lab: Lab, by_annotation: bool) -> None:
    paused = {"metadata": {"annotations": PAUSED}} if by_annotation else {"spec": {"paused": True}}
    on = {"metadata": {"annotations": {next(iter(PAUSED)): None}}, "spec": {"paused": False}}
    await lab.pool("p", "10.0.0.10-10.0.0.11")
    await lab.create("Cluster", "c", {})
    await lab.claim("a", "p", cluster="c")
    assert await lab.wait_until_served("a") == "10.0.0.10"
    await lab.patch("Cluster", "c", paused)
    await lab.claim("b", "p", cluster="c")
    await lab.delete("IPAddressClaim", "a")
    await rests(lab, "b")
    assert await lab.find("IPAddress", "a") is not None
    await lab.patch("Cluster", "c", on)
    await lab.wait_until_gone("IPAddressClaim", "a")
    assert await lab.wait_until_served("b") in {"10.0.0.10", "10.0.0.11"}


async def test_a_paused_claim_is_not_served_by_any_other_event(lab: Lab) -> None:
    await lab.create("Cluster", "c", {})
    await lab.claim("a", "p", annotations=PAUSED, cluster="c")
    await lab.pool("p", "10.0.0.10-10.0.0.11")
    await rests(lab, "a")
    await lab.patch("Cluster", "c", {"spec": {"paused": True}})
    await lab.patch("Cluster", "c", {"spec": {"paused": False}})
    await lab.patch("InClusterIPPool", "p", {"spec": {"addresses": ["10.0.0.10-10.0.0.12"]}})
    await rests(lab, "a")
    await lab.patch("IPAddressClaim", "a", {"metadata": {"annotations": None}})
    assert await lab.wait_until_served("a") == "10.0.0.10"


async def test_a_paused_claim_keeps_its_address_when_it_is_deleted(lab: Lab) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.11")
    await lab.claim("a", "p")
    await lab.wait_until_served("a")
    await lab.patch("IPAddressClaim", "a", {"metadata": {"annotations": PAUSED}})
    await lab.delete("IPAddressClaim", "a")
    await rests(lab, "a")
    assert await lab.find("IPAddress", "a") is not None
    await lab.patch("IPAddressClaim", "a", {"metadata": {"annotations": None}})
    await lab.wait_until_gone("IPAddressClaim", "a")


async def test_a_paused_pool_serves_and_releases_nothing_and_goes_on_afterwards(lab: Lab) -> None:
    await lab.pool("p", "10.0.0.10-10.0.0.11")
    await lab.claim("a", "p")
    await lab.wait_until_served("a")
    await lab.patch("InClusterIPPool", "p", {"metadata": {"annotations": PAUSED}})
    await lab.wait_until_settled()
    await lab.claim("b", "p")
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_settled()
    assert await lab.find("IPAddress", "a") is not None
    assert "addressRef" not in (await lab.find("IPAddressClaim", "b") or {}).get("status", {})
    on = {"metadata": {"annotations": {next(iter(PAUSED)): None}}}
    await lab.patch("InClusterIPPool", "p", on)
    await lab.wait_until_gone("IPAddressClaim", "a")
    assert await lab.wait_until_served("b") in {"10.0.0.10", "10.0.0.11"}


async def test_a_claim_is_released_though_its_cluster_is_gone(lab: Lab) -> None:
    await lab.pool("p", "10.0.0.10")
    await lab.create("Cluster", "c", {})
    await lab.claim("a", "p", cluster="c")
    await lab.wait_until_served("a")
    await lab.delete("Cluster", "c")
    await lab.wait_until_gone("Cluster", "c")
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddressClaim", "a")
    await lab.counts("p", (1, 0, 1, 0))


async def test_a_cluster_of_another_namespace_is_not_the_claims(lab: Lab) -> None:
    await lab.pool("p", "10.0.0.10")
    other = f"{lab.namespace}-other"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}}
    assert (await lab.admin.post("/api/v1/namespaces", json=body)).status_code == 201
    await Lab(lab.admin, other).create("Cluster", "c", {})
    await lab.claim("a", "p", cluster="c")
    await rests(lab, "a")
