"""What `up` and `demo` start: a platform with its controllers, and tenants with a MetalLB.

    management API server    our CRDs, the controllers, their webhooks
    a tenant's API server    MetalLB's CRDs, and the real MetalLB or the stand-in for it

Each tenant's kubeconfig is put where the controllers look for it: the Secret
`<cluster>-admin-kubeconfig`, entry `admin.conf`, beside the TenantCluster.
"""

import base64
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from controller.clock import Clock
from controller.meta import Key
from controller.options import ManagerOptions
from reconcilers.api import crd, names
from reconcilers.cli.local import admission
from reconcilers.cli.local.metallb import StandIn, TenantMetalLB, tenant_metallb
from reconcilers.cli.local.objects import Manifest, apply, make_namespaces
from reconcilers.cli.local.replicas import Replica, replica
from reconcilers.cli.local.servers import ApiServer, Wanted, api_servers, source
from reconcilers.cli.standin.api import NAMESPACE as METALLB_NAMESPACE
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
            it begins then.
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
        metallb: what gives the tenants' Services their addresses.
    """

    management: ApiServer
    tenants: Mapping[Key, ApiServer]
    replicas: Sequence[Replica] = ()
    metallb: TenantMetalLB = field(default_factory=StandIn)


def announcement() -> str:
    """Return what is about to be started: real servers take seconds.

    Raises:
        PlaneError: a variable of the environment names what is not there.
    """
    return "\n".join(
        [
            "Starting:",
            f"    API servers   {source()}",
            f"    MetalLB       {tenant_metallb().source}, one in each tenant",
            "",
        ]
    )


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
    metallb = tenant_metallb()
    wanted = [Wanted(MANAGEMENT, crd.crds())]
    wanted += [Wanted(one.name, metallb.definitions if one.has_metallb else ()) for one in tenants]
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
        for one in tenants:
            serving_one = metallb.serve(servers[one.cluster], clock, is_installed=one.has_metallb)
            await stack.enter_async_context(serving_one)
        started = list[Replica]()
        for name, settings in replicas.items():
            made = await stack.enter_async_context(
                replica(name, management, clock, settings, options)
            )
            port = await made.webhook_port()
            if not started:
                await admission.put_in_force(management, port, clock)
            started.append(made)
        yield Platform(management, servers, started, metallb)


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
