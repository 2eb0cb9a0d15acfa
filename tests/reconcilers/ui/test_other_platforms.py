"""Pools of other platforms on the page: shown as on the map, and kept current."""

from typing import Any

import pytest

from controller.errors import Forbidden, NotFound
from controller.testing import Request
from reconcilers.integrations import live
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.kubermatic import api as kubermatic
from reconcilers.integrations.vitistack import api as vitistack
from reconcilers.ui.feed import FeedReader
from tests.reconcilers.addressmap.received import ranges
from tests.reconcilers.cli import test_claims as claims
from tests.reconcilers.cli import test_platforms as platforms
from tests.reconcilers.cli.commandline import make_pool
from tests.reconcilers.ui.cluster import CLUSTER_API
from tests.reconcilers.ui.test_feed import EAST, WEST, Harness

MACHINES = "InClusterIPPool b/machines 10.0.0.8/29"
LOOK = live.LOOK_SECONDS + 5
CLAIMS = clusterapi.claims("v1beta2")


async def latest(harness: Harness, reader: FeedReader, seconds: float = LOOK) -> dict[str, Any]:
    """Return the pools that a reader is sent after so many seconds, by name."""
    await harness.clock.advance(seconds)
    return dict((await harness.news(reader, 0))["pools"])


@pytest.fixture
def harness() -> Harness:
    return Harness()


async def test_a_pool_of_claims_is_shown_and_changes_with_its_claims(harness: Harness) -> None:
    harness.cluster.serve_platforms(*CLUSTER_API)
    await harness.cluster.create(claims.make_ip_pool("machines", "10.0.0.10-10.0.0.12"))
    async with harness.running():
        with harness.feed.open_reader() as reader:
            picture = await latest(harness, reader)
            assert list(picture) == [EAST, WEST, MACHINES]
            assert (picture[MACHINES]["total"], picture[MACHINES]["available"]) == (3, 3)
            await harness.cluster.create(claims.make_claim("web", "machines"))
            news = await latest(harness, reader, 1)
            assert list(news) == [MACHINES], "what does not change is not sent"
            assert list(news[MACHINES]["requests"]) == ["IPAddressClaim b/web"]
            await harness.cluster.create(claims.make_address("web", "machines", "10.0.0.11"))
            before = (await latest(harness, reader, 1))[MACHINES]
            assert (before["allocated"], before["available"]) == (1, 2)
            await harness.cluster.delete(clusterapi.addresses("v1beta2"), "web", "b")
            await harness.cluster.delete(CLAIMS, "web", "b")
            gone = (await latest(harness, reader, 1))[MACHINES]
            assert (gone["allocated"], gone["waiting"]) == (0, 0)
            await harness.cluster.delete(clusterapi.IN_CLUSTER_IP_POOL, "machines", "b")
            await harness.clock.advance(1)
            assert (await harness.news(reader, 0))["order"] == [EAST, WEST]


async def test_what_claims_hold_of_a_network_pool_is_shown_in_it(harness: Harness) -> None:
    harness.cluster.serve_platforms(*CLUSTER_API)
    site = make_pool("site", "10.9.0.0/29")
    site["metadata"]["namespace"] = "b"
    await harness.cluster.create(site)
    async with harness.running():
        with harness.feed.open_reader() as reader:
            await latest(harness, reader)
            await harness.cluster.create(
                claims.make_claim("a", "site", "NetworkPool"),
                claims.make_address("a", "site", ip="10.9.0.2", kind="NetworkPool"),
                claims.make_claim("waits", "site", "NetworkPool"),
            )
            [(name, picture)] = (await latest(harness, reader, 1)).items()
            assert name == "b/site 10.9.0.0/29"
            assert [
                (span["start"], [allocation for allocation, _, _ in span["holders"]])
                for span in ranges(picture)
                if span["holders"]
            ] == [("10.9.0.2", ["IPAddressClaim b/a"])]
            assert list(picture["requests"]) == ["IPAddressClaim b/waits"]


async def test_what_is_free_of_a_pool_is_not_known_before_the_claims_are_listed(
    harness: Harness,
) -> None:
    harness.cluster.serve_platforms(*CLUSTER_API)
    site = make_pool("site", "10.9.0.0/29")
    site["metadata"]["namespace"] = "b"
    await harness.cluster.create(
        site,
        claims.make_claim("a", "site", "NetworkPool"),
        claims.make_address("a", "site", ip="10.9.0.2", kind="NetworkPool"),
    )
    name = "b/site 10.9.0.0/29"
    async with harness.running(has_looked=False):
        for _ in range(2):
            with harness.feed.open_reader() as reader:
                first = (await latest(harness, reader, 0))[name]
                assert clusterapi.addresses("v1beta2").full_name in first["notRead"]
                picture = (await latest(harness, reader))[name]
                assert (picture["notRead"], picture["allocated"]) == ([], 1)
            await harness.clock.advance(2 * live.KEPT_SECONDS)  # nobody reads: watches end


