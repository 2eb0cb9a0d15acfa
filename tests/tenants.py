"""A management cluster and tenants on API servers of their own, for tests of load balancers.

The controllers are a process `butler-ipam run` with the flags that a test gives.
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
from controller.conditions import find_condition
from controller.config import connect
from controller.errors import NotFound
from controller.meta import Key, Object
from controller.resource import Resource
from controller.transport import Transport
from envtest import ControlPlane
from envtest.plane import RunningControlPlane as Plane
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.crd import build_crds
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
from tests.reconcilers.cli.commands import RunningCommand
from tests.reconcilers.cli.commands import start as start_command

HOME = names.DEFAULT_NAMESPACE
TEAM = "team"
POOL = Key(HOME, "lab")
QUICK = ("--allocation-requeue-releasing=100ms", "--tenant-requeue-deleting=100ms")
"""Intervals at which the controllers check a release; the default is five seconds."""
BALANCER = Key(HOME, "team-a-lb")
"""The allocation of the load-balancer addresses of tenant `a`."""
RIVAL = Key(HOME, "rival")
"""An allocation that waits for the addresses of BALANCER, and gets them once they are free."""

K = TypeVar("K", bound=Object)
T = TypeVar("T", bound="TenantServer")


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Freeze a process for the time of the context."""
    freeze(pid)
    try:
        yield
    finally:
        thaw(pid)


def format_entry(span: AddressRange) -> str:
    """Return a range in the format of the entries of an IPAddressPool."""
    return f"{span.start_text}-{span.end_text}"


