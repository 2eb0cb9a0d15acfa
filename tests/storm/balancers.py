"""The real load balancers that storms run in tenants, and what people do to their pools.

An offer is an object from which a load balancer takes addresses: an IPAddressPool of MetalLB, or a
CiliumLoadBalancerIPPool. People may also create offers that the load balancer cannot use.
"""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from typing_extensions import override

from controller.client import Client
from controller.errors import AlreadyExists
from controller.loggers import get_logger
from controller.meta import Key, Object, Version
from envtest.lbipam import read_lbipam_definitions
from envtest.metallb import NAMESPACE, read_metallb_definitions, run_metallb_controller
from envtest.settings import PlaneError, read_settings
from reconcilers.api.resources import NAMESPACE as NAMESPACES
from reconcilers.api.services import SERVICE
from reconcilers.cli.local.objects import delete
from reconcilers.loadbalancers.cilium.pools import CILIUM_POOL, CiliumPool, is_ours
from reconcilers.loadbalancers.metallb.kinds import IP_ADDRESS_POOL
from tests.audit.records import CILIUM_OFFERS, METALLB_OFFERS, OfferKind
from tests.cilium.operators import Operator
from tests.edits import edit
from tests.metallb.site import PROJECTED
from tests.storm.programs import Program
from tests.tenants import TenantServer

Body = Mapping[str, Any]
FOREIGN_RANGE = ("10.99.{}.0", "10.99.{}.3")
"""First and last address of the range that people add to our offers; `{}` is the tenant's number.

No allocation holds these addresses.
"""
UNUSABLE_OFFERS = ("theirs", "theirs-too")
"""The names of the offers that people create and the load balancer cannot use."""

log = get_logger(__name__)


class TenantBalancer(ABC):
    """The load balancer that runs in each tenant of a storm.

    Attributes:
        title: its name in reports.
        provider: its name in the spec of a TenantCluster; empty for the default.
        flags: flags of the controllers for this load balancer.
        offers: the kind of its offers.
    """

    title: str
    provider = ""
    flags: Sequence[str] = ()
    offers: OfferKind[Any]

    @abstractmethod
    async def read_definitions(self) -> Sequence[dict[str, Any]]:
        """Return the CRDs that have to exist before it starts."""

    @abstractmethod
    def run(self, tenant: TenantServer, folder: Path) -> AbstractAsyncContextManager[Program]:
        """Run it in a tenant for the time of a context.

        Args:
            folder: the folder for its logs.
        """

    @abstractmethod
    async def create_prerequisites(self, tenant: TenantServer) -> None:
        """Create the objects in a tenant that it needs before it starts."""

    @abstractmethod
    def is_ours(self, offer: Object) -> bool:
        """Return whether the controllers created an offer."""

    @abstractmethod
    def list_edits(self, offer: Any, first: str, last: str) -> Sequence[Body]:
        """Return patches of the spec of an offer; a person applies one of them.

        Args:
            offer: the object to be edited.
            first: the first address of a range that no allocation holds.
            last: the last address of this range.
        """

    @abstractmethod
    async def create_unusable_offers(self, client: Client, number: int) -> None:
        """Create offers that the load balancer cannot use, unless they exist.

        Args:
            client: a client of the tenant.
            number: the number of the tenant.
        """

    @abstractmethod
    async def delete_unusable_offers(self, client: Client) -> None:
        """Delete the offers that the load balancer cannot use."""

    @abstractmethod
    async def prompt_service(self, client: Client, service: Key) -> None:
        """Make the load balancer look at a Service that does not get its address again.

        Args:
            client: a client of the tenant.
        """

    async def list_our_offers(self, client: Client) -> list[Any]:
        """Return the offers of the controllers in a tenant."""
        page = await client.list(self.offers.resource)
        return [offer for offer in page.items if self.is_ours(offer)]

    async def edit(self, client: Client, choices: random.Random, number: int) -> None:
        """Edit a random offer of the controllers.

        Args:
            client: a client of the tenant.
            choices: chooses the offer and the edit.
            number: the number of the tenant.
        """
        if own := await self.list_our_offers(client):
            offer = choices.choice(own)
            first, last = (address.format(number) for address in FOREIGN_RANGE)
            change = {"spec": choices.choice(self.list_edits(offer, first, last))}
            await client.patch(self.offers.resource, Version.from_object(offer), change)

    async def delete_our_offer(self, client: Client, choices: random.Random) -> None:
        """Delete a random offer of the controllers."""
        if own := await self.list_our_offers(client):
            offer = Version.from_object(choices.choice(own))
            await client.delete(self.offers.resource, offer)


