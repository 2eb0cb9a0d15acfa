"""Two live processes, frozen in turn, and claims that come and go: no address is given twice."""

from collections import Counter
from pathlib import Path

import anyio
import pytest

from tests.contract.clusterapi.lab import Body, ClusterApiLab
from tests.contract.product import Server, frozen, product
from tests.polling import until
from tests.reconcilers.cli.commands import find_installed_command

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.slow]


async def create_claims(lab: ClusterApiLab, first: int, stop: int) -> None:
    """Create the claims with the numbers from `first` to before `stop`, all at once."""
    async with anyio.create_task_group() as group:
        for number in range(first, stop):
            group.start_soon(lab.create_claim, f"c{number:03}", "p")


async def wait_until_served(lab: ClusterApiLab, count: int) -> None:
    """Wait until that many claims have their addressRef."""

    def holds(bodies: list[Body]) -> bool:
        return sum("addressRef" in (claim.get("status") or {}) for claim in bodies) >= count

    await until(lambda: lab.list_objects("IPAddressClaim"), holds)


async def read_addresses(lab: ClusterApiLab) -> dict[str, str]:
    """Return the address of each claim that has an addressRef."""
    addresses = {
        address["metadata"]["name"]: address["spec"]["address"]
        for address in await lab.list_objects("IPAddress")
    }
    return {
        claim["metadata"]["name"]: addresses[claim["status"]["addressRef"]["name"]]
        for claim in await lab.list_objects("IPAddressClaim")
        if "addressRef" in (claim.get("status") or {})
    }


async def test_two_live_processes_never_give_an_address_twice_though_one_is_frozen(
    lab: ClusterApiLab, server: Server, tmp_path: Path
) -> None:
    await lab.create_pool("p", "10.7.0.0/20", prefix=20)
    log = tmp_path / "log"
    with product("clusterapi", server.kubeconfig, log, program=find_installed_command) as other:
        await until(lambda: _read(log), lambda log: "controller=clusterapi-claim" in log)
        async with anyio.create_task_group() as group:
            group.start_soon(create_claims, lab, 0, 60)
            await wait_until_served(lab, 5)
            with frozen(server.process):
                await wait_until_served(lab, 60)
                await create_claims(lab, 60, 70)
                await wait_until_served(lab, 70)
        async with anyio.create_task_group() as group:
            group.start_soon(create_claims, lab, 70, 130)
            await wait_until_served(lab, 75)
            with frozen(other):
                await wait_until_served(lab, 130)
        await create_claims(lab, 130, 140)
        await wait_until_served(lab, 140)
        address_by_claim = await read_addresses(lab)
        assert len(address_by_claim) == 140
        assert [
            address for address, times in Counter(address_by_claim.values()).items() if times > 1
        ] == []
        assert len(await lab.list_objects("IPAddress")) == 140
        assert (other.poll(), server.process.poll()) == (None, None)
    await lab.wait_for_counts("p", total=4094, used=140, free=3954, out_of_range=0)


async def _read(path: Path) -> str:
    return await anyio.Path(path).read_text(encoding="utf-8")


async def test_claims_that_are_created_and_deleted_at_once_leave_nothing_behind(
    lab: ClusterApiLab,
) -> None:
    await lab.create_pool("p", "10.8.0.0/22", prefix=22)

    async def come_and_go(name: str) -> None:
        await lab.create_claim(name, "p")
        await lab.delete("IPAddressClaim", name)

    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(come_and_go, f"x{number:03}")
    await until(lambda: lab.list_objects("IPAddressClaim"), lambda claims: claims == [])
    await until(lambda: lab.list_objects("IPAddress"), lambda addresses: addresses == [])
    await lab.wait_for_counts("p", total=1022, used=0, free=1022, out_of_range=0)
    await lab.create_claim("a", "p")
    assert await lab.wait_until_served("a") == "10.8.0.1"
