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
        self.record = Record("/apis/vitistack.io/v1alpha2/ipallocations", list_held_addresses)

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
        """Return the deeds of the users of machines, and of those who keep the network."""
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
            expected = f"10.60.0.{self._choices.randrange(2, 30)}" if certain else ""
            self._requests[name] = expected
            await self._lab.ask(name, expected, networkConfigurationName="missing")

    async def give_back(self) -> None:
        """Delete one that was made by hand."""
        if self._requests:
            name = self._choices.choice([*self._requests])
            del self._requests[name]
            await self._lab.delete("IPAllocation", name)

    async def remove(self) -> None:
        """Delete an IPAllocation that was made for an interface."""
        allocations = await self._lab.every("IPAllocation")
        if machines := [
            allocation
            for allocation in allocations
            if allocation["metadata"]["name"].startswith("vm")
        ]:
            name = self._choices.choice(machines)["metadata"]["name"]
            answer = await self._lab.admin.delete(self._lab.path("IPAllocation", name))
            assert answer.status_code in {200, 202, 404}, answer.text

    async def narrow(self) -> None:
        """Have the network hand out fewer addresses, or all again."""
        last = self._choices.choice(("10.60.0.20", "10.60.0.40", None))
        await self._lab.settings(ipv4RangeEnd=last)

    async def provision(self) -> None:
        """Say that the network is provisioned, or that it is not."""
        await self._lab.set_phase(NETWORK, self._choices.choice(("Ready", "Ready", "Pending")))

    async def remake(self) -> None:
        """Delete the network, and make it again."""
        await self._lab.delete("NetworkNamespace", NETWORK)
        await anyio.sleep(self._choices.uniform(0.0, 0.3))
        await self._lab.network(**self._static)

    async def calm(self) -> None:
        """Undo what keeps requests waiting; wait until each has what it should have."""
        await self._lab.settings(ipv4RangeEnd=None)
        await self._lab.set_phase(NETWORK, "Ready")
        await until(self._wrong, lambda remaining: not remaining, seconds=CALM_SECONDS)

    async def _wrong(self) -> list[str]:
        """Return the deviations from the expected state, as sentences."""
        allocations = {
            allocation["metadata"]["name"]: allocation
            for allocation in await self._lab.every("IPAllocation")
        }
        configurations = await self._lab.every("NetworkConfiguration")
        machines = {
            configuration["metadata"]["name"]: status(configuration)
            for configuration in configurations
        }
        wrong = [f"{name} is there still" for name in set(machines) - set(self._machines)]
        expected_names = {
            f"{name}-eth{n}" for name, count in self._machines.items() for n in range(count)
        }
        wrong += [
            f"{name} was not asked for"
            for name in set(allocations) - expected_names - set(self._requests)
        ]
        for name, count in self._machines.items():
            made_for = [allocations.get(f"{name}-eth{number}", {}) for number in range(count)]
            own_addresses = sorted(
                address for allocation in made_for for address in list_held_addresses(allocation)
            )
            shows = machines.get(name, {})
            ready = shows.get("phase") == "Ready" and len(own_addresses) == count
            if not ready or sorted(addresses(shows)) != own_addresses:
                wrong.append(f"{name} shows {shows}, and has {own_addresses}")
        for name, expected in self._requests.items():
            has = status(allocations.get(name, {}))
            right = expected in {"", has.get("address")} if has.get("address") else bool(expected)
            if not right or has.get("phase") != ("Allocated" if has.get("address") else "Error"):
                wrong.append(f"{name} requests {expected!r} and has {has}")
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
            lambda allocations: not allocations,
            seconds=CALM_SECONDS,
        )
        await self._lab.summary(lambda shown_summary: shown_summary.get("allocatedCount") == 0)
        await self._lab.ask("last")
        await self._lab.has("last", FIRST)


def list_held_addresses(body: Mapping[str, Any]) -> Sequence[str]:
    """Return the address that an IPAllocation holds."""
    allocation_status = status(dict(body))
    return (
        [allocation_status["address"]]
        if allocation_status.get("address") and allocation_status.get("phase") != "Released"
        else []
    )