class MetalLBInTenants(TenantBalancer):
    """MetalLB, without its webhook, so that people can create pools that it cannot use.

    It then keeps handing out addresses of the pools that it read before.
    """

    title = "MetalLB"
    offers = METALLB_OFFERS

    @override
    async def read_definitions(self) -> Sequence[dict[str, Any]]:
        return read_metallb_definitions(read_settings())

    @override
    async def create_prerequisites(self, tenant: TenantServer) -> None:
        await tenant.client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})

    @override
    @asynccontextmanager
    async def run(self, tenant: TenantServer, folder: Path) -> AsyncIterator[Program]:
        settings = replace(read_settings(), stop_seconds=1.0)
        async with run_metallb_controller(tenant.plane.get_kubeconfig(), settings) as metallb:
            yield Program(
                metallb.pid, _make_wait_for_end(metallb.raise_when_ended), metallb.read_log
            )

    @override
    def is_ours(self, offer: Object) -> bool:
        return offer.metadata.key == PROJECTED

    @override
    def list_edits(self, offer: Any, first: str, last: str) -> Sequence[Body]:
        foreign = f"{first}-{last}"
        return (
            {"addresses": [foreign]},
            {"addresses": [*offer.spec.addresses[1:], foreign]},
            {"autoAssign": False},
        )

    @override
    async def create_unusable_offers(self, client: Client, number: int) -> None:
        for name in UNUSABLE_OFFERS:
            spec = {"addresses": [f"10.98.{number}.0/30"], "autoAssign": False}
            body = {"metadata": {"name": name}, "spec": spec}
            with suppress(AlreadyExists):
                await client.create(IP_ADDRESS_POOL, NAMESPACE, body)

    @override
    async def delete_unusable_offers(self, client: Client) -> None:
        for name in UNUSABLE_OFFERS:
            await delete(client, IP_ADDRESS_POOL, Key(NAMESPACE, name))

    @override
    async def prompt_service(self, client: Client, service: Key) -> None:
        """Do nothing: MetalLB repeats a write that its API server did not accept."""


class CiliumInTenants(TenantBalancer):
    """Cilium's LB-IPAM, which elects a leader.

    No operator works between the death of one and the expiry of its Lease. So the controllers wait
    20 seconds for what the operator does not acknowledge, longer than any process is struck.

    Args:
        program: the path of LB-IPAM alone, or of a whole operator.
    """

    title = "Cilium"
    provider = "cilium"
    flags: Sequence[str] = ("--cilium-wait=20s",)
    offers = CILIUM_OFFERS

    def __init__(self, program: Path) -> None:
        self._program = program

    @override
    async def read_definitions(self) -> Sequence[dict[str, Any]]:
        return await read_lbipam_definitions(read_settings())

    @override
    async def create_prerequisites(self, tenant: TenantServer) -> None:
        """Create nothing: Cilium needs no more than its kinds."""

    @override
    @asynccontextmanager
    async def run(self, tenant: TenantServer, folder: Path) -> AsyncIterator[Program]:
        name = tenant.key.name
        kubeconfig = tenant.plane.write_kubeconfig(folder / f"{name}-operator.kubeconfig")
        log = folder / f"{name}-operator.log"
        operator = Operator(self._program, kubeconfig, log, elects=True, defines_kinds=True)
        operator.start()
        try:
            yield Program(operator.pid, operator.wait, log.read_text)
        finally:
            operator.kill()

    @override
    def is_ours(self, offer: Object) -> bool:
        return isinstance(offer, CiliumPool) and is_ours(offer)

    @override
    def list_edits(self, offer: Any, first: str, last: str) -> Sequence[Body]:
        foreign = {"start": first, "stop": last}
        own = [{"start": block.start, "stop": block.stop} for block in offer.blocks]
        return (
            {"blocks": [foreign]},
            {"blocks": [*own[1:], foreign]},
            {"blocks": [*own, {"start": "nonsense"}]},
            {"blocks": [*own, {"start": last, "stop": first}]},
            {"disabled": not offer.spec.disabled},
            {"serviceSelector": {"matchLabels": {"app": "nobody"}}},
        )

    @override
    async def create_unusable_offers(self, client: Client, number: int) -> None:
        selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]}
        for name in UNUSABLE_OFFERS:
            blocks = [{"cidr": f"10.98.{number}.0/30"}]
            body = {
                "metadata": {"name": name},
                "spec": {"blocks": blocks, "serviceSelector": selector},
            }
            with suppress(AlreadyExists):
                await client.create(CILIUM_POOL, "", body)

    @override
    async def delete_unusable_offers(self, client: Client) -> None:
        for name in UNUSABLE_OFFERS:
            await delete(client, CILIUM_POOL, Key("", name))

    @override
    async def prompt_service(self, client: Client, service: Key) -> None:
        """Edit the Service, at most every two seconds, as our documentation advises.

        LB-IPAM does not repeat the write of a status that its API server did not accept.
        """
        change = {"metadata": {"annotations": {"reminded": f"{time.monotonic() / 2:.0f}"}}}
        await edit(client, SERVICE, key=service, change=change)


def _make_wait_for_end(watch: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """Return a function that waits for the end of a program, which `watch` raises as an error."""

    async def wait() -> None:
        try:
            await watch()
        except PlaneError as error:
            log.info("ended", why=str(error))

    return wait
