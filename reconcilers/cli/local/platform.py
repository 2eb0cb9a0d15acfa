"""What `up` and `demo` start: a platform with its controllers, and tenants with a stand-in.

    management API server    our CRDs, the controllers, their webhooks
    a tenant's API server    MetalLB's CRDs and the stand-in for MetalLB

Each tenant's kubeconfig is put where the controllers look for it: the Secret
`<cluster>-admin-kubeconfig`, entry `admin.conf`, beside the TenantCluster.
"""

import base64
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from controller.clock import Clock
from controller.jobs import running
from controller.manager import Manager
from controller.meta import Key
from controller.options import ManagerOptions
from reconcilers.api import crd, names
from reconcilers.cli.local import admission
from reconcilers.cli.local.objects import Manifest, apply, make_namespaces
from reconcilers.cli.local.replicas import Replica, replica
from reconcilers.cli.local.servers import ApiServer, Wanted, api_servers
from reconcilers.cli.standin import crds as standin
from reconcilers.cli.standin.api import NAMESPACE as METALLB_NAMESPACE
from reconcilers.cli.standin.controller import MetalLBStandIn
from reconcilers.cli.standin.presence import wait_served
from reconcilers.settings import Settings
from reconcilers.tenantcluster.kubeconfigs import ADMIN_KEY

MANAGEMENT = "management"


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant to be started.

    Args:
        name: of its API server.
        cluster: the TenantCluster that it is.
        has_metallb: whether MetalLB's kinds are there from the beginning; where they come later
            the stand-in begins then.
    """

    name: str
    cluster: Key
    has_metallb: bool = True


@dataclass(frozen=True, slots=True)
class Platform:
    """A platform that runs.

    Args:
        management: its API server.
        tenants: the tenants' API servers, by TenantCluster.
        replicas: of the controllers; the first one answers for the webhooks.
    """

    management: ApiServer
    tenants: Mapping[Key, ApiServer]
    replicas: Sequence[Replica] = ()


@asynccontextmanager
async def platform(
    tenants: Sequence[Tenant],
    clock: Clock,
    replicas: Mapping[str, Settings],
    data: Path | None = None,
    options: ManagerOptions | None = None,
) -> AsyncIterator[Platform]:
    """Run a platform for the time of the context.

    Args:
        tenants: which tenants there are.
        clock: for everything that waits.
        replicas: of the controllers, by name; the first to be started leads at first.
        data: where the API servers keep their objects; None forgets them.
        options: of the controllers' managers, for their election.
    """
    namespace = next(iter(replicas.values())).namespace
    wanted = [Wanted(MANAGEMENT, crd.crds())]
    wanted += [Wanted(one.name, standin.crds() if one.has_metallb else []) for one in tenants]
    serving = admission.serving_webhooks(namespace)
    options = replace(
        options or serving,
        webhook_bind=serving.webhook_bind,
        webhook_self_signed=serving.webhook_self_signed,
    )
    async with AsyncExitStack() as stack:
        found = await stack.enter_async_context(api_servers(wanted, data))
        management = found[MANAGEMENT]
        servers = {one.cluster: found[one.name] for one in tenants}
        await admission.remove(management.client)
        await _prepare(management, servers, namespace)
        for server in servers.values():
            await stack.enter_async_context(running([partial(_stand_in, server, clock)]))
        started = list[Replica]()
        for name, settings in replicas.items():
            one = await stack.enter_async_context(
                replica(name, management, clock, settings, options)
            )
            port = await one.webhook_port()
            if not started:
                await admission.put_in_force(management, port, clock)
            started.append(one)
        yield Platform(management, servers, started)


async def _prepare(
    management: ApiServer, tenants: Mapping[Key, ApiServer], namespace: str
) -> None:
    for server in tenants.values():
        await make_namespaces(server.transport, [METALLB_NAMESPACE])
    needed = [namespace, *(key.namespace for key in tenants)]
    await make_namespaces(management.transport, needed)
    for key, server in tenants.items():
        await apply(management.transport, kubeconfig_secret(key, server.kubeconfig))


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


async def _stand_in(server: ApiServer, clock: Clock) -> None:
    """Run the stand-in for MetalLB in a tenant, from when its kinds are there."""
    await wait_served(server.transport, clock)
    manager = Manager(server.transport, clock=clock)
    MetalLBStandIn(manager, clock)
    await manager.run()
