"""Waiting clusters: what they report, which is served first, and that they block no other."""

import pytest

from tests.contract.kubermatic.lab import (
    KubermaticLab,
    find_condition,
    make_prefix_settings,
    make_range_settings,
)

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_a_full_pool_is_reported_on_cluster_and_pool_with_the_messages_of_kkp(
    lab: KubermaticLab,
) -> None:
    await lab.create_pool("p", dc=make_range_settings("10.0.0.0/29", 8))
    await lab.create_pool("q", dc=make_prefix_settings("10.1.0.0/29", 29))
    await lab.create_cluster("a")
    await lab.wait_for_ranges("a", "p", "10.0.0.0-10.0.0.7")
    await lab.wait_for_ranges("a", "q", "10.1.0.0/29")
    await lab.create_cluster("b")
    await lab.wait_for_condition("b", "False", "PoolExhausted")
    messages = [
        f"failed to ensure IPAM Pool Allocation for IPAM Pool {lab.name(pool)} in cluster"
        f" {lab.name('b')}: failed to ensure IPAMAllocation {lab.namespace('b')}/{lab.name(pool)}:"
        f" failed to generate object: {cause}"
        for pool, cause in (
            ("p", f'there is no enough free IPs available for IPAM pool "{lab.name("p")}"'),
            ("q", f'there is no free subnet available for IPAM Pool "{lab.name("q")}"'),
        )
    ]
    await lab.until(
        lab.build_cluster_path("b"),
        lambda cluster: find_condition(cluster)["message"] == "; ".join(messages),
    )
    for message in messages:
        await lab.wait_for_event("Cluster", "b", reason="ReconcilingError", content=message)
    assert await lab.wait_for_events("IPAMPool", "p", "PoolExhausted")
    assert await lab.find(lab.build_allocation_path("b", "p")) is None


async def test_the_oldest_waiting_cluster_is_served_when_a_range_is_released(
    lab: KubermaticLab,
) -> None:
    await lab.create_pool("p", dc=make_range_settings("10.0.0.0/29", 8))
    await lab.create_cluster("a")
    await lab.wait_for_ranges("a", "p", "10.0.0.0-10.0.0.7")
    for name in ("b", "c"):
        await lab.create_cluster(name)
        await lab.wait_for_condition(name, "False", "PoolExhausted")
    await lab.patch(lab.build_cluster_path("a"), {"spec": {"pause": True}})
    await lab.delete(lab.build_allocation_path("a", "p"))
    await lab.wait_for_ranges("b", "p", "10.0.0.0-10.0.0.7")
    await lab.wait_for_condition("b", "True", "Allocated")
    await lab.wait_for_condition("c", "False", "PoolExhausted")
    assert await lab.find(lab.build_allocation_path("c", "p")) is None


async def test_invalid_datacenters_and_pools_are_reported_and_the_others_are_served(
    lab: KubermaticLab,
) -> None:
    invalid_settings = {"type": "range", "poolCidr": "10.0.0.0/24", "allocationRange": 1}
    await lab.create_pool(
        "a-bad",
        dc={**invalid_settings, "excludeRanges": ["x"]},
        good=make_range_settings("10.0.0.0/24", 4),
    )
    await lab.create_pool("b-bad", dc=make_prefix_settings("10.0.0.0/24", 20))
    await lab.create_pool("full", dc=make_range_settings("10.0.0.0/30", 5))
    await lab.create_pool("p", dc=make_range_settings("10.2.0.0/24", 4))
    await lab.create_cluster("a")
    await lab.create_cluster("b", "good")
    await lab.wait_for_ranges("a", "p", "10.2.0.0-10.2.0.3")
    await lab.wait_for_ranges("b", "a-bad", "10.0.0.0-10.0.0.3")
    assert "invalid prefix for subnet" in "".join(
        await lab.wait_for_events("IPAMPool", "b-bad", "InvalidPool")
    )
    assert await lab.wait_for_events("IPAMPool", "a-bad", "InvalidPool")
    await lab.wait_for_event(
        "Cluster", "a", reason="ReconcilingError", content="invalid prefix for subnet"
    )


@pytest.mark.parametrize(
    ("addresses", "reason"),
    [
        (["nonsense", "10.0.0.9-10.0.0.2"], "InvalidAllocation"),
        (["10.0.0.8-10.0.0.11"], "OutOfPool"),
        (["192.168.0.1-192.168.0.4"], "OutOfPool"),
        (["2001:db8::1"], "OutOfPool"),
    ],
)
async def test_an_invalid_allocation_is_reported_on_itself_and_blocks_no_other(
    lab: KubermaticLab, addresses: list[str], reason: str
) -> None:
    await lab.create_cluster("odd")
    await lab.create_allocation("odd", "p", type="range", addresses=addresses)
    await lab.create_pool("p", dc=make_range_settings("10.0.0.0/28", 4, "10.0.0.8"))
    await lab.create_cluster("a")
    await lab.wait_for_ranges("a", "p", "10.0.0.0-10.0.0.3")
    assert await lab.wait_for_events("IPAMAllocation", "p", reason)


async def test_overlapping_pools_and_allocations_are_reported_on_both(lab: KubermaticLab) -> None:
    for name in ("x", "y"):
        await lab.create_namespace(name)
        await lab.create_allocation(name, "p", type="range", addresses=["10.0.0.0-10.0.0.1"])
    await lab.create_pool("p", dc=make_range_settings("10.0.0.0/24", 4))
    await lab.create_pool("q", dc=make_prefix_settings("10.0.0.128/25", 28))
    for name in ("p", "q"):
        assert await lab.wait_for_events("IPAMPool", name, "Overlapping")
    assert len(await lab.wait_for_events("IPAMAllocation", "p", "Overlapping")) == 2


async def test_a_cluster_reports_that_its_pools_overlap_though_it_has_its_addresses(
    lab: KubermaticLab,
) -> None:
    await lab.create_cluster("a")
    await lab.create_pool("p", dc=make_range_settings("10.0.0.0/24", 4))
    await lab.wait_for_condition("a", "True", "Allocated")
    await lab.create_pool("q", dc=make_prefix_settings("10.0.0.128/25", 28))
    message = await lab.wait_for_condition("a", "True", "Overlapping")
    assert lab.name("p") in message
    await lab.until(
        lab.build_cluster_path("a"),
        lambda cluster: lab.name("q") in find_condition(cluster)["message"],
    )
    await lab.delete(lab.build_pool_path("q"))
    await lab.wait_for_condition("a", "True", "Allocated")


async def test_a_namespace_that_is_missing_stops_only_its_cluster(lab: KubermaticLab) -> None:
    await lab.create_pool("p", dc=make_range_settings("10.0.0.0/29", 4))
    await lab.create_cluster("a", namespace=False)
    status = {"status": {"namespaceName": lab.namespace("a")}}
    await lab.patch(f"{lab.build_cluster_path('a')}/status", status)
    await lab.wait_for_condition("a", "False", "ReconcilingError")
    for name, addresses in (("b", "10.0.0.0-10.0.0.3"), ("c", "10.0.0.4-10.0.0.7")):
        await lab.create_cluster(name)
        await lab.wait_for_ranges(name, "p", addresses)
    await lab.create_namespace("a")
    await lab.wait_for_condition("a", "False", "PoolExhausted")
    await lab.patch(lab.build_cluster_path("c"), {"spec": {"pause": True}})
    await lab.delete(lab.build_allocation_path("c", "p"))
    await lab.wait_for_ranges("a", "p", "10.0.0.4-10.0.0.7")
    await lab.wait_for_condition("a", "True", "Allocated")
