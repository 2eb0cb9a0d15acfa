"""A management cluster and tenants on real API servers, with the real MetalLB in tenants."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from controller.meta import Key
from envtest.metallb import NAMESPACE, MetalLB, read_metallb_definitions, run_metallb_controller
from envtest.settings import read_settings
from reconcilers.api.resources import NAMESPACE as NAMESPACES
from reconcilers.loadbalancers.metallb.kinds import IP_ADDRESS_POOL
from reconcilers.loadbalancers.metallb.projection import POOL_NAME
from tests import tenants as shared
from tests.audit.records import METALLB_OFFERS
from tests.tenants import TenantServer, find, frozen, tenant_servers

PROJECTED = Key(NAMESPACE, POOL_NAME)
CAPACITY = re.compile(
    r'^metallb_allocator_addresses_total\{pool="default-pool"\} (\d+)$', re.MULTILINE
)


@dataclass(frozen=True)
class Tenant(TenantServer):
    """A tenant's API server, and MetalLB in it.

    Args:
        metallb: MetalLB's controller.
    """

    metallb: MetalLB

    async def list_entries(self) -> tuple[str, ...]:
        """Return the entries of our IPAddressPool; empty if it does not exist."""
        pool = await find(self.client, IP_ADDRESS_POOL, PROJECTED)
        return pool.spec.addresses if pool is not None else ()

    async def read_capacity(self) -> int:
        """Return how many addresses of our pool MetalLB may hand out, by its own metrics."""
        match = CAPACITY.search(await self.metallb.read_metrics())
        return int(match[1]) if match else 0

    def freeze_metallb(self) -> AbstractContextManager[None]:
        """Freeze MetalLB's controller for the time of the context."""
        return frozen(self.metallb.pid)


Site = shared.Site[Tenant]


@asynccontextmanager
async def run_site(folder: Path, tenants: Sequence[str] = ("a",)) -> AsyncIterator[Site]:
    """Run the API servers, and MetalLB in each tenant, for the time of the context.

    Args:
        folder: for kubeconfigs.
        tenants: names of tenants.
    """
    # After many Services MetalLB often needs more than 20 s to stop, so it is killed after one.
    settings = replace(read_settings(), stop_seconds=1.0)
    async with (
        tenant_servers(
            folder, tenants, kinds=read_metallb_definitions(settings), offers=METALLB_OFFERS
        ) as servers,
        AsyncExitStack() as stack,
    ):
        tenants_by_name: dict[str, Tenant] = {}
        for name, server in servers.tenants.items():
            await server.client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
            config = server.plane.get_kubeconfig()
            metallb = await stack.enter_async_context(run_metallb_controller(config, settings))
            tenants_by_name[name] = Tenant(
                server.key, server.plane, transport=server.transport, metallb=metallb
            )
        yield Site(
            servers.plane,
            servers.transport,
            tenants=tenants_by_name,
            kubeconfig=servers.kubeconfig,
            offers=servers.offers,
        )
