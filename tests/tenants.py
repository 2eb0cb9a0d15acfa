"""A management cluster and the API servers of tenants, all real, for load balancers to run in.

The controllers are `butler-ipam run` in a process of its own, with the flags that a test gives.
"""

import base64
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import anyio

from allocator import AddressRange
from controller.client import Client
from controller.conditions import find as find_condition
from controller.config import connect
from controller.errors import NotFound
from controller.meta import Key, Object
from controller.resource import Resource
from controller.transport import Transport
from envtest import ControlPlane
from envtest.plane import RunningControlPlane as Plane
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.crd import crds
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    PROVIDER_CONFIG,
    SECRET,
    TENANT_CLUSTER,
)
from reconcilers.api.resources import NAMESPACE as NAMESPACES
from reconcilers.api.services import SERVICE
from reconcilers.cli.local.objects import delete
from reconcilers.reporting.conditions import READY
from tests.audit.recorder import Recording, recording
from tests.audit.records import OfferKind
from tests.edits import edit
from tests.freezing import freeze, thaw
from tests.polling import SECONDS, until
from tests.reconcilers.cli.commands import Running
from tests.reconcilers.cli.commands import start as start_command

HOME = names.DEFAULT_NAMESPACE
TEAM = "team"
POOL = Key(HOME, "lab")
QUICK = ("--allocation-requeue-releasing=100ms", "--tenant-requeue-deleting=100ms")
"""Between two questions whether a tenant has let go; five seconds by default."""
BALANCER = Key(HOME, "team-a-lb")
"""The allocation of the load-balancer addresses of tenant `a`."""
RIVAL = Key(HOME, "rival")
"""An allocation that waits for the very addresses, so what is free too early is taken at once."""

