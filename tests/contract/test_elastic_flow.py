"""An elastic tenant on an API server grows for a Service and shrinks after its deletion.

The API server is its own tenant, as in the static flow, with the stand-in for MetalLB. A second
test checks that an apply with the uid of a deleted object creates nothing: projections rely on it.
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
from tests.contract.test_static_flow import (
    HOME,
    PROJECTED,
    SETTINGS,
    ManagementCluster,
    make_cluster_body,
    management,
)

__all__ = ["management"]

QUICK = replace(SETTINGS, tenant=replace(SETTINGS.tenant, growth_after=0.5, shrink_after=1.5))


@asynccontextmanager
async def _run_metallb_stand_in(management: ManagementCluster) -> AsyncIterator[None]:
    """Run the stand-in for MetalLB, which assigns addresses to Services."""
    clock = SystemClock()
    manager = Manager(management.transport, clock=clock, options=ManagerOptions())
    MetalLBStandIn(manager, clock)
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        yield
        group.cancel_scope.cancel()


def _watch_services(management: ManagementCluster) -> Informer[Service]:
    """Add a watch of Services to those of the cluster; return it."""
    informer = Informer(SERVICE, management.transport, SystemClock())
    informer.add_handler(lambda _: management.wake())
    management.watched.append(informer)
    return informer


async def test_a_tenant_grows_for_a_service_and_shrinks_after_it(
    management: ManagementCluster,
) -> None:
    services = _watch_services(management)
    await management.create(NETWORK_POOL, HOME, "lab", spec={"cidr": "10.40.0.0/24"})
    sizing = {"allocationMode": "elastic", "initialPoolSize": 1, "growthIncrement": 1}
    network = {"mode": "ipam", "poolRefs": [{"name": "lab"}], "loadBalancer": sizing}
    spec = {"provider": "local", "network": network}
    await management.create(PROVIDER_CONFIG, HOME, "default", spec=spec)

    def get_address(name: str) -> str:
        """Return the address of a Service; empty for none."""
        service = services.cache.get(Key("team", name))
        ingress = service.status.loadBalancer.ingress if service is not None else ()
        return ingress[0].ip if ingress else ""

    async with management.run_controllers(settings=QUICK), _run_metallb_stand_in(management):
        await management.create(TENANT_CLUSTER, "team", "a", **make_cluster_body())
        await management.until(
            lambda: management.get_phase("tenantclusters", "a", "team") == "Ready"
        )
        ports = {"type": "LoadBalancer", "ports": [{"port": 80}]}
        for name in ("one", "two"):
            await management.create(SERVICE, "team", name, spec=ports)
            await management.until(lambda name=name: bool(get_address(name)))  # type: ignore[misc]
        assert management.get_phase("ipallocations", "team-a-lb-1") == "Allocated"
        assert {get_address("one"), get_address("two")} == {"10.40.0.0", "10.40.0.6"}

        grown_name = next(n for n in ("one", "two") if get_address(n) == "10.40.0.6")
        await _delete_service(management, Key("team", grown_name))
        await management.until(
            lambda: management.get_phase("ipallocations", "team-a-lb-1") is None
        )
        pool = await management.client.get(IP_ADDRESS_POOL, PROJECTED)
        assert pool.spec.addresses == ("10.40.0.0-10.40.0.0",)


async def _delete_service(management: ManagementCluster, key: Key) -> None:
    """Delete a Service; retry after a conflict, because the stand-in may be writing to it."""
    while True:
        service = await management.client.get(SERVICE, key)
        try:
            await management.client.delete(SERVICE, Version.from_object(service))
        except Conflict:
            continue
        return


async def test_an_apply_with_the_uid_of_an_object_that_does_not_exist_creates_nothing(
    management: ManagementCluster,
) -> None:
    """This keeps a late projection from recreating a deleted IPAddressPool."""
    body: dict[str, Any] = {"spec": {"addresses": ["10.40.0.0/30"]}}
    with pytest.raises(Conflict):
        await management.client.apply(
            IP_ADDRESS_POOL,
            PROJECTED,
            body,
            manager=names.TENANT_FIELD_MANAGER,
            force=True,
            uid="0e7b3cd4-5d5a-4e6f-9f9b-6a4d8f0c9a11",
        )
    with pytest.raises(NotFound):
        await management.client.get(IP_ADDRESS_POOL, PROJECTED)
