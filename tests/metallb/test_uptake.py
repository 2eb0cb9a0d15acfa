"""An address is free only once MetalLB has read a configuration without it.

MetalLB hands out addresses by the last valid configuration that it has read. If the stored pools
are invalid, or while MetalLB is frozen, it may hand out addresses that no pool has any more.
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
from tests.metallb.site import Site, Tenant, run_site
from tests.polling import until
from tests.reconcilers.cli.commands import run_to_end
from tests.tenants import BALANCER, QUICK, RIVAL, frozen

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]

THEIRS = Key(NAMESPACE, "theirs")
MARKED = Key(NAMESPACE, names.METALLB_MARKER)


async def _create_overlapping_pools(tenant: Tenant) -> None:
    """Create two pools that overlap, which makes MetalLB's configuration invalid."""
    for name in (THEIRS.name, f"{THEIRS.name}-too"):
        spec = {"addresses": ["10.99.0.0/30"], "autoAssign": False}
        body: dict[str, Any] = {"metadata": {"name": name}, "spec": spec}
        await tenant.client.create(IP_ADDRESS_POOL, NAMESPACE, body)
    await until(lambda: _read_log(tenant), lambda log: "overlaps with already defined" in log)


async def _read_log(tenant: Tenant) -> str:
    """Return the log of MetalLB."""
    return tenant.metallb.read_log()


async def _list_findings(site: Site) -> list[str]:
    """Return the kinds of what `check --tenants` finds wrong with the tenant."""
    kubeconfig = f"--kubeconfig={site.kubeconfig}"
    done = await run_to_end("check", kubeconfig, "--tenants", "-o", "json")
    findings = json.loads(done.stdout)["findings"]
    return [
        finding["kind"] for finding in findings if finding["subject"]["kind"] == "TenantCluster"
    ]


async def test_a_range_is_not_free_while_metallb_uses_an_older_configuration(
    tmp_path: Path,
) -> None:
    async with (
        run_site(tmp_path) as site,
        site.controllers(*QUICK),
        site.record_clusters() as recording,
    ):
        await site.create_one_range()
        tenant = site.tenants["a"]
        allocated_range = await site.wait_until_allocated(BALANCER.name)
        await site.create_rival()
        await _create_overlapping_pools(tenant)

        await delete(site.client, IP_ALLOCATION, BALANCER)
        await until(tenant.list_entries, lambda entries: entries == ())
        await tenant.create_services("late")
        shown_addresses = await tenant.wait_until_served("late")
        assert allocated_range.contains(shown_addresses["late"]), "MetalLB still hands it out"
        assert await _list_findings(site) == ["TenantConfigurationNotRead"]
        await tenant.stop_serving("late")
        await site.wait_for_message(BALANCER.name, "has not read")
        waiting = await site.find_allocation(RIVAL.name)
        assert waiting is not None
        assert waiting.status.phase == "Failed"

        await delete(tenant.client, IP_ADDRESS_POOL, THEIRS)
        assert await site.wait_until_allocated(RIVAL.name) == allocated_range, (
            "the rival has the same range"
        )
        # The cluster itself may wait by now: the rival has the only range.
        assert set(await _list_findings(site)) <= {"TenantWaitsForAddresses"}
        assert await recording.findings() == []


