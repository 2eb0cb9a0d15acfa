"""What two families cost: allocations of one, and of both at once, in turn in one run.

On each control plane that there is, `butler-ipam run` serves allocations that are created at once:
in a pool of IPv4, in one of IPv6, and in one of both, with ipFamilyPolicy RequireDualStack. Each
is measured in several rounds, on a fresh control plane, and the rounds take turns, so that what
else the machine does meets all of them. The goal is for the rate; CPU time is the controller's.

    python -m tests.bench families [--allocations N] [--rounds N]
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import anyio
import click

from tests.bench.bench_real import make_our_command
from tests.bench.comparison import FAMILIES, make_pool_cidrs
from tests.bench.driver import Driver
from tests.bench.places import Open, list_places
from tests.bench.processes import read_cpu_seconds, run_program

GOAL = 0.9
"""The rate with two families, as a share of the rate with one."""


@dataclass
class Cost:
    """The cost of allocations.

    Args:
        allocations: how many were created and served.
        addresses: the number of their addresses, of both families.
        seconds: the time until the last allocation was Allocated.
        cpu: CPU seconds of the controller.
        overlaps: how many pairs of allocations held the same address.
    """

    allocations: int = 0
    addresses: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    overlaps: int = 0

    def add(self, other: "Cost") -> None:
        """Add the cost of another round."""
        self.allocations += other.allocations
        self.addresses += other.addresses
        self.seconds += other.seconds
        self.cpu += other.cpu
        self.overlaps += other.overlaps

    @property
    def rate(self) -> float:
        """Allocations per second."""
        return self.allocations / self.seconds


async def measure(place: Open, number: int, families: Sequence[str]) -> Cost:
    """Return the cost of `number` allocations of these families that are created at once."""
    async with place() as home:
        with tempfile.TemporaryDirectory() as folder:
            driver = Driver(home.session)
            async with driver.watching() as view:
                await driver.prepare(*make_pool_cidrs(number, families))
                command = make_our_command(home.access, Path(folder))
                async with run_program(command, Path(folder) / "controller.log") as process:
                    await view.until(lambda: view.pool is not None and view.pool.ready, "a pool")
                    before, begun = read_cpu_seconds(process.pid), perf_counter()
                    await driver.change((), range(number))
                    await driver.done()
                    cpu = read_cpu_seconds(process.pid) - before
                listed = await driver.list_allocations()
    address_count = sum(
        view.overlaps.size(listed_allocation.metadata.uid) for listed_allocation in listed
    )
    return Cost(
        len(listed),
        address_count,
        seconds=view.moved - begun,
        cpu=cpu,
        overlaps=len(view.overlaps.pairs),
    )


def show(name: str, costs: Mapping[tuple[str, ...], Cost]) -> None:
    """Print the numbers of a control plane."""
    single = costs[FAMILIES[0]]
    for families, cost in costs.items():
        goal = f"  goal: >= {GOAL}" if len(families) > 1 else ""
        click.echo(
            f"{name:9} {' and '.join(families):13} {cost.allocations:,} with"
            f" {cost.addresses:,} addresses, {cost.rate:.0f}/s,"
            f" {1000 * cost.cpu / cost.allocations:.2f} ms of CPU each,"
            f" {cost.overlaps} overlaps; rate {cost.rate / single.rate:.2f} of IPv4's{goal}"
        )


@click.command()
@click.option("--allocations", default=1_000, show_default=True, help="Created at once.")
@click.option("--rounds", default=3, show_default=True, help="Of each kind of pool.")
def command(allocations: int, rounds: int) -> None:
    """Print what allocations of one family and of both cost."""
    for name, place in list_places().items():
        costs = {families: Cost() for families in FAMILIES}
        for _ in range(rounds):
            for families, cost in costs.items():
                cost.add(anyio.run(measure, place, allocations, families))
        show(name, costs)


def run(arguments: Sequence[str] = ()) -> None:
    """Print what allocations of one family and of both cost."""
    command.main(list(arguments), "python -m tests.bench families", standalone_mode=False)
