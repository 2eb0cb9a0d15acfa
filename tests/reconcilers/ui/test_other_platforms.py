"""Pools of other platforms on the page: shown as in the map that is written into a file."""

from typing import Any

import pytest

from controller.errors import Forbidden, NotFound
from controller.testing import Request
from reconcilers.integrations import live
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.kubermatic import api as kubermatic
from reconcilers.integrations.vitistack import api as vitistack
from reconcilers.ui.feed import FeedReader
from tests.reconcilers.addressmap.received import list_extents
from tests.reconcilers.cli import test_claims as claims
from tests.reconcilers.cli import test_platforms as platforms
from tests.reconcilers.cli.commandline import make_pool
from tests.reconcilers.ui.cluster import CLUSTER_API
from tests.reconcilers.ui.test_feed import EAST, WEST, FeedSetup

MACHINES = "InClusterIPPool b/machines 10.0.0.8/29"
SECONDS_UNTIL_READ = live.LOOK_SECONDS + 5
"""Seconds until kinds that are served since now are listed."""

CLAIMS = clusterapi.get_claim_kind("v1beta2")


async def read_pools_after(
    harness: FeedSetup, reader: FeedReader, seconds: float = SECONDS_UNTIL_READ
) -> dict[str, Any]:
    """Return the changed pools that a reader is sent after `seconds`, by name."""
    await harness.clock.advance(seconds)
    return dict((await harness.read_update(reader, 0))["pools"])


@pytest.fixture
def harness() -> FeedSetup:
    """Return a cluster that serves no kind of other platforms yet, and the feed of its page."""
    return FeedSetup()


async def test_a_pool_of_claims_is_shown_and_changes_with_its_claims(harness: FeedSetup) -> None:
    harness.cluster.serve_platforms(*CLUSTER_API)
    await harness.cluster.create(claims.make_ip_pool("machines", "10.0.0.10-10.0.0.12"))
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as reader:
            picture = await read_pools_after(harness, reader)
            assert list(picture) == [EAST, WEST, MACHINES]
            assert (picture[MACHINES]["total"], picture[MACHINES]["available"]) == (3, 3)
            await harness.cluster.create(claims.make_claim("web", "machines"))
            update = await read_pools_after(harness, reader, 1)
            assert list(update) == [MACHINES], "what does not change is not sent"
            assert list(update[MACHINES]["requests"]) == ["IPAddressClaim b/web"]
            await harness.cluster.create(claims.make_address("web", "machines", "10.0.0.11"))
            before = (await read_pools_after(harness, reader, 1))[MACHINES]
            assert (before["allocated"], before["available"]) == (1, 2)
            await harness.cluster.delete(clusterapi.get_address_kind("v1beta2"), "web", "b")
            await harness.cluster.delete(CLAIMS, "web", "b")
            gone = (await read_pools_after(harness, reader, 1))[MACHINES]
            assert (gone["allocated"], gone["waiting"]) == (0, 0)
            await harness.cluster.delete(clusterapi.IN_CLUSTER_IP_POOL, "machines", "b")
            await harness.clock.advance(1)
            assert (await harness.read_update(reader, 0))["order"] == [EAST, WEST]


async def test_addresses_of_claims_on_a_network_pool_are_shown_in_it(harness: FeedSetup) -> None:
    harness.cluster.serve_platforms(*CLUSTER_API)
    site = make_pool("site", "10.9.0.0/29")
    site["metadata"]["namespace"] = "b"
    await harness.cluster.create(site)
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as reader:
            await read_pools_after(harness, reader)
            await harness.cluster.create(
                claims.make_claim("a", "site", "NetworkPool"),
                claims.make_address("a", "site", ip="10.9.0.2", kind="NetworkPool"),
                claims.make_claim("waits", "site", "NetworkPool"),
            )
            [(name, picture)] = (await read_pools_after(harness, reader, 1)).items()
            assert name == "b/site 10.9.0.0/29"
            assert [
                (span["start"], [allocation for allocation, _, _ in span["holders"]])
                for span in list_extents(picture)
                if span["holders"]
            ] == [("10.9.0.2", ["IPAddressClaim b/a"])]
            assert list(picture["requests"]) == ["IPAddressClaim b/waits"]


