"""No address is free, or held by another tenant, as long as a Service in a tenant shows it.

Both clusters are recorded, and each finding is proven (tests/audit). Another allocation waits for
the same addresses, so an address that is released too early is handed out again at once.
"""

from contextlib import nullcontext
from pathlib import Path

import pytest

from controller.conditions import find_condition
from controller.meta import Key
from reconcilers.api import names
from reconcilers.api.resources import IP_ALLOCATION, TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.cli.local.objects import delete
from reconcilers.loadbalancers.metallb.kinds import IP_ADDRESS_POOL
from tests.metallb.site import run_site
from tests.numbers import Note
from tests.polling import until
from tests.tenants import BALANCER, QUICK, RIVAL, TEAM

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]

FROZEN = (False, True, False, True)
"""For each round, whether MetalLB is frozen when the allocation is deleted."""
POOL_SIZE = 8
"""The number of addresses of the pool."""


def _has_no_room(cluster: TenantCluster) -> bool:
    """Return whether a TenantCluster reports that its pools are exhausted."""
    condition = find_condition(cluster.status.conditions, "NetworkReady")
    return condition is not None and condition.reason == "PoolExhausted"


async def test_a_range_in_use_is_handed_out_only_after_its_services_stop_using_it(
    tmp_path: Path, record_property: Note
) -> None:
    async with (
        run_site(tmp_path) as site,
        site.controllers(*QUICK),
        site.record_clusters() as recording,
    ):
        await site.create_one_range()
        tenant = site.tenants["a"]
        await tenant.create_services("one", "two", "three")
        for frozen in FROZEN:
            shown_addresses = await tenant.wait_until_served("one", "two", "three")
            allocated_range = await site.wait_until_allocated(BALANCER.name)
            assert all(allocated_range.contains(ip) for ip in shown_addresses.values())
            await site.create_rival()
            with tenant.freeze_metallb() if frozen else nullcontext():
                await delete(site.client, IP_ALLOCATION, BALANCER)
                if frozen:
                    await site.wait_for_message(BALANCER.name, "still shows an address")
                    assert await tenant.read_addresses() == shown_addresses
            assert await site.wait_until_allocated(RIVAL.name) == allocated_range, (
                "the rival has the same range"
            )
            assert await tenant.read_addresses() == {}
            await delete(site.client, IP_ALLOCATION, RIVAL)
        await tenant.wait_until_served("one", "two", "three")
        assert await recording.findings() == []
        record_property("an allocation deleted", recording.summary())


async def test_a_deleted_cluster_keeps_its_addresses_until_its_services_stop_using_them(
    tmp_path: Path, record_property: Note
) -> None:
    async with (
        run_site(tmp_path, ["a", "b"]) as site,
        site.controllers(*QUICK),
        site.record_clusters() as recording,
    ):
        await site.create_one_range()
        deleted, waiting = site.tenants["a"], site.tenants["b"]
        await deleted.create_services("one", "two", "three", "four")
        await site.create_cluster("b")
        await waiting.create_services("one", "two", "three", "four")
        before = await deleted.wait_until_served("one", "two", "three", "four")
        await until(lambda: site.client.get(TENANT_CLUSTER, Key(TEAM, "b")), _has_no_room)
        with deleted.freeze_metallb():
            await delete(site.client, TENANT_CLUSTER, Key(TEAM, "a"))
            await site.wait_for_message(BALANCER.name, "still shows an address")
            assert await deleted.read_addresses() == before
        after = await waiting.wait_until_served("one", "two", "three", "four")
        await site.wait_until_gone(TENANT_CLUSTER, TEAM, "a")
        assert set(after.values()) == set(before.values()), "the very addresses"
        assert await deleted.read_addresses() == {}
        assert (await deleted.client.list(IP_ADDRESS_POOL)).items == ()
        assert await recording.findings() == []
        record_property("a cluster deleted", recording.summary())


async def test_a_service_that_a_user_deletes_during_teardown_releases_no_address_of_another(
    tmp_path: Path, record_property: Note
) -> None:
    async with (
        run_site(tmp_path) as site,
        site.controllers(*QUICK),
        site.record_clusters() as recording,
    ):
        await site.create_one_range()
        tenant = site.tenants["a"]
        await tenant.create_services("one", "two")
        shown_addresses = await tenant.wait_until_served("one", "two")
        await site.create_rival(POOL_SIZE)
        with tenant.freeze_metallb():
            await delete(site.client, TENANT_CLUSTER, Key(TEAM, "a"))
            await site.wait_for_message(BALANCER.name, "still shows an address")
            await tenant.stop_serving("one")
            await site.wait_for_message(BALANCER.name, "default/two still shows")
            assert await tenant.read_addresses() == {"two": shown_addresses["two"]}
            rival = await site.find_allocation(RIVAL.name)
            assert rival is not None
            assert rival.status.phase == "Failed", "nothing of the range is free yet"
            await tenant.stop_serving("two")
        await site.wait_until_allocated(RIVAL.name)
        await site.wait_until_gone(TENANT_CLUSTER, TEAM, "a")
        assert await recording.findings() == []
        record_property("a Service deleted during teardown", recording.summary())


async def test_the_audit_finds_an_address_that_is_released_while_a_service_shows_it(
    tmp_path: Path,
) -> None:
    """MetalLB is frozen, and an administrator forces the release by an annotation."""
    async with (
        run_site(tmp_path) as site,
        site.controllers(*QUICK),
        site.record_clusters() as recording,
    ):
        await site.create_one_range()
        tenant = site.tenants["a"]
        await tenant.create_services("one")
        await tenant.wait_until_served("one")
        await site.create_rival()
        with tenant.freeze_metallb():
            marks = {"annotations": {names.ANNOTATION_RELEASE_ANYWAY: "true"}}
            await site.patch(TENANT_CLUSTER, Key(TEAM, "a"), {"metadata": marks})
            await delete(site.client, IP_ALLOCATION, BALANCER)
            await site.wait_until_allocated(RIVAL.name)
            findings = await recording.findings()
    early = [
        sentence
        for sentence in findings
        if "is shown by Service default/one of team/a while" in sentence
    ]
    assert any("rival of team/rival" in sentence for sentence in early), findings
