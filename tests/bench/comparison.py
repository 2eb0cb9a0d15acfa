"""Measures one controller on a control plane of its own; the same way for every controller."""

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from time import perf_counter

from aiohttp import ClientSession

from tests.bench.driver import GROUP, Driver, View, count_addresses, name_allocation
from tests.bench.overlaps import Overlaps
from tests.bench.places import Open
from tests.bench.processes import (
    Command,
    Reachable,
    read_cpu_seconds,
    read_peak_mib,
    read_resident_mib,
    run_program,
)
from tests.bench.writes import Write, count_writes

FILLING = "filling"
CHURN = "churn"
_LEAST_POOL = 12

Start = Callable[[Reachable, Path], Command]


@dataclass(frozen=True, slots=True)
class Phase:
    """The costs of one phase.

    Attributes:
        number: the number of allocations that were created and served.
        seconds: from the first request until all were served, and the deleted ones were gone.
        served_times: for each allocation two times in seconds since the first request: when the
            watch first showed it, and when it first showed it Allocated.
        writes: the writes that the API server counted.
        controller: CPU seconds of the controller.
        server: CPU seconds of kube-apiserver.
        resident: MiB that the controller held at the end.
        peak: the most MiB that it ever held until then.
    """

    number: int
    seconds: float
    served_times: Sequence[tuple[float, float]]
    writes: Counter[Write]
    controller: float
    server: float
    resident: float
    peak: float

    @property
    def rate(self) -> float:
        """Return allocations per second."""
        return self.number / self.seconds

    def latency(self, percent: int) -> float:
        """Return the percentile of seconds from creation to Allocated, `percent` from 1 to 99."""
        latencies = [allocated - created for created, allocated in self.served_times]
        return quantiles(latencies, n=100, method="inclusive")[percent - 1]

    @property
    def steadiness(self) -> float:
        """Return the rate of the last fifth of the allocations divided by the second fifth's.

        The first fifth is served while the others are still being created, so it is left out.
        """
        times = sorted(allocated for _, allocated in self.served_times)
        fifth = len(times) // 5
        last = times[-1] - times[-1 - fifth]
        second = times[2 * fifth] - times[fifth]
        return second / last


@dataclass(frozen=True, slots=True)
class ControllerCosts:
    """The costs of one controller, and its errors.

    Attributes:
        idle: MiB that it held when its pool was ready and there were no allocations.
        phases: the phases by name.
        overlaps: how many pairs of allocations the watch has shown with one address at once.
        overlaps_left: how many pairs of allocations hold one address at the end.
    """

    idle: float
    phases: Mapping[str, Phase]
    overlaps: int
    overlaps_left: int


class WrongAnswerError(Exception):
    """A controller did not give the allocations what they asked for."""


@dataclass(slots=True)
class Meter:
    """Reads what the two processes have used, and what the API server has counted.

    Attributes:
        session: the API server's client.
        controller: process number.
        server: process number of the API server.
        counts: whether the API server's metrics count writes.
        groups: the API groups whose writes count.
    """

    session: ClientSession
    controller: int
    server: int
    counts: bool = True
    groups: Sequence[str] = (GROUP,)
    _writes: Counter[Write] = field(default_factory=Counter)
    _used: tuple[float, float] = (0.0, 0.0)

    async def begin(self) -> None:
        """Read all counters; CPU time last, so that it does not include the scrape of writes."""
        self._writes = await self._count_writes()
        self._used = read_cpu_seconds(self.controller), read_cpu_seconds(self.server)

    async def end(self) -> tuple[float, float, Counter[Write]]:
        """Return CPU seconds of controller and server since the beginning, and the writes."""
        controller, server = read_cpu_seconds(self.controller), read_cpu_seconds(self.server)
        writes = await self._count_writes()
        writes.subtract(self._writes)
        return controller - self._used[0], server - self._used[1], +writes

    async def _count_writes(self) -> Counter[Write]:
        if not self.counts:
            return Counter()
        async with self.session.get("/metrics") as answer:
            answer.raise_for_status()
            return count_writes(await answer.text(), *self.groups)


async def measure(start: Start, place: Open, number: int, kind: str) -> ControllerCosts:
    """Measure a controller with `number` allocations.

    Args:
        start: how the controller is started.
        place: opens the control plane.
        number: of allocations; every second one is replaced in churn.
        kind: what the addresses are for: nodes or loadbalancer.

    Raises:
        PlaneError: the control plane does not start.
        WrongAnswerError: the controller does not allocate the requested addresses.
        TimeoutError: it does not give it in time.
    """
    async with place() as home:
        with tempfile.TemporaryDirectory() as folder:
            command = start(home.access, Path(folder))
            driver = Driver(home.session, kind)
            async with driver.watching() as view:
                await driver.prepare(f"10.0.0.0/{compute_prefix_length(number)}")
                async with run_program(command, Path(folder) / "controller.log") as process:
                    meter = Meter(
                        home.session, process.pid, server=home.server, counts=home.counts
                    )
                    return await _measure(driver, view, meter=meter, number=number)


