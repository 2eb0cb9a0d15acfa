"""A static tenant on an API server: its addresses are allocated, projected and released.

The API server is the management cluster and also the tenant of the TenantCluster, so that tests
start one server only.
"""

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import anyio
import pytest

from allocator import AddressRange
from controller.cache import Cache
from controller.client import Client
from controller.clock import SystemClock
from controller.conditions import find_condition
from controller.config import connect
from controller.errors import Conflict
from controller.informer import Informer
from controller.manager import Manager
from controller.meta import Key, Version
from controller.options import ManagerOptions
from controller.transport import Transport
from envtest.plane import RunningControlPlane as Plane
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.crd import build_crds
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    PROVIDER_CONFIG,
    SECRET,
    TENANT_CLUSTER,
)
from reconcilers.cli.local.objects import NAMESPACE, delete
from reconcilers.cli.standin.pools import read_metallb_crds
from reconcilers.configuration.settings import (
    AllocationSettings,
    PoolSettings,
    Settings,
    TenantSettings,
)
from reconcilers.loadbalancers.metallb.kinds import IP_ADDRESS_POOL
from reconcilers.reporting.conditions import FOREIGN_MANAGER
from reconcilers.wiring import assemble
from tests.edits import edit
from tests.hidden_identity import make_hidden_opener
from tests.polling import SECONDS

HOME = names.DEFAULT_NAMESPACE
WATCHED: tuple[Any, ...] = (NETWORK_POOL, IP_ALLOCATION, TENANT_CLUSTER, IP_ADDRESS_POOL)
PROJECTED = Key("metallb-system", "default-pool")
SETTINGS = Settings(
    tenant=TenantSettings(
        requeue_deleting=0.1, requeue_waiting=0.1, requeue_young=0.2, metallb_wait=0.2
    ),
    allocation=AllocationSettings(requeue_releasing=0.1),
)


class ManagementCluster:
    """A management cluster with our kinds and MetalLB's: a client, watches, and our controllers.

    The watches and their caches are filled while `run_controllers` runs.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.client = Client(transport)
        self.watched = [Informer(kind, transport, SystemClock()) for kind in WATCHED]
        self.caches: dict[str, Cache[Any]] = {w.resource.plural: w.cache for w in self.watched}
        self._changed = anyio.Event()
        for informer in self.watched:
            informer.add_handler(lambda _: self.wake())

    def wake(self) -> None:
        """Wake all tasks that wait in `until`, so that they check again."""
        self._changed.set()

    async def create(self, resource: Any, namespace: str, name: str, **body: Any) -> None:
        """Create an object; `body` has its fields beside metadata."""
        await self.client.create(resource, namespace, {"metadata": {"name": name}} | body)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a predicate is true; it is checked after each event of the watches."""
        with anyio.fail_after(SECONDS):
            while not holds():
                self._changed = anyio.Event()
                await self._changed.wait()

    @asynccontextmanager
    async def run_controllers(
        self, managers: int = 1, settings: Settings = SETTINGS, *, hidden: bool = True
    ) -> AsyncIterator[None]:
        """Run the watches, and managers without leader election.

        Args:
            settings: the settings of the managers.
            hidden: whether the identity of tenants is hidden. Otherwise a tenant that is the
                management cluster is rejected.
        """
        async with AsyncExitStack() as stack:
            group = await stack.enter_async_context(anyio.create_task_group())
            for informer in self.watched:
                group.start_soon(informer.run)
            for _ in range(managers):
                clock = SystemClock()
                manager = Manager(self.transport, clock=clock, options=ManagerOptions())
                opener = make_hidden_opener(settings.tenant) if hidden else None
                stack.push_async_callback(
                    assemble(manager, clock, settings=settings, open_tenant=opener).aclose
                )
                group.start_soon(manager.run)
            yield
            group.cancel_scope.cancel()

    def get_phase(self, plural: str, name: str, namespace: str = HOME) -> str | None:
        """Return the phase of an object in a cache; None if the object is not in the cache."""
        cache = self.caches[plural].get(Key(namespace, name))
        return cache.status.phase if cache is not None else None


