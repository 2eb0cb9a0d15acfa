"""Machines of a network of vitistack come and go, and the network is changed meanwhile."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import httpx

from tests.contract.storm.play import CALM_SECONDS, Deed
from tests.contract.storm.record import Record
from tests.contract.vitistack.lab import NETWORK, Lab, addresses, status
from tests.polling import until

MOST = 20
"""Machines at once, and IPAllocations made by hand: with two interfaces each they fit."""
WHOLE: Mapping[str, Any] = {"ipv4CIDR": "10.60.0.0/26", "ipv4Gateway": "10.60.0.1"}
LARGE: Mapping[str, Any] = {"ipv4CIDR": "10.60.0.0/20", "ipv4Gateway": "10.60.0.1"}
FIRST = "10.60.0.2"


class Machines:
    """NetworkConfigurations and IPAllocations of one network.

    Args:
        admin: the administrator's client.
        choices: what is chosen.
    """

    integration = "vitistack"

    def __init__(self, admin: httpx.AsyncClient, choices: random.Random) -> None:
        self._lab = Lab(admin, "default")
        self._choices = choices
        self._made = 0
        self._machines: dict[str, int] = {}
        self._requests: dict[str, str] = {}
        self._static = WHOLE
        self.record = Record("/apis/vitistack.io/v1alpha2/ipallocations", held)

    async def prepare(self, many: int) -> None:
        """Make as many machines, then the network."""
        self._static = LARGE if many > MOST else WHOLE
        limiter = anyio.CapacityLimiter(20)

        async def come() -> None:
            async with limiter:
                await self._come(2)

        async with anyio.create_task_group() as group:
            for _ in range(many):
                group.start_soon(come)
        await self._lab.network(**self._static)

    def people(self) -> Sequence[Sequence[Deed]]:
        """Return what the users of machines do, and what those do who keep the network."""
        users: list[Deed] = [self.come, self.go]
        askers: list[Deed] = [self.ask, self.give_back]
        keepers: list[Deed] = [self.narrow, self.provision, self.remake, self.remove]
        return [users, [self.come, *askers], keepers]

    async def come(self) -> None:
        """Create a machine with one interface or two."""
        if len(self._machines) < MOST:
            await self._come(self._choices.choice((1, 2)))

    async def _come(self, interfaces: int) -> None:
        self._made += 1
        name = f"vm{self._made}"
        await self._lab.configuration(name, *(f"eth{n}" for n in range(interfaces)))
        self._machines[name] = interfaces

    async def go(self) -> None:
        """Delete a machine."""
        name = self._choices.choice([*self._machines, ""])
        if self._machines.pop(name, 0):
            await self._lab.delete("NetworkConfiguration", name)

    async def ask(self) -> None:
        """Create an IPAllocation, for any address or for a certain one."""
        if len(self._requests) < MOST:
            self._made += 1
            name, certain = f"by-hand-{self._made}", self._choices.random() < 0.4
            wanted = f"10.60.0.{self._choices.randrange(2, 30)}" if certain else ""
            self._requests[name] = wanted
            await self._lab.ask(name, wanted, networkConfigurationName="missing")

    async def give_back(self) -> None:
        """Delete one that was made by hand."""
        if self._requests:
            name = self._choices.choice([*self._requests])
            del self._requests[name]
            await self._lab.delete("IPAllocation", name)

    async def remove(self) -> None:
        """Delete an IPAllocation that was made for an interface."""
        every = await self._lab.every("IPAllocation")
        if made := [one for one in every if one["metadata"]["name"].startswith("vm")]:
            name = self._choices.choice(made)["metadata"]["name"]
            answer = await self._lab.admin.delete(self._lab.path("IPAllocation", name))
            assert answer.status_code in {200, 202, 404}, answer.text

    async def narrow(self) -> None:
        """Have the network hand out fewer addresses, or all again."""
        last = self._choices.choice(("10.60.0.20", "10.60.0.40", None))
        await self._lab.settings(ipv4RangeEnd=last)

    async def provision(self) -> None:
        """Say that the network is provisioned, or that it is not."""
        await self._lab.provisioned(NETWORK, self._choices.choice(("Ready", "Ready", "Pending")))

    async def remake(self) -> None:
        """Delete the network, and make it again."""
        await self._lab.delete("NetworkNamespace", NETWORK)
        await anyio.sleep(self._choices.uniform(0.0, 0.3))
        await self._lab.network(**self._static)

    async def calm(self) -> None:
        """Undo what keeps requests waiting; wait until each has what it should have."""
        await self._lab.settings(ipv4RangeEnd=None)
        await self._lab.provisioned(NETWORK, "Ready")
        await until(self._wrong, lambda found: not found, seconds=CALM_SECONDS)

    async def _wrong(self) -> list[str]:
        """Return what is not as it should be, as sentences."""
        every = {one["metadata"]["name"]: one for one in await self._lab.every("IPAllocation")}
        found = await self._lab.every("NetworkConfiguration")
        machines = {one["metadata"]["name"]: status(one) for one in found}
        wrong = [f"{name} is there still" for name in set(machines) - set(self._machines)]
        made = {f"{name}-eth{n}" for name, count in self._machines.items() for n in range(count)}
        wrong += [f"{name} was not asked for" for name in set(every) - made - set(self._requests)]
        for name, count in self._machines.items():
            made_for = [every.get(f"{name}-eth{number}", {}) for number in range(count)]
            mine = sorted(address for one in made_for for address in held(one))
            shows = machines.get(name, {})
            ready = shows.get("phase") == "Ready" and len(mine) == count
            if not ready or sorted(addresses(shows)) != mine:
                wrong.append(f"{name} shows {shows}, and has {mine}")
        for name, wanted in self._requests.items():
            has = status(every.get(name, {}))
            right = wanted in {"", has.get("address")} if has.get("address") else bool(wanted)
            if not right or has.get("phase") != ("Allocated" if has.get("address") else "Error"):
                wrong.append(f"{name} requests {wanted!r} and has {has}")
        return wrong[:5]

    async def leave(self) -> None:
        """Delete all machines and requests; the next one gets the first address."""
        limiter = anyio.CapacityLimiter(20)

        async def remove(kind: str, name: str) -> None:
            async with limiter:
                await self._lab.delete(kind, name)

        async with anyio.create_task_group() as group:
            for name in self._machines:
                group.start_soon(remove, "NetworkConfiguration", name)
            for name in self._requests:
                group.start_soon(remove, "IPAllocation", name)
        await until(
            lambda: self._lab.every("IPAllocation"),
            lambda found: not found,
            seconds=CALM_SECONDS,
        )
        await self._lab.summary(lambda one: one.get("allocatedCount") == 0)
        await self._lab.ask("last")
        await self._lab.has("last", FIRST)


def held(body: Mapping[str, Any]) -> Sequence[str]:
    """Return the address that an IPAllocation holds."""
    shown = status(dict(body))
    return [shown["address"]] if shown.get("address") and shown.get("phase") != "Released" else []
