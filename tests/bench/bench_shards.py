"""How the work of many pools is shared by one, two and three replicas with `--shards`.

On each control plane that there is, `butler-ipam run --shards 12` is started once, twice and three
times. When each holds its shards, allocations of twenty-four pools are created at once. What the
replicas take together is CPU time; on a machine with no core to spare for each of them and for the
API server, the allocations per second say nothing of what shards are for.
"""

import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import anyio
import click
import msgspec

from tests.bench.bench_real import make_our_command
from tests.bench.driver import (
    ALLOCATIONS,
    NAMESPACE,
    POOLS,
    Driver,
    make_allocation,
    name_allocation,
)
from tests.bench.places import Open, list_places
from tests.bench.processes import read_cpu_seconds, run_program

REPLICAS = (1, 2, 3)
SHARDS = 12
POOLS_SHARED = 24
NUMBER = 1_200
PATIENCE = 300.0
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


@dataclass(frozen=True, slots=True)
class ShardCosts:
    """The costs of serving the allocations by some replicas.

    Attributes:
        seconds: until every allocation had its addresses.
        used: CPU seconds of each replica.
        server: CPU seconds of the API server.
        shard_counts: the number of shards of each replica, ascending.
    """

    seconds: float
    used: list[float]
    server: float
    shard_counts: list[int]


async def measure(place: Open, replicas: int) -> ShardCosts:
    """Run replicas, and measure how they serve the allocations of many pools."""
    async with place() as home, AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        driver = Driver(home.session)
        view = await stack.enter_async_context(driver.watching())
        await driver.prepare("10.255.0.0/24")
        for number in range(POOLS_SHARED):
            await driver.ask("POST", POOLS, _make_pool(number))
        processes = []
        for number in range(replicas):
            replica_folder = folder / str(number)
            await anyio.Path(replica_folder).mkdir()
            line, variables = make_our_command(home.access, replica_folder)
            command = [*line, f"--shards={SHARDS}"], variables
            processes.append(
                await stack.enter_async_context(
                    run_program(command, replica_folder / "controller.log")
                )
            )
        shard_counts = await _wait_until_shared(driver, replicas)
        view.unserved |= {name_allocation(number) for number in range(NUMBER)}
        before, server, begun = (
            [read_cpu_seconds(process.pid) for process in processes],
            read_cpu_seconds(home.server),
            perf_counter(),
        )
        remaining = iter(range(NUMBER))

        async def ask() -> None:
            for number in remaining:
                await driver.ask("POST", ALLOCATIONS, _make_allocation(number))

        async with anyio.create_task_group() as group:
            for _ in range(32):
                group.start_soon(ask)
        await driver.done()
        used = [
            read_cpu_seconds(process.pid) - then
            for process, then in zip(processes, before, strict=True)
        ]
        return ShardCosts(
            view.moved - begun,
            used,
            server=read_cpu_seconds(home.server) - server,
            shard_counts=sorted(shard_counts.values()),
        )


def _name_pool(number: int) -> str:
    return f"pool-{number % POOLS_SHARED:02}"


def _make_pool(number: int) -> dict[str, object]:
    return {
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "NetworkPool",
        "metadata": {"name": _name_pool(number), "namespace": NAMESPACE},
        "spec": {"cidr": f"10.{number}.0.0/20"},
    }


def _make_allocation(number: int) -> dict[str, object]:
    body = make_allocation(number, "nodes")
    body["spec"]["poolRef"]["name"] = _name_pool(number)
    return body


async def _wait_until_shared(driver: Driver, replicas: int) -> Mapping[str, int]:
    """Wait until `replicas` holders share all shards evenly; return the shards of each holder."""
    with anyio.fail_after(PATIENCE):
        while True:
            listed = msgspec.json.decode(await driver.ask("GET", LEASES))
            holders = [
                lease["spec"].get("holderIdentity", "")
                for lease in listed["items"]
                if lease["metadata"]["name"].removeprefix(f"butler-ipam-{SHARDS}-").isdecimal()
            ]
            shard_counts = {holder: holders.count(holder) for holder in holders}
            spread = max(shard_counts.values(), default=0) - min(shard_counts.values(), default=0)
            shared = len(shard_counts) == replicas and "" not in shard_counts and spread < 2
            if shared and len(holders) == SHARDS:
                return shard_counts
            await anyio.sleep(0.2)


def run() -> None:
    """Print the costs by the number of replicas that share the shards."""
    for name, place in list_places().items():
        for replicas in REPLICAS:
            took = anyio.run(measure, place, replicas)
            costs = ", ".join(f"{1000 * cpu_seconds / NUMBER:.2f}" for cpu_seconds in took.used)
            rate = NUMBER / took.seconds
            click.echo(
                f"{name:9} {replicas} replicas with {took.shard_counts} shards: {rate:.0f}"
                f" allocations/s; ms of CPU for each allocation: {costs} (replicas),"
                f" {1000 * took.server / NUMBER:.2f} (API server)"
            )