async def test_pools_of_kkp_and_vitistack_are_shown(harness: Harness) -> None:
    harness.cluster.serve_platforms()
    range_ = {**platforms.RANGE, "poolCidr": "10.1.0.0/29"}
    await harness.cluster.create(
        platforms.make_ipam_pool("metallb", east=range_),
        platforms.make_kkp_cluster("blue", "east"),
        platforms.make_kkp_cluster("red", "east"),
        platforms.make_ipam_allocation("metallb", "blue", "east", addresses=["10.1.0.0-10.1.0.3"]),
        platforms.make_network(),
        platforms.make_vitistack_request("web", "10.3.0.11"),
    )
    async with harness.running():
        with harness.feed.open_reader() as reader:
            picture = await latest(harness, reader)
            metallb = picture["IPAMPool metallb in east 10.1.0.0/29"]
            assert (metallb["allocated"], metallb["available"], metallb["waiting"]) == (4, 4, 1)
            [held_span] = [span for span in ranges(metallb) if span["holders"]]
            assert held_span["holders"] == [
                ["IPAMAllocation cluster-blue/metallb", "blue", "cluster"]
            ]
            net = picture["NetworkNamespace dc/net 10.3.0.0/24"]
            assert (net["total"], net["allocated"]) == (3, 1)
            await harness.cluster.delete(vitistack.ALLOCATIONS, "web", "dc")
            news = await latest(harness, reader, 1)
            assert news["NetworkNamespace dc/net 10.3.0.0/24"]["allocated"] == 0
            await harness.cluster.delete(kubermatic.CLUSTERS, "red", "")
            news = await latest(harness, reader, 1)
            assert news["IPAMPool metallb in east 10.1.0.0/29"]["waiting"] == 0


async def test_tenants_of_pools_that_did_not_change_keep_their_looks(harness: Harness) -> None:
    harness.cluster.serve_platforms()
    await harness.cluster.create(
        platforms.make_ipam_pool("metallb", east={**platforms.RANGE, "poolCidr": "10.1.0.0/29"}),
        platforms.make_kkp_cluster("blue", "east"),
        platforms.make_ipam_allocation("metallb", "blue", "east", addresses=["10.1.0.0-10.1.0.3"]),
        platforms.make_network(),
    )
    async with harness.running():
        with harness.feed.open_reader() as reader:
            await harness.clock.advance(LOOK)
            before = (await harness.news(reader, 0))["looks"]["blue"]
            await harness.cluster.create(platforms.make_vitistack_request("web", "10.3.0.11"))
            await harness.clock.advance(1)
            news = await harness.news(reader, 0)
            assert list(news["pools"]) == ["NetworkNamespace dc/net 10.3.0.0/24"]
        with harness.feed.open_reader() as later:
            assert (await harness.news(later, 0))["looks"]["blue"] == before


async def test_kinds_that_are_served_later_are_shown_then(harness: Harness) -> None:
    async with harness.running():
        with harness.feed.open_reader() as reader:
            assert list(await latest(harness, reader)) == [EAST, WEST]
            harness.cluster.serve_platforms(*CLUSTER_API)
            await harness.cluster.create(claims.make_ip_pool("machines", "10.0.0.10-10.0.0.12"))
            assert MACHINES in await latest(harness, reader)


async def test_only_the_total_is_known_of_a_pool_whose_claims_may_not_be_read(
    harness: Harness,
) -> None:
    harness.cluster.serve_platforms(*CLUSTER_API)
    await harness.cluster.create(claims.make_ip_pool("machines", "10.0.0.10-10.0.0.12"))

    def refuse(request: Request) -> None:
        if request.resource.startswith("ipaddressclaims"):
            raise Forbidden(403, "Forbidden", "no")

    harness.cluster.on_request = refuse
    async with harness.running():
        with harness.feed.open_reader() as reader:
            await harness.clock.advance(60)
            news = await harness.news(reader, 0)
            assert news["order"] == [EAST, WEST, MACHINES]
            assert news["failures"] == []
            pool = news["pools"][MACHINES]
            assert (pool["total"], pool["notRead"]) == (3, [CLAIMS.full_name])
            assert {extent["state"] for extent in ranges(pool)}.isdisjoint({"free"})


async def test_a_kind_that_discovery_names_and_no_server_has_hides_nothing(
    harness: Harness,
) -> None:
    harness.cluster.serve_platforms(*CLUSTER_API)

    def answer(request: Request) -> None:
        if request.resource.startswith("ipaddressclaims"):
            raise NotFound(404, "NotFound", "the definition has just been deleted")

    harness.cluster.on_request = answer
    async with harness.running():
        with harness.feed.open_reader() as reader:
            picture = (await latest(harness, reader))[EAST]
    assert (picture["notRead"], picture["available"]) == ([], 256)


async def test_other_platforms_are_not_watched_while_no_client_reads(harness: Harness) -> None:
    harness.cluster.serve_platforms(*CLUSTER_API)
    await harness.cluster.create(claims.make_ip_pool("machines", "10.0.0.10-10.0.0.12"))
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.resource)

    async with harness.running(has_looked=False):
        harness.cluster.on_request = note
        await harness.clock.advance(300)
        assert not [kind for kind in asked if kind.startswith("inclusterippools")]
        with harness.feed.open_reader() as reader:
            assert MACHINES in await latest(harness, reader)
        assert [kind for kind in asked if kind.startswith("inclusterippools")]
        await harness.clock.advance(live.KEPT_SECONDS + 2 * LOOK)
        asked.clear()
        await harness.clock.advance(600)
        await harness.cluster.create(claims.make_claim("web", "machines"))
        assert not [kind for kind in asked if kind.startswith("inclusterippools")]
        with harness.feed.open_reader() as reader:
            assert (await latest(harness, reader))[MACHINES]["waiting"] == 1
