"""The first start with many allocations that wait in many pools.

On the control plane there are TenantClusters, pools, and allocations that nobody served yet. Then
`butler-ipam run` starts, and everything is to be served. No pool has a memory at a first start, so
each has to void earlier promises before it hands out (the fence). What it takes is printed:
seconds until all are Allocated, LISTs of IPAllocations and their pages, writes of IPAllocations,
CPU time of the controller's process, the longest step of its event loop (by the clock and in CPU
time), and overlaps. The goal: 20,000 allocations in 200 pools within 300 s, no step above 100 ms,
and LISTs that do not grow with the number of pools. Seconds and steps by the clock depend on what
else the machine does; LISTs, pages, writes and CPU time do not. BUTLER_BENCH_STACKS=0.1 writes to
the controller's output where each step is that takes longer than so many seconds.

    python -m tests.bench start [--pools N] [--allocations N] [--tenants N] [--place NAME]
                                [--without-finalizers]
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio
import click

from tests.bench.bench_real import NEVER
from tests.bench.driver import (
    ALLOCATIONS,
    GROUP,
    NAMESPACE,
    POOLS,
    Driver,
    count_addresses,
    make_allocation,
    name_allocation,
)
from tests.bench.places import Open, list_places
from tests.bench.processes import (
    Command,
    Reachable,
    choose_free_port,
    make_pod_command,
    read_cpu_seconds,
    run_program,
    write_credentials,
)
from tests.program import script

PATIENCE = 1800.0
_VERSION = f"{GROUP}/v1alpha1"
_TENANTS = f"/apis/{_VERSION}/namespaces/{NAMESPACE}/tenantclusters"
_PROVIDERS = f"/apis/{_VERSION}/namespaces/{NAMESPACE}/providerconfigs"


@dataclass(frozen=True, slots=True)
class StartCase:
    """The objects that a controller finds at its first start.

    Args:
        allocations: the number of allocations that wait in the pools.
        tenants: the number of TenantClusters, for which the controller creates allocations.
        finalizers: whether the waiting allocations have their finalizer already.
    """

    pools: int = 200
    allocations: int = 20_000
    tenants: int = 500
    finalizers: bool = True


@dataclass(frozen=True, slots=True)
class StartCosts:
    """The costs of a first start.

    Attributes:
        served_count: how many allocations were served.
        seconds: from the start of the process until the last of them was Allocated.
        cpu: CPU seconds of the controller until then.
        lists: LISTs of IPAllocations that it sent.
        pages: requests that these took.
        writes: writes of the controller, by method, plural and subresource.
        longest: seconds of the longest step of its event loop.
        longest_cpu: CPU seconds of the longest step.
        long_steps: how many steps took more than a tenth of a second.
        overlaps: pairs of allocations that held an address at the same time.
    """

    served_count: int
    seconds: float
    cpu: float
    lists: int
    pages: int
    writes: Mapping[str, int]
    longest: float
    longest_cpu: float
    long_steps: int
    overlaps: int


def _make_object(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": _VERSION, "kind": kind, "metadata": metadata, "spec": dict(spec)}


def _name_pool(number: int, case: StartCase) -> str:
    return f"pool-{number % case.pools:03}"


def _make_allocation(number: int, case: StartCase) -> dict[str, Any]:
    body = make_allocation(number, "nodes")
    body["spec"]["poolRef"]["name"] = _name_pool(number, case)
    body["metadata"]["labels"][f"{GROUP}/network-pool"] = _name_pool(number, case)
    if not case.finalizers:
        del body["metadata"]["finalizers"]
    return body


async def prepare(driver: Driver, case: StartCase) -> None:
    """Create the objects that the controller finds."""
    await driver.prepare("10.255.0.0/16")  # the pool of the TenantClusters
    network = {"mode": "ipam", "poolRefs": [{"name": "bench"}]}
    provider = _make_object("ProviderConfig", "bench", {"provider": "local", "network": network})
    await driver.ask("POST", _PROVIDERS, provider)
    tenant = {
        "kubernetesVersion": "v1.33.1",
        "workers": {"replicas": 1},
        "providerConfigRef": {"name": "bench", "namespace": NAMESPACE},
    }
    # Each pool has a block of its own, with room for its requests.
    pools = [
        _make_object("NetworkPool", _name_pool(number, case), {"cidr": f"10.{number}.0.0/19"})
        for number in range(case.pools)
    ]
    tenants = [
        _make_object("TenantCluster", f"tenant-{number:04}", tenant)
        for number in range(case.tenants)
    ]
    requests: list[tuple[str, str, dict[str, Any] | None]] = []
    requests += [("POST", POOLS, pool) for pool in pools]
    requests += [("POST", _TENANTS, body) for body in tenants]
    requests += [
        ("POST", ALLOCATIONS, _make_allocation(number, case)) for number in range(case.allocations)
    ]
    await driver.ask_all(requests)


def make_measuring_command(of: Reachable, folder: Path, result: Path) -> Command:
    """Return the command that starts the controller, and writes measurements to `result`."""
    _, variables = make_pod_command(of, folder)
    token, _ = write_credentials(of, folder)
    program_text = "from tests.bench.looptimes import main\nmain()\n"
    flags = [
        "--leader-elect",
        f"--health-probe-bind-address=127.0.0.1:{choose_free_port()}",
        f"--metrics-bind-address=127.0.0.1:{choose_free_port()}",
        "--metrics-secure",
        "--log-format=json",
        f"--orphans-resync={NEVER}",
    ]
    return [*script(program_text, str(result), str(token)), "run", *flags], variables


async def measure(place: Open, case: StartCase) -> StartCosts:
    """Start a controller, wait until all allocations are served, and stop it."""
    async with place() as home:
        with tempfile.TemporaryDirectory() as name:
            folder, result = Path(name), Path(name) / "result.json"
            driver = Driver(home.session)
            async with driver.watching() as view:
                await prepare(driver, case)
                view.unserved |= {name_allocation(number) for number in range(case.allocations)}
                command = make_measuring_command(home.access, folder, result)
                begun = perf_counter()
                async with run_program(
                    command, folder / "controller.log", may_end=True
                ) as process:
                    with anyio.fail_after(PATIENCE):
                        await driver.done()
                    cpu, seconds = read_cpu_seconds(process.pid), view.moved - begun
                    process.terminate()
                    with anyio.move_on_after(60):
                        await process.wait()
                steps = json.loads(await anyio.Path(result).read_text())
                listed = [
                    allocation
                    for allocation in await driver.list_allocations()
                    if allocation.status.phase == "Allocated"
                ]
                asked = {
                    name_allocation(number): count_addresses(number)
                    for number in range(case.allocations)
                }
                wrong = [
                    allocation.metadata.name
                    for allocation in listed
                    if allocation.metadata.name in asked
                    and view.overlaps.size(allocation.metadata.uid)
                    != asked[allocation.metadata.name]
                ]
                if wrong:
                    raise click.ClickException(f"not the number asked for: {wrong[:5]}")
                return StartCosts(
                    served_count=sum(allocation.metadata.name in asked for allocation in listed),
                    seconds=seconds,
                    cpu=cpu,
                    lists=steps["lists"].get("ipallocations", 0),
                    pages=steps["pages"].get("ipallocations", 0),
                    writes=steps["writes"],
                    longest=steps["longest"],
                    longest_cpu=steps["longest_cpu"],
                    long_steps=steps["long_steps"],
                    overlaps=len(view.overlaps.pairs),
                )


def _describe_allocation_writes(took: StartCosts) -> str:
    """Return the number of writes of IPAllocations, and that of each kind of such writes."""
    kinds = {
        request: n for request, n in sorted(took.writes.items()) if " ipallocations" in request
    }
    parts = [f"{n:,} {request.replace(' ipallocations', '')}" for request, n in kinds.items()]
    return f"{sum(kinds.values()):,} ({', '.join(parts)})"


def show(name: str, case: StartCase, took: StartCosts) -> None:
    """Print the costs of a first start."""
    finalizers = "" if case.finalizers else " without finalizers"
    click.echo(
        f"{name:9} {case.pools} pools, {case.tenants} TenantClusters,"
        f" {took.served_count:,} of {case.allocations:,} allocations{finalizers} served in"
        f" {took.seconds:.0f} s ({took.served_count / took.seconds:.0f}/s);"
        f" {took.lists} LISTs of IPAllocations in {took.pages} pages;"
        f" {_describe_allocation_writes(took)} writes of IPAllocations;"
        f" {1000 * took.cpu / max(case.allocations, 1):.2f} ms of CPU each;"
        f" longest step of the loop {1000 * took.longest:.0f} ms"
        f" ({1000 * took.longest_cpu:.0f} ms of CPU), {took.long_steps} above 100 ms;"
        f" overlaps {took.overlaps}  goal: <= 300 s, <= 100 ms, overlaps 0"
    )


@click.command()
@click.option("--pools", type=click.IntRange(1, 250), default=200, show_default=True)
@click.option("--allocations", type=click.IntRange(min=1), default=20_000, show_default=True)
@click.option("--tenants", type=click.IntRange(min=0), default=500, show_default=True)
@click.option(
    "--without-finalizers", is_flag=True, help="Create the allocations without their finalizer."
)
@click.option("--place", type=click.Choice(["real", "embedded"]), help="Only on this one.")
def command(
    pools: int, allocations: int, tenants: int, place: str | None, *, without_finalizers: bool
) -> None:
    """Measure a first start with allocations that wait."""
    case = StartCase(pools, allocations, tenants, finalizers=not without_finalizers)
    for name, there in list_places().items():
        if place in {None, name}:
            took = anyio.run(measure, there, case)
            show(name, case, took)
            if took.overlaps:
                raise click.ClickException("two allocations held the same address")


def run(arguments: Sequence[str] = ()) -> None:
    """Print what a first start takes."""
    command.main(list(arguments), prog_name="python -m tests.bench start", standalone_mode=False)
