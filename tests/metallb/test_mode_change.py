"""A ProviderConfig changes to cloud mode under a tenant with the real MetalLB, and back."""

from pathlib import Path

import pytest

from controller.conditions import find
from controller.meta import Key
from reconcilers.api.resources import IP_ALLOCATION, PROVIDER_CONFIG, TENANT_CLUSTER
from reconcilers.cli.local.objects import delete
from tests.metallb.site import Site, site
from tests.polling import until
from tests.tenants import HOME, TEAM

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]


async def _switch(here: Site, mode: str) -> None:
    await here.patch(PROVIDER_CONFIG, Key(HOME, "default"), {"spec": {"network": {"mode": mode}}})


async def _network(here: Site) -> str:
    cluster = await here.client.get(TENANT_CLUSTER, Key(TEAM, "a"))
    condition = find(cluster.status.conditions, "NetworkReady")
    return condition.message if condition is not None else ""


async def test_ranges_are_kept_given_back_when_deleted_and_asked_for_again(
    tmp_path: Path,
) -> None:
    async with (
        site(tmp_path) as here,
        here.controllers("--allocation-requeue-releasing=100ms"),
        here.record_clusters() as recording,
    ):
        await here.offer("10.40.0.0/24", defaultPoolSize=4)
        await here.create_cluster("a")
        await here.ready("a")
        tenant = here.tenants["a"]
        await tenant.serve("web")
        shown_addresses = await tenant.wait_until_served("web")
        await _switch(here, "cloud")
        await until(lambda: _network(here), lambda network: "team-a-lb" in network)
        assert await tenant.addresses() == shown_addresses
        assert len(await tenant.entries()) == 1

        await delete(here.client, IP_ALLOCATION, Key(HOME, "team-a-lb"))
        await here.wait_until_gone(IP_ALLOCATION, HOME, "team-a-lb")
        assert await tenant.entries() == ()
        assert await tenant.addresses() == {}
        await until(lambda: _network(here), lambda network: network == "cloud networking mode")

        await _switch(here, "ipam")
        await here.wait_until_allocated("team-a-lb")
        await tenant.wait_until_served("web")
        assert await recording.findings() == []
