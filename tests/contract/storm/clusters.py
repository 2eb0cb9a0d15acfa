"""KKP's user clusters come and go, and the pools that serve them are changed meanwhile."""

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from ipaddress import ip_address, ip_network
from typing import Any

import anyio
import httpx

from tests.contract.kubermatic.lab import (
    ROOT,
    Body,
    KubermaticLab,
    make_prefix_settings,
    make_range_settings,
)
from tests.contract.storm.play import SETTLE_SECONDS, Action
from tests.contract.storm.record import Record
from tests.polling import until

MOST = 14
"""The most clusters at once; each pool has room for all of them at the largest size."""
RANGES, PREFIXES = "lb", "blocks"
EAST, WEST = "east", "west"
SIZES = (2, 4, 8)
EXCLUSIONS = ((), ("10.50.0.0-10.50.0.3",), ("10.50.0.9", "10.50.0.120-10.50.0.127"))


class Clusters:
    """Clusters in two datacenters, a pool of ranges for both, and a pool of prefixes for one.

    Args:
        admin: the administrator's client.
        choices: of all random actions.
    """

    integration = "kubermatic"

    def __init__(self, admin: httpx.AsyncClient, choices: random.Random) -> None:
        self._lab = KubermaticLab(admin, "s")
        self._choices = choices
        self._created_count = 0
        self._datacenters: dict[str, str] = {}
        self._large = False
        self.record = Record(f"{ROOT}/ipamallocations", list_held_addresses)

    async def prepare(self, many: int) -> None:
        """Create `many` clusters, then the pools."""
        self._large = many > MOST
        limiter = anyio.CapacityLimiter(20)
        async with anyio.create_task_group() as group:
            for _ in range(many):
                group.start_soon(self._create_limited, limiter)
        await self._create_pool(RANGES)
        await self._create_pool(PREFIXES)

    async def _create_limited(self, limiter: anyio.CapacityLimiter) -> None:
        async with limiter:
            await self._create(EAST)

    def list_actions_by_person(self) -> Sequence[Sequence[Action]]:
        """Return the actions of two users of clusters, and of an administrator of pools."""
        users: list[Action] = [self.create, self.delete]
        seldom: list[Action] = [self.pause, self.move, self.delete_allocation]
        administrator: list[Action] = [
            self.resize,
            self.exclude_ranges,
            self.toggle_west,
            self.recreate_pool,
        ]
        return [users * 4 + seldom, [self.create], administrator]

    async def create(self) -> None:
        """Create a cluster."""
        if len(self._datacenters) < MOST:
            await self._create(self._choices.choice((EAST, WEST)))

    async def _create(self, datacenter: str) -> None:
        self._created_count += 1
        name = f"c{self._created_count}"
        await self._lab.create_cluster(name, datacenter)
        self._datacenters[name] = datacenter

    async def delete(self) -> None:
        """Delete a cluster and its namespace, and with that its allocations."""
        name = self._choose_cluster()
        if name and self._datacenters.pop(name, ""):
            await self._lab.delete(self._lab.build_cluster_path(name))
            await self._lab.delete(f"/api/v1/namespaces/{self._lab.namespace(name)}")

    def _choose_cluster(self) -> str:
        return self._choices.choice([*self._datacenters, ""])

    async def pause(self) -> None:
        """Pause a cluster, or end its pause."""
        if name := self._choose_cluster():
            await self._patch_spec(name, {"pause": self._choices.random() < 0.5})

    async def move(self) -> None:
        """Move a cluster to the other datacenter."""
        if name := self._choose_cluster():
            self._datacenters[name] = WEST if self._datacenters[name] == EAST else EAST
            await self._patch_spec(
                name, {"cloud": {"dc": self._lab.name(self._datacenters[name])}}
            )

    async def _patch_spec(self, name: str, spec: Mapping[str, Any]) -> None:
        await self._lab.patch(self._lab.build_cluster_path(name), {"spec": spec})

    async def delete_allocation(self) -> None:
        """Delete an allocation of a cluster."""
        if name := self._choose_cluster():
            await self._lab.delete(
                self._lab.build_allocation_path(name, self._choices.choice((RANGES, PREFIXES)))
            )

    async def resize(self) -> None:
        """Change the number of addresses for each cluster."""
        await self._change_datacenter(EAST, {"allocationRange": self._choices.choice(SIZES)})

    async def exclude_ranges(self) -> None:
        """Exclude addresses, which may be in use, or none."""
        await self._change_datacenter(
            EAST, {"excludeRanges": list(self._choices.choice(EXCLUSIONS))}
        )

    async def toggle_west(self) -> None:
        """Remove the western datacenter from the pool of ranges, or add it."""
        settings = self._list_pool_settings()[RANGES][WEST]
        await self._change_datacenter(WEST, settings if self._choices.random() < 0.6 else None)

    async def recreate_pool(self) -> None:
        """Delete the pool of prefixes, and with that its allocations, and create it again."""
        await self._lab.delete(self._lab.build_pool_path(PREFIXES))
        await anyio.sleep(self._choices.uniform(0.0, 0.3))
        await self._create_pool(PREFIXES)

    async def _change_datacenter(self, datacenter: str, change: Mapping[str, Any] | None) -> None:
        spec = {"datacenters": {self._lab.name(datacenter): change}}
        await self._lab.patch(self._lab.build_pool_path(RANGES), {"spec": spec})

    def _list_pool_settings(self) -> Mapping[str, Mapping[str, Body]]:
        if self._large:
            return {
                RANGES: {
                    EAST: make_range_settings("10.50.0.0/20", 4),
                    WEST: make_range_settings("10.52.0.0/24", 4),
                },
                PREFIXES: {EAST: make_prefix_settings("10.51.0.0/19", 30)},
            }
        return {
            RANGES: {
                EAST: make_range_settings("10.50.0.0/25", 4),
                WEST: make_range_settings("10.52.0.0/25", 4),
            },
            PREFIXES: {EAST: make_prefix_settings("10.51.0.0/26", 30)},
        }

    async def _create_pool(self, pool: str) -> None:
        await self._lab.create_pool(pool, **self._list_pool_settings()[pool])

    async def wait_until_settled(self) -> None:
        """Undo exclusions and pauses; wait until each cluster has its addresses."""
        await self._change_datacenter(
            EAST, {**self._list_pool_settings()[RANGES][EAST], "excludeRanges": None}
        )
        await self._change_datacenter(WEST, self._list_pool_settings()[RANGES][WEST])
        for name in self._datacenters:
            await self._patch_spec(name, {"pause": False})
        await until(self._list_deviations, lambda remaining: not remaining, seconds=SETTLE_SECONDS)

    async def _list_deviations(self) -> list[str]:
        """Return deviations from the expected allocations, five at most, as sentences."""
        answer = await self._lab.admin.get(self.record.path)
        assert answer.status_code == 200, answer.text
        specs = {
            (allocation["metadata"]["namespace"], allocation["metadata"]["name"]): allocation[
                "spec"
            ]
            for allocation in answer.json()["items"]
        }
        expected = {
            (self._lab.namespace(name), self._lab.name(pool)): (pool, datacenter)
            for name, datacenter in self._datacenters.items()
            for pool, datacenters in self._list_pool_settings().items()
            if datacenter in datacenters
        }
        deviations = [f"{key} belongs to no cluster" for key in set(specs) - set(expected)]
        for key, (pool, datacenter) in expected.items():
            spec = specs.get(key, {})
            own = [
                span
                for span in _list_addresses_of_spec(spec)
                if self._is_in_pool(pool, datacenter, span)
            ]
            least = 4  # the size in the pool of ranges, and the addresses of a /30 of the other
            if spec.get("dc") != self._lab.name(datacenter) or len(own) < least:
                deviations.append(f"{key} has {spec or 'nothing'}")
        return deviations[:5]

    def _is_in_pool(self, pool: str, datacenter: str, address: str) -> bool:
        network = ip_network(self._list_pool_settings()[pool][datacenter]["poolCidr"])
        return ip_address(address) in network

    async def delete_all(self) -> None:
        """Delete all clusters; then a new cluster gets the lowest range and prefix."""
        limiter = anyio.CapacityLimiter(20)

        async def delete_one(name: str) -> None:
            async with limiter:
                await self._lab.delete(self._lab.build_cluster_path(name))
                await self._lab.delete(f"/api/v1/namespaces/{self._lab.namespace(name)}")

        async with anyio.create_task_group() as group:
            for name in self._datacenters:
                group.start_soon(delete_one, name)
        self._datacenters.clear()
        read = partial(self._lab.admin.get, self.record.path)
        await until(read, lambda answer: not answer.json()["items"], seconds=SETTLE_SECONDS)
        await self._lab.create_cluster("last", EAST)
        await self._lab.wait_for_ranges("last", RANGES, "10.50.0.0-10.50.0.3")
        await self._lab.wait_for_ranges("last", PREFIXES, "10.51.0.0/30")


def list_held_addresses(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the addresses that an IPAMAllocation holds."""
    yield from _list_addresses_of_spec(body["spec"])


def _list_addresses_of_spec(spec: Mapping[str, Any]) -> Iterator[str]:
    for span in spec.get("addresses") or ():
        first, _, last = span.partition("-")
        for number in range(int(ip_address(first)), int(ip_address(last)) + 1):
            yield str(ip_address(number))
    if spec.get("cidr"):
        yield from map(str, ip_network(spec["cidr"]))
