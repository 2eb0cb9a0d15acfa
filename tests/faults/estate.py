"""The controllers with a management cluster and a tenant, each of which may be behind a proxy.

Tests judge what a witness reads from both clusters directly, from the first change to the last.
"""

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Generic, TypeVar

import anyio
from anyio.abc import TaskGroup
from typing_extensions import override

from controller.cache import Cache, Change
from controller.client import Client
from controller.clock import Clock, SystemClock
from controller.errors import AlreadyExists, Conflict, ControllerError
from controller.informer import Informer
from controller.manager import Manager
from controller.meta import Key, Version
from controller.options import ManagerOptions
from controller.resource import Resource
from controller.transport import Transport
from envtest import ControlPlane
from envtest.faults import Proxy
from envtest.plane import RunningControlPlane as Plane
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.crd import build_crds
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    OWN_KINDS,
    PROVIDER_CONFIG,
    SECRET,
    TENANT_CLUSTER,
)
from reconcilers.cli.local.objects import NAMESPACE
from reconcilers.cli.standin.pools import read_metallb_crds
from reconcilers.configuration.settings import Settings, TenantSettings
from reconcilers.loadbalancers.metallb.kinds import IP_ADDRESS_POOL
from reconcilers.wiring import assemble
from tests.faults.proxied import open_transport
from tests.polling import SECONDS

HOME = names.DEFAULT_NAMESPACE
POOL = Key(HOME, "lab")
CLUSTER = Key("team", "a")
TENANT_POOL = Key("metallb-system", "default-pool")
SMALL, LARGE = "10.40.0.0/26", "10.40.0.0/18"
SPEED = 20
"""How many seconds of the controllers' clock pass in one real second."""
PACE = 4
"""The speed in tests that cut connections: slow enough that requests end before the next cut."""
RETRY_SECONDS = 0.2
SETTINGS = Settings(tenant=TenantSettings(request_timeout=1.0))


class SwiftClock(Clock):
    """A clock for controllers that runs faster than the clocks of the servers.

    At SPEED a minute of sleep takes three real seconds. The duration of requests does not change.

    Args:
        skew: how far the clock is ahead of the real time at first; negative if it is behind.
        speed: how many of the clock's seconds pass in one real second.
    """

    def __init__(self, skew: timedelta = timedelta(), speed: float = SPEED) -> None:
        self._skew = skew
        self._speed = speed
        self._started_at = datetime.now(UTC)

    @override
    def now(self) -> datetime:
        return self._started_at + self._skew + self._speed * (datetime.now(UTC) - self._started_at)

    @override
    def monotonic(self) -> float:
        return self._speed * anyio.current_time()

    @override
    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(max(0.0, seconds) / self._speed)

    @override
    def move_on_after(self, seconds: float) -> AbstractContextManager[anyio.CancelScope]:
        return anyio.move_on_after(seconds / self._speed)


