"""The cost of claims of Cluster API and Metal3: claims of one pool, created and deleted at once.

On a control plane with their kinds (the real etcd and kube-apiserver where they are, else the
embedded API server), `butler-ipam run --integration=NAME` goes through three phases for each
number of claims, with 32 requests in flight:

- filling: so many claims are created at once, all of one InClusterIPPool, or IPPool of metal3
- releasing: all of them are deleted
- at once: so many claims are created, and each is deleted as soon as it is there

A phase ends when a watch has shown each new claim with its address and each deleted claim as gone,
and the pool counts as many addresses as there are claims. CPU time is that of the product's
process. Passes are counted by its own metrics. Writes are counted by the API server, with the POST
and DELETE requests of the driver. The benchmark fails if two claims have the same address, or if
an IPAddress is left without a claim. Other work of the machine changes all numbers but passes and
writes.

    python -m tests.bench clusterapi [--integration clusterapi|metal3] [--claims N]...
        [--on real|embedded]
"""

import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from time import perf_counter

import anyio
import click
from aiohttp import ClientSession
from prometheus_client.parser import text_string_to_metric_families

from envtest.plane import read_crds
from envtest.settings import PlaneError
from reconcilers.integrations.clusterapi import crds
from tests.bench.bench_real import make_our_command
from tests.bench.claims import IN_CLUSTER, METAL3, ClaimDriver, ClaimView, WrongAnswerError
from tests.bench.comparison import Meter
from tests.bench.places import ROOT, Open, list_places
from tests.bench.processes import choose_free_port, read_peak_mib, run_program
from tests.bench.writes import Write, count_accepted

_DATA = ROOT / "tests" / "data"
_PROVIDERS = {"clusterapi": IN_CLUSTER, "metal3": METAL3}
_EVENTS = "events.k8s.io"
FILLING, RELEASING, AT_ONCE = "filling", "releasing", "at once"
_GOALS = {
    "clusterapi": {FILLING: ">= 70/s, CPU <= 4 ms", RELEASING: "2,000 in <= 30 s"},
    "metal3": {FILLING: "1,000 at >= 100/s, CPU <= 3 ms"},
}


@dataclass(frozen=True, slots=True)
class Phase:
    """The cost of one phase.

    Attributes:
        name: FILLING, RELEASING or AT_ONCE.
        number: the number of claims.
        seconds: the time from the first request until all claims were served or gone.
        first: seconds until the first claim had its address; None for other phases than FILLING.
        cpu: CPU seconds of the product.
        writes: the number of writes, by kind of write.
        passes: the number of passes, by controller.
        peak: the largest memory of the product until then, in MiB.
    """

    name: str
    number: int
    seconds: float
    first: float | None
    cpu: float
    writes: Counter[Write]
    passes: Counter[str]
    peak: float


class PhaseRunner:
    """Runs the phases and measures them.

    Args:
        claimant: creates and deletes claims.
        view: the claims and addresses that the watches show.
        meter: measures CPU time and writes.
        metrics: the URL of the product's metrics.
    """

    def __init__(self, claimant: ClaimDriver, view: ClaimView, meter: Meter, metrics: str) -> None:
        self._claimant = claimant
        self._view = view
        self._meter = meter
        self._metrics = metrics
        self.phases: list[Phase] = []

    async def warm_up(self) -> None:
        """Serve and release one claim, so that connections and caches exist."""
        await self._claimant.create(self._view, ["warm"])
        await self._view.until_done(1)
        await self._claimant.delete(self._view, ["warm"])
        await self._view.until_done(0)

    async def run_phases(self, number: int) -> None:
        """Run all phases with `number` claims."""
        claimant, view = self._claimant, self._view
        names = [f"claim-{index:06}" for index in range(number)]
        view.served_at.clear()
        async with self._measure_phase(FILLING, number):
            await claimant.create(view, names)
            await view.until_done(number)
        await claimant.check()
        async with self._measure_phase(RELEASING, number):
            await claimant.delete(view, names)
            await view.until_done(0)
        await claimant.check()
        async with self._measure_phase(AT_ONCE, number):
            await claimant.create_and_delete(view, [f"once-{index:06}" for index in range(number)])
            await view.until_done(0)
        await claimant.check()

    @asynccontextmanager
    async def _measure_phase(self, name: str, number: int) -> AsyncIterator[None]:
        """Measure the block, and add the cost to `phases`."""
        passes = await count_passes(self._metrics)
        await self._meter.begin()
        begun = perf_counter()
        yield
        cpu, _, writes = await self._meter.end()
        passes = await count_passes(self._metrics) - passes
        first = min(self._view.served_at.values()) - begun if name == FILLING else None
        seconds = self._view.moved - begun
        peak_memory = read_peak_mib(self._meter.controller)
        self.phases.append(
            Phase(
                name,
                number,
                seconds=seconds,
                first=first,
                cpu=cpu,
                writes=writes,
                passes=passes,
                peak=peak_memory,
            )
        )