async def _measure(driver: Driver, view: View, meter: Meter, number: int) -> ControllerCosts:
    await view.until(lambda: view.pool is not None and view.pool.ready, "the pool is ready")
    idle = read_resident_mib(meter.controller)
    numbers = range(number)
    deleted, created_numbers, remaining_numbers = choose_replacements(number)
    filling = await _run_phase(driver, meter, delete=(), create=numbers, remaining_numbers=numbers)
    churn = await _run_phase(
        driver, meter, delete=deleted, create=created_numbers, remaining_numbers=remaining_numbers
    )
    remaining = await count_remaining_overlaps(driver, remaining_numbers)
    phases = {FILLING: filling, CHURN: churn}
    return ControllerCosts(
        idle, phases, overlaps=len(view.overlaps.pairs), overlaps_left=remaining
    )


async def _run_phase(
    driver: Driver,
    meter: Meter,
    delete: Sequence[int],
    create: Sequence[int],
    remaining_numbers: Sequence[int],
) -> Phase:
    """Delete and create allocations, wait until all are served or gone, and return the costs.

    Args:
        delete: the numbers of the allocations to delete.
        create: the numbers of the allocations to create.
        remaining_numbers: the numbers of the allocations that exist afterwards.
    """
    view = driver.view
    addresses = sum(map(count_addresses, remaining_numbers))

    def is_counted() -> bool:
        return view.pool is not None and (
            view.pool.status.allocationCount == len(remaining_numbers)
            and view.pool.status.allocatedIPs == addresses
        )

    await meter.begin()
    begun = perf_counter()
    await driver.change(delete, create)
    await driver.done()
    over = view.moved
    await view.until(is_counted, f"the pool counts {len(remaining_numbers)} allocations")
    controller, server, writes = await meter.end()
    return Phase(
        number=len(create),
        seconds=over - begun,
        served_times=[view.find_served_times(name_allocation(number), begun) for number in create],
        writes=writes,
        controller=controller,
        server=server,
        resident=read_resident_mib(meter.controller),
        peak=read_peak_mib(meter.controller),
    )


def choose_replacements(number: int) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Return the numbers that churn deletes and creates, and those that exist in the end."""
    deleted = range(0, number // 2 * 2, 2)
    created_numbers = range(number, number + len(deleted))
    kept = sorted({*range(number)} - {*deleted})
    return deleted, created_numbers, [*kept, *created_numbers]


async def count_remaining_overlaps(driver: Driver, remaining_numbers: Sequence[int]) -> int:
    """List all allocations, and return how many pairs of them overlap.

    Raises:
        WrongAnswerError: other allocations exist, or they hold other numbers of addresses.
    """
    expected = {name_allocation(number): count_addresses(number) for number in remaining_numbers}
    overlaps = Overlaps()
    held_ranges = {}
    for allocation in await driver.list_allocations():
        uid, status = allocation.metadata.uid, allocation.status
        overlaps.note_ranges(uid, *status.ranges)
        held_ranges[allocation.metadata.name] = (
            overlaps.size(uid) if status.phase == "Allocated" else 0
        )
    if held_ranges != expected:
        wrong = sorted(dict(held_ranges.items() ^ expected.items()))
        raise WrongAnswerError(
            f"{len(wrong)} allocations do not hold what they asked for: {wrong[:5]}"
        )
    return len(overlaps.pairs)


FAMILIES: tuple[tuple[str, ...], ...] = (("IPv4",), ("IPv6",), ("IPv4", "IPv6"))
"""The families of a pool in each case; allocations request all families of their pool."""


def make_pool_cidrs(number: int, families: Sequence[str]) -> list[str]:
    """Return a CIDR of each family for a pool of `number` allocations; both have one size."""
    whole = {
        "IPv4": f"10.0.0.0/{compute_prefix_length(number)}",
        "IPv6": f"fd00::/{compute_prefix_length(number) + 96}",
    }
    return [whole[family] for family in families]


def compute_prefix_length(number: int) -> int:
    """Return the prefix length of a pool of twice the addresses that the benchmark asks for."""
    addresses = sum(map(count_addresses, range(number + number // 2)))
    return 32 - max((2 * addresses - 1).bit_length(), _LEAST_POOL)
