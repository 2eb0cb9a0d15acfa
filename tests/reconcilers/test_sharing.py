"""Replicas that share pools, by --shards: who writes what, and that no request is forgotten."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from ipaddress import ip_address
from itertools import pairwise
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from controller.client import Client
from controller.eventkind import EVENTS
from controller.leases import LEASES
from controller.manager import Manager
from controller.meta import Key
from controller.options import ManagerOptions
from controller.resource import Resource
from controller.shards import shard_of
from controller.testing.api import FakeApi
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    OWN_KINDS,
)
from reconcilers.configuration.settings import Settings
from reconcilers.wiring.assembling import add_orphans
from reconcilers.wiring.controllers import (
    add_ipallocations,
    add_networkpools,
    add_providerconfigs,
)
from reconcilers.wiring.integrations import add_integrations
from reconcilers.wiring.shared import Shared
from tests.clock import VirtualClock
from tests.controller.sharing import Link, ProcessClock
from tests.reconcilers.lab import OpenGate

NAMESPACE = "butler-system"
SHARDS = 4
POOLS = [f"pool-{number}" for number in range(12)]
RANGES_PER_POOL = 4
"""The ranges that `ask_for_ranges` asks for in each pool."""
RANGES_PER_CALL = RANGES_PER_POOL * len(POOLS)
"""The ranges that one call of `ask_for_ranges` asks for."""
STEP = 0.25


class Replica:
    """The controllers of pools, allocations and providers, and the collector of orphans."""

    def __init__(
        self,
        name: str,
        api: FakeApi,
        settings: Settings | None = None,
        shards: int = SHARDS,
        *,
        leader_elect: bool = True,
    ) -> None:
        self.name = name
        self.clock = ProcessClock()
        self.link = Link(api)
        self.frozen = False
        options = ManagerOptions(
            leader_elect=leader_elect,
            lease_namespace=NAMESPACE,
            lease_name="butler-ipam",
            identity=name,
            shards=shards,
        )
        self.manager = Manager(self.link, clock=self.clock, options=options)
        shared = Shared.from_manager(self.manager, self.clock, settings or Settings())
        add_networkpools(shared, add_integrations(shared))
        add_ipallocations(shared, OpenGate())
        add_providerconfigs(shared)
        add_orphans(shared)

    @property
    def held_shards(self) -> set[int]:
        """The shards that it works on."""
        assert self.manager.shards is not None
        return set(self.manager.shards.held)

    def take_written_names(self) -> dict[str, set[str]]:
        """Return the names of the pools and allocations that it wrote, by plural.

        Only writes since the last call count.
        """
        names: dict[str, set[str]] = {"networkpools": set(), "ipallocations": set()}
        for method, path in self.link.sent:
            plural, _, name = path.partition("/namespaces/butler-system/")[2].partition("/")
            if method in {"PATCH", "PUT"} and plural in names:
                names[plural].add(name.removesuffix("/status"))
        self.link.sent.clear()
        return names


class Cluster:
    """A fake API with pools, and the replicas at it."""

    def __init__(
        self,
        group: TaskGroup,
        settings: Settings | None = None,
        shards: int = SHARDS,
        missing: Collection[Resource[Any]] = (),
    ) -> None:
        self.settings = settings
        self.shards = shards
        self.clock = VirtualClock()
        self.api = FakeApi(self.clock)
        for resource in OWN_KINDS.values():
            if resource not in missing:
                self.serve(resource)
        self.api.serve(EVENTS, status=False, generation=False)
        self.api.serve(LEASES, status=False, generation=False)
        self.client = Client(self.api)
        self.replicas: list[Replica] = []
        self._group = group

    def serve(self, resource: Resource[Any]) -> None:
        """Serve a kind of ours from now on."""
        self.api.serve(resource, fields=("spec.poolRef.name",))

    def start(self, *names: str, leader_elect: bool = True) -> list[Replica]:
        """Start replicas; return them. Without election and shards each of them leads."""
        replicas = [
            Replica(
                name,
                self.api,
                settings=self.settings,
                shards=self.shards,
                leader_elect=leader_elect,
            )
            for name in names
        ]
        for name in replicas:
            self.replicas.append(name)
            self._group.start_soon(name.manager.run)
        return replicas

    async def pool(self, name: str, third: int) -> None:
        """Create a pool of 256 addresses."""
        body = {"metadata": {"name": name}, "spec": {"cidr": f"10.0.{third}.0/24"}}
        await self.client.create(NETWORK_POOL, NAMESPACE, body)

    async def ask(self, name: str, pool: str, count: int = 8) -> None:
        """Create an allocation of a pool."""
        spec = {
            "poolRef": {"name": pool},
            "tenantClusterRef": {"name": name, "namespace": "team"},
            "type": "loadbalancer",
            "count": count,
        }
        await self.client.create(
            IP_ALLOCATION, NAMESPACE, {"metadata": {"name": name}, "spec": spec}
        )

    async def pass_by(self, seconds: float) -> None:
        """Let time pass for all replicas that are not frozen."""
        for _ in range(round(seconds / STEP)):
            await self.clock.advance(STEP)
            for replica in self.replicas:
                if not replica.frozen:
                    await replica.clock.advance(self.clock.monotonic() - replica.clock.monotonic())

    async def thaw(self, replica: Replica) -> None:
        """Let a frozen replica go on."""
        replica.frozen = False
        await replica.clock.thaw(self.clock.monotonic() - replica.clock.monotonic())

    async def ranges(self) -> dict[str, tuple[str, int, int]]:
        """Return pool, first and last address of each allocation that holds a range."""
        page = await self.client.list(IP_ALLOCATION)
        return {
            obj.metadata.name: (
                obj.spec.poolRef.name,
                int(ip_address(obj.status.startAddress)),
                int(ip_address(obj.status.endAddress)),
            )
            for obj in page.items
            if obj.status.startAddress and obj.status.endAddress
        }

    async def check_apart(self, count: int) -> None:
        """Assert that `count` allocations hold ranges, and that no two of a pool overlap."""
        ranges = sorted((await self.ranges()).values())
        assert len(ranges) == count
        for (pool, _, last), (other, first, _) in pairwise(ranges):
            assert pool != other or last < first


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """Return a cluster with twelve pools; its replicas are cancelled in the end."""
    async with anyio.create_task_group() as group:
        shared_cluster = Cluster(group)
        for number, name in enumerate(POOLS):
            await shared_cluster.pool(name, number)
        yield shared_cluster
        for replica in shared_cluster.replicas:
            replica.link.cut = False  # or one whose clock stands still never gives up its leases
        group.cancel_scope.cancel()


def shard(pool: str) -> int:
    return shard_of(Key(NAMESPACE, pool), SHARDS)


async def ask_for_ranges(cluster: Cluster, prefix: str) -> dict[str, str]:
    """Ask for RANGES_PER_POOL ranges of each pool; return the pool of each allocation."""
    numbers = range(RANGES_PER_POOL)
    names = {f"{prefix}-{pool}-{number}": pool for pool in POOLS for number in numbers}
    for name, pool in names.items():
        await cluster.ask(name, pool)
    return names


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_a_pool_and_its_allocations_are_written_by_who_holds_its_shard(count: int) -> None:
    async with cluster() as home:
        replicas = home.start(*"abc"[:count])
        await home.pass_by(20)
        for replica in replicas:
            replica.link.sent.clear()
        pool_of = await ask_for_ranges(home, "one")
        await home.pass_by(5)
        await home.check_apart(RANGES_PER_CALL)
        for replica in replicas:
            pools = {pool for pool in POOLS if shard(pool) in replica.held_shards}
            assert pools
            assert replica.take_written_names() == {
                "networkpools": pools,
                "ipallocations": {name for name, pool in pool_of.items() if pool in pools},
            }


@pytest.mark.slow
async def test_requests_of_a_dead_replicas_pools_are_served_when_its_leases_have_expired() -> None:
    async with cluster() as home:
        a, *others = home.start(*"abc")
        await home.pass_by(20)
        a.frozen = a.link.cut = True
        await ask_for_ranges(home, "one")
        await home.pass_by(5)
        waiting = RANGES_PER_POOL * sum(shard(pool) in a.held_shards for pool in POOLS)
        assert waiting > 0
        await home.check_apart(RANGES_PER_CALL - waiting)
        await home.pass_by(15)
        await home.check_apart(RANGES_PER_CALL)
        assert sorted(len(other_replica.held_shards) for other_replica in others) == [2, 2]


@pytest.mark.slow
async def test_a_replica_that_works_on_after_its_leases_have_expired_does_no_harm() -> None:
    async with cluster() as home:
        a, b = home.start(*"ab")
        await home.pass_by(20)
        a.frozen = True
        await ask_for_ranges(home, "one")
        await home.pass_by(25)
        assert b.held_shards == set(range(SHARDS))
        assert a.held_shards
        await ask_for_ranges(home, "two")
        await home.pass_by(5)
        await home.thaw(a)
        await home.pass_by(60)
        await home.check_apart(2 * RANGES_PER_CALL)
        assert sorted(len(replica.held_shards) for replica in home.replicas) == [2, 2]


@pytest.mark.slow
async def test_pools_are_served_while_replicas_come_and_go() -> None:
    async with cluster() as home:
        [a] = home.start("a")
        await home.pass_by(10)
        await ask_for_ranges(home, "one")
        home.start("b")
        await home.pass_by(3)
        await ask_for_ranges(home, "two")
        home.start("c")
        await home.pass_by(4)
        a.manager.stop()
        await ask_for_ranges(home, "three")
        await home.pass_by(20)
        await home.check_apart(3 * RANGES_PER_CALL)


@pytest.mark.slow
async def test_at_rest_replicas_send_nothing_but_their_leases() -> None:
    async with cluster() as home:
        replicas = home.start(*"ab")
        await home.pass_by(20)
        await ask_for_ranges(home, "one")
        await home.pass_by(200)
        for sharer in replicas:
            sharer.link.sent.clear()
        await home.pass_by(100)
        sent: list[Any] = [request for replica in replicas for request in replica.link.sent]
        assert sent
        assert [request for request in sent if "/leases" not in request[1]] == []


@pytest.mark.slow
async def test_a_replica_does_not_write_pools_of_shards_that_it_handed_over() -> None:
    async with cluster() as home:
        [a] = home.start("a")
        await home.pass_by(10)
        await ask_for_ranges(home, "one")
        await home.pass_by(5)
        home.start("b")
        await home.pass_by(20)
        assert len(a.held_shards) == SHARDS / 2
        a.link.sent.clear()
        await ask_for_ranges(home, "two")
        await home.pass_by(5)
        own_pools = {pool for pool in POOLS if shard(pool) in a.held_shards}
        assert a.take_written_names()["networkpools"] == own_pools
        await home.check_apart(2 * RANGES_PER_CALL)