async def count_passes(metrics: str) -> Counter[str]:
    """Return how many passes each controller has made so far, by its name.

    Args:
        metrics: the URL of the product's metrics.
    """
    async with ClientSession() as session, session.get(metrics) as answer:
        answer.raise_for_status()
        content = await answer.text()
    passes: Counter[str] = Counter()
    for family in text_string_to_metric_families(content):
        for sample in family.samples:
            if sample.name == "controller_runtime_reconcile_total":
                passes[sample.labels["controller"]] += round(sample.value)
    return passes


async def measure(
    place: Open, numbers: Sequence[int], integration: str = "clusterapi"
) -> list[Phase]:
    """Measure the phases with each of these numbers of claims, in turn.

    Args:
        place: opens the control plane.
        numbers: the numbers of claims.
        integration: clusterapi or metal3, whose claims are measured.

    Raises:
        PlaneError: the control plane does not start.
        WrongAnswerError: two claims have one address, or an IPAddress is left.
        TimeoutError: the product does not serve or release in time.
    """
    async with place() as home:
        provider = _PROVIDERS[integration]
        claimant = ClaimDriver(home.session, provider)
        with tempfile.TemporaryDirectory() as folder:
            command, variables = make_our_command(home.access, Path(folder))
            metrics = f"127.0.0.1:{choose_free_port()}"
            flags = [f"--diagnostics-address={metrics}", "--insecure-diagnostics"]
            start = [*command, f"--integration={integration}", *flags], variables
            async with claimant.watching() as view:
                await claimant.prepare()
                async with run_program(start, Path(folder) / "product.log") as process:
                    groups = (provider.group, _EVENTS)
                    meter = Meter(
                        home.session,
                        process.pid,
                        server=home.server,
                        counts=home.counts,
                        groups=groups,
                    )
                    url = f"http://{metrics}/metrics"
                    bench = PhaseRunner(claimant, view, meter=meter, metrics=url)
                    await bench.warm_up()
                    for number in numbers:
                        await bench.run_phases(number)
                    return bench.phases


def list_definitions() -> list[dict[str, object]]:
    """Return the definitions of the kinds of Cluster API and metal3, and of pools."""
    others = [read_crds(_DATA / name / "crds.yaml") for name in _PROVIDERS]
    return [*chain.from_iterable(others), *crds.build_pool_crds()]


def show(phase: Phase, integration: str) -> None:
    """Print the cost of a phase of an integration."""
    number = phase.number
    goal = _GOALS[integration].get(phase.name, "")
    click.echo(
        f"{phase.name:10} {number:6,} claims: {phase.seconds:7.2f} s,"
        f" {number / phase.seconds:6.1f}/s, {1000 * phase.cpu / number:5.2f} ms of CPU each,"
        f" peak {phase.peak:.0f} MiB"
        + (f", first after {phase.first:.2f} s" if phase.first is not None else "")
        + (f"  goal: {goal}" if goal else "")
    )
    for controller in sorted(phase.passes):
        click.echo(f"    {f'passes of {controller}':45} {phase.passes[controller] / number:6.2f}")
    for write in sorted(phase.writes):
        click.echo(f"    {write!s:45} {phase.writes[write] / number:6.2f}")
    if phase.writes:
        click.echo(f"    {'writes each':45} {count_accepted(phase.writes) / number:6.2f}")


@click.command()
@click.option(
    "--claims",
    type=click.IntRange(min=2),
    multiple=True,
    default=(200, 1000, 2000),
    show_default=True,
    help="How many are created at once; several in turn.",
)
@click.option(
    "--integration",
    type=click.Choice([*_PROVIDERS]),
    default="clusterapi",
    show_default=True,
    help="Whose claims are made.",
)
@click.option("--on", "where", type=click.Choice(["real", "embedded"]), help="The control plane.")
def command(claims: Sequence[int], integration: str, where: str | None) -> None:
    """Measure the integration with Cluster API, or with metal3."""
    there = list_places(list_definitions())
    name = where or ("real" if "real" in there else "embedded")
    if name not in there:
        raise click.ClickException(
            "no etcd and kube-apiserver in the folder that KUBEBUILDER_ASSETS names, nor in"
            " .real/newest; `make real` builds them"
        )
    click.echo(f"on the {name} API server; {'writes' if name == 'real' else 'no writes'} counted")
    try:
        phases = anyio.run(measure, there[name], claims, integration)
    except (PlaneError, WrongAnswerError, TimeoutError) as error:
        raise click.ClickException(str(error)) from error
    for phase in phases:
        show(phase, integration)


def run(arguments: Sequence[str] = ()) -> None:
    """Print what claims cost."""
    command.main(
        list(arguments), prog_name="python -m tests.bench clusterapi", standalone_mode=False
    )
