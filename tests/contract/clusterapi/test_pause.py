"""Pools and claims that are paused, or whose Cluster is paused or missing, are left alone."""

import pytest

from tests.contract.clusterapi.lab import PAUSED, ClusterApiLab

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def check_claim_is_left_alone(lab: ClusterApiLab, name: str) -> None:
    """Check that the controllers process later objects and write nothing to a claim."""
    before = await lab.find("IPAddressClaim", name)
    await lab.wait_until_settled()
    assert before == await lab.find("IPAddressClaim", name)


@pytest.mark.parametrize("by_label", [False, True])
async def test_a_claim_whose_cluster_is_missing_waits_without_a_finalizer(
    lab: ClusterApiLab, by_label: bool
) -> None:
    await lab.create_pool("p", "10.0.0.10")
    if by_label:
        await lab.create_claim("a", "p", labels={"cluster.x-k8s.io/cluster-name": "c"})
    else:
        await lab.create_claim("a", "p", cluster="c")
    await check_claim_is_left_alone(lab, "a")
    assert "finalizers" not in (await lab.find("IPAddressClaim", "a") or {})["metadata"]
    await lab.create("Cluster", "c", {})
    assert await lab.wait_until_served("a") == "10.0.0.10"


@pytest.mark.parametrize("by_annotation", [False, True])
async def test_claims_of_a_paused_cluster_are_neither_served_nor_released_until_it_goes_on(
    lab: ClusterApiLab, by_annotation: bool
) -> None:
    paused = {"metadata": {"annotations": PAUSED}} if by_annotation else {"spec": {"paused": True}}
    resumed = {"metadata": {"annotations": dict.fromkeys(PAUSED)}, "spec": {"paused": False}}
    await lab.create_pool("p", "10.0.0.10-10.0.0.11")
    await lab.create("Cluster", "c", {})
    await lab.create_claim("a", "p", cluster="c")
    assert await lab.wait_until_served("a") == "10.0.0.10"
    await lab.patch("Cluster", "c", paused)
    await lab.create_claim("b", "p", cluster="c")
    await lab.delete("IPAddressClaim", "a")
    await check_claim_is_left_alone(lab, "b")
    assert await lab.find("IPAddress", "a") is not None
    await lab.patch("Cluster", "c", resumed)
    await lab.wait_until_gone("IPAddressClaim", "a")
    assert await lab.wait_until_served("b") in {"10.0.0.10", "10.0.0.11"}


async def test_a_paused_claim_is_not_served_when_its_pool_or_its_cluster_changes(
    lab: ClusterApiLab,
) -> None:
    await lab.create("Cluster", "c", {})
    await lab.create_claim("a", "p", annotations=PAUSED, cluster="c")
    await lab.create_pool("p", "10.0.0.10-10.0.0.11")
    await check_claim_is_left_alone(lab, "a")
    await lab.patch("Cluster", "c", {"spec": {"paused": True}})
    await lab.patch("Cluster", "c", {"spec": {"paused": False}})
    await lab.patch("InClusterIPPool", "p", {"spec": {"addresses": ["10.0.0.10-10.0.0.12"]}})
    await check_claim_is_left_alone(lab, "a")
    await lab.patch("IPAddressClaim", "a", {"metadata": {"annotations": None}})
    assert await lab.wait_until_served("a") == "10.0.0.10"


async def test_a_paused_claim_that_is_deleted_keeps_its_address_until_the_pause_ends(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.11")
    await lab.create_claim("a", "p")
    await lab.wait_until_served("a")
    await lab.patch("IPAddressClaim", "a", {"metadata": {"annotations": PAUSED}})
    await lab.delete("IPAddressClaim", "a")
    await check_claim_is_left_alone(lab, "a")
    assert await lab.find("IPAddress", "a") is not None
    await lab.patch("IPAddressClaim", "a", {"metadata": {"annotations": None}})
    await lab.wait_until_gone("IPAddressClaim", "a")


async def test_a_paused_pool_serves_and_releases_nothing_and_goes_on_afterwards(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10-10.0.0.11")
    await lab.create_claim("a", "p")
    await lab.wait_until_served("a")
    await lab.patch("InClusterIPPool", "p", {"metadata": {"annotations": PAUSED}})
    await lab.wait_until_settled()
    await lab.create_claim("b", "p")
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_settled()
    assert await lab.find("IPAddress", "a") is not None
    assert "addressRef" not in (await lab.find("IPAddressClaim", "b") or {}).get("status", {})
    resumed = {"metadata": {"annotations": dict.fromkeys(PAUSED)}}
    await lab.patch("InClusterIPPool", "p", resumed)
    await lab.wait_until_gone("IPAddressClaim", "a")
    assert await lab.wait_until_served("b") in {"10.0.0.10", "10.0.0.11"}


async def test_a_claim_whose_cluster_is_deleted_can_be_released(lab: ClusterApiLab) -> None:
    await lab.create_pool("p", "10.0.0.10")
    await lab.create("Cluster", "c", {})
    await lab.create_claim("a", "p", cluster="c")
    await lab.wait_until_served("a")
    await lab.delete("Cluster", "c")
    await lab.wait_until_gone("Cluster", "c")
    await lab.delete("IPAddressClaim", "a")
    await lab.wait_until_gone("IPAddressClaim", "a")
    await lab.wait_for_counts("p", total=1, used=0, free=1, out_of_range=0)


async def test_a_claim_waits_though_another_namespace_has_a_cluster_of_that_name(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.0.0.10")
    other = f"{lab.namespace}-other"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}}
    assert (await lab.admin.post("/api/v1/namespaces", json=body)).status_code == 201
    await ClusterApiLab(lab.admin, other).create("Cluster", "c", {})
    await lab.create_claim("a", "p", cluster="c")
    await check_claim_is_left_alone(lab, "a")
