"""The elastic flow on a real HTTP server: watched, grown, shrunk; and the fence it stands on.

The control plane is its own tenant here, as in the static flow, with the stand-in for MetalLB.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import pytest

from controller.clock import SystemClock
from controller.errors import Conflict, NotFound
from controller.informer import Informer
from controller.manager import Manager
from controller.meta import Key, Version
from controller.options import ManagerOptions
from reconcilers.api import names
from reconcilers.api.resources import NETWORK_POOL, PROVIDER_CONFIG, TENANT_CLUSTER
from reconcilers.api.services import SERVICE, Service
from reconcilers.cli.standin.controller import MetalLBStandIn
from reconcilers.loadbalancers.metallb.kinds import IP_ADDRESS_POOL
from tests.contract.test_static_flow import HOME, PROJECTED, SETTINGS, Site, _cluster, site

__all__ = ["site"]

QUICK = replace(SETTINGS, tenant=replace(SETTINGS.tenant, growth_after=0.5, shrink_after=1.5))


@asynccontextmanager
async def _metallb(site: Site) -> AsyncIterator[None]:
    clock = SystemClock()
    manager = Manager(site.transport, clock=clock, options=ManagerOptions())
    MetalLBStandIn(manager, clock)
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        yield
        group.cancel_scope.cancel()


def _services(site: Site) -> Informer[Service]:
    """Watch Services too."""
    informer = Informer(SERVICE, site.transport, SystemClock())
    informer.add_handler(lambda _: site.wake())
    site.watched.append(informer)
    return informer


async def test_a_tenant_grows_for_a_service_and_shrinks_after_it(site: Site) -> None:
    services = _services(site)
    await site.create(NETWORK_POOL, HOME, "lab", spec={"cidr": "10.40.0.0/24"})
    sizing = {"allocationMode": "elastic", "initialPoolSize": 1, "growthIncrement": 1}
    network = {"mode": "ipam", "poolRefs": [{"name": "lab"}], "loadBalancer": sizing}
    spec = {"provider": "local", "network": network}
    await site.create(PROVIDER_CONFIG, HOME, "default", spec=spec)

    def address(name: str) -> str:
        cache = services.cache.get(Key("team", name))
        ingress = cache.status.loadBalancer.ingress if cache is not None else ()
        return ingress[0].ip if ingress else ""

    async with site.controllers(settings=QUICK), _metallb(site):
        await site.create(TENANT_CLUSTER, "team", "a", **_cluster())
        await site.until(lambda: site.phase("tenantclusters", "a", "team") == "Ready")
        ports = {"type": "LoadBalancer", "ports": [{"port": 80}]}
        for name in ("one", "two"):
            await site.create(SERVICE, "team", name, spec=ports)
            await site.until(lambda name=name: bool(address(name)))  # type: ignore[misc]
        assert site.phase("ipallocations", "team-a-lb-1") == "Allocated"
        assert {address("one"), address("two")} == {"10.40.0.0", "10.40.0.6"}

        served_name = next(n for n in ("one", "two") if address(n) == "10.40.0.6")
        await _delete_service(site, Key("team", served_name))
        await site.until(lambda: site.phase("ipallocations", "team-a-lb-1") is None)
        pool = await site.client.get(IP_ADDRESS_POOL, PROJECTED)
        assert pool.spec.addresses == ("10.40.0.0-10.40.0.0",)


async def _delete_service(site: Site, key: Key) -> None:
    """Delete a Service at whatever version it has: the stand-in may just be writing to it."""
    while True:
        service = await site.client.get(SERVICE, key)
        try:
            await site.client.delete(SERVICE, Version.from_object(service))
        except Conflict:
            continue
        return


async def test_applying_to_an_object_by_a_uid_that_is_gone_creates_nothing(site: Site) -> None:
    """What keeps a late projection from making a deleted pool anew."""
    body: dict[str, Any] = {"spec": {"addresses": ["10.40.0.0/30"]}}
    with pytest.raises(Conflict):
        await site.client.apply(
            IP_ADDRESS_POOL,
            PROJECTED,
            body,
            manager=names.TENANT_FIELD_MANAGER,
            force=True,
            uid="0e7b3cd4-5d5a-4e6f-9f9b-6a4d8f0c9a11",
        )
    with pytest.raises(NotFound):
        await site.client.get(IP_ADDRESS_POOL, PROJECTED)