@pytest.fixture
async def management(plane: Plane, tmp_path: Path) -> AsyncIterator[ManagementCluster]:
    """A management cluster on the test's control plane, without running controllers."""
    async with run_management_cluster(plane, tmp_path / "kubeconfig") as cluster:
        yield cluster


@asynccontextmanager
async def run_management_cluster(
    plane: Plane, kubeconfig: Path
) -> AsyncIterator[ManagementCluster]:
    """Install our kinds, MetalLB's kinds, namespaces, and the kubeconfig of TenantCluster team/a.

    The kubeconfig leads to the control plane itself.

    Args:
        plane: the control plane.
        kubeconfig: where the kubeconfig of the client is written.
    """
    await plane.install_crds([*build_crds(), *read_metallb_crds()])
    transport = await connect(plane.write_kubeconfig(kubeconfig))
    cluster = ManagementCluster(transport)
    for namespace in (HOME, "team", "metallb-system"):
        await cluster.create(NAMESPACE, "", namespace)
    secret = base64.b64encode(plane.get_kubeconfig().encode()).decode()
    await cluster.create(SECRET, "team", "a-admin-kubeconfig", data={"admin.conf": secret})
    yield cluster
    await transport.aclose()


def make_cluster_body() -> dict[str, Any]:
    """Return the fields of a TenantCluster beside its metadata."""
    return {"spec": {"kubernetesVersion": "v1.33.1", "workers": {"replicas": 1}}}


async def test_the_ranges_of_a_tenant_are_allocated_projected_and_released(
    management: ManagementCluster,
) -> None:
    await management.create(NETWORK_POOL, HOME, "lab", spec={"cidr": "10.40.0.0/24"})
    network = {"mode": "ipam", "poolRefs": [{"name": "lab"}]}
    spec = {"provider": "local", "network": network}
    await management.create(PROVIDER_CONFIG, HOME, "default", spec=spec)
    async with management.run_controllers():
        await management.create(TENANT_CLUSTER, "team", "a", **make_cluster_body())
        await management.until(
            lambda: management.get_phase("tenantclusters", "a", "team") == "Ready"
        )
        assert management.get_phase("ipallocations", "team-a-lb") == "Allocated"
        assert management.get_phase("ipallocations", "team-a-nodes") == "Allocated"
        await management.until(lambda: _find_projected(management) == ("10.40.0.0-10.40.0.7",))

        spec = {"addresses": ["10.99.0.0/24"]}
        drifted = await edit(
            management.client, IP_ADDRESS_POOL, key=PROJECTED, change={"spec": spec}
        )
        drift = drifted.metadata.revision
        await management.until(
            lambda: _find_projected(management, after=drift) == ("10.40.0.0-10.40.0.7",)
        )

        await delete(management.client, TENANT_CLUSTER, Key("team", "a"))
        await management.until(lambda: management.get_phase("tenantclusters", "a", "team") is None)
        await management.until(lambda: _count_available(management) == 256)
        assert (await management.client.list(IP_ALLOCATION)).items == ()
        assert (await management.client.list(IP_ADDRESS_POOL)).items == ()

        await delete(management.client, NETWORK_POOL, Key(HOME, "lab"))
        await management.until(lambda: Key(HOME, "lab") not in management.caches["networkpools"])


def _find_projected(management: ManagementCluster, after: int = 0) -> tuple[str, ...] | None:
    """Return the addresses of the tenant's IPAddressPool.

    Args:
        management: the cluster, which is its own tenant.
        after: a revision; None is returned while the cache has no later revision of the pool.
    """
    pool = management.caches["ipaddresspools"].get(PROJECTED)
    if pool is None or pool.metadata.revision <= after:
        return None
    addresses: tuple[str, ...] = pool.spec.addresses
    return addresses


