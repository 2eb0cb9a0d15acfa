"""Replicas that share tenants, by --shards: who watches which, and what moves with a shard."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from typing_extensions import override

from controller.errors import NoAnswer
from controller.leases import LEASES
from controller.manager import Manager
from controller.meta import Key
from controller.options import ManagerOptions
from controller.shards import compute_shard
from controller.testing.api import FakeApi
from controller.transport import NO_QUERY, Transport
from reconcilers.api.names import ANNOTATION_REQUESTED_AT
from reconcilers.clusteraccess.tenantclients import TenantClients
from reconcilers.wiring import assemble
from reconcilers.wiring.controllers import OTHERS_CLOSED_AFTER
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, add_service, find_address
from tests.reconcilers.platform import Platform
from tests.reconcilers.tenantcluster.elastic.site import make_elastic_platform

SHARDS = 4
TENANTS = [f"t{number}" for number in range(8)]


class Through(Transport):
    """A connection: requests for Leases go to one server, all else to another.

    Args:
        leases: gets requests for Leases.
        other: gets all others.
        watching: called with 1 when a watch begins, with -1 when it ends.
    """

    def __init__(
        self, leases: Transport, other: Transport, watching: Callable[[int], None]
    ) -> None:
        self._leases = leases
        self._other = other
        self._watching = watching

    @override
    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = NO_QUERY,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float | None = 30.0,
    ) -> bytes:
        server = self._leases if "/leases" in path else self._other
        return await server.request(
            method, path, query=query, body=body, content_type=content_type
        )

    @override
    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._other.stream(path, query=query) as chunks:
            self._watching(1)
            try:
                yield chunks
            finally:
                self._watching(-1)

    @override
    async def aclose(self) -> None:
        """Nothing is open."""


class Replica:
    """All controllers, on a platform that several replicas share."""

    def __init__(self, name: str, platform: Platform, api: FakeApi) -> None:
        self.watches: Counter[str] = Counter()
        """How many watches are open in each tenant."""

        def open_tenant(config: bytes) -> Transport:
            tenant = config.decode()

            def watching(change: int) -> None:
                self.watches[tenant] += change

            return Through(api, platform.tenants[tenant], watching)

        options = ManagerOptions(
            leader_elect=True,
            lease_namespace=make.NAMESPACE,
            lease_name="butler-ipam",
            identity=name,
            shards=SHARDS,
            grace_seconds=5.0,
        )
        transport = Through(api, platform.server, lambda _: None)
        self.manager = Manager(transport, clock=platform.clock, options=options)
        self.tenants: TenantClients = assemble(
            self.manager, platform.clock, settings=platform.settings, open_tenant=open_tenant
        )

    @property
    def held(self) -> set[int]:
        """The shards that it works on."""
        assert self.manager.shards is not None
        return set(self.manager.shards.held)

    @property
    def watched(self) -> set[str]:
        """The tenants in which it has open watches."""
        return {name for name, count in self.watches.items() if count}

    @property
    def own(self) -> set[str]:
        """The tenants whose shards it holds."""
        return {name for name in TENANTS if compute_shard(Key("team", name), SHARDS) in self.held}


class Site:
    """A platform with eight elastic tenants, and replicas that share them."""

    def __init__(self, group: TaskGroup, *pools: Any, tenants: bool = True) -> None:
        self.platform, _ = make_elastic_platform(*(pools or [make.pool(cidr="10.40.0.0/22")]))
        self.clock = self.platform.clock
        self.api = FakeApi(self.clock)
        self.api.serve(LEASES, status=False, generation=False)
        self.replicas: list[Replica] = []
        self._group = group
        self.platform.server.delete("tenantclusters", "a", namespace="team")
        for name in TENANTS:
            Balancer(self.platform.tenant(name))
        if tenants:
            self.add_tenants()

    def add_tenants(self) -> None:
        """Create the clusters, all at once."""
        for name in TENANTS:
            self.platform.server.add("tenantclusters", make.tenant(name))

    async def start(self, *names: str) -> None:
        """Start replicas, and let them find each other."""
        for name in names:
            replica = Replica(name, self.platform, self.api)
            self.replicas.append(replica)
            self._group.start_soon(replica.manager.run)
        await self.clock.advance(30)

    def ask(self, name: str) -> None:
        """Create a Service in each tenant."""
        for tenant in TENANTS:
            add_service(self.platform.tenants[tenant], name)

    def list_serving_tenants(self, name: str) -> list[str]:
        """Return the tenants in which a Service has an address."""
        tenants = self.platform.tenants
        return [tenant for tenant in TENANTS if find_address(tenants[tenant], name) is not None]


def site(*pools: Any, tenants: bool = True) -> AbstractAsyncContextManager[Site]:
    """Return a site with a pool, or with others; its replicas are cancelled in the end."""

    @asynccontextmanager
    async def make_site() -> AsyncIterator[Site]:
        async with anyio.create_task_group() as group:
            home = Site(group, *pools, tenants=tenants)
            yield home
            group.cancel_scope.cancel()
        for replica in home.replicas:
            await replica.tenants.aclose()

    return make_site()


@pytest.mark.slow
@pytest.mark.parametrize("names", ["ab", "abc"])
async def test_each_tenant_is_watched_by_who_holds_its_shard(names: str) -> None:
    async with site() as home:
        await home.start(*names)
        for name in ("one", "two", "three"):
            home.ask(name)
        await home.clock.advance(60)
        assert home.list_serving_tenants("three") == TENANTS
        for replica in home.replicas:
            assert replica.watched == replica.own
        assert set.union(*[replica.own for replica in home.replicas]) == set(TENANTS)


@pytest.mark.slow
async def test_watches_move_to_a_replica_that_comes_and_its_tenants_grow() -> None:
    async with site() as home:
        await home.start("a")
        home.ask("one")
        await home.clock.advance(30)
        [a] = home.replicas
        assert a.watched == set(TENANTS)
        await home.start("b")
        b = home.replicas[1]
        assert b.own
        assert (a.watched, b.watched) == (a.own, b.own)
        home.ask("two")
        home.ask("three")
        await home.clock.advance(60)
        assert home.list_serving_tenants("three") == TENANTS


@pytest.mark.slow
async def test_tenants_of_a_replica_that_stops_grow_by_another() -> None:
    async with site() as home:
        await home.start("a", "b")
        home.ask("one")
        await home.clock.advance(30)
        a, b = home.replicas
        a.manager.stop()
        await home.clock.advance(20)
        assert a.watched == set()
        assert b.watched == set(TENANTS)
        home.ask("two")
        home.ask("three")
        await home.clock.advance(60)
        assert home.list_serving_tenants("three") == TENANTS


async def test_clusters_deleted_while_shards_move_give_everything_back() -> None:
    async with site() as home:
        await home.start("a", "b")
        home.ask("one")
        await home.clock.advance(30)
        for name in TENANTS:
            home.platform.server.delete("tenantclusters", name, namespace="team")
        home.replicas[0].manager.stop()
        await home.clock.advance(60)
        assert home.platform.server.all("tenantclusters") == []
        assert home.platform.server.all("ipallocations") == []
        for name in TENANTS:
            assert home.platform.tenants[name].all("ipaddresspools") == []


@pytest.mark.slow
async def test_no_replica_keeps_clients_of_tenants_that_are_gone() -> None:
    async with site() as home:
        await home.start("a", "b")
        await home.clock.advance(30)
        for name in TENANTS:
            home.platform.server.delete("tenantclusters", name, namespace="team")
        await home.clock.advance(60)
        assert home.platform.server.all("ipallocations") == []
        used = [replica.tenants.list_open() for replica in home.replicas]
        assert any(used), "who holds the pool has asked tenants of another replica"
        await home.clock.advance(OTHERS_CLOSED_AFTER)
        assert [replica.tenants.list_open() for replica in home.replicas] == [[], []]


@pytest.mark.slow
async def test_the_grace_of_a_teardown_passes_where_only_the_pools_shard_is_held() -> None:
    async with site() as home:
        await home.start("a", "b")
        await home.clock.advance(30)
        for name in TENANTS:
            home.platform.tenants[name].fail(NoAnswer("timed out"), times=100_000)
            home.platform.server.delete("tenantclusters", name, namespace="team")
        await home.clock.advance(OTHERS_CLOSED_AFTER + 60)
        assert len(home.platform.server.all("tenantclusters")) == len(TENANTS)
        await home.clock.advance(2 * OTHERS_CLOSED_AFTER)
        assert home.platform.server.all("tenantclusters") == []
        assert home.platform.server.all("ipallocations") == []


@pytest.mark.slow
async def test_a_client_of_a_tenant_that_is_worked_on_here_stays_open() -> None:
    async with site() as home:
        await home.start("a", "b")
        home.ask("one")
        await home.clock.advance(OTHERS_CLOSED_AFTER + 60)
        for replica in home.replicas:
            assert {key.name for key in replica.tenants.list_open()} == replica.own


@pytest.mark.slow
async def test_clusters_that_race_for_the_last_room_of_a_pool_are_all_served() -> None:
    tight, wide = make.pool("tight", cidr="10.40.0.0/27"), make.pool("wide", cidr="10.41.0.0/22")
    async with site(tight, wide, tenants=False) as home:
        await home.start("a", "b")
        assert all(replica.own for replica in home.replicas)
        home.add_tenants()
        await home.clock.advance(120)
        server = home.platform.server
        allocations = server.all("ipallocations")
        assert {allocation["status"]["phase"] for allocation in allocations} == {"Allocated"}
        assert {allocation["spec"]["poolRef"]["name"] for allocation in allocations} == {
            "tight",
            "wide",
        }
        moved = [
            allocation
            for allocation in allocations
            if ANNOTATION_REQUESTED_AT in allocation["metadata"]["annotations"]
        ]
        assert moved, "some chose a pool whose last room another replica had given to others"
        assert {cluster["status"]["phase"] for cluster in server.all("tenantclusters")} == {
            "Ready"
        }
        assert len(server.all("tenantclusters")) == len(TENANTS)
