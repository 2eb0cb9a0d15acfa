"""What serving KKP's clusters costs: a pool made under many, and many that come at once.

On each control plane that there is, `butler-ipam run --integration=kubermatic` serves ranges of 8
addresses. First the clusters are there, and the pool is created; then, with another datacenter and
pool, the pool is there, and the clusters get their namespaces at once, 32 requests in flight. The
rate is from there until a watch has shown the last IPAMAllocation with addresses. CPU time is that
of the controller's process; writes are counted by the API server, the driver's own taken off.
KKP's own controller does 60 a second in the first case and 40 in the second, of 100 and of 1,000
clusters. Two allocations with one address fail the benchmark.

    python -m tests.bench kubermatic [--clusters N]...
"""

import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import click
import msgspec
import yaml

from reconcilers.api import names
from tests.bench.bench_real import make_our_command
from tests.bench.places import ROOT, Open, Place, list_places
from tests.bench.processes import read_cpu_seconds, run_program
from tests.bench.writes import count_accepted, count_writes

API = "/apis/kubermatic.k8c.io/v1"
CRDS = ROOT / "tests/data/kubermatic/crds.yaml"
IN_FLIGHT = 32
SIZE = 8
_PATCH = {"Content-Type": "application/merge-patch+json"}


class ServedAllocations:
    """The IPAMAllocations that a watch has shown with addresses.

    Args:
        place: the control plane.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._held: dict[str, dict[str, str]] = {}
        self._changed = anyio.Event()

    async def watch(self) -> None:
        """Read the watch until cancelled."""
        path, query = f"{API}/ipamallocations", {"watch": "true"}
        async with self._place.session.get(path, params=query, timeout=None) as answer:
            async for line in answer.content:
                changed_object = msgspec.json.decode(line)["object"]
                for addresses in changed_object["spec"].get("addresses", ()):
                    self._record(
                        changed_object["metadata"]["name"],
                        addresses,
                        changed_object["metadata"]["namespace"],
                    )

    def _record(self, pool: str, addresses: str, namespace: str) -> None:
        holder = self._held.setdefault(pool, {}).setdefault(addresses, namespace)
        if holder != namespace:
            raise click.ClickException(f"{holder} and {namespace} both have {addresses} of {pool}")
        self._changed.set()

    async def wait_for_ranges(self, pool: str, count: int) -> None:
        """Wait until allocations hold `count` ranges of a pool."""
        while len(self._held.get(pool, {})) < count:
            self._changed = anyio.Event()
            await self._changed.wait()


async def _send(place: Place, method: str, path: str, body: dict[str, Any]) -> None:
    data = msgspec.json.encode(body)
    headers = _PATCH if method == "PATCH" else {"Content-Type": "application/json"}
    async with place.session.request(method, path, data=data, headers=headers) as answer:
        if answer.status >= 300:
            raise click.ClickException(f"{method} {path}: {answer.status} {await answer.text()}")


async def _send_all(place: Place, requests: Sequence[tuple[str, str, dict[str, Any]]]) -> None:
    limit = anyio.CapacityLimiter(IN_FLIGHT)

    async def send(method: str, path: str, body: dict[str, Any]) -> None:
        async with limit:
            await _send(place, method, path=path, body=body)

    async with anyio.create_task_group() as group:
        for request in requests:
            group.start_soon(send, *request)


async def _create_clusters(
    place: Place, dc: str, count: int
) -> list[tuple[str, str, dict[str, Any]]]:
    """Create clusters and their namespaces.

    Returns:
        the requests that write the namespace of each cluster to its status.
    """
    cluster_names = [f"{dc}-{number}" for number in range(count)]
    requests = [
        ("POST", "/api/v1/namespaces", {"metadata": {"name": f"cluster-{n}"}})
        for n in cluster_names
    ]
    kind = {"apiVersion": "kubermatic.k8c.io/v1", "kind": "Cluster"}
    spec = {"cloud": {"dc": dc}}
    clusters = [
        ("POST", f"{API}/clusters", {**kind, "metadata": {"name": name}, "spec": spec})
        for name in cluster_names
    ]
    await _send_all(place, [*requests, *clusters])
    return [
        (
            "PATCH",
            f"{API}/clusters/{name}/status",
            {"status": {"namespaceName": f"cluster-{name}"}},
        )
        for name in cluster_names
    ]


async def _create_pool(place: Place, dc: str, cidr: str) -> None:
    settings = {"type": "range", "poolCidr": cidr, "allocationRange": SIZE}
    body = {"apiVersion": "kubermatic.k8c.io/v1", "kind": "IPAMPool", "metadata": {"name": dc}}
    spec = {"datacenters": {dc: settings}}
    await _send(place, "POST", path=f"{API}/ipampools", body={**body, "spec": spec})


@asynccontextmanager
async def _measure(
    name: str, count: int, place: Place, process: int, sent: int
) -> AsyncIterator[None]:
    """Print the costs of what happens in the context.

    Args:
        name: the label of the printed line.
        count: the number of clusters that are served in the context.
        process: the process id of the controller.
        sent: how many writes the benchmark itself sends in the context.
    """
    writes, cpu, begun = await _count_writes(place), read_cpu_seconds(process), time.monotonic()
    yield
    seconds, spent = time.monotonic() - begun, read_cpu_seconds(process) - cpu
    cost = f"{1000 * spent / count:.2f} ms of CPU"
    if place.counts:
        number = await _count_writes(place) - writes - sent
        cost += f", {number / count:.2f} writes"
    click.echo(f"{name:32} {count:,} clusters: {count / seconds:.0f}/s, {cost} each")


async def _count_writes(place: Place) -> int:
    if not place.counts:
        return 0
    async with place.session.get("/metrics") as answer:
        return count_accepted(count_writes(await answer.text(), "kubermatic.k8c.io"))


async def measure(name: str, opened: Open, count: int) -> None:
    """Print what it costs to serve `count` clusters on a control plane."""
    async with opened() as place:
        for definition in yaml.safe_load_all(CRDS.read_text(encoding="utf-8")):
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            await _send(place, "POST", path=path, body=definition)
        home = {"metadata": {"name": names.DEFAULT_NAMESPACE}}
        await _send(place, "POST", path="/api/v1/namespaces", body=home)
        await _wait_until_kind_is_served(place)
        with tempfile.TemporaryDirectory() as folder:
            line, environment = make_our_command(place.access, Path(folder))
            command = [*line, "--integration=kubermatic"], environment
            async with (
                run_program(command, Path(folder) / "log") as process,
                anyio.create_task_group() as group,
            ):
                served_allocations = ServedAllocations(place)
                group.start_soon(served_allocations.watch)
                await _send_all(place, await _create_clusters(place, "warm", 1))
                await _create_pool(place, "warm", "10.255.0.0/24")
                await served_allocations.wait_for_ranges("warm", 1)
                await _send_all(place, await _create_clusters(place, "first", count))
                async with _measure(
                    f"{name}, a pool under", count, place=place, process=process.pid, sent=1
                ):
                    await _create_pool(place, "first", "10.0.0.0/16")
                    await served_allocations.wait_for_ranges("first", count)
                requests = await _create_clusters(place, "second", count)
                await _create_pool(place, "second", "10.1.0.0/16")
                async with _measure(
                    f"{name}, at once", count, place=place, process=process.pid, sent=count
                ):
                    await _send_all(place, requests)
                    await served_allocations.wait_for_ranges("second", count)
                group.cancel_scope.cancel()


async def _wait_until_kind_is_served(place: Place) -> None:
    while True:
        async with place.session.get(f"{API}/ipamallocations") as answer:
            if answer.status == 200:
                return
        await anyio.sleep(0.1)


@click.command()
@click.option(
    "--clusters",
    type=click.IntRange(min=1),
    multiple=True,
    default=(100, 1000),
    show_default=True,
    help="How many there are; several in turn.",
)
def command(clusters: Sequence[int]) -> None:
    """Measure what serving KKP's clusters costs."""
    for name, place in list_places().items():
        for count in clusters:
            anyio.run(measure, name, place, count)


def run(arguments: Sequence[str] = ()) -> None:
    """Print what serving KKP's clusters costs."""
    command.main(list(arguments), standalone_mode=False)