def _count_available(management: ManagementCluster) -> int:
    """Return the number of available addresses in the pool's status; -1 without the pool."""
    pool = management.caches["networkpools"].get(Key(HOME, "lab"))
    return pool.status.availableIPs if pool is not None else -1


def _get_foreign_status(management: ManagementCluster) -> str | None:
    """Return the status of the pool's condition ForeignManager; None if it has none."""
    pool = management.caches["networkpools"].get(Key(HOME, "lab"))
    foreign = find_condition(pool.status.conditions, FOREIGN_MANAGER) if pool is not None else None
    return foreign.status if foreign is not None else None


async def _write_as_foreign_manager(management: ManagementCluster) -> None:
    """Write the pool's status with the field manager of another controller."""
    while True:
        pool = await management.client.get(NETWORK_POOL, Key(HOME, "lab"))
        status = {"status": {"allocatedIPs": pool.status.allocatedIPs + 1}}
        try:
            await management.client.with_field_manager("manager").patch(
                NETWORK_POOL, Version.from_object(pool), status, subresource="status"
            )
        except Conflict:
            continue
        return


async def test_a_pool_allocates_nothing_after_a_foreign_write_until_the_writer_is_silent(
    management: ManagementCluster,
) -> None:
    await management.create(NETWORK_POOL, HOME, "lab", spec={"cidr": "10.40.0.0/24"})
    settings = replace(SETTINGS, pool=PoolSettings(foreign_silence=2.0))
    spec = {
        "poolRef": {"name": "lab"},
        "tenantClusterRef": {"name": "a", "namespace": "team"},
        "type": "nodes",
    }
    async with management.run_controllers(settings=settings):
        await management.create(IP_ALLOCATION, HOME, "early", spec=spec)
        await management.until(
            lambda: management.get_phase("ipallocations", "early") == "Allocated"
        )
        assert _get_foreign_status(management) is None, (
            "our own writes are not those of a foreign manager"
        )
        while (
            _get_foreign_status(management) != "True"
        ):  # a slow machine may notice the write only after the silence
            await _write_as_foreign_manager(management)
            with anyio.move_on_after(1.0):
                await management.until(lambda: _get_foreign_status(management) == "True")
        await management.create(IP_ALLOCATION, HOME, "late", spec=spec)
        await management.until(lambda: _get_foreign_status(management) == "False")
        await management.until(
            lambda: management.get_phase("ipallocations", "late") == "Allocated"
        )


async def test_two_managers_without_leader_election_allocate_no_overlapping_ranges(
    management: ManagementCluster,
) -> None:
    await management.create(NETWORK_POOL, HOME, "lab", spec={"cidr": "10.40.0.0/22"})
    async with management.run_controllers(managers=2), anyio.create_task_group() as group:
        for number in range(100):
            spec = {
                "poolRef": {"name": "lab"},
                "tenantClusterRef": {"name": "a", "namespace": "team"},
                "type": "loadbalancer",
                "count": 1 + number % 7,
            }
            body = {"spec": spec}
            group.start_soon(_create_allocation, management, f"a{number:03}", body)
        await management.until(lambda: _count_allocated(management) == 100)
    held_ranges = [
        statusranges.find_held_range(allocation)
        for allocation in (await management.client.list(IP_ALLOCATION)).items
    ]
    spans = [span for span in held_ranges if isinstance(span, AddressRange)]
    assert len(spans) == 100
    assert not [pair for pair in combinations(spans, 2) if pair[0].overlaps(pair[1])]


async def _create_allocation(
    management: ManagementCluster, name: str, body: dict[str, Any]
) -> None:
    """Create an IPAllocation; positional parameters only, for start_soon."""
    await management.create(IP_ALLOCATION, HOME, name, **body)


def _count_allocated(management: ManagementCluster) -> int:
    """Return the number of allocations in phase Allocated."""
    return sum(
        allocation.status.phase == "Allocated" for allocation in management.caches["ipallocations"]
    )
