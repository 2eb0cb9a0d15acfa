"""What MetalLB reports in a tenant is what the controller and the operator's guide rely on."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from controller.meta import ObjectMeta
from controller.resource import Resource
from envtest.metallb import NAMESPACE
from reconcilers.cli.local.objects import delete
from reconcilers.loadbalancers.metallb.kinds import CONFIGURATION_STATE, IP_ADDRESS_POOL
from reconcilers.loadbalancers.metallb.uptake import read_configuration_error
from tests.metallb.site import PROJECTED, Tenant, run_site
from tests.polling import until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]

NAMED = {"metallb.io/address-pool": PROJECTED.name}
FULL = "no available IPs"
FULL_IN_0_15 = "is not allowed in config"
"""How a full pool is reported to a Service that names it by 0.15; other releases name the pool."""


@dataclass(frozen=True)
class Subject:
    """The object of an Event."""

    name: str = ""


@dataclass(frozen=True)
class Event:
    """An Event that MetalLB recorded."""

    metadata: ObjectMeta
    reason: str = ""
    message: str = ""
    involvedObject: Subject = field(default_factory=Subject)


EVENTS = Resource("", "v1", "Event", "events", Event)


async def _list_refusals(tenant: Tenant) -> dict[str, str]:
    """Return how MetalLB refuses Services an address, by their names."""
    page = await tenant.client.list(EVENTS, namespace="default")
    return {
        event.involvedObject.name: event.message
        for event in page.items
        if event.reason == "AllocationFailed"
    }


async def test_a_full_pool_is_named_in_the_events_of_services(tmp_path: Path) -> None:
    async with run_site(tmp_path) as site, site.controllers():
        await site.offer("10.40.0.0/24", defaultPoolSize=1)
        await site.create_cluster("a")
        await site.ready("a")
        tenant = site.tenants["a"]
        await tenant.create_services("first")
        await tenant.wait_until_served("first")
        await tenant.create_services("any")
        await tenant.create_services("named", annotations=NAMED)
        refusals = await until(
            lambda: _list_refusals(tenant), lambda refusals: set(refusals) == {"any", "named"}
        )
        assert refusals["any"].endswith(f": {FULL}")
        is_0_15 = tenant.metallb.version.startswith("0.15.")
        expected = FULL_IN_0_15 if is_0_15 else f"{FULL} in pool {PROJECTED.name}"
        assert expected in refusals["named"]


async def test_pools_that_overlap_are_reported_by_the_controller_of_metallb_until_they_do_not(
    tmp_path: Path,
) -> None:
    async with run_site(tmp_path) as site, site.controllers():
        tenant = site.tenants["a"]
        if not await tenant.client.is_served(CONFIGURATION_STATE):
            pytest.skip("this MetalLB is older than 0.15.3: it has no ConfigurationState")
        await site.offer("10.40.0.0/24", defaultPoolSize=8)
        await site.create_cluster("a")
        await site.ready("a")
        entry = (await tenant.list_entries())[0]
        body: dict[str, Any] = {"metadata": {"name": "theirs"}, "spec": {"addresses": [entry]}}
        theirs = await tenant.client.create(IP_ADDRESS_POOL, NAMESPACE, body)

        async def read_error() -> str:
            return await read_configuration_error(tenant.client, NAMESPACE)

        await until(read_error, lambda error: "overlaps with already defined CIDR" in error)
        await delete(tenant.client, IP_ADDRESS_POOL, theirs.metadata.key)
        await until(read_error, lambda error: not error)
