"""Which clusters are served, and what becomes of their allocations."""

from pathlib import Path

import pytest

from reconcilers.api import names
from tests.contract.kubermatic.lab import Lab, condition, prefixes, ranges
from tests.contract.product import Server, product

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_paused_foreign_and_unfinished_clusters_get_nothing_until_they_are_ours(
    lab: Lab,
) -> None:
    await lab.pool("p", dc=ranges("10.0.0.0/24", 4))
    await lab.cluster("paused", pause=True)
    await lab.cluster("foreign", labels={"worker-name": "another"})
    await lab.cluster("bare", namespace=False)
    await lab.cluster("a")
    await lab.has("a", "p", "10.0.0.0-10.0.0.3")
    for name in ("paused", "foreign", "bare"):
        assert await lab.find(lab.allocation(name, "p")) is None
        assert condition(await lab.find(lab.clusters(name))) == {}
    await lab.patch(lab.clusters("paused"), {"spec": {"pause": False}})
    await lab.has("paused", "p", "10.0.0.4-10.0.0.7")
    await lab.patch(lab.clusters("foreign"), {"metadata": {"labels": {"worker-name": None}}})
    await lab.has("foreign", "p", "10.0.0.8-10.0.0.11")
    await lab.with_namespace("bare")
    await lab.has("bare", "p", "10.0.0.12-10.0.0.15")


async def test_a_cluster_that_is_being_deleted_keeps_what_it_has_and_gets_nothing(
    lab: Lab,
) -> None:
    await lab.pool("p", dc=ranges("10.0.0.0/28", 8))
    await lab.cluster("a")
    await lab.has("a", "p", "10.0.0.0-10.0.0.7")
    finalizers = {"metadata": {"finalizers": ["example.com/hold"]}}
    await lab.patch(lab.clusters("a"), finalizers)
    await lab.delete(lab.clusters("a"))
    await lab.cluster("b")
    await lab.has("b", "p", "10.0.0.8-10.0.0.15")
    await lab.pool("q", dc=ranges("10.1.0.0/28", 8))
    await lab.has("b", "q", "10.1.0.0-10.1.0.7")
    await lab.has("a", "p", "10.0.0.0-10.0.0.7")
    assert await lab.find(lab.allocation("a", "q")) is None
    await lab.patch(lab.clusters("a"), {"metadata": {"finalizers": None}})


async def test_a_datacenter_that_is_removed_takes_its_allocations_with_it(lab: Lab) -> None:
    await lab.pool("p", dc=ranges("10.0.0.0/24", 4), other=ranges("10.0.0.0/24", 4))
    await lab.cluster("a")
    await lab.cluster("b", "other")
    await lab.has("a", "p", "10.0.0.0-10.0.0.3")
    await lab.has("b", "p", "10.0.0.0-10.0.0.3")
    await lab.patch(lab.pools("p"), {"spec": {"datacenters": {lab.name("other"): None}}})
    await lab.wait_until_gone(lab.allocation("b", "p"))
    await lab.has("a", "p", "10.0.0.0-10.0.0.3")


async def test_a_deleted_pool_serves_no_cluster_any_more(lab: Lab) -> None:
    await lab.pool("p", dc=ranges("10.0.0.0/24", 4))
    await lab.pool("q", dc=ranges("10.1.0.0/24", 4))
    await lab.cluster("a")
    await lab.has("a", "p", "10.0.0.0-10.0.0.3")
    await lab.delete(lab.pools("p"))
    await lab.cluster("b")
    await lab.has("b", "q", "10.1.0.4-10.1.0.7")
    assert await lab.find(lab.allocation("b", "p")) is None


async def test_type_datacenter_and_owner_are_put_right_and_foreign_owners_stay(lab: Lab) -> None:
    await lab.pool("p", dc=ranges("10.0.0.0/24", 4))
    await lab.cluster("a")
    allocation = await lab.has("a", "p", "10.0.0.0-10.0.0.3")
    [owner] = allocation["metadata"]["ownerReferences"]
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1"}
    patch = {
        "metadata": {"ownerReferences": [foreign, {**owner, "name": "old", "uid": "2"}]},
        "spec": {"type": "prefix", "dc": "elsewhere"},
    }
    await lab.patch(lab.allocation("a", "p"), patch)
    repaired = await lab.until(
        lab.allocation("a", "p"),
        lambda allocation: (
            allocation["spec"] == allocation["spec"]
            and allocation["metadata"]["ownerReferences"] == [foreign, owner]
        ),
    )
    assert repaired["metadata"]["uid"] == allocation["metadata"]["uid"]


