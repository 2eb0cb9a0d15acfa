"""Two live processes, one frozen for a while: each cluster gets addresses of its own."""

from pathlib import Path

import anyio
import pytest

from tests.contract.kubermatic.lab import ROOT, KubermaticLab, make_range_settings
from tests.contract.product import Server, frozen, product
from tests.polling import until
from tests.reconcilers.cli.commands import find_installed_command

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.slow]


async def create_clusters(lab: KubermaticLab, first: int, stop: int) -> None:
    """Create clusters `first` to before `stop` at once."""
    async with anyio.create_task_group() as group:
        for number in range(first, stop):
            group.start_soon(lab.create_cluster, f"c{number:03}")


async def read_allocations(lab: KubermaticLab) -> list[list[str]]:
    """Return the ranges of each allocation of pool `p`."""
    answer = await lab.admin.get(
        f"{ROOT}/ipamallocations", params={"fieldSelector": f"metadata.name={lab.name('p')}"}
    )
    assert answer.status_code == 200, answer.text
    return [allocation["spec"].get("addresses", []) for allocation in answer.json()["items"]]


async def wait_until_served(lab: KubermaticLab, count: int) -> list[str]:
    """Wait until there are `count` allocations, each with ranges; return all ranges."""
    allocated = await until(
        lambda: read_allocations(lab),
        lambda allocations: len(allocations) >= count and all(allocations),
    )
    return [span for ranges in allocated for span in ranges]


async def test_two_live_processes_never_give_an_address_twice_though_one_is_frozen(
    lab: KubermaticLab, server: Server, tmp_path: Path
) -> None:
    await create_clusters(lab, 0, 16)
    log = tmp_path / "log"
    with product("kubermatic", server.kubeconfig, log, program=find_installed_command) as other:
        await until(lambda: _read(log), lambda log: "controller=kubermatic-cluster" in log)
        await lab.create_pool("p", dc=make_range_settings("10.0.0.0/22", 4))
        with frozen(server.process):
            await wait_until_served(lab, 16)
        async with anyio.create_task_group() as group:
            group.start_soon(create_clusters, lab, 16, 32)
            await wait_until_served(lab, 18)
            with frozen(other):
                await wait_until_served(lab, 32)
        served_ranges = await wait_until_served(lab, 32)
        assert len(set(served_ranges)) == len(served_ranges) == 32
        await lab.patch(
            lab.build_pool_path("p"), {"spec": lab.make_pool_spec(dc={"allocationRange": 8})}
        )
        served_ranges = await until(
            lambda: _list_ranges(lab), lambda all_ranges: len(all_ranges) == 64
        )
        assert len(set(served_ranges)) == 64
        assert (other.poll(), server.process.poll()) == (None, None)


async def _list_ranges(lab: KubermaticLab) -> list[str]:
    """Return the ranges of all allocations of pool `p`."""
    return [span for ranges in await read_allocations(lab) for span in ranges]


async def _read(path: Path) -> str:
    """Return the content of a file."""
    return await anyio.Path(path).read_text(encoding="utf-8")
