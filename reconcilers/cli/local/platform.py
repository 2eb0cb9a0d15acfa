"""The platform of `up` and `demo`: controllers, and tenants with a load balancer.

    management API server    our CRDs, the controllers, their webhooks (webhooks.py)
    a tenant's API server    MetalLB or Cilium's LB-IPAM, or the stand-in for it, and its CRDs

Each tenant's kubeconfig is put where the controllers look for it: the Secret
`<cluster>-admin-kubeconfig`, entry `admin.conf`, beside the TenantCluster. The replicas of the
controllers run inside this process. Each does the same as a process of `butler-ipam run`.
"""

import base64
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio

from controller.clock import Clock
from controller.jobs import run_in_background
from controller.leases import LeaderLost
from controller.loggers import get_logger
from controller.manager import Manager
from controller.meta import Key
from controller.options import ManagerOptions
from controller.transport import Transport
from controller.webhooks.kinds import VALIDATING
from manifests import read_definitions
from reconcilers.api import names
from reconcilers.api.tenantaddons import CILIUM, DEFAULT_LOAD_BALANCER
from reconcilers.cli.local import webhooks
from reconcilers.cli.local.balancer import LocalBalancer
from reconcilers.cli.local.cilium import find_lbipam
from reconcilers.cli.local.metallb import StandInMetalLB, find_metallb
from reconcilers.cli.local.objects import Manifest, apply, delete, make_namespaces
from reconcilers.cli.local.servers import (
    ApiServer,
    Definitions,
    describe_server_source,
    run_api_servers,
)
from reconcilers.cli.progress import show_progress_during
from reconcilers.clusteraccess.tenantclients import TenantClients
from reconcilers.clusteraccess.tenantkubeconfigs import ADMIN_KEY
from reconcilers.configuration.settings import Settings
from reconcilers.wiring import assemble

MANAGEMENT = "management"
BALANCERS: Mapping[str, Callable[[], LocalBalancer]] = {
    DEFAULT_LOAD_BALANCER: find_metallb,
    CILIUM: find_lbipam,
}
"""The function that returns the load balancer, by the provider that a TenantCluster names."""

_log = get_logger(__name__)


class Replica:
    """One replica of the controllers; `run_replica` creates and runs it.

    No other replica uses its transport, so the replica can be cut off alone. Its name is the
    identity in its options.
    """

    def __init__(
        self, transport: Transport, clock: Clock, settings: Settings, options: ManagerOptions
    ) -> None:
        self.name, self.options = options.identity, options
        self._transport = transport
        self._is_cut_off = False
        self._manager = Manager(transport, clock=clock, options=options)
        self.tenants: TenantClients = assemble(self._manager, clock, settings)
        """Its clients of tenants."""

    async def run(self) -> None:
        """Run the controllers until cancelled.

        A replica that was cut off also ends when it loses the lease.

        Raises:
            LeaderLost: the replica lost the lease, although it was not cut off.
        """
        try:
            await self._manager.run()
        except LeaderLost as lost:
            if not self._is_cut_off:
                raise
            # The story cut it off to lose the lease: this is the expected end.
            _log.warning("a disconnected replica has ended", replica=self.name, why=str(lost))

    async def wait_for_webhook_port(self) -> int:
        """Wait until its webhooks listen; return their port."""
        await self._manager.wait_serving()
        port = self._manager.webhook_port
        assert port is not None, "the options say that webhooks are served"
        return port

    async def cut_off(self) -> None:
        """Close its connections to the management cluster for good; the replica keeps running.

        As in a real network, the server may or may not have carried out the last requests.
        """
        self._is_cut_off = True
        await self._transport.aclose()


@asynccontextmanager
async def run_replica(
    server: ApiServer, clock: Clock, settings: Settings, options: ManagerOptions
) -> AsyncIterator[Replica]:
    """Run a replica for the time of the context."""
    async with server.connect() as transport:
        started_replica = Replica(transport, clock, settings=settings, options=options)
        try:
            async with run_in_background([started_replica.run]):
                yield started_replica
        finally:
            # Shielded, because a cancelled task could not close the connections to tenants.
            with anyio.CancelScope(shield=True):
                await started_replica.tenants.aclose()


@dataclass(frozen=True, slots=True)
class LocalTenant:
    """A tenant to be started.

    Args:
        name: the name of its API server.
        cluster: the TenantCluster whose tenant this is.
        has_balancer: whether the kinds of its load balancer are installed from the beginning. If
            they are installed later, the load balancer starts then.
    """

    name: str
    cluster: Key
    has_balancer: bool = True


