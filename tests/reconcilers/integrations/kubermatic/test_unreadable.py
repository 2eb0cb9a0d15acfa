"""KKP's objects that cannot be decoded: nobody else gets what they may hold."""

from ipaddress import IPv4Address
from typing import Any

import pytest

from reconcilers.api.resources import NETWORK_POOL
from reconcilers.configuration.integrationnames import KUBERMATIC
from reconcilers.configuration.settings import KubermaticSettings, Settings
from reconcilers.integrations.kubermatic.api import ALLOCATIONS, CLUSTERS, CONDITION, KINDS, POOLS
from tests.reconcilers.integrations.unreadable import Json, Site, site

SERVING = Settings(integration=(KUBERMATIC,))
OBSERVING = Settings(integration=(KUBERMATIC,), kubermatic=KubermaticSettings(observe=True))
TODO = "IPAMAllocation cluster-a/p cannot be read; correct or delete it"


async def pool(place: Site, name: str, third: int) -> None:
    datacenter = {
        "type": "range",
        "poolCidr": f"10.0.{third}.0/28",
        "allocationRange": 2,
    }
    await place.make(POOLS, name, {"datacenters": {"dc": datacenter}})


async def cluster(place: Site, name: str) -> None:
    status = {"namespaceName": f"cluster-{name}"}
    await place.make(CLUSTERS, name, {"cloud": {"dc": "dc"}}, status=status)


def addresses(place: Site, cluster: str, pool: str) -> list[str]:
    """Return the addresses that a cluster has of a pool."""
    spec = place.see(ALLOCATIONS, pool, f"cluster-{cluster}").get("spec", {})
    return list(spec.get("addresses", []))


def condition(place: Site, cluster: str) -> Json:
    conditions = place.see(CLUSTERS, cluster).get("status", {}).get("conditions", {})
    return dict(conditions.get(CONDITION, {}))


async def test_the_gauges_call_nothing_free_that_an_unreadable_allocation_may_hold() -> None:
    async with site(SERVING, *KINDS) as place:
        await pool(place, "p", 0)
        await cluster(place, "a")
        await place.home.pass_by(5)
        assert place.gauge("butler_kkp_pool_free") == [14]
        await place.edit(ALLOCATIONS, "p", patch={"spec": {"type": 7}}, namespace="cluster-a")
        await place.home.pass_by(5)
        for name in ("free", "used"):
            assert place.gauge(f"butler_kkp_pool_{name}") == []
        assert place.gauge("butler_kkp_pool_total") == [16]


async def test_a_cluster_does_not_count_as_waiting_while_it_cannot_be_decoded() -> None:
    async with site(SERVING, *KINDS) as place:
        await pool(place, "p", 0)
        for number in range(9):
            await cluster(place, f"c{number}")
            await place.home.pass_by(5)
        assert place.gauge("butler_kkp_pool_waiting") == [1], "the pool has addresses for eight"
        await place.edit(CLUSTERS, "c8", {"spec": {"cloud": {"dc": 7}}})
        await place.home.pass_by(5)
        assert place.gauge("butler_kkp_pool_waiting") == [0]


async def test_a_pool_hands_out_nothing_while_an_allocation_of_it_is_unreadable() -> None:
    async with site(SERVING, *KINDS) as place:
        await pool(place, "p", 0)
        await pool(place, "q", 1)
        await cluster(place, "a")
        await place.home.pass_by(5)
        assert addresses(place, "a", "p") == ["10.0.0.0-10.0.0.1"]
        # Were the cluster not paused, its addresses would be set aside for it all the same.
        await place.edit(CLUSTERS, "a", {"spec": {"pause": True}})
        await place.edit(ALLOCATIONS, "p", patch={"spec": {"type": 7}}, namespace="cluster-a")
        await place.restart()
        await cluster(place, "b")
        await place.home.pass_by(30)
        assert addresses(place, "b", "p") == []
        assert addresses(place, "b", "q") == ["10.0.1.2-10.0.1.3"]
        reconciled = condition(place, "b")
        assert (reconciled["status"], reconciled["reason"]) == ("False", "HoldersUnknown")
        assert TODO in reconciled["message"]
        assert condition(place, "a")["status"] == "True", "it has its addresses"
        await place.edit(
            ALLOCATIONS, "p", patch={"spec": {"type": "range"}}, namespace="cluster-a"
        )
        await place.home.pass_by(3)
        assert addresses(place, "b", "p") == ["10.0.0.2-10.0.0.3"]
        assert condition(place, "b")["status"] == "True"


