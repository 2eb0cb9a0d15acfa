"""The other half of the promise, checked live: a range is free only after its tenant let go.

Watches of two API servers say nothing about which change came first. So whenever an allocation
turns Released, the tenant is read afresh: what it holds then, it held when the range was released.
"""

from collections import deque
from collections.abc import Sequence
from ipaddress import ip_address

import anyio

from controller.cache import Change
from reconcilers.api import names
from reconcilers.api.ipallocation import RELEASED, IPAllocation
from reconcilers.api.resources import IP_ADDRESS_POOL, SERVICE
from reconcilers.cli.demo.audit import Broken, Span, held, overlap
from reconcilers.cli.demo.step import Sight
from reconcilers.cli.demo.world import NotYet, TenantView, World


class Farewell:
    """Looks into tenants when ranges are released.

    Args:
        world: whose tenants are looked into.
    """

    def __init__(self, world: World) -> None:
        self.checked = 0
        """How many ranges were looked for."""
        self.found: list[str] = []
        """What tenants still held, in words."""
        self._world = world
        self._released: deque[IPAllocation] = deque()
        self._arrived = anyio.Event()

    def see(self, change: Change[IPAllocation]) -> None:
        """Take note of a change."""
        old, new = change.old, change.new
        if new is None or new.status.phase != RELEASED or new.spec.type == names.TYPE_NODES:
            return
        if old is not None and old.status.phase == RELEASED:
            return
        if self._world.has_tenant(new.spec.tenantClusterRef.key):
            self._released.append(new)
            self._arrived.set()

    async def run(self) -> None:
        """Look into tenants until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived = anyio.Event()
            while self._released:
                await self._look(self._released.popleft())
                self._world.wake()

    async def _look(self, allocation: IPAllocation) -> None:
        span = held(allocation)
        tenant = self._world.tenant(allocation.spec.tenantClusterRef.key)
        name = allocation.metadata.name
        for holder, theirs in await _holdings(tenant):
            if span is not None and overlap(span, theirs):
                self.found.append(f"{name} was released, and {holder} in the tenant still has it")
        self.checked += 1


async def _holdings(tenant: TenantView) -> list[tuple[str, Span]]:
    """Return which addresses the tenant has now, and where; its pools' entries are `start-end`."""
    client = tenant.server.client
    found = [
        (f"IPAddressPool {pool.metadata.name}", _span(*entry.split("-")))
        for pool in (await client.list(IP_ADDRESS_POOL)).items
        for entry in pool.spec.addresses
    ]
    found += [
        (f"Service {service.metadata.name}", _span(ingress.ip, ingress.ip))
        for service in (await client.list(SERVICE)).items
        for ingress in service.status.loadBalancer.ingress
    ]
    return found


def _span(start: str, end: str) -> Span:
    return int(ip_address(start)), int(ip_address(end))


def let_go_first(farewell: Farewell, ranges: int) -> Sight:
    """See that tenants had let go of `ranges` ranges by the time these were released."""

    def look(_: World) -> Sequence[str]:
        if farewell.found:
            raise Broken("; ".join(farewell.found))
        if farewell.checked < ranges:
            raise NotYet(f"{farewell.checked} of {ranges} ranges were looked for in their tenants")
        return [f"{ranges} ranges were looked for in their tenants when released: all were gone"]

    return look
