"""Two live processes, one frozen for a while: no address is given twice, nothing stays empty."""

from pathlib import Path

import anyio
import pytest

from tests.contract.kubermatic.lab import ROOT, Lab, ranges
from tests.contract.product import Server, frozen, product
from tests.polling import until
from tests.reconcilers.cli.commands import find_installed_command

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.slow]


async def clusters(lab: Lab, first: int, last: int) -> None:
    """Create clusters all at once."""
    async with anyio.create_task_group() as group:
        for number in range(first, last):
            group.start_soon(lab.cluster, f"c{number:03}")


async def read_addresses(lab: Lab) -> list[list[str]]:
    """Return the addresses of each allocation that there is."""
    answer = await lab.admin.get(
        f"{ROOT}/ipamallocations", params={"fieldSelector": f"metadata.name={lab.name('p')}"}
    )
    assert answer.status_code == 200, answer.text
    return [allocation["spec"].get("addresses", []) for allocation in answer.json()["items"]]


async def wait_until_served(lab: Lab, count: int) -> list[str]:
    """Wait until that many clusters have addresses and none has none; return all ranges."""
    allocated = await until(
        lambda: read_addresses(lab), lambda all_of: len(all_of) >= count and all(all_of)
    )
    return [span for ranges in allocated for span in ranges]


async def test_two_live_processes_never_give_an_address_twice_though_one_is_frozen(
    lab: Lab, server: Server, tmp_path: Path
) -> None:
    await clusters(lab, 0, 16)
    log = tmp_path / "log"
    with product("kubermatic", server.kubeconfig, log, program=find_installed_command) as other:
        await until(lambda: _read(log), lambda log: "controller=kubermatic-cluster" in log)
        await lab.pool("p", dc=ranges("10.0.0.0/22", 4))
        with frozen(server.process):
            await wait_until_served(lab, 16)
        async with anyio.create_task_group() as group:
            group.start_soon(clusters, lab, 16, 32)
            await wait_until_served(lab, 18)
            with frozen(other):
                await wait_until_served(lab, 32)
        served_ranges = await wait_until_served(lab, 32)
        assert len(set(served_ranges)) == len(served_ranges) == 32
        await lab.patch(lab.pools("p"), {"spec": lab.datacenters(dc={"allocationRange": 8})})
        served_ranges = await until(lambda: _all(lab), lambda all_ranges: len(all_ranges) == 64)
        assert len(set(served_ranges)) == 64
        assert (other.poll(), server.process.poll()) == (None, None)


async def _all(lab: Lab) -> list[str]:
    return [span for ranges in await read_addresses(lab) for span in ranges]


async def _read(path: Path) -> str:
    return await anyio.Path(path).read_text(encoding="utf-8")
