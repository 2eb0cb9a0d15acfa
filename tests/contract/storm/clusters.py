"""KKP's user clusters come and go, and the pools that serve them are changed meanwhile."""

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from ipaddress import ip_address, ip_network
from typing import Any

import anyio
import httpx

from tests.contract.kubermatic.lab import ROOT, Body, Lab, prefixes, ranges
from tests.contract.storm.play import CALM_SECONDS, Deed
from tests.contract.storm.record import Record
from tests.polling import until

MOST = 14
"""Clusters at once: with the most that each may get they fit into every pool."""
RANGES, PREFIXES = "lb", "blocks"
EAST, WEST = "east", "west"
SIZES = (2, 4, 8)
EXCLUSIONS = ((), ("10.50.0.0-10.50.0.3",), ("10.50.0.9", "10.50.0.120-10.50.0.127"))


class Clusters:
    """Clusters, in two datacenters, of a pool of ranges and a pool of prefixes.

    Args:
        admin: the administrator's client.
        choices: what is chosen.
    """

    integration = "kubermatic"

    def __init__(self, admin: httpx.AsyncClient, choices: random.Random) -> None:
        self._lab = Lab(admin, "s")
        self._choices = choices
        self._made = 0
        self._here: dict[str, str] = {}
        self._large = False
        self.record = Record(f"{ROOT}/ipamallocations", list_held_addresses)

    async def prepare(self, many: int) -> None:
        """Make as many clusters, then the pools."""
        self._large = many > MOST
        limiter = anyio.CapacityLimiter(20)
        async with anyio.create_task_group() as group:
            for _ in range(many):
                group.start_soon(self._come_within, limiter)
        await self._offer(RANGES)
        await self._offer(PREFIXES)

    async def _come_within(self, limiter: anyio.CapacityLimiter) -> None:
        async with limiter:
            await self._come(EAST)

    def people(self) -> Sequence[Sequence[Deed]]:
        """Return the deeds of the users of clusters, and of those who keep the pools."""
        users: list[Deed] = [self.come, self.go]
        seldom: list[Deed] = [self.pause, self.move, self.remove_allocation]
        keepers: list[Deed] = [self.resize, self.exclude, self.leave_west, self.remake]
        return [users * 4 + seldom, [self.come], keepers]

    async def come(self) -> None:
        """Create a cluster."""
        if len(self._here) < MOST:
            await self._come(self._choices.choice((EAST, WEST)))

    async def _come(self, datacenter: str) -> None:
        self._made += 1
        name = f"c{self._made}"
        await self._lab.cluster(name, datacenter)
        self._here[name] = datacenter

    async def go(self) -> None:
        """Delete a cluster, and its namespace, with which its allocations go."""
        name = self._some()
        if name and self._here.pop(name, ""):
            await self._lab.delete(self._lab.clusters(name))
            await self._lab.delete(f"/api/v1/namespaces/{self._lab.namespace(name)}")

    def _some(self) -> str:
        return self._choices.choice([*self._here, ""])

    async def pause(self) -> None:
        """Pause a cluster, or go on with it."""
        if name := self._some():
            await self._patch(name, {"pause": self._choices.random() < 0.5})

    async def move(self) -> None:
        """Move a cluster to the other datacenter."""
        if name := self._some():
            self._here[name] = WEST if self._here[name] == EAST else EAST
            await self._patch(name, {"cloud": {"dc": self._lab.name(self._here[name])}})

    async def _patch(self, name: str, spec: Mapping[str, Any]) -> None:
        await self._lab.patch(self._lab.clusters(name), {"spec": spec})

    async def remove_allocation(self) -> None:
        """Delete what a cluster has of a pool."""
        if name := self._some():
            await self._lab.delete(
                self._lab.allocation(name, self._choices.choice((RANGES, PREFIXES)))
            )

    async def resize(self) -> None:
        """Have each cluster get more, or fewer."""
        await self._change(EAST, {"allocationRange": self._choices.choice(SIZES)})

    async def exclude(self) -> None:
        """Exclude addresses, in use or not, or none."""
        await self._change(EAST, {"excludeRanges": list(self._choices.choice(EXCLUSIONS))})

    async def leave_west(self) -> None:
        """Take a datacenter out of the pool, or into it."""
        offers = self._offers()[RANGES][WEST] if self._choices.random() < 0.6 else None
        await self._change(WEST, offers)

    async def remake(self) -> None:
        """Delete a pool, with which its allocations go, and make it again."""
        await self._lab.delete(self._lab.pools(PREFIXES))
        await anyio.sleep(self._choices.uniform(0.0, 0.3))
        await self._offer(PREFIXES)

    async def _change(self, datacenter: str, change: Mapping[str, Any] | None) -> None:
        spec = {"datacenters": {self._lab.name(datacenter): change}}
        await self._lab.patch(self._lab.pools(RANGES), {"spec": spec})

    def _offers(self) -> Mapping[str, Mapping[str, Body]]:
        if self._large:
            return {
                RANGES: {EAST: ranges("10.50.0.0/20", 4), WEST: ranges("10.52.0.0/24", 4)},
                PREFIXES: {EAST: prefixes("10.51.0.0/19", 30)},
            }
        return {
            RANGES: {EAST: ranges("10.50.0.0/25", 4), WEST: ranges("10.52.0.0/25", 4)},
            PREFIXES: {EAST: prefixes("10.51.0.0/26", 30)},
        }

    async def _offer(self, pool: str) -> None:
        await self._lab.pool(pool, **self._offers()[pool])

    async def calm(self) -> None:
        """Undo what keeps clusters waiting; wait until each has what it needs."""
        await self._change(EAST, {**self._offers()[RANGES][EAST], "excludeRanges": None})
        await self._change(WEST, self._offers()[RANGES][WEST])
        for name in self._here:
            await self._patch(name, {"pause": False})
        await until(self._wrong, lambda remaining: not remaining, seconds=CALM_SECONDS)

    async def _wrong(self) -> list[str]:
        """Return the deviations from the expected state, as sentences."""
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
            for name, datacenter in self._here.items()
            for pool, offers in self._offers().items()
            if datacenter in offers
        }
        wrong = [f"{key} belongs to no cluster" for key in set(specs) - set(expected)]
        for key, (pool, datacenter) in expected.items():
            spec = specs.get(key, {})
            own = [span for span in _texts(spec) if self._is_of(pool, datacenter, span)]
            least = 4  # both what is asked for of one pool and the addresses of a /30 of the other
            if spec.get("dc") != self._lab.name(datacenter) or len(own) < least:
                wrong.append(f"{key} has {spec or 'nothing'}")
        return wrong[:5]

    def _is_of(self, pool: str, datacenter: str, content: str) -> bool:
        whole = ip_network(self._offers()[pool][datacenter]["poolCidr"])
        return ip_address(content) in whole

    async def leave(self) -> None:
        """Delete all clusters; the next one gets the first of everything."""
        limiter = anyio.CapacityLimiter(20)

        async def go(name: str) -> None:
            async with limiter:
                await self._lab.delete(self._lab.clusters(name))
                await self._lab.delete(f"/api/v1/namespaces/{self._lab.namespace(name)}")

        async with anyio.create_task_group() as group:
            for name in self._here:
                group.start_soon(go, name)
        self._here.clear()
        look = partial(self._lab.admin.get, self.record.path)
        await until(look, lambda look: not look.json()["items"], seconds=CALM_SECONDS)
        await self._lab.cluster("last", EAST)
        await self._lab.has("last", RANGES, "10.50.0.0-10.50.0.3")
        await self._lab.has("last", PREFIXES, "10.51.0.0/30")


def list_held_addresses(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the addresses of an IPAMAllocation."""
    yield from _texts(body["spec"])


def _texts(spec: Mapping[str, Any]) -> Iterator[str]:
    for span in spec.get("addresses") or ():
        first, _, last = span.partition("-")
        for number in range(int(ip_address(first)), int(ip_address(last)) + 1):
            yield str(ip_address(number))
    if spec.get("cidr"):
        yield from map(str, ip_network(spec["cidr"]))
