"""Which clusters are served, and when their allocations are kept, repaired or deleted."""

from pathlib import Path

import pytest

from reconcilers.api import names
from tests.contract.kubermatic.lab import (
    KubermaticLab,
    find_condition,
    make_prefix_settings,
    make_range_settings,
)
from tests.contract.product import Server, product

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_clusters_are_not_served_while_paused_or_of_another_worker_or_without_namespace(
    lab: KubermaticLab,
) -> None:
    await lab.create_pool("p", dc=make_range_settings("10.0.0.0/24", 4))
    await lab.create_cluster("paused", pause=True)
    await lab.create_cluster("foreign", labels={"worker-name": "another"})
    await lab.create_cluster("bare", namespace=False)
    await lab.create_cluster("a")
    await lab.wait_for_ranges("a", "p", "10.0.0.0-10.0.0.3")
    for name in ("paused", "foreign", "bare"):
        assert await lab.find(lab.build_allocation_path(name, "p")) is None
        assert find_condition(await lab.find(lab.build_cluster_path(name))) == {}
    await lab.patch(lab.build_cluster_path("paused"), {"spec": {"pause": False}})
    await lab.wait_for_ranges("paused", "p", "10.0.0.4-10.0.0.7")
    await lab.patch(
        lab.build_cluster_path("foreign"), {"metadata": {"labels": {"worker-name": None}}}
    )
    await lab.wait_for_ranges("foreign", "p", "10.0.0.8-10.0.0.11")
    await lab.create_reported_namespace("bare")
    await lab.wait_for_ranges("bare", "p", "10.0.0.12-10.0.0.15")


async def test_a_cluster_that_is_being_deleted_keeps_its_allocations_and_gets_no_new_ones(
    lab: KubermaticLab,
) -> None:
    await lab.create_pool("p", dc=make_range_settings("10.0.0.0/28", 8))
    await lab.create_cluster("a")
    await lab.wait_for_ranges("a", "p", "10.0.0.0-10.0.0.7")
    finalizers = {"metadata": {"finalizers": ["example.com/hold"]}}
    await lab.patch(lab.build_cluster_path("a"), finalizers)
    await lab.delete(lab.build_cluster_path("a"))
    await lab.create_cluster("b")
    await lab.wait_for_ranges("b", "p", "10.0.0.8-10.0.0.15")
    await lab.create_pool("q", dc=make_range_settings("10.1.0.0/28", 8))
    await lab.wait_for_ranges("b", "q", "10.1.0.0-10.1.0.7")
    await lab.wait_for_ranges("a", "p", "10.0.0.0-10.0.0.7")
    assert await lab.find(lab.build_allocation_path("a", "q")) is None
    await lab.patch(lab.build_cluster_path("a"), {"metadata": {"finalizers": None}})


async def test_a_datacenter_that_is_removed_takes_its_allocations_with_it(
    lab: KubermaticLab,
) -> None:
    await lab.create_pool(
        "p", dc=make_range_settings("10.0.0.0/24", 4), other=make_range_settings("10.0.0.0/24", 4)
    )
    await lab.create_cluster("a")
    await lab.create_cluster("b", "other")
    await lab.wait_for_ranges("a", "p", "10.0.0.0-10.0.0.3")
    await lab.wait_for_ranges("b", "p", "10.0.0.0-10.0.0.3")
    await lab.patch(lab.build_pool_path("p"), {"spec": {"datacenters": {lab.name("other"): None}}})
    await lab.wait_until_gone(lab.build_allocation_path("b", "p"))
    await lab.wait_for_ranges("a", "p", "10.0.0.0-10.0.0.3")


async def test_a_deleted_pool_serves_no_cluster_any_more(lab: KubermaticLab) -> None:
    await lab.create_pool("p", dc=make_range_settings("10.0.0.0/24", 4))
    await lab.create_pool("q", dc=make_range_settings("10.1.0.0/24", 4))
    await lab.create_cluster("a")
    await lab.wait_for_ranges("a", "p", "10.0.0.0-10.0.0.3")
    await lab.delete(lab.build_pool_path("p"))
    await lab.create_cluster("b")
    await lab.wait_for_ranges("b", "q", "10.1.0.4-10.1.0.7")
    assert await lab.find(lab.build_allocation_path("b", "p")) is None


async def test_type_datacenter_and_owner_of_an_allocation_are_repaired_and_foreign_owners_stay(
    lab: KubermaticLab,
) -> None:
    await lab.create_pool("p", dc=make_range_settings("10.0.0.0/24", 4))
    await lab.create_cluster("a")
    allocation = await lab.wait_for_ranges("a", "p", "10.0.0.0-10.0.0.3")
    [owner] = allocation["metadata"]["ownerReferences"]
    foreign_owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1"}
    patch = {
        "metadata": {"ownerReferences": [foreign_owner, {**owner, "name": "old", "uid": "2"}]},
        "spec": {"type": "prefix", "dc": "elsewhere"},
    }
    await lab.patch(lab.build_allocation_path("a", "p"), patch)
    repaired = await lab.until(
        lab.build_allocation_path("a", "p"),
        lambda body: (
            body["spec"] == allocation["spec"]
            and body["metadata"]["ownerReferences"] == [foreign_owner, owner]
        ),
    )
    assert repaired["metadata"]["uid"] == allocation["metadata"]["uid"]


