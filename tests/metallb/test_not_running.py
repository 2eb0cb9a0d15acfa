"""A MetalLB that does not run, or that others forbid to assign, makes no tenant grow."""

from pathlib import Path
from typing import Any

import pytest

from controller.conditions import find
from controller.meta import Key
from reconcilers.api.resources import TENANT_CLUSTER
from tests.metallb.site import Site, site
from tests.polling import until
from tests.tenants import TEAM

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]

QUICK = ("--growth-after=1s", "--tenant-requeue-young=1s", "--tenant-requeue-not-ready=1s")
Told = tuple[str | None, str, str]
UNHELPED: dict[str, tuple[dict[str, Any], str]] = {
    "address": ({"spec": {"loadBalancerIP": "10.99.0.1"}}, "FixedAddress"),
    "annotation": (
        {"annotations": {"metallb.io/loadBalancerIPs": "10.99.0.1"}},
        "FixedAddress",
    ),
    "pool": ({"annotations": {"metallb.io/address-pool": "theirs"}}, "OtherPool"),
    "class": ({"spec": {"loadBalancerClass": "example.com/other"}}, "OtherClass"),
}
"""What a Service asks for that no other address of ours has, and the reason that says so."""


async def _read_reasons(here: Site) -> Told:
    """Return the phase, and the reasons why the load balancer is not ready, and why none grows."""
    status = (await here.client.get(TENANT_CLUSTER, Key(TEAM, "a"))).status
    reasons = [
        condition.reason if (condition := find(status.conditions, kind)) is not None else ""
        for kind in ("LoadBalancerReady", "LoadBalancerDemandMet")
    ]
    return status.phase, reasons[0], reasons[1]


async def _shows(here: Site, expected: Told) -> None:
    """Wait until the cluster shows that."""
    await until(lambda: _read_reasons(here), lambda told: told == expected)


async def _offer(here: Site) -> None:
    sizes = {"initialPoolSize": 2, "growthIncrement": 2}
    await here.offer("10.40.0.0/24", allocationMode="elastic", **sizes)
    await here.create_cluster("a")


@pytest.mark.usefixtures("counting_metallb")
async def test_a_slow_first_start_makes_no_tenant_grow_and_ready_waits_for_it(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as here, here.controllers(*QUICK):
        tenant = here.tenants["a"]
        with tenant.frozen():
            await _offer(here)
            await tenant.serve("web")
            waits = ("Installing", "MetalLBNotRunning", "NotProjected")
            await _shows(here, waits)
            assert len(await here.ranges_of("a")) == 1
        await tenant.wait_until_served("web")
        await here.ready("a")
        assert len(await here.ranges_of("a")) == 1


async def test_a_stopped_metallb_makes_no_tenant_grow_again_and_again(
    tmp_path: Path,
) -> None:
    services = [f"web-{number}" for number in range(7)]
    async with (
        site(tmp_path) as here,
        here.controllers(*QUICK),
        here.record_clusters() as recording,
    ):
        await _offer(here)
        await here.ready("a")
        tenant = here.tenants["a"]
        with tenant.frozen():
            await tenant.serve(*services)
            await until(lambda: _read_reasons(here), lambda told: told[2] == "AddressesUnused")
            assert len(await here.ranges_of("a")) == 1, "two addresses lie unused"
        await tenant.wait_until_served(*services)
        assert sum(held_range.size for held_range in await here.ranges_of("a")) == 8
        assert await recording.findings() == []


async def test_what_growing_would_not_help_is_named(tmp_path: Path) -> None:
    async with site(tmp_path) as here, here.controllers(*QUICK):
        await _offer(here)
        await here.ready("a")
        tenant = here.tenants["a"]
        await tenant.serve("one", "two")
        await tenant.wait_until_served("one", "two")
        message = await _read_reasons(here)
        for name, (asks, reason) in UNHELPED.items():
            await tenant.serve(name, **asks)
            await _shows(here, ("Ready", "Ready", reason))
            await tenant.stop_serving(name)
            await _shows(here, message)
            assert len(await here.ranges_of("a")) == 1
