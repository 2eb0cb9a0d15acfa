"""Replicas that share pools, by --shards: who writes what, and that no request is forgotten."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from ipaddress import ip_address
from itertools import pairwise
from typing import Any, NamedTuple

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
from controller.shards import compute_shard
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
"""Seconds by which all clocks advance at a time."""


class HeldRange(NamedTuple):
    """The range that an allocation holds.

    Args:
        pool: the name of the pool.
        first: the first address, as a number.
        last: the last address, as a number.
    """

    pool: str
    first: int
    last: int


class Replica:
    """A process with the controllers of pools, allocations, providers and integrations.

    Its clock and its connection to the API server are its own: a test can stop and cut them.
    """

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
        """The shards whose Leases the replica holds."""
        assert self.manager.shards is not None
        return set(self.manager.shards.held)

    def take_written_names(self) -> dict[str, set[str]]:
        """Return the names of the pools and allocations that the replica wrote, by plural.

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
    """A fake API server, and the replicas that work on it.

    Args:
        group: runs the replicas.
        settings: the settings of each replica.
        shards: into how many parts the replicas divide all pools.
        missing: the kinds of ours that the server does not serve at first.
    """

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

    def start_replicas(self, *names: str, leader_elect: bool = True) -> list[Replica]:
        """Start replicas, and return them.

        Args:
            *names: their names.
            leader_elect: elect leaders; if it is False and `shards` is 0, each replica leads.
        """
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
        for replica in replicas:
            self.replicas.append(replica)
            self._group.start_soon(replica.manager.run)
        return replicas

    async def create_pool(self, name: str, third_octet: int) -> None:
        """Create a NetworkPool with the 256 addresses of 10.0.`third_octet`.0/24."""
        body = {"metadata": {"name": name}, "spec": {"cidr": f"10.0.{third_octet}.0/24"}}
        await self.client.create(NETWORK_POOL, NAMESPACE, body)

    async def create_allocation(self, name: str, pool: str, count: int = 8) -> None:
        """Create an IPAllocation that requests `count` addresses of a NetworkPool."""
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
        """Let a frozen replica continue; its clock jumps to the present."""
        replica.frozen = False
        await replica.clock.thaw(self.clock.monotonic() - replica.clock.monotonic())

    async def list_ranges(self) -> dict[str, HeldRange]:
        """Return the ranges of the allocations that hold one, by name of the allocation."""
        page = await self.client.list(IP_ALLOCATION)
        return {
            obj.metadata.name: HeldRange(
                obj.spec.poolRef.name,
                int(ip_address(obj.status.startAddress)),
                int(ip_address(obj.status.endAddress)),
            )
            for obj in page.items
            if obj.status.startAddress and obj.status.endAddress
        }

    async def assert_ranges_apart(self, count: int) -> None:
        """Assert that `count` allocations hold ranges, and that no two of a pool overlap."""
        ranges = sorted((await self.list_ranges()).values())
        assert len(ranges) == count
        for lower, upper in pairwise(ranges):
            assert lower.pool != upper.pool or lower.last < upper.first


@asynccontextmanager
async def open_cluster_with_pools() -> AsyncIterator[Cluster]:
    """Yield a cluster with twelve pools; its replicas are cancelled in the end."""
    async with anyio.create_task_group() as group:
        cluster = Cluster(group)
        for number, name in enumerate(POOLS):
            await cluster.create_pool(name, number)
        yield cluster
        for replica in cluster.replicas:
            replica.link.cut = False  # or one whose clock stands still never gives up its leases
        group.cancel_scope.cancel()


def find_shard(pool: str) -> int:
    """Return the number of the shard that a pool belongs to."""
    return compute_shard(Key(NAMESPACE, pool), SHARDS)