@dataclass(frozen=True, slots=True)
class LocalPlatform:
    """A platform that runs.

    Args:
        tenants: the tenants' API servers, by TenantCluster.
        replicas: the replicas of the controllers; the API server calls the webhooks of the first.
        balancer: the load balancer of the tenants.
        definitions: the CustomResourceDefinitions of its kinds.
    """

    management: ApiServer
    tenants: Mapping[Key, ApiServer]
    replicas: Sequence[Replica] = ()
    balancer: LocalBalancer = field(default_factory=StandInMetalLB)
    definitions: Definitions = ()


def describe_start(provider: str = DEFAULT_LOAD_BALANCER) -> str:
    """Return lines about the servers, to be printed before the servers start.

    The start takes seconds, so the user sees what the command waits for.

    Args:
        provider: the load balancer of tenants, as a TenantCluster names it.

    Raises:
        PlaneError: a variable of the environment names a file that does not exist.
    """
    balancer = BALANCERS[provider]()
    return (
        f"Starting:\n    API servers   {describe_server_source()}\n"
        f"    {balancer.title:13} {balancer.source}, one in each tenant\n"
    )


@asynccontextmanager
async def run_platform(
    tenants: Sequence[LocalTenant],
    clock: Clock,
    replicas: Mapping[str, Settings],
    data: Path | None = None,
    options: ManagerOptions | None = None,
    provider: str = DEFAULT_LOAD_BALANCER,
) -> AsyncIterator[LocalPlatform]:
    """Run a platform for the time of the context.

    Args:
        tenants: the tenants to start.
        clock: the time, by which controllers and load balancers wait.
        replicas: the settings of each replica, by its name. The first one starts first, and leads.
        data: the folder in which the API servers keep their objects; None keeps them in memory.
        options: the options of each replica's manager, such as those of leader election.
        provider: the load balancer of tenants, as a TenantCluster names it.
    """
    # All replicas have the same namespace.
    namespace = next(iter(replicas.values())).namespace
    balancer = BALANCERS[provider]()
    definitions = await balancer.read_definitions()
    # The shipped files are read, because building the CRDs takes half a second of CPU time.
    definitions_by_server = {MANAGEMENT: read_definitions()} | {
        tenant.name: definitions if tenant.has_balancer else () for tenant in tenants
    }
    options = webhooks.add_webhooks(options or ManagerOptions(), namespace)
    async with AsyncExitStack() as stack:
        with show_progress_during("starting API servers"):
            servers_by_name = await stack.enter_async_context(
                run_api_servers(definitions_by_server, data)
            )
        management = servers_by_name[MANAGEMENT]
        servers = {tenant.cluster: servers_by_name[tenant.name] for tenant in tenants}
        with show_progress_during(f"starting {balancer.title} and the controllers"):
            # With --data, the configuration of an earlier start may be there. Nothing listens on
            # its port any more, so every write would fail.
            await delete(management.client, VALIDATING, webhooks.KEY)
            await _create_namespaces_and_secrets(
                management, servers, namespace=namespace, balancer_namespaces=balancer.namespaces
            )
            for tenant in tenants:
                serving = balancer.serve(
                    servers[tenant.cluster], clock, definitions, is_installed=tenant.has_balancer
                )
                await stack.enter_async_context(serving)
            started = list[Replica]()
            for name, settings in replicas.items():
                run = run_replica(
                    management, clock, settings=settings, options=replace(options, identity=name)
                )
                started_replica = await stack.enter_async_context(run)
                port = await started_replica.wait_for_webhook_port()
                # The first replica serves the webhooks; it runs before the others start.
                if not started:
                    await webhooks.put_webhooks_in_force(management, port, clock)
                started.append(started_replica)
        yield LocalPlatform(
            management, servers, replicas=started, balancer=balancer, definitions=definitions
        )


async def _create_namespaces_and_secrets(
    management: ApiServer,
    tenants: Mapping[Key, ApiServer],
    namespace: str,
    balancer_namespaces: Sequence[str],
) -> None:
    """Create the namespaces that are needed, and the Secrets with the tenants' kubeconfigs."""
    for server in tenants.values():
        await make_namespaces(server.transport, balancer_namespaces)
    needed = [namespace, *(key.namespace for key in tenants)]
    await make_namespaces(management.transport, needed)
    for key, server in tenants.items():
        await apply(management.transport, build_kubeconfig_secret(key, server.kubeconfig))


def build_kubeconfig_secret(cluster: Key, kubeconfig: str) -> Manifest:
    """Return the Secret with the kubeconfig by which the controllers reach a tenant."""
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
