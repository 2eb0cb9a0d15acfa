"""What `up` and `demo` start: a platform with its controllers, and tenants with a stand-in.

    management API server    our CRDs, the controllers
    a tenant's API server    MetalLB's CRDs and the stand-in for MetalLB

Each tenant's kubeconfig is put where the controllers look for it: the Secret
`<cluster>-admin-kubeconfig`, entry `admin.conf`, beside the TenantCluster.
"""

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from controller.clock import Clock
from controller.jobs import running
from controller.manager import Manager
from controller.meta import Key
from reconcilers.api import crd, names
from reconcilers.cli.local.objects import Manifest, apply, make_namespaces
from reconcilers.cli.local.servers import ApiServer, Wanted, api_servers
from reconcilers.cli.standin import crds as standin
from reconcilers.cli.standin.api import NAMESPACE as METALLB_NAMESPACE
from reconcilers.cli.standin.controller import MetalLBStandIn
from reconcilers.settings import Settings
from reconcilers.tenantcluster.kubeconfigs import ADMIN_KEY
from reconcilers.wiring import assemble

MANAGEMENT = "management"


@dataclass(frozen=True, slots=True)
class Platform:
    """A platform that runs.

    Args:
        management: its API server.
        tenants: the tenants' API servers, by TenantCluster.
    """

    management: ApiServer
    tenants: Mapping[Key, ApiServer]


@asynccontextmanager
async def platform(
    tenants: Mapping[str, Key], clock: Clock, settings: Settings, data: Path | None = None
) -> AsyncIterator[Platform]:
    """Run a platform for the time of the context.

    Args:
        tenants: for each tenant's API server its name and the TenantCluster that it is.
        clock: for everything that waits.
        settings: of the controllers.
        data: where the API servers keep their objects; None forgets them.
    """
    wanted = [Wanted(MANAGEMENT, crd.crds())]
    wanted += [Wanted(name, standin.crds()) for name in tenants]
    async with AsyncExitStack() as stack:
        found = await stack.enter_async_context(api_servers(wanted, data))
        whole = Platform(found[MANAGEMENT], {key: found[name] for name, key in tenants.items()})
        await _prepare(whole, settings)
        for server in whole.tenants.values():
            await stack.enter_async_context(_stand_in(server, clock))
        await stack.enter_async_context(_controllers(whole.management, clock, settings))
        yield whole


async def _prepare(whole: Platform, settings: Settings) -> None:
    for server in whole.tenants.values():
        await make_namespaces(server.transport, [METALLB_NAMESPACE])
    needed = [settings.namespace, *(key.namespace for key in whole.tenants)]
    await make_namespaces(whole.management.transport, needed)
    for key, server in whole.tenants.items():
        await apply(whole.management.transport, kubeconfig_secret(key, server.kubeconfig))


def kubeconfig_secret(cluster: Key, kubeconfig: str) -> Manifest:
    """Return the Secret that lets the controllers into a tenant."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": f"{cluster.name}-admin-kubeconfig",
            "namespace": cluster.namespace,
            "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
        },
        "data": {ADMIN_KEY: base64.b64encode(kubeconfig.encode()).decode()},
    }


@asynccontextmanager
async def _stand_in(server: ApiServer, clock: Clock) -> AsyncIterator[None]:
    """Run the stand-in for MetalLB in a tenant."""
    manager = Manager(server.transport, clock=clock)
    MetalLBStandIn(manager, clock)
    async with running([manager.run]):
        yield


@asynccontextmanager
async def _controllers(server: ApiServer, clock: Clock, settings: Settings) -> AsyncIterator[None]:
    manager = Manager(server.transport, clock=clock)
    tenants = assemble(manager, clock, settings)
    try:
        async with running([manager.run]):
            yield
    finally:
        with anyio.CancelScope(shield=True):
            await tenants.aclose()
