"""Measures one controller on a control plane of its own; the same way for every controller."""

import os
import tempfile
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from time import perf_counter

import yaml
from aiohttp import ClientSession, TCPConnector

from envtest import User
from envtest.access.tokens import token_line
from envtest.binaries import real_control_plane
from envtest.plane import ControlPlane as Plane
from envtest.settings import read_settings
from reconcilers.api.crd import crds
from tests.bench.driver import GROUP, LONGEST_EVENT, Driver, View, count, named
from tests.bench.overlaps import Overlaps
from tests.bench.processes import (
    Command,
    Reachable,
    peak,
    program,
    resident,
    running,
    worked,
)
from tests.bench.writes import Write, counted
from tests.hygiene import children

FILLING = "filling"
CHURN = "churn"
_TOKEN = "bench-token"
_ADMINISTRATOR = User("bench", ("system:masters",))
_LEAST_POOL = 12

Start = Callable[[Reachable, Path], Command]


@dataclass(slots=True)
class Access:
    """How a controller reaches the API server."""

    url: str
    token: str
    authority: str


@dataclass(frozen=True, slots=True)
class Phase:
    """What one phase took.

    Attributes:
        number: the allocations that it served.
        seconds: from the first request until all was as asked.
        served: for each the seconds, since the first request, at which the watch showed it first
            and showed it Allocated.
        writes: what the API server counted.
        controller: CPU seconds of the controller.
        server: CPU seconds of kube-apiserver.
        resident: MiB that the controller held at the end.
        peak: the most MiB that it ever held until then.
    """

    number: int
    seconds: float
    served: Sequence[tuple[float, float]]
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
        """Return below which time so many percent of the allocations were served."""
        latencies = [allocated - created for created, allocated in self.served]
        return quantiles(latencies, n=100, method="inclusive")[percent - 1]

    @property
    def steadiness(self) -> float:
        """Return the rate at which the last fifth was served, divided by that of the second.

        Not of the first, which was served while the others were still being created.
        """
        times = sorted(allocated for _, allocated in self.served)
        fifth = len(times) // 5
        last = times[-1] - times[-1 - fifth]
        second = times[2 * fifth] - times[fifth]
        return second / last


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured of one controller.

    Attributes:
        idle: MiB that it held when its pool was ready and nothing had been asked.
        phases: by name.
        overlaps: pairs of allocations that held an address at the same time, as the watch showed.
        overlaps_left: those of them that the API server shows at the end.
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
        server: process number of kube-apiserver.
    """

    session: ClientSession
    controller: int
    server: int
    _writes: Counter[Write] = field(default_factory=Counter)
    _used: tuple[float, float] = (0.0, 0.0)

    async def begin(self) -> None:
        """Remember how things are; the last reading, so that the scrape is not measured."""
        self._writes = await self._counted()
        self._used = worked(self.controller), worked(self.server)

    async def end(self) -> tuple[float, float, Counter[Write]]:
        """Return CPU seconds of controller and server since the beginning, and the writes."""
        controller, server = worked(self.controller), worked(self.server)
        writes = await self._counted()
        writes.subtract(self._writes)
        return controller - self._used[0], server - self._used[1], +writes

    async def _counted(self) -> Counter[Write]:
        async with self.session.get("/metrics") as answer:
            answer.raise_for_status()
            return counted(await answer.text(), GROUP)


async def measure(start: Start, assets: Path, number: int, kind: str) -> Measured:
    """Measure a controller with `number` allocations.

    Args:
        start: how the controller is started.
        assets: the folder of etcd and kube-apiserver.
        number: of allocations; every second one is replaced in churn.
        kind: what the addresses are for: nodes or loadbalancer.

    Raises:
        PlaneError: the control plane does not start.
        WrongAnswerError: the controller does not give what is asked for.
        TimeoutError: it does not give it in time.
    """
    async with _control_plane(assets) as (plane, server):
        await plane.install_crds(crds())
        access = Access(plane.url, _TOKEN, _authority(plane))
        with tempfile.TemporaryDirectory() as folder:
            command = start(access, Path(folder))
            async with client(plane) as session:
                driver = Driver(session, kind)
                async with driver.watching() as view:
                    await driver.prepare(f"10.0.0.0/{prefix(number)}")
                    log = Path(folder) / "controller.log"
                    async with running(command, log) as process:
                        meter = Meter(session, process.pid, server)
                        return await _measure(driver, view, meter, number)


async def _measure(driver: Driver, view: View, meter: Meter, number: int) -> Measured:
    await view.until(lambda: view.pool is not None and view.pool.ready, "the pool is ready")
    idle = resident(meter.controller)
    everyone = list(range(number))
    going = everyone[: number // 2 * 2 : 2]
    coming = range(number, number + len(going))
    staying = sorted({*everyone} - {*going})
    filling = await _phase(driver, meter, (), everyone, everyone)
    churn = await _phase(driver, meter, going, coming, [*staying, *coming])
    left = await _overlaps_left(driver, [*staying, *coming])
    phases = {FILLING: filling, CHURN: churn}
    return Measured(idle, phases, len(view.overlaps.pairs), left)


async def _phase(
    driver: Driver,
    meter: Meter,
    delete: Sequence[int],
    create: Sequence[int],
    there: Sequence[int],
) -> Phase:
    """Delete and create allocations, wait until all is as asked, and return what it took."""
    view = driver.view
    addresses = sum(map(count, there))

    def counted_right() -> bool:
        return view.pool is not None and (
            view.pool.status.allocationCount == len(there)
            and view.pool.status.allocatedIPs == addresses
        )

    await meter.begin()
    begun = perf_counter()
    await driver.change(delete, create)
    await driver.done()
    over = view.moved
    await view.until(counted_right, f"the pool counts {len(there)} allocations")
    controller, server, writes = await meter.end()
    return Phase(
        number=len(create),
        seconds=over - begun,
        served=[view.served(named(one), begun) for one in create],
        writes=writes,
        controller=controller,
        server=server,
        resident=resident(meter.controller),
        peak=peak(meter.controller),
    )


async def _overlaps_left(driver: Driver, there: Sequence[int]) -> int:
    """Return how many pairs overlap in the end, by a list.

    Raises:
        WrongAnswerError: other allocations are there, or they hold other numbers of addresses.
    """
    wanted = {named(one): count(one) for one in there}
    left = Overlaps()
    held = {}
    for one in await driver.listed():
        uid, status = one.metadata.uid, one.status
        left.shown(uid, status.startAddress, status.endAddress)
        held[one.metadata.name] = left.size(uid) if status.phase == "Allocated" else 0
    if held != wanted:
        wrong = sorted(dict(held.items() ^ wanted.items()))
        raise WrongAnswerError(
            f"{len(wrong)} allocations do not hold what they asked for: {wrong[:5]}"
        )
    return len(left.pairs)


def prefix(number: int) -> int:
    """Return the prefix length of a pool of twice the addresses that the benchmark asks for."""
    addresses = sum(map(count, range(number + number // 2)))
    return 32 - max((2 * addresses - 1).bit_length(), _LEAST_POOL)


@asynccontextmanager
async def _control_plane(assets: Path) -> AsyncIterator[tuple[Plane, int]]:
    """Start a control plane; give it and the process number of its kube-apiserver."""
    settings = read_settings({**os.environ, "KUBEBUILDER_ASSETS": str(assets)})
    before = children()
    tokens = token_line(_TOKEN, _ADMINISTRATOR)
    async with real_control_plane(settings, None, "127.0.0.1:0", tokens) as plane:
        yield plane, program("kube-apiserver", children() - before)


def _authority(plane: Plane) -> str:
    cluster = yaml.safe_load(plane.kubeconfig())["clusters"][0]["cluster"]
    return b64decode(cluster["certificate-authority-data"]).decode()


@asynccontextmanager
async def client(plane: Plane) -> AsyncIterator[ClientSession]:
    """Give the driver's client of a control plane, as its administrator."""
    connector = TCPConnector(ssl=plane.tls(), limit=0)
    async with ClientSession(
        plane.url,
        connector=connector,
        headers=plane.admin_headers(),
        read_bufsize=LONGEST_EVENT,
    ) as session:
        yield session
