"""The static flow on a real HTTP server: asked for, handed out, projected, given back.

The control plane is its own tenant here: one server less to start, and the same requests.
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
from controller.conditions import find
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
from reconcilers.api.crd import crds
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


class Site:
    """A cluster with our kinds in it, watched, and controllers at work on it."""

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
        await self.client.create(resource, namespace, {"metadata": {"name": name}} | body)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until the watches have shown that something holds."""
        with anyio.fail_after(SECONDS):
            while not holds():
                self._changed = anyio.Event()
                await self._changed.wait()

    @asynccontextmanager
    async def controllers(
        self, managers: int = 1, settings: Settings = SETTINGS, *, hidden: bool = True
    ) -> AsyncIterator[None]:
        """Run managers that do not ask whether they lead.

        Args:
            managers: how many.
            settings: theirs.
            hidden: whether tenants do not say which cluster they are.
        """
        async with AsyncExitStack() as stack:
            group = await stack.enter_async_context(anyio.create_task_group())
            for informer in self.watched:
                group.start_soon(informer.run)
            for _ in range(managers):
                clock = SystemClock()
                manager = Manager(self.transport, clock=clock, options=ManagerOptions())
                way = make_hidden_opener(settings.tenant) if hidden else None
                stack.push_async_callback(
                    assemble(manager, clock, settings=settings, open_tenant=way).aclose
                )
                group.start_soon(manager.run)
            yield
            group.cancel_scope.cancel()

    def phase(self, plural: str, name: str, namespace: str = HOME) -> str | None:
        cache = self.caches[plural].get(Key(namespace, name))
        return cache.status.phase if cache is not None else None


@pytest.fixture
async def site(plane: Plane, tmp_path: Path) -> AsyncIterator[Site]:
    """A control plane with our kinds, MetalLB's, and the namespaces."""
    async with site_on(plane, tmp_path / "kubeconfig") as here:
        yield here


@asynccontextmanager
async def site_on(plane: Plane, kubeconfig: Path) -> AsyncIterator[Site]:
    """Make a control plane a site, with our kinds, MetalLB's, and the namespaces."""
    await plane.install_crds([*crds(), *read_metallb_crds()])
    transport = await connect(plane.write_kubeconfig(kubeconfig))
    here = Site(transport)
    for namespace in (HOME, "team", "metallb-system"):
        await here.create(NAMESPACE, "", namespace)
    secret = base64.b64encode(plane.kubeconfig().encode()).decode()
    await here.create(SECRET, "team", "a-admin-kubeconfig", data={"admin.conf": secret})
    yield here
    await transport.aclose()


def _cluster() -> dict[str, Any]:
    return {"spec": {"kubernetesVersion": "v1.33.1", "workers": {"replicas": 1}}}


async def test_a_tenant_gets_its_addresses_and_gives_them_back(site: Site) -> None:
    await site.create(NETWORK_POOL, HOME, "lab", spec={"cidr": "10.40.0.0/24"})
    network = {"mode": "ipam", "poolRefs": [{"name": "lab"}]}
    spec = {"provider": "local", "network": network}
    await site.create(PROVIDER_CONFIG, HOME, "default", spec=spec)
    async with site.controllers():
        await site.create(TENANT_CLUSTER, "team", "a", **_cluster())
        await site.until(lambda: site.phase("tenantclusters", "a", "team") == "Ready")
        assert site.phase("ipallocations", "team-a-lb") == "Allocated"
        assert site.phase("ipallocations", "team-a-nodes") == "Allocated"
        await site.until(lambda: _find_projected(site) == ("10.40.0.0-10.40.0.7",))

        spec = {"addresses": ["10.99.0.0/24"]}
        drifted = await edit(site.client, IP_ADDRESS_POOL, key=PROJECTED, change={"spec": spec})
        drift = drifted.metadata.revision
        await site.until(lambda: _find_projected(site, after=drift) == ("10.40.0.0-10.40.0.7",))

        await delete(site.client, TENANT_CLUSTER, Key("team", "a"))
        await site.until(lambda: site.phase("tenantclusters", "a", "team") is None)
        await site.until(lambda: _available(site) == 256)
        assert (await site.client.list(IP_ALLOCATION)).items == ()
        assert (await site.client.list(IP_ADDRESS_POOL)).items == ()

        await delete(site.client, NETWORK_POOL, Key(HOME, "lab"))
        await site.until(lambda: Key(HOME, "lab") not in site.caches["networkpools"])


