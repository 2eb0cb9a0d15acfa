"""An address is free only once MetalLB has read that it is not its own any more.

MetalLB hands out addresses by the last configuration that it could use. So where the stored pools
make none, or while it stands still, what is stored says nothing about what it hands out.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controller.meta import Key
from envtest.metallb import NAMESPACE
from reconcilers.api import names
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.cli.local.objects import delete
from reconcilers.integrations.core.discovery import DEFINITIONS
from reconcilers.loadbalancers.metallb.kinds import IP_ADDRESS_POOL, IPAddressPool
from reconcilers.loadbalancers.metallb.uptake import (
    count_marker_addresses,
    count_reported_addresses,
)
from tests.metallb.site import Site, Tenant, site
from tests.polling import until
from tests.reconcilers.cli.commands import call
from tests.tenants import BALANCER, QUICK, RIVAL, frozen

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]

THEIRS = Key(NAMESPACE, "theirs")
MARKED = Key(NAMESPACE, names.METALLB_MARKER)


async def _overlap(tenant: Tenant) -> None:
    """Create two pools that overlap each other, as a user may where MetalLB's webhook is off."""
    for name in (THEIRS.name, f"{THEIRS.name}-too"):
        spec = {"addresses": ["10.99.0.0/30"], "autoAssign": False}
        body: dict[str, Any] = {"metadata": {"name": name}, "spec": spec}
        await tenant.client.create(IP_ADDRESS_POOL, NAMESPACE, body)
    await until(lambda: _log(tenant), lambda log: "overlaps with already defined" in log)


async def _log(tenant: Tenant) -> str:
    return tenant.metallb.log()


async def _list_findings(here: Site) -> list[str]:
    """Return the kinds of what `check --tenants` finds wrong with the tenant."""
    kubeconfig = f"--kubeconfig={here.kubeconfig}"
    done = await call("check", kubeconfig, "--tenants", "-o", "json")
    findings = json.loads(done.stdout)["findings"]
    return [
        finding["kind"] for finding in findings if finding["subject"]["kind"] == "TenantCluster"
    ]


async def test_a_range_is_not_free_while_metallb_uses_an_older_configuration(
    tmp_path: Path,
) -> None:
    async with (
        site(tmp_path) as here,
        here.controllers(*QUICK),
        here.record_clusters() as recording,
    ):
        await here.offer_one_range()
        tenant = here.tenants["a"]
        allocated_count = await here.wait_until_allocated(BALANCER.name)
        await here.create_rival()
        await _overlap(tenant)

        await delete(here.client, IP_ALLOCATION, BALANCER)
        await until(tenant.entries, lambda entries: entries == ())
        await tenant.serve("late")
        shown_addresses = await tenant.wait_until_served("late")
        assert allocated_count.contains(shown_addresses["late"]), "MetalLB still hands it out"
        assert await _list_findings(here) == ["TenantConfigurationNotRead"]
        await tenant.stop_serving("late")
        await here.waits_because(BALANCER.name, "has not read")
        waiting = await here.allocation(RIVAL.name)
        assert waiting is not None
        assert waiting.status.phase == "Failed"

        await delete(tenant.client, IP_ADDRESS_POOL, THEIRS)
        assert await here.wait_until_allocated(RIVAL.name) == allocated_count, (
            "the rival has the very range"
        )
        # The cluster itself may wait by now: the rival has the only range.
        assert set(await _list_findings(here)) <= {"TenantWaitsForAddresses"}
        assert await recording.findings() == []


