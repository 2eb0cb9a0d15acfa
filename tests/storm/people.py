"""What people do during a storm: in tenants, and in the management cluster."""

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio

from controller.errors import ControllerError
from controller.meta import Version
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.api.services import SERVICE
from reconcilers.cli.local.objects import delete
from tests.storm.balancers import Balancer
from tests.tenants import HOME, POOL, TEAM, Site, TenantServer

TENANTS = ("a", "b", "c")
MOST_SERVICES, MOST_RIVALS = 4, 6
"""Of one tenant, and in the management cluster: with the nodes they fit into the pools."""


@dataclass
class People:
    """Those who use a tenant, or the management cluster, and do not wait for anything.

    Args:
        choices: what they do and when.
        deeds: what they may do; each is one request or a few.
    """

    choices: random.Random
    deeds: Sequence[Callable[[], Awaitable[None]]]
    done: int = 0
    refused: list[str] = field(default_factory=list)
    until: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """Cancelled when they stop."""

    async def act(self) -> None:
        """Do one thing after the other; what a server refuses is noted."""
        with self.until:
            while True:
                try:
                    await self.choices.choice(self.deeds)()
                    self.done += 1
                except ControllerError as error:
                    self.refused.append(str(error))
                await anyio.sleep(self.choices.uniform(0.05, 0.4))


class Users:
    """What people do in one tenant.

    Args:
        here: the clusters.
        balancer: in it.
        choices: what they do.
    """

    def __init__(
        self,
        here: Site[TenantServer],
        tenant: TenantServer,
        balancer: Balancer,
        choices: random.Random,
    ) -> None:
        self._here = here
        self._tenant = tenant
        self._balancer = balancer
        self._choices = choices
        self._made = 0
        self._number = TENANTS.index(tenant.key.name)

    def people(self) -> People:
        """Return the people who do it: mostly they create and delete Services."""
        often = [self.serve, self.stop_serving] * 4
        seldom = [self.edit, self.remove_offer, self.delete_growth, self.give_up, self.mend]
        return People(self._choices, [*often, *seldom])

    async def serve(self) -> None:
        """Create a Service."""
        if len(await self._services()) < MOST_SERVICES:
            self._made += 1
            await self._tenant.create_service(f"web-{self._made}")

    async def stop_serving(self) -> None:
        """Delete a Service."""
        if services := await self._services():
            await self._tenant.stop_serving(self._choices.choice(services))

    async def edit(self) -> None:
        """Change what the controllers offer."""
        await self._balancer.edit(self._tenant.client, self._choices, self._number)

    async def remove_offer(self) -> None:
        """Delete what the controllers offer."""
        await self._balancer.remove(self._tenant.client, self._choices)

    async def give_up(self) -> None:
        """Give an address up beside offers that the load balancer cannot use; ask anew.

        MetalLB still hands that address out: its next Services may get it, so it must not be free.
        """
        addresses = await self._tenant.addresses()
        if not addresses:
            return
        await self._balancer.spoil(self._tenant.client, self._number)
        name = self._choices.choice(sorted(addresses))
        await self._tenant.stop_serving(name)
        for allocation in await self._allocations():
            if any(
                span.contains(addresses[name])
                for span in statusranges.list_held_ranges(allocation)
            ):
                await delete(self._here.client, IP_ALLOCATION, allocation.metadata.key)
        for _ in range(2):
            await self.serve()

    async def mend(self) -> None:
        """Delete the offers that the load balancer cannot use."""
        await self._balancer.mend(self._tenant.client)

    async def delete_growth(self) -> None:
        """Delete an allocation of the tenant in the management cluster."""
        if allocations := await self._allocations():
            chosen = Version.from_object(self._choices.choice(allocations))
            await self._here.client.delete(IP_ALLOCATION, chosen)

    async def _allocations(self) -> list[IPAllocation]:
        """Return the allocations for the tenant's Services."""
        return [
            allocation
            for allocation in (await self._here.client.list(IP_ALLOCATION)).items
            if allocation.spec.tenantClusterRef.key == self._tenant.key
            and allocation.spec.type == names.TYPE_LOADBALANCER
        ]

    async def _services(self) -> list[str]:
        page = await self._tenant.client.list(SERVICE, namespace="default")
        return [
            allocation.metadata.name
            for allocation in page.items
            if allocation.metadata.name.startswith("web-")
        ]


class Rivals:
    """Who asks in the management cluster for whatever becomes free, and gives it back."""

    def __init__(self, here: Site[TenantServer], choices: random.Random) -> None:
        self._client = here.client
        self._choices = choices
        self._made = 0

    def people(self) -> People:
        """Return the people who do it."""
        return People(self._choices, [self.ask, self.give_back])

    async def ask(self) -> None:
        """Create an allocation."""
        if len(await self.find_rivals()) < MOST_RIVALS:
            self._made += 1
            spec = {
                "poolRef": {"name": POOL.name},
                "tenantClusterRef": {"name": "rival", "namespace": TEAM},
                "type": names.TYPE_NODES,
                "count": 1,
            }
            body = {"metadata": {"name": f"rival-{self._made}"}, "spec": spec}
            await self._client.create(IP_ALLOCATION, HOME, body)

    async def give_back(self) -> None:
        """Delete one."""
        if services := await self.find_rivals():
            await self._client.delete(IP_ALLOCATION, self._choices.choice(services))

    async def leave(self) -> None:
        """Delete all, even if controllers write them meanwhile."""
        for service in await self.find_rivals():
            await delete(self._client, IP_ALLOCATION, service.key)

    async def find_rivals(self) -> list[Version]:
        """Return the rivals that exist."""
        page = await self._client.list(IP_ALLOCATION)
        rivals = [
            allocation
            for allocation in page.items
            if allocation.spec.tenantClusterRef.name == "rival"
        ]
        return [Version.from_object(rival) for rival in rivals]