async def test_free_addresses_of_a_pool_are_unknown_until_the_claims_are_listed(
    harness: FeedSetup,
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
    async with harness.run_with_two_pools(platforms_are_read=False):
        for _ in range(2):
            with harness.feed.open_reader() as reader:
                first = (await read_pools_after(harness, reader, 0))[name]
                assert clusterapi.get_address_kind("v1beta2").full_name in first["notRead"]
                picture = (await read_pools_after(harness, reader))[name]
                assert (picture["notRead"], picture["allocated"]) == ([], 1)
            await harness.clock.advance(2 * live.KEPT_SECONDS)  # nobody reads: watches end


async def test_pools_of_kkp_and_vitistack_are_shown(harness: FeedSetup) -> None:
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
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as reader:
            picture = await read_pools_after(harness, reader)
            metallb = picture["IPAMPool metallb in east 10.1.0.0/29"]
            assert (metallb["allocated"], metallb["available"], metallb["waiting"]) == (4, 4, 1)
            [held_span] = [span for span in list_extents(metallb) if span["holders"]]
            assert held_span["holders"] == [
                ["IPAMAllocation cluster-blue/metallb", "blue", "cluster"]
            ]
            net = picture["NetworkNamespace dc/net 10.3.0.0/24"]
            assert (net["total"], net["allocated"]) == (3, 1)
            await harness.cluster.delete(vitistack.ALLOCATIONS, "web", "dc")
            update = await read_pools_after(harness, reader, 1)
            assert update["NetworkNamespace dc/net 10.3.0.0/24"]["allocated"] == 0
            await harness.cluster.delete(kubermatic.CLUSTERS, "red", "")
            update = await read_pools_after(harness, reader, 1)
            assert update["IPAMPool metallb in east 10.1.0.0/29"]["waiting"] == 0


async def test_tenants_of_pools_that_did_not_change_keep_their_looks(harness: FeedSetup) -> None:
    harness.cluster.serve_platforms()
    await harness.cluster.create(
        platforms.make_ipam_pool("metallb", east={**platforms.RANGE, "poolCidr": "10.1.0.0/29"}),
        platforms.make_kkp_cluster("blue", "east"),
        platforms.make_ipam_allocation("metallb", "blue", "east", addresses=["10.1.0.0-10.1.0.3"]),
        platforms.make_network(),
    )
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as reader:
            await harness.clock.advance(SECONDS_UNTIL_READ)
            before = (await harness.read_update(reader, 0))["looks"]["blue"]
            await harness.cluster.create(platforms.make_vitistack_request("web", "10.3.0.11"))
            await harness.clock.advance(1)
            update = await harness.read_update(reader, 0)
            assert list(update["pools"]) == ["NetworkNamespace dc/net 10.3.0.0/24"]
        with harness.feed.open_reader() as later:
            assert (await harness.read_update(later, 0))["looks"]["blue"] == before


async def test_kinds_that_are_served_later_are_shown_then(harness: FeedSetup) -> None:
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as reader:
            assert list(await read_pools_after(harness, reader)) == [EAST, WEST]
            harness.cluster.serve_platforms(*CLUSTER_API)
            await harness.cluster.create(claims.make_ip_pool("machines", "10.0.0.10-10.0.0.12"))
            assert MACHINES in await read_pools_after(harness, reader)


async def test_only_the_total_is_known_of_a_pool_whose_claims_may_not_be_read(
    harness: FeedSetup,
) -> None:
    harness.cluster.serve_platforms(*CLUSTER_API)
    await harness.cluster.create(claims.make_ip_pool("machines", "10.0.0.10-10.0.0.12"))

    def refuse(request: Request) -> None:
        if request.resource.startswith("ipaddressclaims"):
            raise Forbidden(403, "Forbidden", "no")

    harness.cluster.on_request = refuse
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as reader:
            await harness.clock.advance(60)
            update = await harness.read_update(reader, 0)
            assert update["order"] == [EAST, WEST, MACHINES]
            assert update["failures"] == []
            pool = update["pools"][MACHINES]
            assert (pool["total"], pool["notRead"]) == (3, [CLAIMS.full_name])
            assert {extent["state"] for extent in list_extents(pool)}.isdisjoint({"free"})


async def test_a_kind_that_discovery_names_but_no_server_serves_makes_no_pool_unknown(
    harness: FeedSetup,
) -> None:
    harness.cluster.serve_platforms(*CLUSTER_API)

    def report_not_found(request: Request) -> None:
        if request.resource.startswith("ipaddressclaims"):
            raise NotFound(404, "NotFound", "the definition has just been deleted")

    harness.cluster.on_request = report_not_found
    async with harness.run_with_two_pools():
        with harness.feed.open_reader() as reader:
            picture = (await read_pools_after(harness, reader))[EAST]
    assert (picture["notRead"], picture["available"]) == ([], 256)


async def test_other_platforms_are_not_watched_while_no_client_reads(harness: FeedSetup) -> None:
    harness.cluster.serve_platforms(*CLUSTER_API)
    await harness.cluster.create(claims.make_ip_pool("machines", "10.0.0.10-10.0.0.12"))
    requested_kinds: list[str] = []

    def record(request: Request) -> None:
        requested_kinds.append(request.resource)

    async with harness.run_with_two_pools(platforms_are_read=False):
        harness.cluster.on_request = record
        await harness.clock.advance(300)
        assert not [kind for kind in requested_kinds if kind.startswith("inclusterippools")]
        with harness.feed.open_reader() as reader:
            assert MACHINES in await read_pools_after(harness, reader)
        assert [kind for kind in requested_kinds if kind.startswith("inclusterippools")]
        await harness.clock.advance(live.KEPT_SECONDS + 2 * SECONDS_UNTIL_READ)
        requested_kinds.clear()
        await harness.clock.advance(600)
        await harness.cluster.create(claims.make_claim("web", "machines"))
        assert not [kind for kind in requested_kinds if kind.startswith("inclusterippools")]
        with harness.feed.open_reader() as reader:
            assert (await read_pools_after(harness, reader))[MACHINES]["waiting"] == 1