async def test_existing_allocations_are_kept_as_they_are(lab: Lab) -> None:
    await lab.cluster("a")
    await lab.cluster("b")
    await lab.allocate("a", "p", type="range", addresses=["10.0.0.9", "10.0.0.2-10.0.0.4"])
    await lab.allocate("b", "q", type="prefix", cidr="10.1.0.20/29")
    await lab.pool("p", dc=ranges("10.0.0.0/24", 4))
    await lab.pool("q", dc=prefixes("10.1.0.0/24", 29))
    await lab.has("b", "p", "10.0.0.0-10.0.0.1", "10.0.0.5-10.0.0.6")
    await lab.has("a", "p", "10.0.0.9", "10.0.0.2-10.0.0.4")
    await lab.has("a", "q", "10.1.0.0/29")
    await lab.has("b", "q", "10.1.0.20/29")


async def test_a_pool_that_lost_its_memory_voids_earlier_promises_to_all_before_it_serves(
    lab: Lab,
) -> None:
    await lab.pool("p", dc=ranges("10.0.0.0/24", 4))
    await lab.cluster("a")
    await lab.has("a", "p", "10.0.0.0-10.0.0.3")
    wiped = {"metadata": {"annotations": {names.ANNOTATION_PROMISES: None}}}
    await lab.patch(lab.pools("p"), wiped)
    await lab.cluster("b")
    await lab.has("b", "p", "10.0.0.4-10.0.0.7")
    kept = await lab.has("a", "p", "10.0.0.0-10.0.0.3")
    assert names.ANNOTATION_PROMISES_VOID in kept["metadata"]["annotations"]


async def test_clusters_of_a_worker_are_served_by_the_controller_of_that_name(
    lab: Lab, server: Server, tmp_path: Path
) -> None:
    await lab.cluster("other", labels={"worker-name": lab.name("worker")})
    await lab.cluster("plain")
    await lab.pool("p", dc=ranges("10.0.0.0/29", 2))
    await lab.has("plain", "p", "10.0.0.0-10.0.0.1")
    assert await lab.find(lab.allocation("other", "p")) is None
    flag = f"--kubermatic-worker-name={lab.name('worker')}"
    with product("kubermatic", server.kubeconfig, tmp_path / "log", flag, "--leader-elect=false"):
        await lab.has("other", "p", "10.0.0.2-10.0.0.3")
    await lab.has("plain", "p", "10.0.0.0-10.0.0.1")


async def test_a_cluster_without_a_pool_has_a_condition_that_says_so_until_there_is_one(
    lab: Lab,
) -> None:
    await lab.cluster("a")
    assert lab.name("dc") in await lab.says("a", "True", "NoPool")
    await lab.pool("p", dc=ranges("10.0.0.0/29", 4))
    await lab.says("a", "True", "Allocated")
    await lab.delete(lab.pools("p"))
    await lab.says("a", "True", "NoPool")


async def test_a_process_that_starts_tells_clusters_nothing_that_its_predecessor_did_not_tell(
    lab: Lab, server: Server, tmp_path: Path
) -> None:
    worker = {"worker-name": lab.name("worker")}
    flags = f"--kubermatic-worker-name={lab.name('worker')}", "--leader-elect=false"
    await lab.pool("p", dc=ranges("10.0.0.0/30", 2))
    await lab.pool("q", dc=ranges("10.1.0.0/32", 1))
    with product("kubermatic", server.kubeconfig, tmp_path / "log", *flags):
        for name, status, reason in (("a", "True", "Allocated"), ("b", "False", "PoolExhausted")):
            await lab.cluster(name, labels=worker)
            await lab.says(name, status, reason)
    before = [await lab.find(lab.clusters(name)) for name in ("a", "b")]
    with product("kubermatic", server.kubeconfig, tmp_path / "log", *flags):
        await lab.cluster("c", labels=worker)
        await lab.says("c", "False", "PoolExhausted")
        await lab.pool("r", other=ranges("10.2.0.0/30", 4))
        await lab.cluster("d", "other", labels=worker)
        await lab.says("d", "True", "Allocated")
    assert [await lab.find(lab.clusters(name)) for name in ("a", "b")] == before
