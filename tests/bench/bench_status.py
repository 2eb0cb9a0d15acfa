"""What `butler-ipam status` costs: requests, CPU time of its process, and seconds.

A controller first serves 300 TenantClusters and as many allocations again. Then `status` runs in
a process of its own, and as a comparison `--version`, which reads nothing: the difference is what
the page costs. The goal is a page within a second, and requests that grow with pages alone.
Each command runs once before, so that its modules are compiled, as an installed program's are.

    python -m tests.bench status
"""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import anyio
import click

from tests.bench.bench_real import make_our_command
from tests.bench.bench_start import StartCase, prepare
from tests.bench.driver import Driver, View, name_allocation
from tests.bench.places import Open, list_places
from tests.bench.processes import make_environment, make_kubeconfig_command, run_program
from tests.program import script

CASE = StartCase(pools=10, allocations=300, tenants=300)
PATIENCE = 600.0
MAY_FIND = {0, 1, 3}
_COUNTED = """
import json, sys, time
from pathlib import Path
from controller import httptransport
from reconcilers.cli.main import main
file, sent, request = Path(sys.argv.pop(1)), [], httptransport.HttpTransport.request
async def counted(self, method, path, **rest):
    sent.append(path)
    return await request(self, method, path, **rest)
httptransport.HttpTransport.request = counted
try:
    main()
finally:
    file.write_text(json.dumps({"requests": len(sent), "cpu": time.process_time()}))
"""


@dataclass(frozen=True, slots=True)
class CommandCost:
    """The costs of one command.

    Attributes:
        requests: the number of requests that it sent.
        cpu: CPU seconds of its process.
        seconds: from the start of the process to its end.
        printed: its standard output.
    """

    requests: int
    cpu: float
    seconds: float
    printed: str


async def measure(place: Open, case: StartCase) -> tuple[CommandCost, CommandCost]:
    """Measure the cost of `status`, and of a command that reads nothing."""
    async with place() as home:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            driver = Driver(home.session)
            async with driver.watching() as view:
                await prepare(driver, case)
                view.unserved |= {name_allocation(number) for number in range(case.allocations)}
                command = make_our_command(home.access, folder)
                async with run_program(command, folder / "controller.log"):
                    with anyio.fail_after(PATIENCE):
                        await driver.done()
                        await view.until(lambda: _are_all_served(view, case), "all allocations")
            make_kubeconfig_command(home.access, folder)
            there = f"--kubeconfig={folder / 'kubeconfig'}"
            return await _run(folder, "status", there), await _run(folder, "--version")


def _are_all_served(view: View, case: StartCase) -> bool:
    """Return whether all allocations of the case and of its TenantClusters are Allocated."""
    seen_times = [seen for seen in view.seen.values() if seen.allocated is not None]
    return len(seen_times) == case.allocations + 2 * case.tenants


async def _run(folder: Path, *arguments: str) -> CommandCost:
    result = folder / "cost.json"
    command = script(_COUNTED, str(result), *arguments)
    compiled = make_environment({"PYTHONDONTWRITEBYTECODE": ""})
    await anyio.run_process(command, check=False, env=compiled)
    begun = perf_counter()
    done = await anyio.run_process(command, check=False, env=compiled)
    seconds = perf_counter() - begun
    if done.returncode not in MAY_FIND:
        raise click.ClickException(done.stderr.decode())
    counted = json.loads(await anyio.Path(result).read_text())
    return CommandCost(
        counted["requests"], counted["cpu"], seconds=seconds, printed=done.stdout.decode()
    )


def show(name: str, case: StartCase, status: CommandCost, nothing: CommandCost) -> None:
    """Print what the page costs."""
    click.echo(
        f"{name:9} status of {case.tenants} TenantClusters, {case.allocations + 2 * case.tenants}"
        f" IPAllocations: {status.requests} requests, {status.cpu:.2f} s of CPU"
        f" ({nothing.cpu:.2f} s of it without reading anything: ratio"
        f" {status.cpu / nothing.cpu:.1f}), {status.seconds:.2f} s  goal: <= 1 s"
    )


def run() -> None:
    """Print what `butler-ipam status` costs."""
    for name, place in list_places().items():
        show(name, CASE, *anyio.run(measure, place, CASE))
