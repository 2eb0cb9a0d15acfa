"""What an allocation costs while few or many are held: CPU time of the controller's process.

On each control plane that there is, `butler-ipam run` first serves as many allocations as are to
be held. Then some are deleted and created anew (churn), in several rounds, and as many more are
created (filling), in a pool of IPv4, in one of IPv6, and of both. The goal is that a pool which
holds 10,000 costs no more than one that holds 100. CPU time is read in hundredths of a second, and
grows by a quarter and more where others use the machine at the same time.
"""

import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import anyio
import click

from tests.bench.bench_real import make_our_command
from tests.bench.comparison import FAMILIES, make_pool_cidrs
from tests.bench.driver import Driver
from tests.bench.places import Open, list_places
from tests.bench.processes import read_cpu_seconds, run_program

HELD = (100, 10_000)
"""The two numbers of allocations that are held."""
ROUNDS = 8
EACH_ROUND = 50
MORE = ROUNDS * EACH_ROUND
"""How many allocations are replaced in all rounds, and how many are created afterwards."""


async def measure(
    place: Open, allocation_count: int, families: Sequence[str] = ("IPv4",)
) -> tuple[float, float]:
    """Return the CPU milliseconds per allocation, in churn and in filling.

    Args:
        place: opens the control plane.
        allocation_count: how many allocations are held before.
        families: the IP families of the pool and of allocations.
    """
    async with place() as home:
        with tempfile.TemporaryDirectory() as folder:
            driver = Driver(home.session)
            async with driver.watching() as view:
                await driver.prepare(*make_pool_cidrs(2 * (allocation_count + MORE), families))
                command = make_our_command(home.access, Path(folder))
                async with run_program(command, Path(folder) / "controller.log") as process:
                    await view.until(lambda: view.pool is not None and view.pool.ready, "a pool")
                    await _change(driver, range(0), range(allocation_count))
                    begun = read_cpu_seconds(process.pid)
                    for turn in range(ROUNDS):
                        deleted = range(turn * EACH_ROUND, (turn + 1) * EACH_ROUND)
                        created = range(
                            allocation_count + deleted.start, allocation_count + deleted.stop
                        )
                        await _change(driver, deleted, created)
                    after_churn = read_cpu_seconds(process.pid)
                    await _change(
                        driver,
                        range(0),
                        range(allocation_count + MORE, allocation_count + 2 * MORE),
                    )
                    after_filling = read_cpu_seconds(process.pid)
    return 1000 * (after_churn - begun) / MORE, 1000 * (after_filling - after_churn) / MORE


async def _change(driver: Driver, delete: range, create: range) -> None:
    """Delete and create allocations by their numbers, and wait until all are served."""
    await driver.change(delete, create)
    await driver.done()


def run() -> None:
    """Print what allocations cost by how many are held."""
    for (name, place), families in product(list_places().items(), FAMILIES):
        costs = [
            anyio.run(measure, place, allocation_count, families) for allocation_count in HELD
        ]
        asked = " and ".join(families)
        for at, phase in enumerate(("churn", "filling")):
            few, many = (cost[at] for cost in costs)
            click.echo(
                f"{name:9} {asked:13} {phase:8} {few:.2f} ms of CPU each with {HELD[0]:,} held,"
                f" {many:.2f} ms with {HELD[1]:,}: ratio {many / few:.2f}  goal: <= 1.3"
            )