async def test_existing_allocations_keep_their_addresses_in_any_form(lab: KubermaticLab) -> None:
    await lab.create_cluster("a")
    await lab.create_cluster("b")
    await lab.create_allocation(
        "a", "p", type="range", addresses=["10.0.0.9", "10.0.0.2-10.0.0.4"]
    )
    await lab.create_allocation("b", "q", type="prefix", cidr="10.1.0.20/29")
    await lab.create_pool("p", dc=make_range_settings("10.0.0.0/24", 4))
    await lab.create_pool("q", dc=make_prefix_settings("10.1.0.0/24", 29))
    await lab.wait_for_ranges("b", "p", "10.0.0.0-10.0.0.1", "10.0.0.5-10.0.0.6")
    await lab.wait_for_ranges("a", "p", "10.0.0.9", "10.0.0.2-10.0.0.4")
    await lab.wait_for_ranges("a", "q", "10.1.0.0/29")
    await lab.wait_for_ranges("b", "q", "10.1.0.20/29")


async def test_a_pool_whose_journal_was_deleted_voids_its_promises_before_it_serves_again(
    lab: KubermaticLab,
) -> None:
    await lab.create_pool("p", dc=make_range_settings("10.0.0.0/24", 4))
    await lab.create_cluster("a")
    await lab.wait_for_ranges("a", "p", "10.0.0.0-10.0.0.3")
    without_journal = {"metadata": {"annotations": {names.ANNOTATION_PROMISES: None}}}
    await lab.patch(lab.build_pool_path("p"), without_journal)
    await lab.create_cluster("b")
    await lab.wait_for_ranges("b", "p", "10.0.0.4-10.0.0.7")
    kept = await lab.wait_for_ranges("a", "p", "10.0.0.0-10.0.0.3")
    assert names.ANNOTATION_PROMISES_VOID in kept["metadata"]["annotations"]


async def test_clusters_of_a_worker_are_served_by_the_controller_of_that_name(
    lab: KubermaticLab, server: Server, tmp_path: Path
) -> None:
    await lab.create_cluster("other", labels={"worker-name": lab.name("worker")})
    await lab.create_cluster("plain")
    await lab.create_pool("p", dc=make_range_settings("10.0.0.0/29", 2))
    await lab.wait_for_ranges("plain", "p", "10.0.0.0-10.0.0.1")
    assert await lab.find(lab.build_allocation_path("other", "p")) is None
    flag = f"--kubermatic-worker-name={lab.name('worker')}"
    with product("kubermatic", server.kubeconfig, tmp_path / "log", flag, "--leader-elect=false"):
        await lab.wait_for_ranges("other", "p", "10.0.0.2-10.0.0.3")
    await lab.wait_for_ranges("plain", "p", "10.0.0.0-10.0.0.1")


async def test_a_cluster_without_a_pool_has_a_condition_that_says_so_until_there_is_one(
    lab: KubermaticLab,
) -> None:
    await lab.create_cluster("a")
    assert lab.name("dc") in await lab.wait_for_condition("a", "True", "NoPool")
    await lab.create_pool("p", dc=make_range_settings("10.0.0.0/29", 4))
    await lab.wait_for_condition("a", "True", "Allocated")
    await lab.delete(lab.build_pool_path("p"))
    await lab.wait_for_condition("a", "True", "NoPool")


async def test_a_restarted_process_does_not_write_clusters_again(
    lab: KubermaticLab, server: Server, tmp_path: Path
) -> None:
    worker = {"worker-name": lab.name("worker")}
    flags = f"--kubermatic-worker-name={lab.name('worker')}", "--leader-elect=false"
    await lab.create_pool("p", dc=make_range_settings("10.0.0.0/30", 2))
    await lab.create_pool("q", dc=make_range_settings("10.1.0.0/32", 1))
    with product("kubermatic", server.kubeconfig, tmp_path / "log", *flags):
        for name, status, reason in (("a", "True", "Allocated"), ("b", "False", "PoolExhausted")):
            await lab.create_cluster(name, labels=worker)
            await lab.wait_for_condition(name, status, reason)
    before = [await lab.find(lab.build_cluster_path(name)) for name in ("a", "b")]
    with product("kubermatic", server.kubeconfig, tmp_path / "log", *flags):
        await lab.create_cluster("c", labels=worker)
        await lab.wait_for_condition("c", "False", "PoolExhausted")
        await lab.create_pool("r", other=make_range_settings("10.2.0.0/30", 4))
        await lab.create_cluster("d", "other", labels=worker)
        await lab.wait_for_condition("d", "True", "Allocated")
    assert [await lab.find(lab.build_cluster_path(name)) for name in ("a", "b")] == before
