"""A ProviderConfig changes to cloud mode under a tenant with the real MetalLB, and back."""

from pathlib import Path

import pytest

from controller.conditions import find_condition
from controller.meta import Key
from reconcilers.api.resources import IP_ALLOCATION, PROVIDER_CONFIG, TENANT_CLUSTER
from reconcilers.cli.local.objects import delete
from tests.metallb.site import Site, run_site
from tests.polling import until
from tests.tenants import HOME, TEAM

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]


async def _set_network_mode(site: Site, mode: str) -> None:
    """Change the network mode of the ProviderConfig."""
    await site.patch(PROVIDER_CONFIG, Key(HOME, "default"), {"spec": {"network": {"mode": mode}}})


async def _read_network_message(site: Site) -> str:
    """Return the message of NetworkReady; empty if there is no such condition."""
    cluster = await site.client.get(TENANT_CLUSTER, Key(TEAM, "a"))
    condition = find_condition(cluster.status.conditions, "NetworkReady")
    return condition.message if condition is not None else ""


async def test_ranges_are_kept_given_back_when_deleted_and_asked_for_again(
    tmp_path: Path,
) -> None:
    async with (
        run_site(tmp_path) as site,
        site.controllers("--allocation-requeue-releasing=100ms"),
        site.record_clusters() as recording,
    ):
        await site.offer("10.40.0.0/24", defaultPoolSize=4)
        await site.create_cluster("a")
        await site.ready("a")
        tenant = site.tenants["a"]
        await tenant.create_services("web")
        shown_addresses = await tenant.wait_until_served("web")
        await _set_network_mode(site, "cloud")
        await until(lambda: _read_network_message(site), lambda message: "team-a-lb" in message)
        assert await tenant.read_addresses() == shown_addresses
        assert len(await tenant.list_entries()) == 1

        await delete(site.client, IP_ALLOCATION, Key(HOME, "team-a-lb"))
        await site.wait_until_gone(IP_ALLOCATION, HOME, "team-a-lb")
        assert await tenant.list_entries() == ()
        assert await tenant.read_addresses() == {}
        await until(
            lambda: _read_network_message(site), lambda message: message == "cloud networking mode"
        )

        await _set_network_mode(site, "ipam")
        await site.wait_until_allocated("team-a-lb")
        await tenant.wait_until_served("web")
        assert await recording.findings() == []
