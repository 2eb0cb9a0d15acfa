"""A tenant whose load-balancer addresses are of IPv6, with the real MetalLB."""

from pathlib import Path

import pytest

from controller.meta import Key
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL, TENANT_CLUSTER
from reconcilers.cli.local.objects import delete
from tests.metallb.site import site
from tests.polling import until
from tests.tenants import HOME, POOL, TEAM, entry

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]

QUICK = ("--growth-when-exhausted=1s", "--shrink-after=5s", "--tenant-requeue-deleting=200ms")
IPV6 = {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]}


async def test_a_tenant_of_ipv6_grows_shrinks_and_gives_everything_back(tmp_path: Path) -> None:
    async with (
        site(tmp_path) as here,
        here.controllers(*QUICK),
        here.record_clusters() as recording,
    ):
        sizes = {"initialPoolSize": 1, "growthIncrement": 1}
        await here.offer("FD40:0:0::/48", allocationMode="elastic", **sizes)
        await here.create_cluster("a")
        await here.ready("a")
        tenant = here.tenants["a"]
        await tenant.serve("one", spec=IPV6)
        first = await tenant.wait_until_served("one")
        await tenant.serve("two", spec=IPV6)
        both = await tenant.wait_until_served("one", "two")
        initial, grown = (
            await here.wait_until_allocated("team-a-lb"),
            await here.wait_until_allocated("team-a-lb-1"),
        )
        assert initial.contains(both["one"])
        assert grown.contains(both["two"])
        assert both["one"] == first["one"], "who had an address keeps it"
        assert await tenant.entries() == (entry(initial), entry(grown))

        await tenant.stop_serving("two")
        await here.wait_until_gone(IP_ALLOCATION, HOME, "team-a-lb-1")
        assert await tenant.entries() == (entry(initial),)
        assert await tenant.addresses() == first

        await tenant.stop_serving("one")
        await delete(here.client, TENANT_CLUSTER, Key(TEAM, "a"))
        await here.wait_until_gone(IP_ALLOCATION, HOME, "team-a-lb")
        await until(
            lambda: here.client.get(NETWORK_POOL, POOL),
            lambda pool: (pool.status.allocationCount, pool.status.available) == (0, 2**80),
        )
        assert await recording.findings() == []


async def test_services_that_ask_for_ipv4_there_do_not_make_it_grow(tmp_path: Path) -> None:
    async with site(tmp_path) as here, here.controllers(*QUICK):
        sizes = {"initialPoolSize": 1, "growthIncrement": 1}
        await here.offer("fd40::/48", allocationMode="elastic", **sizes)
        await here.create_cluster("a")
        await here.ready("a")
        tenant = here.tenants["a"]
        await tenant.serve("four")
        await tenant.serve("six", spec=IPV6)
        await tenant.wait_until_served("six")
        cluster = await until(
            lambda: here.client.get(TENANT_CLUSTER, Key(TEAM, "a")),
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
        assert len(await here.ranges_of("a")) == 1
