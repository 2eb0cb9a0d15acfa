"""A tenant whose load-balancer addresses are of IPv6, with the real MetalLB."""

from pathlib import Path

import pytest

from controller.meta import Key
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL, TENANT_CLUSTER
from reconcilers.cli.local.objects import delete
from tests.metallb.site import run_site
from tests.polling import until
from tests.tenants import HOME, POOL, TEAM, format_entry

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]

QUICK = ("--growth-when-exhausted=1s", "--shrink-after=5s", "--tenant-requeue-deleting=200ms")
IPV6 = {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]}


async def test_a_tenant_of_ipv6_grows_shrinks_and_gives_everything_back(tmp_path: Path) -> None:
    async with (
        run_site(tmp_path) as site,
        site.controllers(*QUICK),
        site.record_clusters() as recording,
    ):
        sizes = {"initialPoolSize": 1, "growthIncrement": 1}
        await site.offer("FD40:0:0::/48", allocationMode="elastic", **sizes)
        await site.create_cluster("a")
        await site.ready("a")
        tenant = site.tenants["a"]
        await tenant.create_services("one", spec=IPV6)
        first = await tenant.wait_until_served("one")
        await tenant.create_services("two", spec=IPV6)
        both = await tenant.wait_until_served("one", "two")
        initial, grown = (
            await site.wait_until_allocated("team-a-lb"),
            await site.wait_until_allocated("team-a-lb-1"),
        )
        assert initial.contains(both["one"])
        assert grown.contains(both["two"])
        assert both["one"] == first["one"], "who had an address keeps it"
        assert await tenant.list_entries() == (format_entry(initial), format_entry(grown))

        await tenant.stop_serving("two")
        await site.wait_until_gone(IP_ALLOCATION, HOME, "team-a-lb-1")
        assert await tenant.list_entries() == (format_entry(initial),)
        assert await tenant.read_addresses() == first

        await tenant.stop_serving("one")
        await delete(site.client, TENANT_CLUSTER, Key(TEAM, "a"))
        await site.wait_until_gone(IP_ALLOCATION, HOME, "team-a-lb")
        await until(
            lambda: site.client.get(NETWORK_POOL, POOL),
            lambda pool: (pool.status.allocationCount, pool.status.available) == (0, 2**80),
        )
        assert await recording.findings() == []


async def test_services_that_ask_for_ipv4_there_do_not_make_it_grow(tmp_path: Path) -> None:
    async with run_site(tmp_path) as site, site.controllers(*QUICK):
        sizes = {"initialPoolSize": 1, "growthIncrement": 1}
        await site.offer("fd40::/48", allocationMode="elastic", **sizes)
        await site.create_cluster("a")
        await site.ready("a")
        tenant = site.tenants["a"]
        await tenant.create_services("four")
        await tenant.create_services("six", spec=IPV6)
        await tenant.wait_until_served("six")
        cluster = await until(
            lambda: site.client.get(TENANT_CLUSTER, Key(TEAM, "a")),
            lambda cluster: any(
                condition.reason == "OtherFamily" for condition in cluster.status.conditions
            ),
        )
        (told,) = [
            condition
            for condition in cluster.status.conditions
            if condition.reason == "OtherFamily"
        ]
        assert "default/four" in told.message
        assert len(await site.list_ranges("a")) == 1
