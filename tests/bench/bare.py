"""The most that any controller can reach on a machine: the same requests without a controller.

The driver asks for what it asks for in a comparison, and makes itself the fewest writes by which a
controller can serve it: one write of a new allocation's status, one that takes the finalizer of a
deleted one. It looks for nothing and waits for nothing in between. A controller adds to that at
least its watch, its own work, and what it keeps its promises by. Where the result is less than a
goal, no controller reaches the goal there, for the API server and etcd have no time for more.
"""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from ipaddress import IPv4Address
from time import perf_counter
from typing import Any

from typing_extensions import override

from tests.bench.api import Request
from tests.bench.comparison import CHURN, FILLING, choose_replacements, overlaps_left, prefix
from tests.bench.driver import ALLOCATIONS, Driver, count, interleave, name_allocation
from tests.bench.places import Open, Place
from tests.bench.processes import read_cpu_seconds

_FIRST = IPv4Address("10.0.0.0")
_MOST_ADDRESSES = 8


@dataclass(frozen=True, slots=True)
class Bare:
    """What one phase took without a controller.

    Attributes:
        number: the allocations that were served.
        seconds: from the first request until all was as asked.
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

    def processors(self, rate: float) -> float:
        """Return how many processors the two servers alone need for so many per second."""
        return rate * (self.server + self.store) / self.number


class Alone(Driver):
    """A driver that makes a controller's writes itself, each directly after its request."""

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
        number: of allocations; every second one is replaced in churn.
        kind: what the addresses are for: nodes or loadbalancer.
        watched: whether the driver has its watches open, and waits until they have shown all.

    Raises:
        PlaneError: the control plane does not start.
        WrongAnswerError: the allocations do not hold what they asked for.
    """
    numbers = range(number)
    going, coming, there = choose_replacements(number)
    async with place() as home, AsyncExitStack() as stack:
        driver = Alone(home.session, kind)
        if watched:
            await stack.enter_async_context(driver.watching())
        await driver.prepare(f"10.0.0.0/{prefix(number)}")
        filling = await _phase(home, driver, delete=(), create=numbers, watched=watched)
        churn = await _phase(home, driver, delete=going, create=coming, watched=watched)
        await overlaps_left(driver, there)
    return {FILLING: filling, CHURN: churn}


async def _phase(
    home: Place, driver: Driver, delete: Sequence[int], create: Sequence[int], *, watched: bool
) -> Bare:
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
    """Return the CPU seconds of a process; none of one that is not there."""
    return 0.0 if process is None else read_cpu_seconds(process)


def _make_granted_status(number: int) -> dict[str, Any]:
    """Return the least status of an allocation with a range that no other has."""
    first = _FIRST + _MOST_ADDRESSES * number
    last = first + count(number) - 1
    return {"phase": "Allocated", "startAddress": str(first), "endAddress": str(last)}
