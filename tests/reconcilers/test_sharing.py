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
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL, PROVIDER_CONFIG, TENANT_CLUSTER
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
    def held(self) -> set[int]:
        """The shards that it works on."""
        assert self.manager.shards is not None
        return set(self.manager.shards.held)

    def written(self) -> dict[str, set[str]]:
        """Return the names of the pools and allocations that it wrote, by plural, and forget."""
        found: dict[str, set[str]] = {"networkpools": set(), "ipallocations": set()}
        for method, path in self.link.sent:
            plural, _, name = path.partition("/namespaces/butler-system/")[2].partition("/")
            if method in {"PATCH", "PUT"} and plural in found:
                found[plural].add(name.removesuffix("/status"))
        self.link.sent.clear()
        return found


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
        for resource in (NETWORK_POOL, IP_ALLOCATION, TENANT_CLUSTER, PROVIDER_CONFIG):
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
        made = [
            Replica(name, self.api, self.settings, self.shards, leader_elect=leader_elect)
            for name in names
        ]
        for one in made:
            self.replicas.append(one)
            self._group.start_soon(one.manager.run)
        return made

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
            for one in self.replicas:
                if not one.frozen:
                    await one.clock.advance(self.clock.monotonic() - one.clock.monotonic())

    async def thaw(self, replica: Replica) -> None:
        """Let a frozen replica go on."""
        replica.frozen = False
        await replica.clock.thaw(self.clock.monotonic() - replica.clock.monotonic())

    async def ranges(self) -> dict[str, tuple[str, int, int]]:
        """Return pool, first and last address of each allocation that holds a range."""
        page = await self.client.list(IP_ALLOCATION)
        return {
            one.metadata.name: (
                one.spec.poolRef.name,
                int(ip_address(one.status.startAddress)),
                int(ip_address(one.status.endAddress)),
            )
            for one in page.items
            if one.status.startAddress and one.status.endAddress
        }

    async def check_apart(self, count: int) -> None:
        """Assert that `count` allocations hold ranges, and that no two of a pool overlap."""
        found = sorted((await self.ranges()).values())
        assert len(found) == count
        for (pool, _, last), (other, first, _) in pairwise(found):
            assert pool != other or last < first


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """Return a cluster with twelve pools; its replicas are cancelled in the end."""
    async with anyio.create_task_group() as group:
        made = Cluster(group)
        for number, name in enumerate(POOLS):
            await made.pool(name, number)
        yield made
        for one in made.replicas:
            one.link.cut = False  # or one whose clock stands still never gives up its leases
        group.cancel_scope.cancel()


def shard(pool: str) -> int:
    return shard_of(Key(NAMESPACE, pool), SHARDS)


async def asked(cluster: Cluster, prefix: str) -> dict[str, str]:
    """Ask for four ranges of each pool; return the pool of each allocation."""
    names = {f"{prefix}-{pool}-{number}": pool for pool in POOLS for number in range(4)}
    for name, pool in names.items():
        await cluster.ask(name, pool)
    return names


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_a_pool_and_its_allocations_are_written_by_who_holds_its_shard(count: int) -> None:
    async with cluster() as home:
        replicas = home.start(*"abc"[:count])
        await home.pass_by(20)
        for one in replicas:
            one.written()
        pool_of = await asked(home, "one")
        await home.pass_by(5)
        await home.check_apart(48)
        for one in replicas:
            pools = {pool for pool in POOLS if shard(pool) in one.held}
            assert pools
            assert one.written() == {
                "networkpools": pools,
                "ipallocations": {name for name, pool in pool_of.items() if pool in pools},
            }


@pytest.mark.slow
async def test_requests_of_a_dead_replicas_pools_are_served_when_its_leases_have_expired() -> None:
    async with cluster() as home:
        a, *others = home.start(*"abc")
        await home.pass_by(20)
        a.frozen = a.link.cut = True
        await asked(home, "one")
        await home.pass_by(5)
        waiting = 4 * sum(shard(pool) in a.held for pool in POOLS)
        assert waiting > 0
        await home.check_apart(48 - waiting)
        await home.pass_by(15)
        await home.check_apart(48)
        assert sorted(len(one.held) for one in others) == [2, 2]


@pytest.mark.slow
async def test_a_replica_that_works_on_after_its_leases_have_expired_does_no_harm() -> None:
    async with cluster() as home:
        a, b = home.start(*"ab")
        await home.pass_by(20)
        a.frozen = True
        await asked(home, "one")
        await home.pass_by(25)
        assert b.held == set(range(SHARDS))
        assert a.held
        await asked(home, "two")
        await home.pass_by(5)
        await home.thaw(a)
        await home.pass_by(60)
        await home.check_apart(96)
        assert sorted(len(one.held) for one in home.replicas) == [2, 2]


@pytest.mark.slow
async def test_pools_are_served_while_replicas_come_and_go() -> None:
    async with cluster() as home:
        [a] = home.start("a")
        await home.pass_by(10)
        await asked(home, "one")
        home.start("b")
        await home.pass_by(3)
        await asked(home, "two")
        home.start("c")
        await home.pass_by(4)
        a.manager.stop()
        await asked(home, "three")
        await home.pass_by(20)
        await home.check_apart(144)


@pytest.mark.slow
async def test_at_rest_replicas_send_nothing_but_their_leases() -> None:
    async with cluster() as home:
        replicas = home.start(*"ab")
        await home.pass_by(20)
        await asked(home, "one")
        await home.pass_by(200)
        for one in replicas:
            one.link.sent.clear()
        await home.pass_by(100)
        sent: list[Any] = [one for replica in replicas for one in replica.link.sent]
        assert sent
        assert [one for one in sent if "/leases" not in one[1]] == []


@pytest.mark.slow
async def test_pools_are_forgotten_by_who_has_handed_them_over() -> None:
    async with cluster() as home:
        [a] = home.start("a")
        await home.pass_by(10)
        await asked(home, "one")
        await home.pass_by(5)
        home.start("b")
        await home.pass_by(20)
        assert len(a.held) == SHARDS / 2
        a.written()
        await asked(home, "two")
        await home.pass_by(5)
        mine = {pool for pool in POOLS if shard(pool) in a.held}
        assert a.written()["networkpools"] == mine
        await home.check_apart(96)
