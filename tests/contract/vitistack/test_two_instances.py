"""Two live processes, one frozen for a while: no address is given twice."""

from pathlib import Path

import anyio
import pytest

from tests.contract.product import Server, frozen, product
from tests.contract.vitistack.lab import VitistackLab, get_status
from tests.polling import until
from tests.reconcilers.cli.commands import find_installed_command

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.slow]


async def create_machines(lab: VitistackLab, first: int, stop: int) -> None:
    """Create machines `first` to before `stop`, with two interfaces each, at once."""
    async with anyio.create_task_group() as group:
        for number in range(first, stop):
            group.start_soon(lab.create_configuration, f"vm{number:03}", "eth0", "eth1")


async def wait_until_served(lab: VitistackLab, count: int) -> list[str]:
    """Wait until `count` IPAllocations have an address; return all addresses."""

    async def list_addresses() -> list[str]:
        statuses = [
            get_status(allocation) for allocation in await lab.list_objects("IPAllocation")
        ]
        return [
            allocation_status["address"]
            for allocation_status in statuses
            if allocation_status.get("phase") == "Allocated"
        ]

    return await until(list_addresses, lambda items: len(items) >= count)


async def test_two_live_processes_never_give_an_address_twice_though_one_is_frozen(
    lab: VitistackLab, server: Server, tmp_path: Path
) -> None:
    await create_machines(lab, 0, 16)
    log = tmp_path / "log"
    with product("vitistack", server.kubeconfig, log, program=find_installed_command) as other:
        path = anyio.Path(log)
        await until(
            lambda: path.read_text(encoding="utf-8"),
            lambda output: "controller=vitistack-networkconfiguration" in output,
        )
        await lab.create_network()
        with frozen(server.process):
            await wait_until_served(lab, 32)
        async with anyio.create_task_group() as group:
            group.start_soon(create_machines, lab, 16, 32)
            await wait_until_served(lab, 40)
            with frozen(other):
                await wait_until_served(lab, 64)
        served_addresses = await wait_until_served(lab, 64)
        assert len(set(served_addresses)) == len(served_addresses) == 64
        assert (other.poll(), server.process.poll()) == (None, None)


async def test_requests_that_are_created_and_deleted_at_once_leave_nothing_behind(
    lab: VitistackLab,
) -> None:
    await lab.create_network()

    async def create_and_delete(name: str) -> None:
        await lab.create_allocation(name)
        await lab.delete("IPAllocation", name)

    async with anyio.create_task_group() as group:
        for number in range(60):
            group.start_soon(create_and_delete, f"x{number:02}")
    await until(lambda: lab.list_objects("IPAllocation"), lambda allocations: allocations == [])
    await lab.create_allocation("a")
    await lab.wait_for_address("a", "10.0.2.2")
    await lab.wait_for_summary(lambda summary: summary.get("allocatedCount") == 1)
