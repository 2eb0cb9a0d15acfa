"""Machines of a network of vitistack come and go, and the network is changed meanwhile."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import httpx

from tests.contract.storm.play import SETTLE_SECONDS, Action
from tests.contract.storm.record import Record
from tests.contract.vitistack.lab import NETWORK, VitistackLab, get_status, list_addresses
from tests.polling import until

MOST = 20
"""The most machines at once, and the most IPAllocations made by hand; the network has room."""
WHOLE: Mapping[str, Any] = {"ipv4CIDR": "10.60.0.0/26", "ipv4Gateway": "10.60.0.1"}
LARGE: Mapping[str, Any] = {"ipv4CIDR": "10.60.0.0/20", "ipv4Gateway": "10.60.0.1"}
FIRST = "10.60.0.2"


class Machines:
    """NetworkConfigurations and IPAllocations of one network.

    Args:
        admin: the administrator's client.
        choices: of all random actions.
    """

    integration = "vitistack"

    def __init__(self, admin: httpx.AsyncClient, choices: random.Random) -> None:
        self._lab = VitistackLab(admin, "default")
        self._choices = choices
        self._created_count = 0
        self._interfaces_by_machine: dict[str, int] = {}
        self._addresses_by_request: dict[str, str] = {}
        self._ipv4_settings = WHOLE
        self.record = Record("/apis/vitistack.io/v1alpha2/ipallocations", list_held_addresses)

    async def prepare(self, many: int) -> None:
        """Create `many` machines, then the network."""
        self._ipv4_settings = LARGE if many > MOST else WHOLE
        limiter = anyio.CapacityLimiter(20)

        async def create_one() -> None:
            async with limiter:
                await self._create(2)

        async with anyio.create_task_group() as group:
            for _ in range(many):
                group.start_soon(create_one)
        await self._lab.create_network(**self._ipv4_settings)

    def list_actions_by_person(self) -> Sequence[Sequence[Action]]:
        """Return the actions of two users of machines, and of an administrator of the network."""
        users: list[Action] = [self.create, self.delete]
        requester: list[Action] = [self.create_request, self.delete_request]
        administrator: list[Action] = [
            self.narrow_range,
            self.set_random_phase,
            self.recreate_pool,
            self.delete_allocation,
        ]
        return [users, [self.create, *requester], administrator]

    async def create(self) -> None:
        """Create a machine with one interface or two."""
        if len(self._interfaces_by_machine) < MOST:
            await self._create(self._choices.choice((1, 2)))

    async def _create(self, interfaces: int) -> None:
        self._created_count += 1
        name = f"vm{self._created_count}"
        await self._lab.create_configuration(name, *(f"eth{n}" for n in range(interfaces)))
        self._interfaces_by_machine[name] = interfaces

    async def delete(self) -> None:
        """Delete a machine."""
        name = self._choices.choice([*self._interfaces_by_machine, ""])
        if self._interfaces_by_machine.pop(name, 0):
            await self._lab.delete("NetworkConfiguration", name)

    async def create_request(self) -> None:
        """Create an IPAllocation by hand, which requests any address or a random one."""
        if len(self._addresses_by_request) < MOST:
            self._created_count += 1
            name, certain = f"by-hand-{self._created_count}", self._choices.random() < 0.4
            expected = f"10.60.0.{self._choices.randrange(2, 30)}" if certain else ""
            self._addresses_by_request[name] = expected
            await self._lab.create_allocation(name, expected, networkConfigurationName="missing")

    async def delete_request(self) -> None:
        """Delete an IPAllocation that was made by hand."""
        if self._addresses_by_request:
            name = self._choices.choice([*self._addresses_by_request])
            del self._addresses_by_request[name]
            await self._lab.delete("IPAllocation", name)

    async def delete_allocation(self) -> None:
        """Delete an IPAllocation of an interface of a machine."""
        allocations = await self._lab.list_objects("IPAllocation")
        if machines := [
            allocation
            for allocation in allocations
            if allocation["metadata"]["name"].startswith("vm")
        ]:
            name = self._choices.choice(machines)["metadata"]["name"]
            answer = await self._lab.admin.delete(self._lab.build_path("IPAllocation", name))
            assert answer.status_code in {200, 202, 404}, answer.text

    async def narrow_range(self) -> None:
        """Change the end of the network's range, or remove it."""
        last = self._choices.choice(("10.60.0.20", "10.60.0.40", None))
        await self._lab.change_settings(ipv4RangeEnd=last)

    async def set_random_phase(self) -> None:
        """Set the network's provisioningPhase to Ready or, more rarely, to Pending."""
        await self._lab.set_phase(NETWORK, self._choices.choice(("Ready", "Ready", "Pending")))

    async def recreate_pool(self) -> None:
        """Delete the network, and create it again."""
        await self._lab.delete("NetworkNamespace", NETWORK)
        await anyio.sleep(self._choices.uniform(0.0, 0.3))
        await self._lab.create_network(**self._ipv4_settings)

    async def wait_until_settled(self) -> None:
        """Undo changes of the network; wait until machines and requests have their addresses."""
        await self._lab.change_settings(ipv4RangeEnd=None)
        await self._lab.set_phase(NETWORK, "Ready")
        await until(self._list_deviations, lambda remaining: not remaining, seconds=SETTLE_SECONDS)

    async def _list_deviations(self) -> list[str]:
        """Return deviations from the expected allocations, five at most, as sentences."""
        allocations = {
            allocation["metadata"]["name"]: allocation
            for allocation in await self._lab.list_objects("IPAllocation")
        }
        configurations = await self._lab.list_objects("NetworkConfiguration")
        machines = {
            configuration["metadata"]["name"]: get_status(configuration)
            for configuration in configurations
        }
        deviations = [
            f"{name} still exists" for name in set(machines) - set(self._interfaces_by_machine)
        ]
        expected_names = {
            f"{name}-eth{n}"
            for name, count in self._interfaces_by_machine.items()
            for n in range(count)
        }
        deviations += [
            f"{name} was not asked for"
            for name in set(allocations) - expected_names - set(self._addresses_by_request)
        ]
        for name, count in self._interfaces_by_machine.items():
            made_for = [allocations.get(f"{name}-eth{number}", {}) for number in range(count)]
            own_addresses = sorted(
                address for allocation in made_for for address in list_held_addresses(allocation)
            )
            shows = machines.get(name, {})
            ready = shows.get("phase") == "Ready" and len(own_addresses) == count
            if not ready or sorted(list_addresses(shows)) != own_addresses:
                deviations.append(f"{name} shows {shows}, and has {own_addresses}")
        for name, expected in self._addresses_by_request.items():
            allocation_status = get_status(allocations.get(name, {}))
            right = (
                expected in {"", allocation_status.get("address")}
                if allocation_status.get("address")
                else bool(expected)
            )
            if not right or allocation_status.get("phase") != (
                "Allocated" if allocation_status.get("address") else "Error"
            ):
                deviations.append(f"{name} requests {expected!r} and has {allocation_status}")
        return deviations[:5]

    async def delete_all(self) -> None:
        """Delete all machines and requests; then a new request gets the lowest address."""
        limiter = anyio.CapacityLimiter(20)

        async def remove(kind: str, name: str) -> None:
            async with limiter:
                await self._lab.delete(kind, name)

        async with anyio.create_task_group() as group:
            for name in self._interfaces_by_machine:
                group.start_soon(remove, "NetworkConfiguration", name)
            for name in self._addresses_by_request:
                group.start_soon(remove, "IPAllocation", name)
        await until(
            lambda: self._lab.list_objects("IPAllocation"),
            lambda allocations: not allocations,
            seconds=SETTLE_SECONDS,
        )
        await self._lab.wait_for_summary(lambda counts: counts.get("allocatedCount") == 0)
        await self._lab.create_allocation("last")
        await self._lab.wait_for_address("last", FIRST)


def list_held_addresses(body: Mapping[str, Any]) -> Sequence[str]:
    """Return the address that an IPAllocation holds."""
    allocation_status = get_status(dict(body))
    return (
        [allocation_status["address"]]
        if allocation_status.get("address") and allocation_status.get("phase") != "Released"
        else []
    )
