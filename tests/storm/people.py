"""What people do during a storm: in tenants, and in the management cluster.

Rivals are allocations without a cluster that people create in the management cluster. They take
addresses as soon as these become free, so a range that is released too early is held twice.
"""

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
from tests.storm.balancers import TenantBalancer
from tests.tenants import HOME, POOL, TEAM, Site, TenantServer

TENANTS = ("a", "b", "c")
MOST_SERVICES, MOST_RIVALS = 4, 6
"""The most Services of one tenant, and the most rivals: with the nodes they fit into the pools."""


@dataclass
class RandomActor:
    """Performs random actions in a tenant or the management cluster, without waiting for effects.

    Args:
        choices: chooses the actions, and the pauses between them.
        actions: the actions; each sends one request or a few.
        action_count: how many actions have succeeded.
        refusals: the errors of actions that a server refused.
    """

    choices: random.Random
    actions: Sequence[Callable[[], Awaitable[None]]]
    action_count: int = 0
    refusals: list[str] = field(default_factory=list)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """The scope of `act_until_stopped`; cancel it to stop."""

    async def act_until_stopped(self) -> None:
        """Perform one random action after the other until `scope` is cancelled."""
        with self.scope:
            while True:
                try:
                    await self.choices.choice(self.actions)()
                    self.action_count += 1
                except ControllerError as error:
                    self.refusals.append(str(error))
                await anyio.sleep(self.choices.uniform(0.05, 0.4))


class TenantUsers:
    """What people do in one tenant.

    Args:
        site: the management cluster and all tenants.
        balancer: the load balancer in the tenant.
        choices: chooses the objects that the actions change.
    """

    def __init__(
        self,
        site: Site[TenantServer],
        tenant: TenantServer,
        balancer: TenantBalancer,
        choices: random.Random,
    ) -> None:
        self._site = site
        self._tenant = tenant
        self._balancer = balancer
        self._choices = choices
        self._created_count = 0
        self._number = TENANTS.index(tenant.key.name)

    def make_actor(self) -> RandomActor:
        """Return an actor for these actions; most of its actions create or delete Services."""
        frequent_actions = [self.create_service, self.delete_service] * 4
        rare_actions = [
            self.edit_offer,
            self.delete_offer,
            self.delete_allocation,
            self.release_address_beside_unusable_offers,
            self.delete_unusable_offers,
        ]
        return RandomActor(self._choices, [*frequent_actions, *rare_actions])

    async def create_service(self) -> None:
        """Create a Service, unless there are MOST_SERVICES."""
        if len(await self._list_services()) < MOST_SERVICES:
            self._created_count += 1
            await self._tenant.create_service(f"web-{self._created_count}")

    async def delete_service(self) -> None:
        """Delete a Service."""
        if services := await self._list_services():
            await self._tenant.stop_serving(self._choices.choice(services))

    async def edit_offer(self) -> None:
        """Edit an offer of the controllers."""
        await self._balancer.edit(self._tenant.client, self._choices, self._number)

    async def delete_offer(self) -> None:
        """Delete an offer of the controllers."""
        await self._balancer.delete_our_offer(self._tenant.client, self._choices)

    async def release_address_beside_unusable_offers(self) -> None:
        """Release the range of a Service while there are offers that the balancer cannot use.

        MetalLB keeps its earlier configuration then, and may give the released address to one of
        the two Services that are created at the end. So the address must not be free.
        """
        addresses = await self._tenant.read_addresses()
        if not addresses:
            return
        await self._balancer.create_unusable_offers(self._tenant.client, self._number)
        name = self._choices.choice(sorted(addresses))
        await self._tenant.stop_serving(name)
        for allocation in await self._list_allocations():
            if any(
                span.contains(addresses[name])
                for span in statusranges.list_held_ranges(allocation)
            ):
                await delete(self._site.client, IP_ALLOCATION, allocation.metadata.key)
        for _ in range(2):
            await self.create_service()

    async def delete_unusable_offers(self) -> None:
        """Delete the offers that the load balancer cannot use."""
        await self._balancer.delete_unusable_offers(self._tenant.client)

    async def delete_allocation(self) -> None:
        """Delete an allocation of the tenant in the management cluster."""
        if allocations := await self._list_allocations():
            allocation_version = Version.from_object(self._choices.choice(allocations))
            await self._site.client.delete(IP_ALLOCATION, allocation_version)

    async def _list_allocations(self) -> list[IPAllocation]:
        """Return the allocations for the tenant's Services."""
        return [
            allocation
            for allocation in (await self._site.client.list(IP_ALLOCATION)).items
            if allocation.spec.tenantClusterRef.key == self._tenant.key
            and allocation.spec.type == names.TYPE_LOADBALANCER
        ]

    async def _list_services(self) -> list[str]:
        page = await self._tenant.client.list(SERVICE, namespace="default")
        return [
            service.metadata.name
            for service in page.items
            if service.metadata.name.startswith("web-")
        ]


class RivalRequests:
    """What people do in the management cluster: they create and delete rivals."""

    def __init__(self, site: Site[TenantServer], choices: random.Random) -> None:
        self._client = site.client
        self._choices = choices
        self._created_count = 0

    def make_actor(self) -> RandomActor:
        """Return an actor for these actions."""
        return RandomActor(self._choices, [self.create_rival, self.delete_rival])

    async def create_rival(self) -> None:
        """Create a rival, unless there are MOST_RIVALS."""
        if len(await self.list_rivals()) < MOST_RIVALS:
            self._created_count += 1
            spec = {
                "poolRef": {"name": POOL.name},
                "tenantClusterRef": {"name": "rival", "namespace": TEAM},
                "type": names.TYPE_NODES,
                "count": 1,
            }
            body = {"metadata": {"name": f"rival-{self._created_count}"}, "spec": spec}
            await self._client.create(IP_ALLOCATION, HOME, body)

    async def delete_rival(self) -> None:
        """Delete a rival."""
        if rivals := await self.list_rivals():
            await self._client.delete(IP_ALLOCATION, self._choices.choice(rivals))

    async def delete_all_rivals(self) -> None:
        """Delete all rivals, even if controllers write them meanwhile."""
        for rival in await self.list_rivals():
            await delete(self._client, IP_ALLOCATION, rival.key)

    async def list_rivals(self) -> list[Version]:
        """Return the current versions of all rivals."""
        page = await self._client.list(IP_ALLOCATION)
        rivals = [
            allocation
            for allocation in page.items
            if allocation.spec.tenantClusterRef.name == "rival"
        ]
        return [Version.from_object(rival) for rival in rivals]
