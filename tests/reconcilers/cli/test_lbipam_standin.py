"""The stand-in for LB-IPAM on an API server: the order of its writes to Services and pools."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from controller.client import Client
from controller.clock import SystemClock
from controller.jobs import run_in_background
from controller.manager import Manager
from controller.meta import Key
from reconcilers.api.services import SERVICE
from reconcilers.cli.local.balancer import wait_until_established
from reconcilers.cli.local.servers import run_api_server
from reconcilers.cli.standin.lbipam import LbIpamStandIn, read_cilium_crds
from reconcilers.cli.standin.serviceaddresses import read_status_addresses
from reconcilers.loadbalancers.cilium.pools import (
    CILIUM_POOL,
    IPS_USED,
    CiliumPool,
    find_conflict,
    is_acknowledged,
    read_count,
)
from tests.edits import edit
from tests.polling import until


@asynccontextmanager
async def _run_tenant() -> AsyncIterator[Client]:
    """Run a tenant's API server and the stand-in; yield a client of the API server."""
    clock = SystemClock()
    async with run_api_server("tenant", read_cilium_crds()) as server:
        await wait_until_established(server.transport, clock, read_cilium_crds())
        manager = Manager(server.transport, clock=clock)
        LbIpamStandIn(manager, clock)
        async with run_in_background([manager.run]):
            yield server.client


async def _add_pool(client: Client, name: str, start: str, stop: str) -> None:
    body = {"metadata": {"name": name}, "spec": {"blocks": [{"start": start, "stop": stop}]}}
    await client.create(CILIUM_POOL, "", body)


async def _edit_pool(client: Client, name: str, spec: dict[str, Any]) -> None:
    await edit(client, CILIUM_POOL, key=Key("", name), change={"spec": spec})


async def _wait_until_acknowledged(client: Client, name: str) -> CiliumPool:
    """Return a pool once the stand-in has acknowledged its current generation."""

    async def read() -> CiliumPool:
        return await client.get(CILIUM_POOL, Key("", name))

    return await until(read, is_acknowledged)


async def _add_service(client: Client, name: str) -> None:
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": "web"}}
    await client.create(SERVICE, "default", {"metadata": {"name": name}, "spec": spec})


async def _read_addresses(client: Client, name: str) -> tuple[str, ...]:
    return read_status_addresses(await client.get(SERVICE, Key("default", name)))


async def test_a_new_pool_is_counted_after_a_waiting_service_got_its_address() -> None:
    async with _run_tenant() as client:
        await _add_service(client, "web")
        await _add_pool(client, "a", start="10.0.0.0", stop="10.0.0.1")
        pool = await _wait_until_acknowledged(client, "a")
        assert await _read_addresses(client, "web") == ("10.0.0.0",), (
            "Services are written before pools"
        )
        assert read_count(pool, IPS_USED) == 1


async def test_a_pool_without_blocks_is_acknowledged_after_services_lost_their_addresses() -> None:
    async with _run_tenant() as client:
        await _add_pool(client, "a", start="10.0.0.0", stop="10.0.0.7")
        await _add_service(client, "web")
        await until(lambda: _read_addresses(client, "web"), bool)
        await _edit_pool(client, "a", {"blocks": []})
        pool = await _wait_until_acknowledged(client, "a")
        assert await _read_addresses(client, "web") == ()
        assert read_count(pool, IPS_USED) == 0


async def test_an_overlap_is_reported_on_the_younger_pool_only() -> None:
    async with _run_tenant() as client:
        await _add_pool(client, "a", start="10.0.0.0", stop="10.0.0.7")
        await _wait_until_acknowledged(client, "a")
        await _add_pool(client, "b", start="10.0.0.7", stop="10.0.0.9")
        assert "overlaps CiliumLoadBalancerIPPool a" in find_conflict(
            await _wait_until_acknowledged(client, "b")
        )
        assert find_conflict(await _wait_until_acknowledged(client, "a")) == ""
