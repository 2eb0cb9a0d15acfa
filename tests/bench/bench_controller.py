"""What a whole controller costs: from the start of its process to the first grant, and its memory.

The process is `butler-ipam run` with all its controllers, against the embedded server in a process
of its own. It finds the server as in a pod (by a service account's files), or by a kubeconfig,
of which kubernetes_asyncio reads the credentials. What it meets is what another process of
the same program has left: ranges that are held, and TenantClusters with their node and
load-balancer addresses, which wait for their kubeconfigs. The first grant is that of an allocation
that is created as soon as /readyz answers. The memory is read when the controller has been ready
for a while; the CPU time is that of its process alone.
"""

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio
import click
import httpx
import msgspec
import yaml
from anyio.abc import Process

from tests.bench.bench_envtest import Server
from tests.bench.bench_envtest import server as serving
from tests.bench.envtest_objects import PATH, allocation
from tests.bench.processes import (
    COMMANDS_BY_ACCESS,
    choose_free_port,
    read_cpu_seconds,
    read_peak_mib,
    read_resident_mib,
)
from tests.bench.wire import Wire

PATIENCE = 300.0
REST_SECONDS = 15.0
_CRDS = Path(__file__).parents[2] / "manifests/crds"
_GROUP = "/apis/butler.butlerlabs.dev/v1alpha1/namespaces/default"
_JSON = "application/json"
_QUIET = (
    *("--metrics-bind-address=0", "--webhook-port=0", "--log-level=error", "--namespace=default"),
    "--orphans-resync=24h",  # the owners of the ranges that are held do not exist
)


@dataclass(frozen=True, slots=True)
class ControllerCase:
    """The objects that a controller finds at its start.

    Args:
        allocation_count: the number of ranges that are held, besides those of the tenants.
        tenants: the number of TenantClusters; each holds two ranges.
        ways: how the controller gets access to its server, keys of COMMANDS_BY_ACCESS.
        goal: the limits of its costs, as printed beside them.
    """

    allocation_count: int
    tenants: int = 0
    ways: tuple[str, ...] = ("pod",)
    goal: str = ""

    @property
    def allocations(self) -> int:
        """The number of all allocations."""
        return self.allocation_count + 2 * self.tenants


CASES = (
    ControllerCase(0, ways=tuple(COMMANDS_BY_ACCESS), goal="<= 80 MiB"),
    ControllerCase(10_000, ways=tuple(COMMANDS_BY_ACCESS), goal="<= 130 MiB"),
    ControllerCase(8_000, 1_000, goal="readyz <= 3 s, first grant <= 1 s after it, <= 130 MiB"),
    ControllerCase(100_000, goal="<= 600 MiB"),
)


