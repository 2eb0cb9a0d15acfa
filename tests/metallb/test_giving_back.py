"""No address is free, or another's, as long as a Service in the tenant shows it.

Everything is watched and listed twenty times a second on both sides, and the findings are proven
(audit/). Another tenant waits for the very addresses, so that whatever is given back too early is
handed out again at once.
"""

from contextlib import nullcontext
from pathlib import Path

import pytest

from controller.conditions import find
from controller.meta import Key
from reconcilers.api import names
from reconcilers.api.resources import IP_ALLOCATION, TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.cli.local.objects import delete
from reconcilers.loadbalancers.metallb.kinds import IP_ADDRESS_POOL
from tests.metallb.site import site
from tests.numbers import Note
from tests.polling import until
from tests.tenants import BALANCER, QUICK, RIVAL, TEAM

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]

FROZEN = (False, True, False, True)
"""For each round, whether MetalLB stands still when the allocation is deleted."""
WHOLE = 8
"""The addresses of the pool."""


def _has_no_room(cluster: TenantCluster) -> bool:
    condition = find(cluster.status.conditions, "NetworkReady")
    return condition is not None and condition.reason == "PoolExhausted"


async def test_a_range_in_use_is_handed_out_only_after_its_services_stop_using_it(
    tmp_path: Path, record_property: Note
) -> None:
    async with (
        site(tmp_path) as here,
        here.controllers(*QUICK),
        here.record_clusters() as recording,
    ):
        await here.offer_one_range()
        tenant = here.tenants["a"]
        await tenant.serve("one", "two", "three")
        for frozen in FROZEN:
            shown_addresses = await tenant.wait_until_served("one", "two", "three")
            allocated_count = await here.wait_until_allocated(BALANCER.name)
            assert all(allocated_count.contains(ip) for ip in shown_addresses.values())
            await here.create_rival()
            with tenant.frozen() if frozen else nullcontext():
                await delete(here.client, IP_ALLOCATION, BALANCER)
                if frozen:
                    await here.waits_because(BALANCER.name, "still shows an address")
                    assert await tenant.addresses() == shown_addresses
            assert await here.wait_until_allocated(RIVAL.name) == allocated_count, (
                "the rival has the very range"
            )
            assert await tenant.addresses() == {}
            await delete(here.client, IP_ALLOCATION, RIVAL)
        await tenant.wait_until_served("one", "two", "three")
        assert await recording.findings() == []
        record_property("an allocation deleted", recording.summary())


async def test_a_deleted_cluster_keeps_its_addresses_until_its_services_stop_using_them(
    tmp_path: Path, record_property: Note
) -> None:
    async with (
        site(tmp_path, ["a", "b"]) as here,
        here.controllers(*QUICK),
        here.record_clusters() as recording,
    ):
        await here.offer_one_range()
        leaving, waiting = here.tenants["a"], here.tenants["b"]
        await leaving.serve("one", "two", "three", "four")
        await here.create_cluster("b")
        await waiting.serve("one", "two", "three", "four")
        before = await leaving.wait_until_served("one", "two", "three", "four")
        await until(lambda: here.client.get(TENANT_CLUSTER, Key(TEAM, "b")), _has_no_room)
        with leaving.frozen():
            await delete(here.client, TENANT_CLUSTER, Key(TEAM, "a"))
            await here.waits_because(BALANCER.name, "still shows an address")
            assert await leaving.addresses() == before
        after = await waiting.wait_until_served("one", "two", "three", "four")
        await here.wait_until_gone(TENANT_CLUSTER, TEAM, "a")
        assert set(after.values()) == set(before.values()), "the very addresses"
        assert await leaving.addresses() == {}
        assert (await leaving.client.list(IP_ADDRESS_POOL)).items == ()
        assert await recording.findings() == []
        record_property("a cluster deleted", recording.summary())


async def test_a_service_that_its_user_deletes_during_teardown_gives_up_no_others_address(
    tmp_path: Path, record_property: Note
) -> None:
    async with (
        site(tmp_path) as here,
        here.controllers(*QUICK),
        here.record_clusters() as recording,
    ):
        await here.offer_one_range()
        tenant = here.tenants["a"]
        await tenant.serve("one", "two")
        shown_addresses = await tenant.wait_until_served("one", "two")
        await here.create_rival(WHOLE)
        with tenant.frozen():
            await delete(here.client, TENANT_CLUSTER, Key(TEAM, "a"))
            await here.waits_because(BALANCER.name, "still shows an address")
            await tenant.stop_serving("one")
            await here.waits_because(BALANCER.name, "default/two still shows")
            assert await tenant.addresses() == {"two": shown_addresses["two"]}
            rival = await here.allocation(RIVAL.name)
            assert rival is not None
            assert rival.status.phase == "Failed", "nothing of the range is free yet"
            await tenant.stop_serving("two")
        await here.wait_until_allocated(RIVAL.name)
        await here.wait_until_gone(TENANT_CLUSTER, TEAM, "a")
        assert await recording.findings() == []
        record_property("a Service deleted during teardown", recording.summary())


async def test_the_audit_finds_an_address_that_is_given_back_without_asking(
    tmp_path: Path,
) -> None:
    """MetalLB stands still, and an administrator has the addresses released all the same."""
    async with (
        site(tmp_path) as here,
        here.controllers(*QUICK),
        here.record_clusters() as recording,
    ):
        await here.offer_one_range()
        tenant = here.tenants["a"]
        await tenant.serve("one")
        await tenant.wait_until_served("one")
        await here.create_rival()
        with tenant.frozen():
            marks = {"annotations": {names.ANNOTATION_RELEASE_ANYWAY: "true"}}
            await here.patch(TENANT_CLUSTER, Key(TEAM, "a"), {"metadata": marks})
            await delete(here.client, IP_ALLOCATION, BALANCER)
            await here.wait_until_allocated(RIVAL.name)
            findings = await recording.findings()
    early = [
        sentence
        for sentence in findings
        if "is shown by Service default/one of team/a while" in sentence
    ]
    assert any("rival of team/rival" in sentence for sentence in early), findings
