"""Claims and IPAddresses that cannot be decoded: nobody else gets what they may hold."""

from typing import Any

import pytest

from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.configuration.integrationnames import CLUSTER_API
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.clusterapi import api
from tests.reconcilers.integrations.unreadable import Json, Site, site
from tests.reconcilers.test_sharing import NAMESPACE

CLAIMS, ADDRESSES, CLUSTERS = (
    api.claims("v1beta2"),
    api.addresses("v1beta2"),
    api.clusters("v1beta2"),
)
POOLS, GLOBAL_POOLS = api.IN_CLUSTER_IP_POOL, api.GLOBAL_IP_POOL
SERVED = (CLAIMS, ADDRESSES, CLUSTERS, POOLS, GLOBAL_POOLS)
WITH_CLAIMS = Settings(integration=(CLUSTER_API,))
UNKNOWN_POOL = {"poolRef": 7}
ODD: dict[str, tuple[Any, Json, Json]] = {
    "IPAddress": (ADDRESSES, {"prefix": "many"}, {"prefix": 24}),
    "IPAddressClaim": (CLAIMS, {"clusterName": 7}, {"clusterName": None}),
}


async def pool(place: Site, name: str, third: int, kind: Any = POOLS) -> None:
    spec = {"addresses": [f"10.0.{third}.10-10.0.{third}.14"], "prefix": 24}
    await place.make(kind, name, spec)


def ref(name: str, kind: Any = POOLS) -> Json:
    return {"apiGroup": kind.group, "kind": kind.kind, "name": name}


async def claim(
    place: Site, name: str, pool: str, kind: Any = POOLS, namespace: str = NAMESPACE, **spec: Any
) -> None:
    await place.make(CLAIMS, name, {"poolRef": ref(pool, kind), **spec}, namespace=namespace)


def address_of(place: Site, name: str, namespace: str = NAMESPACE) -> str:
    """Return the address of a claim that is served; empty if it is not."""
    if not place.see(CLAIMS, name, namespace).get("status", {}).get("addressRef"):
        return ""
    return str(place.see(ADDRESSES, name, namespace)["spec"]["address"])


async def test_the_gauges_call_nothing_free_that_an_unreadable_address_may_be() -> None:
    async with site(WITH_CLAIMS, *SERVED) as place:
        await pool(place, "p", 0)
        await claim(place, "a", "p")
        await place.home.pass_by(5)
        assert place.gauge("butler_claim_pool_free") == [4]
        await place.edit(ADDRESSES, "a", {"spec": {"prefix": "many"}})
        await place.home.pass_by(5)
        for name in ("free", "used"):
            assert place.gauge(f"butler_claim_pool_{name}") == []
        assert place.gauge("butler_claim_pool_total") == [5]


async def make_unreadable(place: Site, kind: str, *, pool_known: bool) -> None:
    """Make an object unreadable that alone shows what claim a of pool p holds."""
    resource, odd, _ = ODD[kind]
    if kind == "IPAddressClaim":
        await place.edit(resource, "a", {"spec": {**odd, **({} if pool_known else UNKNOWN_POOL)}})
        await place.remove(ADDRESSES, "a")
    else:
        await place.edit(resource, "a", {"spec": {**odd, **({} if pool_known else UNKNOWN_POOL)}})
        await place.remove(CLAIMS, "a")