def make_object(kind: str, name: str, spec: dict[str, Any]) -> bytes:
    """Return the JSON that creates an object of one of our kinds."""
    version, metadata = "butler.butlerlabs.dev/v1alpha1", {"name": name, "namespace": "default"}
    return msgspec.json.encode(
        {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
    )


async def prepare(server: Server, case: ControllerCase) -> None:
    """Install our kinds; store a pool, allocations that hold addresses of it, and tenants."""
    extensions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    provider = {
        "provider": "local",
        "network": {"mode": "ipam", "poolRefs": [{"name": "default-pool"}]},
    }
    tenant = {
        "kubernetesVersion": "v1.33.1",
        "workers": {"replicas": 1},
        "providerConfigRef": {"name": "bench", "namespace": "default"},
    }
    async with await server.connect() as wire:
        for path in sorted(_CRDS.glob("*.yaml")):
            definition = yaml.safe_load(path.read_text(encoding="utf-8"))
            if definition.get("kind") == "CustomResourceDefinition":
                await wire.ask(
                    "POST", extensions, body=msgspec.json.encode(definition), media=_JSON
                )
        for plural in ("networkpools", "ipallocations", "providerconfigs", "tenantclusters"):
            await wire.ask("GET", f"{_GROUP}/{plural}?limit=1")  # answered as soon as it is served
        pool = make_object("NetworkPool", "default-pool", {"cidr": "10.0.0.0/12"})
        await wire.ask("POST", f"{_GROUP}/networkpools", body=pool, media=_JSON)
        bench = make_object("ProviderConfig", "bench", provider)
        await wire.ask("POST", f"{_GROUP}/providerconfigs", body=bench, media=_JSON)
        if case.allocation_count:
            server.send_command(f"serve {case.allocation_count}")
        for number in range(case.tenants):
            tenant_body = make_object("TenantCluster", f"tenant-{number:04}", tenant)
            await wire.ask("POST", f"{_GROUP}/tenantclusters", body=tenant_body, media=_JSON)


@asynccontextmanager
async def run_controller(server: Server, way: str, port: int) -> AsyncIterator[Process]:
    """Run a controller while the context lasts."""
    with tempfile.TemporaryDirectory() as name:
        command, environment = COMMANDS_BY_ACCESS[way](server, Path(name))
        probes = f"--health-probe-bind-address=127.0.0.1:{port}"
        environment = {**os.environ, **environment}
        process = await anyio.open_process(
            [*command, probes, *_QUIET], env=environment, stdout=None, stderr=None
        )
        try:
            yield process
        finally:
            process.kill()
            await process.wait()


async def run_until_settled(server: Server, case: ControllerCase) -> None:
    """Run a controller until it has served all objects and written the pool, and stop it."""
    async with run_controller(server, "pod", choose_free_port()), await server.connect() as wire:
        with anyio.fail_after(PATIENCE):
            while True:
                answer = await wire.ask("GET", f"{_GROUP}/networkpools/default-pool")
                status = msgspec.json.decode(answer).get("status", {})
                done = status.get("allocationCount", 0) == case.allocations
                # Only a pool that has served an allocation remembers up to where it has read.
                if done and (status.get("revisions") or not case.allocations):
                    break
                await anyio.sleep(0.5)
        await anyio.sleep(REST_SECONDS)


async def measure(server: Server, case: ControllerCase, way: str) -> None:
    """Start a controller, wait until it is ready and then at rest, and print its costs."""
    await run_until_settled(server, case)
    port = choose_free_port()
    begun = perf_counter()
    async with run_controller(server, way, port) as process:
        await _wait_until_ready(process, port)
        wall, cpu = perf_counter() - begun, read_cpu_seconds(process.pid)
        # The server closes connections that are idle for as long as a large start takes.
        async with await server.connect() as wire:
            begun = perf_counter()
            await _wait_for_first_grant(wire)
            granted = perf_counter() - begun
        await anyio.sleep(REST_SECONDS)
        resident_memory, most = read_resident_mib(process.pid), read_peak_mib(process.pid)
        later = read_cpu_seconds(process.pid)
        await anyio.sleep(REST_SECONDS)
        share = (read_cpu_seconds(process.pid) - later) / REST_SECONDS
    click.echo(
        f"{case.allocations:>7,} allocations, {case.tenants:>5,} TenantClusters, {way:10}: ready"
        f" after {wall:.2f} s wall ({cpu:.2f} s of CPU), first grant {granted:.2f} s after that,"
        f" {resident_memory:.0f} MiB resident (peak {most:.0f}), {100 * share:.1f} % of a core at"
        f" rest"
        f"  goal: {case.goal}"
    )


async def _wait_until_ready(process: Process, port: int) -> None:
    async with httpx.AsyncClient() as client:
        with anyio.fail_after(PATIENCE):
            while not await _is_ready(client, port):
                assert process.returncode is None
                await anyio.sleep(0.02)


async def _is_ready(client: httpx.AsyncClient, port: int) -> bool:
    try:
        answer = await client.get(f"http://127.0.0.1:{port}/readyz")
    except httpx.TransportError:
        return False
    return answer.status_code == 200


async def _wait_for_first_grant(wire: Wire) -> None:
    """Create an allocation, and wait until it is Allocated."""
    await wire.ask("POST", PATH, body=msgspec.json.encode(allocation("first")), media=_JSON)
    with anyio.fail_after(PATIENCE):
        while True:
            first_allocation = msgspec.json.decode(await wire.ask("GET", f"{PATH}/first"))
            if first_allocation.get("status", {}).get("phase") == "Allocated":
                return
            await anyio.sleep(0.02)


def run() -> None:
    """Print what controllers cost."""
    for case in CASES:
        for way in case.ways:
            with serving() as server:
                anyio.run(prepare, server, case)
                anyio.run(measure, server, case, way)
