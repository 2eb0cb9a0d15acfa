"""The highest rate that any controller can reach on a machine, measured without a controller.

The driver sends the requests of a comparison. It also sends the fewest writes by which a
controller can serve them: a write of the status of each new allocation, and a write that removes
the finalizer of each deleted allocation. A controller also has to watch, to compute, and to store
its promises.
If the result is below a goal, no controller reaches the goal on that machine, because the API
server and etcd need all the time.
"""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from ipaddress import IPv4Address
from time import perf_counter
from typing import Any

from typing_extensions import override

from tests.bench.api import Request
from tests.bench.comparison import (
    CHURN,
    FILLING,
    choose_replacements,
    compute_prefix_length,
    count_remaining_overlaps,
)
from tests.bench.driver import ALLOCATIONS, Driver, count_addresses, interleave, name_allocation
from tests.bench.places import Open, Place
from tests.bench.processes import read_cpu_seconds

_FIRST = IPv4Address("10.0.0.0")
_MOST_ADDRESSES = 8


@dataclass(frozen=True, slots=True)
class Bare:
    """The cost of one phase without a controller.

    Attributes:
        number: how many allocations were served.
        seconds: the time from the first request until all allocations were served.
        server: CPU seconds of kube-apiserver.
        store: CPU seconds of etcd.
    """

    number: int
    seconds: float
    server: float
    store: float

    @property
    def rate(self) -> float:
        """Return allocations per second."""
        return self.number / self.seconds

    def compute_processors(self, rate: float) -> float:
        """Return how many processors etcd and the API server need for `rate` allocations/s."""
        return rate * (self.server + self.store) / self.number


class ServingDriver(Driver):
    """A driver that sends the writes of a controller itself, each directly after its request."""

    @override
    async def change(self, delete: Sequence[int], create: Sequence[int]) -> None:
        releases: list[Request] = [
            (
                "PATCH",
                f"{ALLOCATIONS}/{name_allocation(number)}",
                {"metadata": {"finalizers": None}},
            )
            for number in delete
        ]
        grants: list[Request] = [
            (
                "PATCH",
                f"{ALLOCATIONS}/{name_allocation(number)}/status",
                {"status": _make_granted_status(number)},
            )
            for number in create
        ]
        asked = self.expect(delete, create)
        await self.ask_all(asked, interleave(releases, grants))


async def measure_bare(
    place: Open, number: int, kind: str, *, watched: bool
) -> Mapping[str, Bare]:
    """Measure both phases without a controller.

    Args:
        place: opens the control plane.
        number: how many allocations are created; every second one is replaced in churn.
        kind: the spec.type of the allocations: nodes or loadbalancer.
        watched: whether the driver opens its watches, and waits until they have shown all objects.

    Raises:
        PlaneError: the control plane does not start.
        WrongAnswerError: the allocations do not hold what they asked for.
    """
    numbers = range(number)
    going, coming, there = choose_replacements(number)
    async with place() as home, AsyncExitStack() as stack:
        driver = ServingDriver(home.session, kind)
        if watched:
            await stack.enter_async_context(driver.watching())
        await driver.prepare(f"10.0.0.0/{compute_prefix_length(number)}")
        filling = await _measure_phase(home, driver, delete=(), create=numbers, watched=watched)
        churn = await _measure_phase(home, driver, delete=going, create=coming, watched=watched)
        await count_remaining_overlaps(driver, there)
    return {FILLING: filling, CHURN: churn}


async def _measure_phase(
    home: Place, driver: Driver, delete: Sequence[int], create: Sequence[int], *, watched: bool
) -> Bare:
    """Delete and create allocations by their numbers, and return the cost."""
    processes = home.server, home.store
    before = [_read_cpu_seconds(process) for process in processes]
    begun = perf_counter()
    await driver.change(delete, create)
    if watched:
        await driver.done()
    seconds = perf_counter() - begun
    server, store = (
        _read_cpu_seconds(process) - at for process, at in zip(processes, before, strict=True)
    )
    return Bare(len(create), seconds, server=server, store=store)


def _read_cpu_seconds(process: int | None) -> float:
    """Return the CPU seconds of a process; 0 for None, a process that cannot be measured."""
    return 0.0 if process is None else read_cpu_seconds(process)


def _make_granted_status(number: int) -> dict[str, Any]:
    """Return the smallest status of an allocation, with a range of its own."""
    first = _FIRST + _MOST_ADDRESSES * number
    last = first + count_addresses(number) - 1
    return {"phase": "Allocated", "startAddress": str(first), "endAddress": str(last)}
