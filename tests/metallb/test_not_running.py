"""A MetalLB that does not run, or that others forbid to assign, makes no tenant grow."""

from pathlib import Path
from typing import Any

import pytest

from controller.conditions import find_condition
from controller.meta import Key
from reconcilers.api.resources import TENANT_CLUSTER
from tests.metallb.site import Site, run_site
from tests.polling import until
from tests.tenants import TEAM

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]

QUICK = ("--growth-after=1s", "--tenant-requeue-young=1s", "--tenant-requeue-not-ready=1s")
Reasons = tuple[str | None, str, str]
NOT_HELPED_BY_GROWTH: dict[str, tuple[dict[str, Any], str]] = {
    "address": ({"spec": {"loadBalancerIP": "10.99.0.1"}}, "FixedAddress"),
    "annotation": (
        {"annotations": {"metallb.io/loadBalancerIPs": "10.99.0.1"}},
        "FixedAddress",
    ),
    "pool": ({"annotations": {"metallb.io/address-pool": "theirs"}}, "OtherPool"),
    "class": ({"spec": {"loadBalancerClass": "example.com/other"}}, "OtherClass"),
}
"""Fields of a Service that needs more than any free address, and the reason that is reported."""


async def _read_reasons(site: Site) -> Reasons:
    """Return the phase, and the reasons of LoadBalancerReady and LoadBalancerDemandMet."""
    status = (await site.client.get(TENANT_CLUSTER, Key(TEAM, "a"))).status
    reasons = [
        condition.reason
        if (condition := find_condition(status.conditions, kind)) is not None
        else ""
        for kind in ("LoadBalancerReady", "LoadBalancerDemandMet")
    ]
    return status.phase, reasons[0], reasons[1]


async def _wait_for_reasons(site: Site, expected: Reasons) -> None:
    """Wait until the TenantCluster has this phase and these reasons."""
    await until(lambda: _read_reasons(site), lambda status: status == expected)


async def _create_cluster(site: Site) -> None:
    """Create a pool and an elastic cluster `a` with two addresses."""
    sizes = {"initialPoolSize": 2, "growthIncrement": 2}
    await site.offer("10.40.0.0/24", allocationMode="elastic", **sizes)
    await site.create_cluster("a")


@pytest.mark.usefixtures("counting_metallb")
async def test_a_slow_first_start_makes_no_tenant_grow_and_ready_waits_for_it(
    tmp_path: Path,
) -> None:
    async with run_site(tmp_path) as site, site.controllers(*QUICK):
        tenant = site.tenants["a"]
        with tenant.freeze_metallb():
            await _create_cluster(site)
            await tenant.create_services("web")
            waits = ("Installing", "MetalLBNotRunning", "NotProjected")
            await _wait_for_reasons(site, waits)
            assert len(await site.list_ranges("a")) == 1
        await tenant.wait_until_served("web")
        await site.ready("a")
        assert len(await site.list_ranges("a")) == 1


async def test_a_stopped_metallb_makes_no_tenant_grow_again_and_again(
    tmp_path: Path,
) -> None:
    services = [f"web-{number}" for number in range(7)]
    async with (
        run_site(tmp_path) as site,
        site.controllers(*QUICK),
        site.record_clusters() as recording,
    ):
        await _create_cluster(site)
        await site.ready("a")
        tenant = site.tenants["a"]
        with tenant.freeze_metallb():
            await tenant.create_services(*services)
            await until(
                lambda: _read_reasons(site), lambda reasons: reasons[2] == "AddressesUnused"
            )
            assert len(await site.list_ranges("a")) == 1, "two addresses lie unused"
        await tenant.wait_until_served(*services)
        assert sum(held_range.size for held_range in await site.list_ranges("a")) == 8
        assert await recording.findings() == []


async def test_services_that_growth_would_not_help_are_reported_with_the_reason(
    tmp_path: Path,
) -> None:
    async with run_site(tmp_path) as site, site.controllers(*QUICK):
        await _create_cluster(site)
        await site.ready("a")
        tenant = site.tenants["a"]
        await tenant.create_services("one", "two")
        await tenant.wait_until_served("one", "two")
        message = await _read_reasons(site)
        for name, (asks, reason) in NOT_HELPED_BY_GROWTH.items():
            await tenant.create_services(name, **asks)
            await _wait_for_reasons(site, ("Ready", "Ready", reason))
            await tenant.stop_serving(name)
            await _wait_for_reasons(site, message)
            assert len(await site.list_ranges("a")) == 1