@pytest.mark.usefixtures("counting_metallb")
async def test_a_recreated_marker_is_no_proof_that_metallb_has_read_the_new_configuration(
    tmp_path: Path,
) -> None:
    """MetalLB counts by its old configuration any pool whose name it knows."""
    async with run_site(tmp_path) as site, site.controllers(*QUICK) as running:
        await site.create_one_range()
        tenant = site.tenants["a"]
        await delete(site.client, IP_ALLOCATION, BALANCER)
        await until(
            partial(_find_marker, tenant),
            lambda marker: marker is not None and _is_marker_counted(marker),
        )
        await site.ready("a")
        await site.wait_until_allocated(BALANCER.name)
        await _create_overlapping_pools(tenant)
        await delete(site.client, IP_ALLOCATION, BALANCER)
        await site.wait_for_message(BALANCER.name, "has not read")
        with frozen(running.process.pid):
            marker = await _find_marker(tenant)
            assert marker is not None
            await delete(tenant.client, IP_ADDRESS_POOL, MARKED)
            meta = {"name": MARKED.name, "annotations": dict(marker.metadata.annotations)}
            spec = {
                "addresses": [_make_entry_of_size(count_reported_addresses(marker.status))],
                "autoAssign": False,
            }
            body: dict[str, Any] = {"metadata": meta, "spec": spec}
            await tenant.client.create(IP_ADDRESS_POOL, NAMESPACE, body)
            await until(
                partial(_find_marker, tenant),
                lambda marker: marker is not None and _is_marker_counted(marker),
            )

        async def is_judged() -> bool:
            new, waiting = await _find_marker(tenant), await site.find_allocation(BALANCER.name)
            return waiting is None or (new is not None and new.metadata.generation > 1)

        await until(is_judged, lambda done: done)
        await site.wait_for_message(BALANCER.name, "has not read")


async def _find_marker(tenant: Tenant) -> IPAddressPool | None:
    """Return the IPAddressPool by whose counted size we see what MetalLB has read."""
    pools = (await tenant.client.list(IP_ADDRESS_POOL, namespace=NAMESPACE)).items
    return next((pool for pool in pools if pool.metadata.name == MARKED.name), None)


def _is_marker_counted(marker: IPAddressPool) -> bool:
    """Return whether MetalLB reports as many addresses as the marker has."""
    return count_reported_addresses(marker.status) == count_marker_addresses(marker)


def _make_entry_of_size(size: int | None) -> str:
    """Return an entry of so many addresses."""
    return f"192.0.2.1-192.0.2.{size}"


@pytest.mark.usefixtures("counting_metallb")
async def test_a_range_is_not_free_while_metallb_is_stopped(tmp_path: Path) -> None:
    async with (
        run_site(tmp_path) as site,
        site.controllers(*QUICK),
        site.record_clusters() as recording,
    ):
        tenant = site.tenants["a"]
        await site.create_one_range()
        for number in range(5):
            allocated_range = await site.wait_until_allocated(BALANCER.name)
            await site.create_rival()
            with tenant.freeze_metallb():
                await tenant.create_services(f"late-{number}")
                await delete(site.client, IP_ALLOCATION, BALANCER)
                await site.wait_for_message(BALANCER.name, "has not read")
            assert await site.wait_until_allocated(RIVAL.name) == allocated_range, (
                "the rival has the same range"
            )
            await tenant.stop_serving(f"late-{number}")
            await delete(site.client, IP_ALLOCATION, RIVAL)
        assert await recording.findings() == []


async def test_a_range_is_not_free_while_a_metallb_that_was_removed_shows_it(
    tmp_path: Path,
) -> None:
    """The frozen controller of MetalLB goes on after its CRDs were deleted."""
    async with run_site(tmp_path) as site, site.controllers(*QUICK):
        tenant = site.tenants["a"]
        await site.create_one_range()
        allocated_range = await site.wait_until_allocated(BALANCER.name)
        await tenant.create_services("web")
        shown_addresses = await tenant.wait_until_served("web")
        assert allocated_range.contains(shown_addresses["web"])
        await site.create_rival()
        with tenant.freeze_metallb():
            await tenant.create_services("late")
            await _remove_kinds(tenant)
            await delete(site.client, IP_ALLOCATION, BALANCER)
            await site.wait_for_message(BALANCER.name, "still shows")
        assert await site.wait_until_allocated(RIVAL.name) == allocated_range, (
            "the rival has the same range"
        )
        assert await tenant.read_addresses() == {}


async def _remove_kinds(tenant: Tenant) -> None:
    """Delete MetalLB's definitions, and with them its objects, as its uninstallation does."""
    for definition in (await tenant.client.list(DEFINITIONS)).items:
        if definition.metadata.name.endswith(".metallb.io"):
            await delete(tenant.client, DEFINITIONS, definition.metadata.key)
