"""How long no request is served when the leader ends: until the first grant of the next one.

Two `butler-ipam run` on each control plane that there is, with leader election as the Deployment
has it, and 10,000 ranges held. The leader gets SIGTERM. An allocation is created as soon as its
Lease is free, and the time is taken until a watch shows it Allocated.
"""

import signal
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter

import anyio
import click
import msgspec
from anyio.abc import Process

from tests.bench.bench_real import make_our_command
from tests.bench.comparison import compute_prefix_length
from tests.bench.driver import Driver
from tests.bench.places import Open, Place, list_places
from tests.bench.processes import read_cpu_seconds, run_program

HELD = 10_000
"""How many allocations are held."""
TURNS = 3
"""How often the leader is stopped."""
LEASE = "/apis/coordination.k8s.io/v1/namespaces/butler-system/leases/butler-ipam"
PATIENCE = 120.0
LOG = "controller.log"
WAITS = "Attempting to acquire leader lease"
"""In the log of a process that asks for the Lease."""


async def measure(place: Open) -> list[tuple[float, float]]:
    """Return by turn the seconds until the next leader's first grant, and its CPU seconds."""
    async with place() as home, AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        driver = Driver(home.session)
        view = await stack.enter_async_context(driver.watching())
        await driver.prepare(f"10.0.0.0/{compute_prefix_length(HELD + TURNS)}")
        leader = await _start_controller(stack, home, folder / "0")
        await view.until(lambda: view.pool is not None and view.pool.ready, "the pool is ready")
        await driver.change((), range(HELD))
        await driver.done()
        took = []
        for turn in range(1, TURNS + 1):
            standby = await _start_controller(stack, home, folder / str(turn))
            await _wait_until_standby(standby, folder / str(turn) / LOG)
            leader.send_signal(signal.SIGTERM)
            await _wait_until_lease_is_free(driver)
            begun, cpu = perf_counter(), read_cpu_seconds(standby.pid)
            await driver.change((), [HELD + turn])
            await driver.done()
            took.append((view.moved - begun, read_cpu_seconds(standby.pid) - cpu))
            leader = standby
        return took


async def _start_controller(stack: AsyncExitStack, home: Place, folder: Path) -> Process:
    """Start a controller that logs into a folder, until the stack is closed."""
    await anyio.Path(folder).mkdir()
    command = make_our_command(home.access, folder)
    return await stack.enter_async_context(run_program(command, folder / LOG, may_end=True))


async def _wait_until_standby(process: Process, log: Path) -> None:
    """Wait until a process asks for the Lease, and is idle because it has read all objects."""
    with anyio.fail_after(PATIENCE):
        before, now = -1.0, read_cpu_seconds(process.pid)
        while now - before > 0.02 or WAITS not in await anyio.Path(log).read_text():
            await anyio.sleep(2)
            before, now = now, read_cpu_seconds(process.pid)


async def _wait_until_lease_is_free(driver: Driver) -> None:
    """Wait until the Lease has no holder, or another one."""
    first = await _read_holder(driver)
    with anyio.fail_after(PATIENCE):
        while await _read_holder(driver) == first:  # noqa: ASYNC110 - a watch would be no sooner
            await anyio.sleep(0.005)


async def _read_holder(driver: Driver) -> str:
    """Return the holder of the Lease; empty for none."""
    lease = msgspec.json.decode(await driver.ask("GET", LEASE))
    return str(lease["spec"].get("holderIdentity", ""))


def run() -> None:
    """Print how long a change of leaders takes."""
    for name, place in list_places().items():
        took = anyio.run(measure, place)
        times = ", ".join(f"{wall:.2f} s ({cpu:.2f} s of CPU)" for wall, cpu in took)
        click.echo(f"{name:9} first grant after the Lease was free: {times}  goal: <= 2 s")