@pytest.mark.parametrize("pool_known", [True, False], ids=["its pool is known", "it is unknown"])
@pytest.mark.parametrize("kind", ODD)
async def test_no_pool_hands_out_what_an_unreadable_object_may_hold(
    kind: str, pool_known: bool
) -> None:
    async with site(WITH_CLAIMS, *SERVED) as place:
        await pool(place, "p", 0)
        await pool(place, "q", 1)
        await pool(place, "wide", third=2, kind=GLOBAL_POOLS)
        await claim(place, "a", "p")
        await place.home.pass_by(5)
        assert address_of(place, "a") == "10.0.0.10"
        place.stop()
        await make_unreadable(place, kind, pool_known=pool_known)
        await place.restart()
        await claim(place, "b", "p")
        await claim(place, "c", "q")
        await claim(place, "d", pool="wide", kind=GLOBAL_POOLS)
        await claim(place, "far", pool="wide", kind=GLOBAL_POOLS, namespace="far")
        await place.home.pass_by(30)
        assert address_of(place, "b") == ""
        ready = place.ready(POOLS, "p")
        assert (ready["status"], ready["reason"]) == ("False", "HoldersUnknown")
        todo = f"{kind} {NAMESPACE}/a cannot be read; correct or delete it"
        assert todo in ready["message"]
        assert todo in place.ready(CLAIMS, "b")["message"]
        assert [bool(address_of(place, name)) for name in ("c", "d")] == [pool_known] * 2
        assert bool(address_of(place, "far", "far")) == pool_known

        resource, _, repaired = ODD[kind]
        await place.edit(resource, "a", {"spec": {**repaired, "poolRef": ref("p")}})
        await place.home.pass_by(3)
        assert place.ready(POOLS, "p")["reason"] == "Ready"
        assert address_of(place, "b") == "10.0.0.11"
        assert address_of(place, "c") == "10.0.1.10"


async def test_an_ipaddress_that_becomes_unreadable_with_another_address_keeps_that() -> None:
    async with site(WITH_CLAIMS, *SERVED) as place:
        await pool(place, "p", 0)
        await claim(place, "a", "p")
        await place.home.pass_by(5)
        await place.edit(ADDRESSES, "a", {"spec": {"address": "10.0.0.11", "prefix": "many"}})
        await place.home.pass_by(1)
        await claim(place, "b", "p")
        await place.home.pass_by(30)
        assert address_of(place, "b") == ""
        assert place.ready(POOLS, "p")["reason"] == "HoldersUnknown"
        await place.remove(ADDRESSES, "a")
        await place.home.pass_by(5)
        assert address_of(place, "a") == "10.0.0.10", "made again from the record"
        assert address_of(place, "b") == "10.0.0.11"


@pytest.mark.parametrize("kind", ODD)
async def test_a_networkpool_hands_out_no_range_while_an_object_of_its_claims_is_unreadable(
    kind: str,
) -> None:
    async with site(WITH_CLAIMS, *SERVED) as place:
        await place.home.pool("lab", 0)
        await place.home.pool("other", 1)
        await claim(place, "a", pool="lab", kind=NETWORK_POOL)
        await place.home.pass_by(5)
        assert address_of(place, "a") == "10.0.0.0"
        place.stop()
        await make_unreadable(place, kind, pool_known=True)
        await place.restart()
        await place.home.ask("x", "lab")
        await place.home.ask("y", "other")
        await place.home.pass_by(30)
        assert set(await place.home.ranges()) == {"y"}
        ready = place.ready(NETWORK_POOL, "lab")
        assert ready["reason"] == "HoldersUnknown"
        assert f"{kind} {NAMESPACE}/a cannot be read; correct or delete it" in ready["message"]
        resource, _, repaired = ODD[kind]
        await place.edit(resource, "a", {"spec": repaired})
        await place.home.pass_by(3)
        ranges = await place.home.ranges()
        assert set(ranges) == {"x", "y"}
        assert ranges["x"][1] > 10 << 24


async def test_claims_of_a_networkpool_wait_while_an_ipallocation_of_it_is_unreadable() -> None:
    async with site(WITH_CLAIMS, *SERVED) as place:
        await place.home.pool("lab", 0)
        await place.home.ask("x", "lab")
        await place.home.pass_by(5)
        await place.edit(IP_ALLOCATION, "x", {"spec": {"count": "many"}})
        await claim(place, "a", pool="lab", kind=NETWORK_POOL)
        await place.home.pass_by(15)
        assert address_of(place, "a") == ""
        ready = place.ready(CLAIMS, "a")
        assert ready["reason"] == "PoolNotReady"
        assert "IPAllocations that cannot be read: x" in ready["message"]
        await place.edit(IP_ALLOCATION, "x", {"spec": {"count": 8}})
        await place.home.pass_by(3)
        assert address_of(place, "a") == "10.0.0.8"


