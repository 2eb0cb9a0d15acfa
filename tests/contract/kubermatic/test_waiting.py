"""Clusters that wait: what they report, which is served first, and what blocks no other."""

import pytest

from tests.contract.kubermatic.lab import Lab, condition, prefixes, ranges

pytestmark = pytest.mark.asyncio(loop_scope="package")


async def test_a_full_pool_is_reported_on_cluster_and_pool_in_the_words_of_kkp(lab: Lab) -> None:
    await lab.pool("p", dc=ranges("10.0.0.0/29", 8))
    await lab.pool("q", dc=prefixes("10.1.0.0/29", 29))
    await lab.cluster("a")
    await lab.has("a", "p", "10.0.0.0-10.0.0.7")
    await lab.has("a", "q", "10.1.0.0/29")
    await lab.cluster("b")
    await lab.says("b", "False", "PoolExhausted")
    chains = [
        f"failed to ensure IPAM Pool Allocation for IPAM Pool {lab.name(pool)} in cluster"
        f" {lab.name('b')}: failed to ensure IPAMAllocation {lab.namespace('b')}/{lab.name(pool)}:"
        f" failed to generate object: {message}"
        for pool, message in (
            ("p", f'there is no enough free IPs available for IPAM pool "{lab.name("p")}"'),
            ("q", f'there is no free subnet available for IPAM Pool "{lab.name("q")}"'),
        )
    ]
    await lab.until(
        lab.clusters("b"), lambda cluster: condition(cluster)["message"] == "; ".join(chains)
    )
    for chain in chains:
        await lab.until_event("Cluster", "b", reason="ReconcilingError", content=chain)
    assert await lab.events("IPAMPool", "p", "PoolExhausted")
    assert await lab.find(lab.allocation("b", "p")) is None


async def test_who_waits_is_served_when_space_frees_the_oldest_first(lab: Lab) -> None:
    await lab.pool("p", dc=ranges("10.0.0.0/29", 8))
    await lab.cluster("a")
    await lab.has("a", "p", "10.0.0.0-10.0.0.7")
    for name in ("b", "c"):
        await lab.cluster(name)
        await lab.says(name, "False", "PoolExhausted")
    await lab.patch(lab.clusters("a"), {"spec": {"pause": True}})
    await lab.delete(lab.allocation("a", "p"))
    await lab.has("b", "p", "10.0.0.0-10.0.0.7")
    await lab.says("b", "True", "Allocated")
    await lab.says("c", "False", "PoolExhausted")
    assert await lab.find(lab.allocation("c", "p")) is None


async def test_a_bad_datacenter_or_pool_blocks_no_other(lab: Lab) -> None:
    bad = {"type": "range", "poolCidr": "10.0.0.0/24", "allocationRange": 1}
    await lab.pool("a-bad", dc={**bad, "excludeRanges": ["x"]}, good=ranges("10.0.0.0/24", 4))
    await lab.pool("b-bad", dc=prefixes("10.0.0.0/24", 20))
    await lab.pool("full", dc=ranges("10.0.0.0/30", 5))
    await lab.pool("p", dc=ranges("10.2.0.0/24", 4))
    await lab.cluster("a")
    await lab.cluster("b", "good")
    await lab.has("a", "p", "10.2.0.0-10.2.0.3")
    await lab.has("b", "a-bad", "10.0.0.0-10.0.0.3")
    assert "invalid prefix for subnet" in "".join(
        await lab.events("IPAMPool", "b-bad", "InvalidPool")
    )
    assert await lab.events("IPAMPool", "a-bad", "InvalidPool")
    await lab.until_event(
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
    lab: Lab, addresses: list[str], reason: str
) -> None:
    await lab.cluster("odd")
    await lab.allocate("odd", "p", type="range", addresses=addresses)
    await lab.pool("p", dc=ranges("10.0.0.0/28", 4, "10.0.0.8"))
    await lab.cluster("a")
    await lab.has("a", "p", "10.0.0.0-10.0.0.3")
    assert await lab.events("IPAMAllocation", "p", reason)


async def test_overlapping_pools_and_allocations_are_reported_on_both(lab: Lab) -> None:
    for name in ("x", "y"):
        await lab.post_namespace(name)
        await lab.allocate(name, "p", type="range", addresses=["10.0.0.0-10.0.0.1"])
    await lab.pool("p", dc=ranges("10.0.0.0/24", 4))
    await lab.pool("q", dc=prefixes("10.0.0.128/25", 28))
    for name in ("p", "q"):
        assert await lab.events("IPAMPool", name, "Overlapping")
    assert len(await lab.events("IPAMAllocation", "p", "Overlapping")) == 2


async def test_a_cluster_reports_that_its_pools_overlap_though_it_has_its_addresses(
    lab: Lab,
) -> None:
    await lab.cluster("a")
    await lab.pool("p", dc=ranges("10.0.0.0/24", 4))
    await lab.says("a", "True", "Allocated")
    await lab.pool("q", dc=prefixes("10.0.0.128/25", 28))
    message = await lab.says("a", "True", "Overlapping")
    assert lab.name("p") in message
    await lab.until(
        lab.clusters("a"), lambda cluster: lab.name("q") in condition(cluster)["message"]
    )
    await lab.delete(lab.pools("q"))
    await lab.says("a", "True", "Allocated")


async def test_a_namespace_that_is_missing_stops_only_its_cluster(lab: Lab) -> None:
    await lab.pool("p", dc=ranges("10.0.0.0/29", 4))
    await lab.cluster("a", namespace=False)
    status = {"status": {"namespaceName": lab.namespace("a")}}
    await lab.patch(f"{lab.clusters('a')}/status", status)
    await lab.says("a", "False", "ReconcilingError")
    for name, addresses in (("b", "10.0.0.0-10.0.0.3"), ("c", "10.0.0.4-10.0.0.7")):
        await lab.cluster(name)
        await lab.has(name, "p", addresses)
    await lab.post_namespace("a")
    await lab.says("a", "False", "PoolExhausted")
    await lab.patch(lab.clusters("c"), {"spec": {"pause": True}})
    await lab.delete(lab.allocation("c", "p"))
    await lab.has("a", "p", "10.0.0.4-10.0.0.7")
    await lab.says("a", "True", "Allocated")