async def test_an_allocation_that_becomes_unreadable_with_other_addresses_keeps_them() -> None:
    async with site(SERVING, *KINDS) as place:
        await pool(place, "p", 0)
        await cluster(place, "a")
        await place.home.pass_by(5)
        patch = {"spec": {"type": 7, "addresses": ["10.0.0.2-10.0.0.3"]}}
        await place.edit(ALLOCATIONS, "p", patch=patch, namespace="cluster-a")
        await place.home.pass_by(1)
        await cluster(place, "b")
        await place.home.pass_by(30)
        assert addresses(place, "b", "p") == []
        await place.remove(ALLOCATIONS, "p", "cluster-a")
        await place.home.pass_by(5)
        assert len({*addresses(place, "a", "p"), *addresses(place, "b", "p")}) == 2


@pytest.mark.parametrize("restarted", [True, False])
async def test_an_unreadable_cluster_keeps_its_addresses_and_others_are_served(
    restarted: bool,
) -> None:
    async with site(SERVING, *KINDS) as place:
        await pool(place, "p", 0)
        await cluster(place, "a")
        await place.home.pass_by(5)
        await place.edit(
            CLUSTERS, "a", {"spec": {"pause": "perhaps", "cloud": {"dc": "elsewhere"}}}
        )
        if restarted:
            await place.restart()
        await cluster(place, "b")
        await place.home.pass_by(30)
        assert addresses(place, "a", "p") == ["10.0.0.0-10.0.0.1"]
        assert addresses(place, "b", "p") == ["10.0.0.2-10.0.0.3"]


async def test_what_an_unreadable_pool_handed_out_stays_and_it_hands_out_nothing() -> None:
    async with site(SERVING, *KINDS) as place:
        await pool(place, "p", 0)
        await cluster(place, "a")
        await place.home.pass_by(5)
        before = condition(place, "a")
        odd = {"spec": {"datacenters": {"dc": {"allocationRange": "two"}}}}
        await place.edit(POOLS, "p", odd)
        await place.restart()
        await cluster(place, "b")
        await place.home.pass_by(30)
        assert addresses(place, "a", "p") == ["10.0.0.0-10.0.0.1"]
        assert addresses(place, "b", "p") == []
        assert condition(place, "a") == before
        assert condition(place, "b") == {}, "no pool is known to name its datacenter"
        await place.edit(POOLS, "p", {"spec": {"datacenters": {"dc": {"allocationRange": 2}}}})
        await place.home.pass_by(3)
        assert addresses(place, "b", "p") == ["10.0.0.2-10.0.0.3"]


IN_LAB = ["10.0.0.0-10.0.0.7"]
UNKNOWN = {"addresses": [7]}
UNREADABLE_SPECS: list[tuple[Json, set[str]]] = [
    # Only the type cannot be decoded: the pool with the addresses stops.
    ({"type": 7, "addresses": IN_LAB}, {"other"}),
    ({"type": 7, "addresses": IN_LAB[0]}, {"other"}),
    ({"type": 7, "cidr": "10.0.0.0/29"}, {"other"}),
    # There are no addresses: no pool stops.
    ({"type": 7}, {"lab", "other"}),
    # The addresses cannot be decoded: each pool might have them, so all stop.
    (UNKNOWN, set()),
    ({"addresses": {"first": "10.0.0.0"}}, set()),
    ({"addresses": "10.0.0.0 and more"}, set()),
    ({"addresses": IN_LAB, "cidr": 7}, set()),
]
"""Specs of an IPAMAllocation that cannot be decoded, and which NetworkPools serve nevertheless."""


@pytest.mark.parametrize("restarted", [True, False], ids=["in the list", "in the watch"])
@pytest.mark.parametrize(("spec", "served_pools"), UNREADABLE_SPECS)
async def test_networkpools_that_an_unreadable_allocation_may_touch_hand_out_nothing(
    spec: Json, served_pools: set[str], restarted: bool
) -> None:
    async with site(OBSERVING, ALLOCATIONS) as place:
        await place.home.pool("lab", 0)
        await place.home.pool("other", 1)
        await place.home.pass_by(5)
        await place.make(ALLOCATIONS, "p", spec, namespace="cluster-a")
        if restarted:
            await place.restart()
        await place.home.pass_by(1)
        for name in ("lab", "other"):
            await place.home.ask(name, name)
        await place.home.pass_by(20)
        assert set(await place.home.ranges()) == served_pools
        for name in {"lab", "other"} - served_pools:
            ready = place.ready(NETWORK_POOL, name)
            assert ready["reason"] == "HoldersUnknown"
            assert TODO in ready["message"]
        repaired: dict[str, Any] = {"type": "range", "cidr": None, "addresses": IN_LAB}
        await place.edit(ALLOCATIONS, "p", patch={"spec": repaired}, namespace="cluster-a")
        await place.home.pass_by(3)
        ranges = await place.home.ranges()
        assert set(ranges) == {"lab", "other"}
        if "lab" not in served_pools:
            first_address = ranges["lab"][1]
            assert first_address == int(IPv4Address("10.0.0.8")), "it follows the held addresses"