K = TypeVar("K", bound=Object)
T = TypeVar("T", bound="TenantServer")


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Stop a process where it is, and let it go on afterwards."""
    freeze(pid)
    try:
        yield
    finally:
        thaw(pid)


def entry(span: AddressRange) -> str:
    """Return a range as a pool in a tenant holds it."""
    return f"{span.start_text}-{span.end_text}"


@dataclass(frozen=True)
class TenantServer:
    """A tenant's API server.

    Args:
        key: of its TenantCluster.
        plane: the API server.
        transport: the way into it.
    """

    key: Key
    plane: Plane
    transport: Transport

    @property
    def client(self) -> Client:
        """Return a client of the tenant's API server."""
        return Client(self.transport)

    async def serve(
        self,
        *services: str,
        spec: Mapping[str, Any] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Create Services of type LoadBalancer, all at once.

        Args:
            services: their names.
            spec: what else theirs has.
            annotations: theirs.
        """
        async with anyio.create_task_group() as group:
            for name in services:
                group.start_soon(self.create_service, name, spec or {}, annotations or {})

    async def create_service(
        self,
        name: str,
        spec: Mapping[str, Any] = MappingProxyType({}),
        annotations: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Create a Service of type LoadBalancer, as `serve` creates several."""
        common = {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": "web"}}
        meta = {"name": name, "annotations": dict(annotations)}
        await self.client.create(
            SERVICE, "default", {"metadata": meta, "spec": common | dict(spec)}
        )

    async def stop_serving(self, *services: str) -> None:
        """Delete Services."""
        for name in services:
            await delete(self.client, SERVICE, Key("default", name))

    async def addresses(self) -> dict[str, str]:
        """Return the first address of every load balancer that has one, by its name."""
        return {name: listed[0] for name, listed in (await self.all_addresses()).items()}

    async def all_addresses(self) -> dict[str, list[str]]:
        """Return the addresses of every load balancer that has one, by its name."""
        page = await self.client.list(SERVICE, namespace="default")
        return {
            service.metadata.name: [ingress.ip for ingress in service.status.loadBalancer.ingress]
            for service in page.items
            if service.status.loadBalancer.ingress
        }

    async def wait_until_served(self, *services: str) -> dict[str, str]:
        """Wait until these Services, and no others, have addresses; return them by name."""
        return await until(self.addresses, lambda shown_by: set(shown_by) == set(services))


@dataclass(frozen=True)
class Site(Generic[T]):
    """A management cluster and its tenants.

    Args:
        plane: the management cluster's API server.
        transport: the way into it.
        tenants: by name; each is the TenantCluster of that name in the namespace `team`.
        kubeconfig: of the management cluster's administrator.
        offers: what the load balancers of the tenants read.
        provider: of the load balancers, as a TenantCluster names it; empty for the default.
    """

    plane: Plane
    transport: Transport
    tenants: Mapping[str, T]
    kubeconfig: Path
    offers: OfferKind[Any]
    provider: str = ""

    @property
    def client(self) -> Client:
        """Return a client of the management cluster."""
        return Client(self.transport)

    async def create(
        self, resource: Resource[Any], namespace: str, name: str, **body: Any
    ) -> None:
        """Create an object in the management cluster."""
        await self.client.create(resource, namespace, {"metadata": {"name": name}} | body)

    async def offer(
        self,
        cidr: str,
        second: str = "",
        /,
        *,
        nodes: int = 1,
        quota: int | None = None,
        **balancer: Any,
    ) -> None:
        """Make a pool, and the ProviderConfig by which tenants draw from it.

        Args:
            cidr: of the pool.
            second: that of its other family, if it has one.
            nodes: addresses for the nodes of each tenant.
            quota: the most load-balancer addresses of a tenant.
            balancer: the provider's `loadBalancer`.
        """
        defaults = {"defaults": {"nodesPerTenant": nodes}}
        blocks: dict[str, Any] = {"cidr": cidr, "tenantAllocation": defaults}
        if second:
            blocks["secondary"] = {"cidr": second}
        await self.create(NETWORK_POOL, HOME, POOL.name, spec=blocks)
        network: dict[str, Any] = {
            "mode": "ipam",
            "poolRefs": [{"name": POOL.name}],
            "loadBalancer": balancer,
        }
        if quota is not None:
            network["quotaPerTenant"] = {"maxLoadBalancerIPs": quota}
        spec = {"provider": "local", "network": network}
        await self.create(PROVIDER_CONFIG, HOME, "default", spec=spec)

    async def create_cluster(self, tenant: str, **networking: Any) -> None:
        """Create a TenantCluster for a tenant, with what its `networking` has."""
        spec: dict[str, Any] = {"kubernetesVersion": "v1.33.1", "workers": {"replicas": 1}}
        if networking:
            spec["networking"] = networking
        if self.provider:
            addon = {"provider": self.provider, "version": "1.18.6"}
            spec["addons"] = {"loadBalancer": addon}
        await self.create(TENANT_CLUSTER, TEAM, tenant, spec=spec)

    async def ready(self, tenant: str) -> None:
        """Wait until a TenantCluster is Ready."""
        await until(
            lambda: self.client.get(TENANT_CLUSTER, Key(TEAM, tenant)),
            lambda cluster: cluster.status.phase == "Ready",
        )

    async def patch(self, resource: Resource[Any], key: Key, change: Mapping[str, Any]) -> None:
        """Change an object, at whatever version it has."""
        await edit(self.client, resource, key=key, change=change)

    async def allocation(self, name: str) -> IPAllocation | None:
        """Return an allocation; None if there is none of that name."""
        return await find(self.client, IP_ALLOCATION, Key(HOME, name))

    async def wait_until_allocated(self, name: str) -> AddressRange:
        """Wait until an allocation has a range that is not being given back; return it."""
        allocation = await until(lambda: self.allocation(name), _has_range)
        assert allocation is not None
        held_range = statusranges.find_held_range(allocation)
        assert held_range is not None
        return held_range

    async def ranges_of(self, tenant: str) -> list[AddressRange]:
        """Return the ranges that the tenant's load balancer should hold."""
        page = await self.client.list(IP_ALLOCATION)
        own = [
            allocation
            for allocation in page.items
            if allocation.spec.tenantClusterRef.key == Key(TEAM, tenant)
            and allocation.spec.type == names.TYPE_LOADBALANCER
            and _has_range(allocation)
        ]
        return [span for allocation in own for span in statusranges.list_held_ranges(allocation)]

    async def wait_until_gone(
        self, resource: Resource[Any], namespace: str, name: str, seconds: float = SECONDS
    ) -> None:
        """Wait until an object does not exist any more; give up after so many seconds."""
        key = Key(namespace, name)
        await until(
            lambda: find(self.client, resource, key),
            lambda obj: obj is None,
            seconds=seconds,
        )

    async def offer_one_range(self) -> None:
        """Make a pool with four addresses for load balancers, which tenant `a` gets."""
        await self.offer("10.40.0.0/29", defaultPoolSize=4)
        await self.create_cluster("a")
        await self.ready("a")

    async def create_rival(self, count: int = 4) -> None:
        """Ask for addresses for another tenant; there are none before some are released."""
        spec = {
            "poolRef": {"name": POOL.name},
            "tenantClusterRef": {"name": "rival", "namespace": TEAM},
            "type": names.TYPE_LOADBALANCER,
            "count": count,
        }
        await self.create(IP_ALLOCATION, HOME, RIVAL.name, spec=spec)
        await until(
            lambda: self.allocation(RIVAL.name),
            lambda rival: rival is not None and rival.status.phase == "Failed",
        )

    async def waits_because(self, allocation: str, words: str) -> None:
        """Wait until a deleted allocation says why it is kept; fail if it has gone.

        Args:
            allocation: its name.
            words: some of the message.
        """

        def says_it(deleted: IPAllocation | None) -> bool:
            assert deleted is not None, f"it has gone without a word of {words!r}"
            ready = find_condition(deleted.status.conditions, READY)
            return ready is not None and words in ready.message

        await until(lambda: self.allocation(allocation), says_it)

    @asynccontextmanager
    async def controllers(self, *flags: str) -> AsyncIterator[Running]:
        """Run `butler-ipam run` with these flags beside what every test gives it."""
        async with start_command(
            "run",
            f"--kubeconfig={self.kubeconfig}",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
            *flags,
        ) as running:
            await running.until('"Starting workers","controller":"tenantcluster"')
            yield running

    @asynccontextmanager
    async def record_clusters(self) -> AsyncIterator[Recording]:
        """Record everything in the management cluster and in all tenants."""
        inside = {tenant.key: tenant.transport for tenant in self.tenants.values()}
        async with recording(self.transport, inside, self.offers) as kept:
            yield kept


def _has_range(allocation: IPAllocation | None) -> bool:
    """Whether an allocation has a range and is not being deprived of it."""
    return (
        allocation is not None
        and not allocation.releasing
        and statusranges.find_held_range(allocation) is not None
    )


async def find(client: Client, resource: Resource[K], key: Key) -> K | None:
    """Return an object; None if there is none."""
    try:
        return await client.get(resource, key)
    except NotFound:
        return None


@asynccontextmanager
async def tenant_servers(
    folder: Path,
    tenants: Sequence[str],
    kinds: Sequence[Mapping[str, Any]],
    offers: OfferKind[Any],
    provider: str = "",
) -> AsyncIterator[Site[TenantServer]]:
    """Start the API servers; they stop with the context.

    Args:
        folder: for kubeconfigs.
        tenants: names of tenants.
        kinds: the definitions of what their load balancers read.
        offers: those of the kinds that offer addresses.
        provider: of the load balancers; empty for the default.
    """
    async with AsyncExitStack() as stack:
        planes: dict[str, Plane] = {}
        ways: dict[str, Transport] = {}

        async def start(name: str, kinds: Sequence[Mapping[str, Any]]) -> None:
            plane = await stack.enter_async_context(ControlPlane.start())
            await plane.install_crds([dict(kind) for kind in kinds])
            path = plane.write_kubeconfig(folder / f"{name}.kubeconfig")
            way = await connect(path)
            stack.push_async_callback(way.aclose)
            planes[name], ways[name] = plane, way

        async with anyio.create_task_group() as group:
            group.start_soon(start, "management", crds())
            for name in tenants:
                group.start_soon(start, name, kinds)
        management = Client(ways["management"])
        for namespace in (HOME, TEAM):
            await management.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        for name in tenants:
            config = planes[name].kubeconfig()
            data = {"admin.conf": base64.b64encode(config.encode()).decode()}
            body = {"metadata": {"name": f"{name}-admin-kubeconfig"}, "data": data}
            await management.create(SECRET, TEAM, body)
        kubeconfig = folder / "management.kubeconfig"
        servers = {
            name: TenantServer(Key(TEAM, name), planes[name], ways[name]) for name in tenants
        }
        yield Site(
            planes["management"],
            ways["management"],
            tenants=servers,
            kubeconfig=kubeconfig,
            offers=offers,
            provider=provider,
        )