@pytest.mark.usefixtures("counting_metallb")
async def test_a_marker_that_is_made_again_says_nothing_of_a_metallb_that_reads_no_more(
    tmp_path: Path,
) -> None:
    """By its old configuration MetalLB counts whatever bears a name that it knows."""
    async with site(tmp_path) as here, here.controllers(*QUICK) as running:
        await here.offer_one_range()
        tenant = here.tenants["a"]
        await delete(here.client, IP_ALLOCATION, BALANCER)
        await until(
            partial(_marker, tenant), lambda marker: marker is not None and _is_even(marker)
        )
        await here.ready("a")
        await here.wait_until_allocated(BALANCER.name)
        await _overlap(tenant)
        await delete(here.client, IP_ALLOCATION, BALANCER)
        await here.waits_because(BALANCER.name, "has not read")
        with frozen(running.process.pid):
            marker = await _marker(tenant)
            assert marker is not None
            await delete(tenant.client, IP_ADDRESS_POOL, MARKED)
            meta = {"name": MARKED.name, "annotations": dict(marker.metadata.annotations)}
            spec = {
                "addresses": [_entry_of(count_reported_addresses(marker.status))],
                "autoAssign": False,
            }
            body: dict[str, Any] = {"metadata": meta, "spec": spec}
            await tenant.client.create(IP_ADDRESS_POOL, NAMESPACE, body)
            await until(
                partial(_marker, tenant), lambda marker: marker is not None and _is_even(marker)
            )

        async def is_judged() -> bool:
            new, waiting = await _marker(tenant), await here.allocation(BALANCER.name)
            return waiting is None or (new is not None and new.metadata.generation > 1)

        await until(is_judged, lambda done: done)
        await here.waits_because(BALANCER.name, "has not read")


async def _marker(tenant: Tenant) -> IPAddressPool | None:
    pools = (await tenant.client.list(IP_ADDRESS_POOL, namespace=NAMESPACE)).items
    return next((pool for pool in pools if pool.metadata.name == MARKED.name), None)


def _is_even(marker: IPAddressPool) -> bool:
    """Whether MetalLB has counted as many addresses as the marker has."""
    return count_reported_addresses(marker.status) == count_marker_addresses(marker)


def _entry_of(size: int | None) -> str:
    return f"192.0.2.1-192.0.2.{size}"


@pytest.mark.usefixtures("counting_metallb")
async def test_a_range_is_not_free_while_metallb_is_stopped(tmp_path: Path) -> None:
    async with (
        site(tmp_path) as here,
        here.controllers(*QUICK),
        here.record_clusters() as recording,
    ):
        tenant = here.tenants["a"]
        await here.offer_one_range()
        for number in range(5):
            allocated_count = await here.wait_until_allocated(BALANCER.name)
            await here.create_rival()
            with tenant.frozen():
                await tenant.serve(f"late-{number}")
                await delete(here.client, IP_ALLOCATION, BALANCER)
                await here.waits_because(BALANCER.name, "has not read")
            assert await here.wait_until_allocated(RIVAL.name) == allocated_count, (
                "the rival has the very range"
            )
            await tenant.stop_serving(f"late-{number}")
            await delete(here.client, IP_ALLOCATION, RIVAL)
        assert await recording.findings() == []


async def test_a_range_is_not_free_while_a_metallb_that_was_removed_shows_it(
    tmp_path: Path,
) -> None:
    """Its controller stands still while its kinds go, and serves who came meanwhile."""
    async with site(tmp_path) as here, here.controllers(*QUICK):
        tenant = here.tenants["a"]
        await here.offer_one_range()
        allocated_count = await here.wait_until_allocated(BALANCER.name)
        await tenant.serve("web")
        shown_addresses = await tenant.wait_until_served("web")
        assert allocated_count.contains(shown_addresses["web"])
        await here.create_rival()
        with tenant.frozen():
            await tenant.serve("late")
            await _remove_kinds(tenant)
            await delete(here.client, IP_ALLOCATION, BALANCER)
            await here.waits_because(BALANCER.name, "still shows")
        assert await here.wait_until_allocated(RIVAL.name) == allocated_count, (
            "the rival has the very range"
        )
        assert await tenant.addresses() == {}


async def _remove_kinds(tenant: Tenant) -> None:
    """Delete MetalLB's definitions, and with them its objects, as its uninstallation does."""
    for definition in (await tenant.client.list(DEFINITIONS)).items:
        if definition.metadata.name.endswith(".metallb.io"):
            await delete(tenant.client, DEFINITIONS, definition.metadata.key)