@dataclass(frozen=True)
class TenantServer:
    """A tenant's API server.

    Args:
        key: of its TenantCluster.
        plane: the API server.
        transport: leads to the API server.
    """

    key: Key
    plane: Plane
    transport: Transport

    @property
    def client(self) -> Client:
        """Return a client of the tenant's API server."""
        return Client(self.transport)

    async def create_services(
        self,
        *services: str,
        spec: Mapping[str, Any] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Create Services of type LoadBalancer, all at once.

        Args:
            services: the names.
            spec: further fields of each spec.
            annotations: of each Service.
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
        """Create a Service of type LoadBalancer; see `create_services`."""
        common = {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": "web"}}
        meta = {"name": name, "annotations": dict(annotations)}
        await self.client.create(
            SERVICE, "default", {"metadata": meta, "spec": common | dict(spec)}
        )

    async def stop_serving(self, *services: str) -> None:
        """Delete Services."""
        for name in services:
            await delete(self.client, SERVICE, Key("default", name))

    async def read_addresses(self) -> dict[str, str]:
        """Return the first address of each Service that shows one, by name of the Service."""
        return {name: listed[0] for name, listed in (await self.list_all_addresses()).items()}

    async def list_all_addresses(self) -> dict[str, list[str]]:
        """Return the addresses of each Service that shows any, by name of the Service."""
        page = await self.client.list(SERVICE, namespace="default")
        return {
            service.metadata.name: [ingress.ip for ingress in service.status.loadBalancer.ingress]
            for service in page.items
            if service.status.loadBalancer.ingress
        }

    async def wait_until_served(self, *services: str) -> dict[str, str]:
        """Wait until exactly these Services show an address; return the addresses by name."""
        return await until(self.read_addresses, lambda addresses: set(addresses) == set(services))


@dataclass(frozen=True)
class Site(Generic[T]):
    """A management cluster and its tenants.

    Args:
        plane: the management cluster's API server.
        transport: leads to the API server.
        tenants: by name; each has the TenantCluster of that name in the namespace `team`.
        kubeconfig: of the management cluster's administrator.
        offers: the kind of pools that the load balancers of the tenants read.
        provider: of the load balancers, for TenantClusters; empty means the default.
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
        """Create the NetworkPool POOL, and the default ProviderConfig, which names it.

        Args:
            cidr: of the pool.
            second: the CIDR of the pool's other family; empty means none.
            nodes: how many node addresses each tenant gets.
            quota: the most load-balancer addresses of a tenant; None means no quota.
            balancer: fields of spec.network.loadBalancer of the ProviderConfig.
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
        """Create the TenantCluster of a tenant, with these fields of spec.networking."""
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

    async def find_allocation(self, name: str) -> IPAllocation | None:
        """Return the allocation of a name; None if it does not exist."""
        return await find(self.client, IP_ALLOCATION, Key(HOME, name))

    async def wait_until_allocated(self, name: str) -> AddressRange:
        """Wait until an allocation has a range and is not being released; return the range."""
        allocation = await until(lambda: self.find_allocation(name), _has_range)
        assert allocation is not None
        held_range = statusranges.find_held_range(allocation)
        assert held_range is not None
        return held_range

    async def list_ranges(self, tenant: str) -> list[AddressRange]:
        """Return the ranges of all allocations for the load balancer of a tenant."""
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
        """Wait until an object does not exist any more; fail after `seconds`."""
        key = Key(namespace, name)
        await until(
            lambda: find(self.client, resource, key),
            lambda obj: obj is None,
            seconds=seconds,
        )

    async def create_one_range(self) -> None:
        """Create a pool whose four load-balancer addresses all go to tenant `a`; wait for that."""
        await self.offer("10.40.0.0/29", defaultPoolSize=4)
        await self.create_cluster("a")
        await self.ready("a")

    async def create_rival(self, count: int = 4) -> None:
        """Create the allocation RIVAL; wait until it is Failed, because no addresses are free."""
        spec = {
            "poolRef": {"name": POOL.name},
            "tenantClusterRef": {"name": "rival", "namespace": TEAM},
            "type": names.TYPE_LOADBALANCER,
            "count": count,
        }
        await self.create(IP_ALLOCATION, HOME, RIVAL.name, spec=spec)
        await until(
            lambda: self.find_allocation(RIVAL.name),
            lambda rival: rival is not None and rival.status.phase == "Failed",
        )

    async def wait_for_message(self, allocation: str, words: str) -> None:
        """Wait until a deleted allocation reports why it is kept; fail if it is gone.

        Args:
            allocation: the name.
            words: a part of the message of its Ready condition.
        """

        def has_message(deleted: IPAllocation | None) -> bool:
            assert deleted is not None, f"it is gone and did not report {words!r}"
            ready = find_condition(deleted.status.conditions, READY)
            return ready is not None and words in ready.message

        await until(lambda: self.find_allocation(allocation), has_message)

    @asynccontextmanager
    async def controllers(self, *flags: str) -> AsyncIterator[RunningCommand]:
        """Run `butler-ipam run` with these flags, and wait until its controllers have started."""
        async with start_command(
            "run",
            f"--kubeconfig={self.kubeconfig}",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
            *flags,
        ) as running:
            await running.wait_for_output('"Starting workers","controller":"tenantcluster"')
            yield running

    @asynccontextmanager
    async def record_clusters(self) -> AsyncIterator[Recording]:
        """Record holders and users of addresses in all clusters (tests/audit)."""
        inside = {tenant.key: tenant.transport for tenant in self.tenants.values()}
        async with recording(self.transport, inside, self.offers) as recorded:
            yield recorded


def _has_range(allocation: IPAllocation | None) -> bool:
    """Return whether an allocation has a range and is not being released."""
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
    """Start the API servers of a management cluster and of tenants for the time of the context.

    Args:
        folder: for kubeconfigs.
        tenants: the names of tenants.
        kinds: the CRDs that the load balancers of the tenants read.
        offers: the kind among them that offers addresses.
        provider: of the load balancers; empty means the default.
    """
    async with AsyncExitStack() as stack:
        planes: dict[str, Plane] = {}
        transports: dict[str, Transport] = {}

        async def start(name: str, kinds: Sequence[Mapping[str, Any]]) -> None:
            plane = await stack.enter_async_context(ControlPlane.start())
            await plane.install_crds([dict(kind) for kind in kinds])
            path = plane.write_kubeconfig(folder / f"{name}.kubeconfig")
            transport = await connect(path)
            stack.push_async_callback(transport.aclose)
            planes[name], transports[name] = plane, transport

        async with anyio.create_task_group() as group:
            group.start_soon(start, "management", build_crds())
            for name in tenants:
                group.start_soon(start, name, kinds)
        management = Client(transports["management"])
        for namespace in (HOME, TEAM):
            await management.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        for name in tenants:
            config = planes[name].get_kubeconfig()
            data = {"admin.conf": base64.b64encode(config.encode()).decode()}
            body = {"metadata": {"name": f"{name}-admin-kubeconfig"}, "data": data}
            await management.create(SECRET, TEAM, body)
        kubeconfig = folder / "management.kubeconfig"
        servers = {
            name: TenantServer(Key(TEAM, name), planes[name], transports[name]) for name in tenants
        }
        yield Site(
            planes["management"],
            transports["management"],
            tenants=servers,
            kubeconfig=kubeconfig,
            offers=offers,
            provider=provider,
        )
