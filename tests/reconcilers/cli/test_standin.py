"""The stand-in for MetalLB on an API server: the statuses of Services as pools change."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from controller.clock import SystemClock
from controller.errors import Invalid
from controller.informer import Informer
from controller.jobs import run_in_background
from controller.manager import Manager
from controller.meta import Key
from controller.transport import Transport
from reconcilers.api.services import SERVICE, Service
from reconcilers.cli.local.balancer import wait_until_established
from reconcilers.cli.local.objects import apply, delete, make_namespaces
from reconcilers.cli.local.servers import run_api_server
from reconcilers.cli.standin.controller import ALLOCATED_FROM, MetalLBStandIn
from reconcilers.cli.standin.pools import ADDRESS_POOL, NAMESPACE, read_metallb_crds
from reconcilers.cli.standin.serviceaddresses import read_status_addresses
from tests.polling import SECONDS


class TenantWithStandIn:
    """A tenant in which the stand-in runs, with caches of Services and pools to wait on."""

    def __init__(self, transport: Transport) -> None:
        clock = SystemClock()
        self.transport = transport
        self.manager = Manager(transport, clock=clock)
        self.standin = MetalLBStandIn(self.manager, clock)
        self._has_changed = anyio.Event()
        self._services = self._watch_cache(self.manager.get_informer(SERVICE))
        self._pools = self._watch_cache(self.manager.get_informer(ADDRESS_POOL))

    def _watch_cache(self, informer: Informer[Any]) -> Any:
        """Announce each change of an informer's cache; return the cache."""
        informer.add_handler(lambda _: self._announce_change())
        return informer.cache

    def _announce_change(self) -> None:
        self._has_changed.set()
        self._has_changed = anyio.Event()

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds, which is evaluated after each event."""
        with anyio.fail_after(SECONDS):
            while not holds():
                await self._has_changed.wait()

    def find_service(self, name: str = "web") -> Service | None:
        """Return a Service from the cache; None if it is not there yet."""
        current_service: Service | None = self._services.get(Key("default", name))
        return current_service

    def find_pool_of_service(self, name: str = "web") -> str | None:
        """Return the name of the pool from which a Service has its address; None without one."""
        service = self.find_service(name)
        return service.metadata.annotations.get(ALLOCATED_FROM) if service is not None else None

    def make_check_of_addresses(self, name: str, *expected: str) -> Callable[[], bool]:
        """Return a condition for `wait_until`: the Service shows exactly these addresses."""

        def holds() -> bool:
            service = self.find_service(name)
            return service is not None and read_status_addresses(service) == expected

        return holds


@asynccontextmanager
async def run_tenant() -> AsyncIterator[TenantWithStandIn]:
    """Run a tenant's API server and the stand-in for MetalLB."""
    async with run_api_server("tenant", read_metallb_crds()) as server:
        await make_namespaces(server.transport, [NAMESPACE])
        tenant = TenantWithStandIn(server.transport)
        async with run_in_background([tenant.manager.run]):
            yield tenant


def make_pool(*entries: str, name: str = "default-pool") -> dict[str, Any]:
    """Return an IPAddressPool; an entry is a CIDR or a range."""
    return {
        "apiVersion": "metallb.io/v1beta1",
        "kind": "IPAddressPool",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"addresses": list(entries)},
    }


def make_service(name: str = "web") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "TCP"}]},
    }


async def test_a_service_gets_an_address_and_shows_its_pool() -> None:
    async with run_tenant() as tenant:
        await apply(tenant.transport, make_service())
        await apply(tenant.transport, make_pool("10.0.0.4-10.0.0.6"))
        await tenant.wait_until(tenant.make_check_of_addresses("web", "10.0.0.4"))
        await tenant.wait_until(lambda: tenant.find_pool_of_service() == "default-pool")


async def test_a_service_gets_another_address_or_none_when_its_address_leaves_the_pool() -> None:
    async with run_tenant() as tenant:
        await apply(tenant.transport, make_pool("10.0.0.4-10.0.0.4", "10.0.0.8-10.0.0.8"))
        await apply(tenant.transport, make_service())
        await tenant.wait_until(tenant.make_check_of_addresses("web", "10.0.0.4"))
        await apply(tenant.transport, make_pool("10.0.0.8-10.0.0.8"))
        await tenant.wait_until(tenant.make_check_of_addresses("web", "10.0.0.8"))
        await delete(tenant.manager.client, ADDRESS_POOL, Key(NAMESPACE, "default-pool"))
        await tenant.wait_until(tenant.make_check_of_addresses("web"))


async def test_pools_that_overlap_are_not_used_until_the_overlap_is_removed() -> None:
    async with run_tenant() as tenant:
        await apply(tenant.transport, make_pool("10.0.0.4-10.0.0.4"))
        await apply(tenant.transport, make_service("first"))
        await tenant.wait_until(tenant.make_check_of_addresses("first", "10.0.0.4"))
        await apply(tenant.transport, make_pool("10.0.0.0/24", name="other"))
        await apply(tenant.transport, make_service("second"))
        await tenant.wait_until(lambda: tenant.find_service("second") is not None)
        await tenant.wait_until(lambda: "overlaps" in tenant.standin.stale)
        assert tenant.make_check_of_addresses("second")()
        await delete(tenant.manager.client, ADDRESS_POOL, Key(NAMESPACE, "default-pool"))
        await tenant.wait_until(tenant.make_check_of_addresses("second", "10.0.0.0"))
        assert tenant.standin.stale == ""


async def test_the_api_server_rejects_a_pool_without_addresses() -> None:
    async with run_api_server("tenant", read_metallb_crds()) as server:
        await make_namespaces(server.transport, [NAMESPACE])
        with pytest.raises(Invalid, match=r"spec\.addresses"):
            await apply(server.transport, make_pool())


async def test_the_address_of_a_service_that_becomes_cluster_ip_goes_to_the_next_service() -> None:
    async with run_tenant() as tenant:
        await apply(tenant.transport, make_pool("10.0.0.4-10.0.0.4"))
        await apply(tenant.transport, make_service())
        await tenant.wait_until(tenant.make_check_of_addresses("web", "10.0.0.4"))
        internal = make_service()
        internal["spec"] = {**internal["spec"], "type": "ClusterIP"}
        await apply(tenant.transport, internal)
        await apply(tenant.transport, make_service("next"))
        await tenant.wait_until(tenant.make_check_of_addresses("next", "10.0.0.4"))
        await tenant.wait_until(lambda: tenant.find_pool_of_service() is None)


async def test_wait_until_established_waits_for_all_crds() -> None:
    clock = SystemClock()
    async with run_api_server("tenant", []) as server:
        is_established = anyio.Event()

        async def wait() -> None:
            await wait_until_established(server.transport, clock, read_metallb_crds())
            is_established.set()

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            first, second = read_metallb_crds()
            await apply(server.transport, first)
            assert not is_established.is_set()
            await apply(server.transport, second)
            with anyio.fail_after(SECONDS):
                await is_established.wait()