async def ask_for_ranges(cluster: Cluster, prefix: str) -> dict[str, str]:
    """Create RANGES_PER_POOL allocations of each pool; return the pools by name of allocation.

    Args:
        cluster: where they are created.
        prefix: what the names of these allocations begin with.
    """
    numbers = range(RANGES_PER_POOL)
    pools_by_name = {f"{prefix}-{pool}-{number}": pool for pool in POOLS for number in numbers}
    for name, pool in pools_by_name.items():
        await cluster.create_allocation(name, pool)
    return pools_by_name


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_a_pool_and_its_allocations_are_written_by_the_replica_with_its_shard(
    count: int,
) -> None:
    async with open_cluster_with_pools() as cluster:
        replicas = cluster.start_replicas(*"abc"[:count])
        await cluster.pass_by(20)
        for replica in replicas:
            replica.link.sent.clear()
        pools_by_name = await ask_for_ranges(cluster, "one")
        await cluster.pass_by(5)
        await cluster.assert_ranges_apart(RANGES_PER_CALL)
        for replica in replicas:
            pools = {pool for pool in POOLS if find_shard(pool) in replica.held_shards}
            assert pools
            assert replica.take_written_names() == {
                "networkpools": pools,
                "ipallocations": {name for name, pool in pools_by_name.items() if pool in pools},
            }


@pytest.mark.slow
async def test_requests_of_a_dead_replicas_pools_are_served_when_its_leases_have_expired() -> None:
    async with open_cluster_with_pools() as cluster:
        a, *others = cluster.start_replicas(*"abc")
        await cluster.pass_by(20)
        a.frozen = a.link.cut = True
        await ask_for_ranges(cluster, "one")
        await cluster.pass_by(5)
        waiting = RANGES_PER_POOL * sum(find_shard(pool) in a.held_shards for pool in POOLS)
        assert waiting > 0
        await cluster.assert_ranges_apart(RANGES_PER_CALL - waiting)
        await cluster.pass_by(15)
        await cluster.assert_ranges_apart(RANGES_PER_CALL)
        assert sorted(len(other_replica.held_shards) for other_replica in others) == [2, 2]


@pytest.mark.slow
async def test_a_replica_that_thaws_after_its_leases_have_expired_does_no_harm() -> None:
    async with open_cluster_with_pools() as cluster:
        a, b = cluster.start_replicas(*"ab")
        await cluster.pass_by(20)
        a.frozen = True
        await ask_for_ranges(cluster, "one")
        await cluster.pass_by(25)
        assert b.held_shards == set(range(SHARDS))
        assert a.held_shards
        await ask_for_ranges(cluster, "two")
        await cluster.pass_by(5)
        await cluster.thaw(a)
        await cluster.pass_by(60)
        await cluster.assert_ranges_apart(2 * RANGES_PER_CALL)
        assert sorted(len(replica.held_shards) for replica in cluster.replicas) == [2, 2]


@pytest.mark.slow
async def test_pools_are_served_while_replicas_come_and_go() -> None:
    async with open_cluster_with_pools() as cluster:
        [a] = cluster.start_replicas("a")
        await cluster.pass_by(10)
        await ask_for_ranges(cluster, "one")
        cluster.start_replicas("b")
        await cluster.pass_by(3)
        await ask_for_ranges(cluster, "two")
        cluster.start_replicas("c")
        await cluster.pass_by(4)
        a.manager.stop()
        await ask_for_ranges(cluster, "three")
        await cluster.pass_by(20)
        await cluster.assert_ranges_apart(3 * RANGES_PER_CALL)


@pytest.mark.slow
async def test_at_rest_replicas_send_nothing_but_their_leases() -> None:
    async with open_cluster_with_pools() as cluster:
        replicas = cluster.start_replicas(*"ab")
        await cluster.pass_by(20)
        await ask_for_ranges(cluster, "one")
        await cluster.pass_by(200)
        for replica in replicas:
            replica.link.sent.clear()
        await cluster.pass_by(100)
        sent: list[Any] = [request for replica in replicas for request in replica.link.sent]
        assert sent
        assert [request for request in sent if "/leases" not in request[1]] == []


@pytest.mark.slow
async def test_a_replica_does_not_write_pools_of_shards_that_it_handed_over() -> None:
    async with open_cluster_with_pools() as cluster:
        [a] = cluster.start_replicas("a")
        await cluster.pass_by(10)
        await ask_for_ranges(cluster, "one")
        await cluster.pass_by(5)
        cluster.start_replicas("b")
        await cluster.pass_by(20)
        assert len(a.held_shards) == SHARDS / 2
        a.link.sent.clear()
        await ask_for_ranges(cluster, "two")
        await cluster.pass_by(5)
        own_pools = {pool for pool in POOLS if find_shard(pool) in a.held_shards}
        assert a.take_written_names()["networkpools"] == own_pools
        await cluster.assert_ranges_apart(2 * RANGES_PER_CALL)