class Witness:
    """Watches both clusters directly, and records allocations that held one address at once.

    Attributes:
        overlaps: a sentence for each two allocations that held one address at the same time.
    """

    def __init__(self, management: Transport, tenant: Transport) -> None:
        self.management, self.tenant = Client(management), Client(tenant)
        self.informers = [
            *(Informer(kind, management, SystemClock()) for kind in OWN_KINDS.values()),
            Informer(IP_ADDRESS_POOL, tenant, SystemClock()),
        ]
        self.caches: dict[str, Cache[Any]] = {i.resource.plural: i.cache for i in self.informers}
        self.overlaps: list[str] = []
        self.expected_objects: set[tuple[str, Key]] = set()
        """Plural and key of each object that has to exist.

        Other TenantClusters, and other allocations whose names begin with `n`, must not exist.
        """
        self._changed = anyio.Event()
        for informer in self.informers:
            informer.add_handler(self._handle_change)

    def _handle_change(self, change: Change[Any]) -> None:
        if isinstance(change.new, IPAllocation):
            self._record_overlaps(change.new)
        self._changed.set()

    def _record_overlaps(self, allocation: IPAllocation) -> None:
        """Record each other allocation whose range overlaps the range of `allocation`."""
        held_range = statusranges.find_held_range(allocation)
        for other in self.caches["ipallocations"]:
            other_range = statusranges.find_held_range(other)
            if other.metadata.uid == allocation.metadata.uid:
                continue
            if (
                held_range is not None
                and other_range is not None
                and held_range.overlaps(other_range)
            ):
                self.overlaps.append(
                    f"{allocation.metadata.name} and {other.metadata.name}: {held_range.text}"
                )

    async def wait_while(self, describe_problem: Callable[[], str]) -> None:
        """Wait while there is a problem.

        Args:
            describe_problem: describes the problem; empty if there is none. It is called after
                each change of an object.

        Raises:
            AssertionError: there is still a problem after SECONDS.
        """
        with anyio.move_on_after(SECONDS):
            while describe_problem():
                self._changed = anyio.Event()
                await self._changed.wait()
        assert not describe_problem(), describe_problem()

    def describe_unsettled(self) -> str:
        """Return the first deviation from the expected state; empty if there is none.

        The expected objects exist, each allocation holds a range, the pool counts them right, and
        the tenant's MetalLB has the ranges of the cluster.
        """
        pool = self.caches["networkpools"].get(POOL)
        if pool is None:
            return "there is no pool"
        allocations = list(self.caches["ipallocations"])
        existing = {
            (plural, obj.metadata.key) for plural in _EXPECTED_KINDS for obj in self.caches[plural]
        }
        if missing := self.expected_objects - existing:
            return f"missing: {missing}"
        cluster = ("tenantclusters", CLUSTER)
        strays = {stray for stray in existing - self.expected_objects if stray[1].name[0] == "n"}
        if strays or (cluster in existing and cluster not in self.expected_objects):
            return f"still there: {strays or cluster}"
        used = 0
        for allocation in allocations:
            held_range = statusranges.find_held_range(allocation)
            if (
                held_range is None
                or allocation.status.phase != ALLOCATED
                or allocation.metadata.is_terminating
            ):
                return f"{allocation.metadata.name} is {allocation.status.phase}"
            used += held_range.size
        status = pool.status
        if (status.allocatedIPs, status.availableIPs) != (used, status.totalIPs - used):
            return f"{used} addresses are held, the pool says {status}"
        return self._describe_unprojected(allocations)

    def describe_open_promises(self) -> str:
        """Return that the pool still lists promises; empty if it lists none."""
        pool = self.caches["networkpools"].get(POOL)
        return "there are open promises" if pool is None or pool.status.assignments else ""

    def _describe_unprojected(self, allocations: list[IPAllocation]) -> str:
        """Return how the tenant's MetalLB differs from the cluster's allocations, or nothing."""
        cluster = self.caches["tenantclusters"].get(CLUSTER)
        own_allocations = [a for a in allocations if a.spec.tenantClusterRef.key == CLUSTER]
        if cluster is None:
            orphans = [allocation.metadata.name for allocation in own_allocations]
            ipaddresspools = list(self.caches["ipaddresspools"])
            return f"left behind: {orphans}, {ipaddresspools}" if orphans or ipaddresspools else ""
        if cluster.status.phase != "Ready":
            return f"the cluster is {cluster.status.phase}: {cluster.status.conditions}"
        owner_uids = {
            a.metadata.annotations.get(names.ANNOTATION_TENANT_UID) for a in own_allocations
        }
        if len(own_allocations) != 2:
            return (
                f"the cluster has {[allocation.metadata.name for allocation in own_allocations]}"
            )
        if owner_uids != {cluster.metadata.uid}:
            return f"the cluster's allocations are another's: {owner_uids}"
        spans = [
            statusranges.find_held_range(a)
            for a in own_allocations
            if a.spec.type == names.TYPE_LOADBALANCER
        ]
        expected = {f"{s.start_text}-{s.end_text}" for s in spans if s is not None}
        projected = self.caches["ipaddresspools"].get(TENANT_POOL)
        projected_entries = set(projected.spec.addresses) if projected is not None else set()
        return (
            ""
            if projected_entries == expected
            else f"MetalLB has {projected_entries} of {expected}"
        )


_EXPECTED_KINDS = ("ipallocations", "tenantclusters")
PlaneType = TypeVar("PlaneType", bound=Plane)