def _find_projected(site: Site, after: int = 0) -> tuple[str, ...] | None:
    """Return the entries of the tenant's pool, if the watch has shown a later revision."""
    pool = site.caches["ipaddresspools"].get(PROJECTED)
    if pool is None or pool.metadata.revision <= after:
        return None
    addresses: tuple[str, ...] = pool.spec.addresses
    return addresses


def _available(site: Site) -> int:
    pool = site.caches["networkpools"].get(Key(HOME, "lab"))
    return pool.status.availableIPs if pool is not None else -1


def _foreign(site: Site) -> str | None:
    """Return the pool's condition about other controllers; None if it has none."""
    pool = site.caches["networkpools"].get(Key(HOME, "lab"))
    foreign = find(pool.status.conditions, FOREIGN_MANAGER) if pool is not None else None
    return foreign.status if foreign is not None else None


async def _meddle(site: Site) -> None:
    """Write the pool's status as another controller would."""
    while True:
        pool = await site.client.get(NETWORK_POOL, Key(HOME, "lab"))
        status = {"status": {"allocatedIPs": pool.status.allocatedIPs + 1}}
        try:
            await site.client.with_field_manager("manager").patch(
                NETWORK_POOL, Version.from_object(pool), status, subresource="status"
            )
        except Conflict:
            continue
        return


async def test_another_controllers_writes_stop_a_pool_until_it_is_silent(site: Site) -> None:
    await site.create(NETWORK_POOL, HOME, "lab", spec={"cidr": "10.40.0.0/24"})
    settings = replace(SETTINGS, pool=PoolSettings(foreign_silence=2.0))
    spec = {
        "poolRef": {"name": "lab"},
        "tenantClusterRef": {"name": "a", "namespace": "team"},
        "type": "nodes",
    }
    async with site.controllers(settings=settings):
        await site.create(IP_ALLOCATION, HOME, "early", spec=spec)
        await site.until(lambda: site.phase("ipallocations", "early") == "Allocated")
        assert _foreign(site) is None, "our own writes are known again"
        while _foreign(site) != "True":  # a slow machine may look only after the silence
            await _meddle(site)
            with anyio.move_on_after(1.0):
                await site.until(lambda: _foreign(site) == "True")
        await site.create(IP_ALLOCATION, HOME, "late", spec=spec)
        await site.until(lambda: _foreign(site) == "False")
        await site.until(lambda: site.phase("ipallocations", "late") == "Allocated")


async def test_two_managers_that_both_lead_never_overlap(site: Site) -> None:
    await site.create(NETWORK_POOL, HOME, "lab", spec={"cidr": "10.40.0.0/22"})
    async with site.controllers(managers=2), anyio.create_task_group() as group:
        for number in range(100):
            spec = {
                "poolRef": {"name": "lab"},
                "tenantClusterRef": {"name": "a", "namespace": "team"},
                "type": "loadbalancer",
                "count": 1 + number % 7,
            }
            body = {"spec": spec}
            group.start_soon(_create, site, f"a{number:03}", body)
        await site.until(lambda: _count_allocated(site) == 100)
    held_ranges = [
        statusranges.find_held_range(allocation)
        for allocation in (await site.client.list(IP_ALLOCATION)).items
    ]
    spans = [span for span in held_ranges if isinstance(span, AddressRange)]
    assert len(spans) == 100
    assert not [pair for pair in combinations(spans, 2) if pair[0].overlaps(pair[1])]


async def _create(site: Site, name: str, body: dict[str, Any]) -> None:
    await site.create(IP_ALLOCATION, HOME, name, **body)


def _count_allocated(site: Site) -> int:
    return sum(
        allocation.status.phase == "Allocated" for allocation in site.caches["ipallocations"]
    )