@pytest.mark.parametrize("kind", ODD)
async def test_a_deleted_pool_stays_while_an_object_that_may_be_its_is_unreadable(
    kind: str,
) -> None:
    async with site(WITH_CLAIMS, *SERVED) as place:
        await pool(place, "p", 0)
        await claim(place, "a", "p")
        await place.home.pass_by(5)
        place.stop()
        await make_unreadable(place, kind, pool_known=True)
        await place.restart()
        await place.delete(POOLS, "p")
        await place.home.pass_by(30)
        ready = place.ready(POOLS, "p")
        assert ready["reason"] == "HoldersUnknown"
        assert "it is not deleted until it is known what these objects hold" in ready["message"]
        await place.remove(ODD[kind][0], "a")
        await place.home.pass_by(5)
        assert place.see(POOLS, "p") == {}


async def test_a_claim_keeps_its_address_while_its_ipaddress_or_pool_is_unreadable() -> None:
    async with site(WITH_CLAIMS, *SERVED) as place:
        for number, name in enumerate("pq"):
            await pool(place, name, number)
            await claim(place, f"of-{name}", name)
        await place.home.pass_by(5)
        await place.edit(ADDRESSES, "of-p", {"spec": {"prefix": "many"}})
        await place.edit(POOLS, "q", {"spec": {"prefix": "many"}})
        await place.restart()
        for name in "pq":
            await place.delete(CLAIMS, f"of-{name}")
        await place.home.pass_by(90)
        assert all(place.see(ADDRESSES, f"of-{name}") for name in "pq")
        assert all(place.see(CLAIMS, f"of-{name}") for name in "pq")
        await claim(place, "more", "q")
        await place.home.pass_by(5)
        message = "InClusterIPPool q cannot be read; correct or delete it"
        await place.home.pass_by(5)
        assert place.ready(CLAIMS, "more").get("message") == message
        await place.edit(ADDRESSES, "of-p", {"spec": {"prefix": 24}})
        await place.edit(POOLS, "q", {"spec": {"prefix": 24}})
        await place.home.pass_by(5)
        assert not any(place.see(CLAIMS, f"of-{name}") for name in "pq")
        assert address_of(place, "more")


async def test_an_unreadable_cluster_may_be_paused_so_its_claims_are_left_alone() -> None:
    async with site(WITH_CLAIMS, *SERVED) as place:
        await pool(place, "p", 0)
        await place.make(CLUSTERS, "tenant", {"paused": True})
        await claim(place, "a", "p", clusterName="tenant")
        await place.edit(CLUSTERS, "tenant", {"spec": {"paused": "yes"}})
        await place.restart()
        await place.home.pass_by(5)
        assert address_of(place, "a") == ""
        await place.edit(CLUSTERS, "tenant", {"spec": {"paused": False}})
        await place.home.pass_by(3)
        assert address_of(place, "a") == "10.0.0.10"
        await place.edit(CLUSTERS, "tenant", {"spec": {"paused": "yes"}})
        await place.restart()
        await place.delete(CLAIMS, "a")
        await place.home.pass_by(90)
        assert place.see(CLAIMS, "a")
        assert place.see(ADDRESSES, "a")
        await place.edit(CLUSTERS, "tenant", {"spec": {"paused": False}})
        await place.home.pass_by(3)
        assert not place.see(CLAIMS, "a")
        assert not place.see(ADDRESSES, "a")


async def test_a_claim_whose_unreadable_ipaddress_names_another_pool_is_told_so() -> None:
    async with site(WITH_CLAIMS, *SERVED) as place:
        await pool(place, "p", 0)
        await pool(place, "q", 1)
        spec = {"claimRef": {"name": "a"}, "poolRef": ref("q"), "address": "10.0.1.10"}
        await place.make(ADDRESSES, "a", {**spec, "prefix": "many"})
        await place.restart()
        await claim(place, "a", "p")
        await claim(place, "b", "p")
        await place.home.pass_by(10)
        ready = place.ready(CLAIMS, "a")
        assert ready["reason"] == "AllocationFailed"
        assert f"IPAddress {NAMESPACE}/a cannot be read" in ready["message"]
        assert address_of(place, "b") == "10.0.0.10"