@dataclass
class Estate(Generic[PlaneType]):
    """Both clusters, and the processes with controllers that work on them.

    Args:
        management: the management cluster, or the proxy before it, to which controllers connect.
        tenant: the tenant, or the proxy before it.
        witness: connects to both clusters directly.
        group: the task group of the processes.
        processes: the cancel scope of each process; all processes believe that they lead.
        managers: the manager of each process.
        settings: the settings of the controllers in new processes.
        user: the user as whom new processes connect to the management cluster.
    """

    management: PlaneType
    tenant: PlaneType
    witness: Witness
    group: TaskGroup
    processes: list[anyio.CancelScope] = field(default_factory=list)
    managers: dict[anyio.CancelScope, Manager] = field(default_factory=dict)
    settings: Settings = SETTINGS
    user: str = "admin"

    @property
    def client(self) -> Client:
        """A client of the management cluster, past the proxy."""
        return self.witness.management

    async def create_allocation(self, name: str, count: int = 1) -> None:
        """Create an allocation whose TenantCluster does not exist."""
        spec = {
            "poolRef": {"name": POOL.name},
            "tenantClusterRef": {"name": "elsewhere", "namespace": "team"},
            "type": "nodes",
            "count": count,
        }
        await self.client.create(IP_ALLOCATION, HOME, {"metadata": {"name": name}, "spec": spec})
        self.witness.expected_objects.add((IP_ALLOCATION.plural, Key(HOME, name)))

    async def create_allocation_retrying(self, name: str, count: int = 1) -> None:
        """Create an allocation; retry while the server does not answer."""
        while True:
            try:
                await self.create_allocation(name, count)
            except AlreadyExists:
                self.witness.expected_objects.add((IP_ALLOCATION.plural, Key(HOME, name)))
                return
            except ControllerError:
                await anyio.sleep(RETRY_SECONDS)
            else:
                return

    async def create_cluster(self) -> None:
        """Create the TenantCluster CLUSTER."""
        spec = {"kubernetesVersion": "v1.33.1", "workers": {"replicas": 1}}
        body = {"metadata": {"name": CLUSTER.name}, "spec": spec}
        await self.client.create(TENANT_CLUSTER, CLUSTER.namespace, body)
        self.witness.expected_objects.add((TENANT_CLUSTER.plural, CLUSTER))

    async def delete(self, resource: Any, key: Key) -> None:
        """Delete an object, and do not expect it any more; retry if it has just changed."""
        self.witness.expected_objects.discard((resource.plural, key))
        while True:
            live = await self.client.get(resource, key)
            try:
                await self.client.delete(resource, Version.from_object(live))
            except Conflict:
                continue
            return

    def start_process(
        self,
        skew: timedelta = timedelta(),
        clock: Clock | None = None,
        transport: Transport | None = None,
    ) -> None:
        """Start a process with the controllers, which believes that it leads.

        Args:
            skew: how far its clock is ahead of the real time at first.
            clock: None means a SwiftClock with that skew.
            transport: to the management cluster, which the caller closes; None means that the
                process connects to `management`.
        """
        scope = anyio.CancelScope()
        self.processes.append(scope)
        self.group.start_soon(partial(self._run, scope, clock or SwiftClock(skew), transport))

    def kill_process(self, index: int) -> None:
        """Cancel the process at an index of `processes` in the middle of its work."""
        scope = self.processes.pop(index)
        scope.cancel()
        self.managers.pop(scope, None)

    def list_caches(self, resource: Resource[Any]) -> list[Cache[Any]]:
        """Return the caches of a kind of all processes, in the order in which they started."""
        return [
            informer.cache
            for scope in self.processes
            if scope in self.managers
            for informer in self.managers[scope]._informers
            if informer.resource == resource and isinstance(informer, Informer)
        ]

    def is_outage_noticed(self) -> bool:
        """Return whether the watch of each cache of our kinds in the management cluster failed."""
        kinds = OWN_KINDS.values()
        caches = [cache for kind in kinds for cache in self.list_caches(kind)]
        caches += [self.witness.caches[kind.plural] for kind in kinds]
        return not any(cache.is_history_confirmed for cache in caches)

    async def _run(
        self, scope: anyio.CancelScope, clock: Clock, transport: Transport | None
    ) -> None:
        with scope:
            async with AsyncExitStack() as stack:
                if transport is None:
                    transport = await stack.enter_async_context(
                        open_transport(self.management, self.user)
                    )
                manager = Manager(transport, clock=clock, options=ManagerOptions())
                tenant_clients = assemble(manager, clock, self.settings)
                self.managers[scope] = manager
                stack.push_async_callback(tenant_clients.aclose)
                await manager.run()


