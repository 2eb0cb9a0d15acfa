"""Two live processes, frozen in turn, and claims that come and go: no address is given twice."""

from collections import Counter
from pathlib import Path

import anyio
import pytest

from tests.contract.clusterapi.lab import Body, Lab
from tests.contract.product import Server, frozen, product
from tests.polling import until
from tests.reconcilers.cli.commands import installed

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.slow]


async def claims(lab: Lab, first: int, last: int) -> None:
    """Create claims all at once."""
    async with anyio.create_task_group() as group:
        for number in range(first, last):
            group.start_soon(lab.claim, f"c{number:03}", "p")


async def served(lab: Lab, count: int) -> None:
    """Wait until that many claims have their addressRef."""

    def holds(found: list[Body]) -> bool:
        return sum("addressRef" in (one.get("status") or {}) for one in found) >= count

    await until(lambda: lab.items("IPAddressClaim"), holds)


async def given(lab: Lab) -> dict[str, str]:
    """Return the address of each claim that has an addressRef."""
    addresses = {
        one["metadata"]["name"]: one["spec"]["address"] for one in await lab.items("IPAddress")
    }
    return {
        one["metadata"]["name"]: addresses[one["status"]["addressRef"]["name"]]
        for one in await lab.items("IPAddressClaim")
        if "addressRef" in (one.get("status") or {})
    }


async def test_two_live_processes_never_give_an_address_twice_though_one_is_frozen(
    lab: Lab, server: Server, tmp_path: Path
) -> None:
    await lab.pool("p", "10.7.0.0/20", prefix=20)
    log = tmp_path / "log"
    with product("clusterapi", server.kubeconfig, log, program=installed) as other:
        await until(lambda: _read(log), lambda text: "controller=clusterapi-claim" in text)
        async with anyio.create_task_group() as group:
            group.start_soon(claims, lab, 0, 60)
            await served(lab, 5)
            with frozen(server.process):
                await served(lab, 60)
                await claims(lab, 60, 70)
                await served(lab, 70)
        async with anyio.create_task_group() as group:
            group.start_soon(claims, lab, 70, 130)
            await served(lab, 75)
            with frozen(other):
                await served(lab, 130)
        await claims(lab, 130, 140)
        await served(lab, 140)
        held = await given(lab)
        assert len(held) == 140
        assert [one for one, times in Counter(held.values()).items() if times > 1] == []
        assert len(await lab.items("IPAddress")) == 140
        assert (other.poll(), server.process.poll()) == (None, None)
    await lab.counts("p", (4094, 140, 3954, 0))


async def _read(path: Path) -> str:
    return await anyio.Path(path).read_text(encoding="utf-8")


async def test_claims_that_are_created_and_deleted_at_once_leave_nothing_behind(
    lab: Lab,
) -> None:
    await lab.pool("p", "10.8.0.0/22", prefix=22)

    async def come_and_go(name: str) -> None:
        await lab.claim(name, "p")
        await lab.delete("IPAddressClaim", name)

    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(come_and_go, f"x{number:03}")
    await until(lambda: lab.items("IPAddressClaim"), lambda found: found == [])
    await until(lambda: lab.items("IPAddress"), lambda found: found == [])
    await lab.counts("p", (1022, 0, 1022, 0))
    await lab.claim("a", "p")
    assert await lab.served("a") == "10.8.0.1"