@asynccontextmanager
async def run_estate(seed: int = 0) -> AsyncIterator[Estate[Proxy]]:
    """Run both clusters, each behind a proxy that injects faults by a seed."""
    async with AsyncExitStack() as stack:
        enter_context = stack.enter_async_context
        planes: list[Plane] = [await enter_context(ControlPlane.start()) for _ in range(2)]
        proxies = [await enter_context(Proxy.run_before(plane, seed=seed)) for plane in planes]
        witness, group = await enter_context(_watch_clusters(planes[0], planes[1], proxies[1]))
        yield Estate(proxies[0], proxies[1], witness=witness, group=group)


@asynccontextmanager
async def run_bare_estate(
    plane: Plane, plane_for_controllers: Plane | None = None, cidr: str = SMALL
) -> AsyncIterator[Estate[Plane]]:
    """Run a tenant beside a management cluster, both without proxies.

    Args:
        plane: the management cluster.
        plane_for_controllers: the management cluster at the address to which controllers connect;
            None means that they connect to `plane`.
        cidr: the CIDR of the pool.
    """
    async with (
        ControlPlane.start(force_embedded=True) as tenant,
        _watch_clusters(plane, tenant, tenant_for_controllers=tenant, cidr=cidr) as (
            witness,
            group,
        ),
    ):
        yield Estate(plane_for_controllers or plane, tenant, witness=witness, group=group)


@asynccontextmanager
async def _watch_clusters(
    management: Plane, tenant: Plane, tenant_for_controllers: Plane, cidr: str = SMALL
) -> AsyncIterator[tuple[Witness, TaskGroup]]:
    """Install kinds, namespaces, a pool and a provider in both clusters, and watch them.

    Args:
        management: the management cluster.
        tenant: the API server of the tenant.
        tenant_for_controllers: the tenant, or the proxy before it, to which controllers connect.
        cidr: the CIDR of the pool.

    Yields:
        the witness, and a task group for processes.
    """
    async with AsyncExitStack() as stack:
        enter_context = stack.enter_async_context
        await management.install_crds(build_crds())
        await tenant.install_crds(read_metallb_crds())
        witness = Witness(
            *[await enter_context(open_transport(plane)) for plane in (management, tenant)]
        )
        for namespace in (HOME, CLUSTER.namespace):
            await witness.management.create(NAMESPACE, "", {"metadata": {"name": namespace}})
        await witness.tenant.create(NAMESPACE, "", {"metadata": {"name": TENANT_POOL.namespace}})
        await _create_provider_and_pool(witness.management, tenant_for_controllers, cidr)
        group = await enter_context(anyio.create_task_group())
        for informer in witness.informers:
            group.start_soon(informer.run)
            await informer.wait_synced()
        yield witness, group
        group.cancel_scope.cancel()


async def _create_provider_and_pool(client: Client, tenant: Plane, cidr: str) -> None:
    """Create the pool, the default ProviderConfig, and the kubeconfig Secret of the tenant."""
    pool = {"metadata": {"name": POOL.name}, "spec": {"cidr": cidr}}
    await client.create(NETWORK_POOL, HOME, pool)
    network = {"mode": "ipam", "poolRefs": [{"name": POOL.name}]}
    provider = {
        "metadata": {"name": "default"},
        "spec": {"provider": "local", "network": network},
    }
    await client.create(PROVIDER_CONFIG, HOME, provider)
    encoded = base64.b64encode(tenant.get_kubeconfig().encode()).decode()
    name = f"{CLUSTER.name}-admin-kubeconfig"
    secret = {"metadata": {"name": name}, "data": {"admin.conf": encoded}}
    await client.create(SECRET, CLUSTER.namespace, secret)
