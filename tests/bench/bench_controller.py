"""What a whole controller costs: from the start of its process to /readyz, and its memory at rest.

The process is `butler-ipam run` with all its controllers, against the embedded server in a process
of its own: with an empty cluster, and with 10,000 allocations that hold their addresses. It
finds the server as in a pod (by a service account's files), or by a kubeconfig, which takes
kubernetes_asyncio and its models to read. The memory is read when the controller has been
ready for a while and has worked off what it found; the CPU time is its own, whoever shares the
machine.
"""

import os
import tempfile
from pathlib import Path
from time import perf_counter

import anyio
import click
import httpx
import msgspec
import yaml

from tests.bench.bench_envtest import Server
from tests.bench.bench_envtest import server as serving
from tests.bench.processes import WAYS, free_port, resident, worked

OBJECTS = 10_000
PATIENCE = 120.0
REST_SECONDS = 15.0
_CRDS = Path(__file__).parents[2] / "manifests/crds"
_JSON = "application/json"
_QUIET = ("--metrics-bind-address=0", "--webhook-port=0", "--log-level=error")


async def prepare(of: Server, objects: int) -> None:
    """Install our kinds; store a pool, and allocations that hold addresses of it."""
    extensions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    ours = "/apis/butler.butlerlabs.dev/v1alpha1/namespaces/default"
    async with await of.connect() as wire:
        for path in sorted(_CRDS.glob("*.yaml")):
            definition = yaml.safe_load(path.read_text(encoding="utf-8"))
            if definition.get("kind") == "CustomResourceDefinition":
                await wire.ask("POST", extensions, msgspec.json.encode(definition), _JSON)
        for plural in ("networkpools", "ipallocations"):
            await wire.ask("GET", f"{ours}/{plural}?limit=1")  # answered as soon as it is served
        pool = {
            "apiVersion": "butler.butlerlabs.dev/v1alpha1",
            "kind": "NetworkPool",
            "metadata": {"name": "default-pool", "namespace": "default"},
            "spec": {"cidr": "10.0.0.0/12"},
        }
        await wire.ask("POST", f"{ours}/networkpools", msgspec.json.encode(pool), _JSON)
    if objects:
        of.tell(f"serve {objects}")


async def measure(of: Server, objects: int, way: str) -> None:
    """Start a controller, wait until it is ready and at rest, and print what it took."""
    await prepare(of, objects)
    with tempfile.TemporaryDirectory() as name:
        command, environment = WAYS[way](of, Path(name))
        port = free_port()
        probes = f"--health-probe-bind-address=127.0.0.1:{port}"
        begun = perf_counter()
        environment = {**os.environ, **environment}
        process = await anyio.open_process(
            [*command, probes, *_QUIET], env=environment, stdout=None, stderr=None
        )
        try:
            async with httpx.AsyncClient() as client:
                with anyio.fail_after(PATIENCE):
                    while not await _ready(client, port):
                        assert process.returncode is None
                        await anyio.sleep(0.02)
            wall, cpu = perf_counter() - begun, worked(process.pid)
            await anyio.sleep(REST_SECONDS)
            held = resident(process.pid)
            later = worked(process.pid)
            await anyio.sleep(REST_SECONDS)
            share = (worked(process.pid) - later) / REST_SECONDS
        finally:
            process.kill()
            await process.wait()
    click.echo(
        f"{objects:>6,} allocations, {way:10}: ready after"
        f" {wall:.2f} s wall ({cpu:.2f} s of CPU), {held:.0f} MiB resident,"
        f" {100 * share:.1f} % of a core at rest"
    )


async def _ready(client: httpx.AsyncClient, port: int) -> bool:
    try:
        answer = await client.get(f"http://127.0.0.1:{port}/readyz")
    except httpx.TransportError:
        return False
    return answer.status_code == 200


def run() -> None:
    """Print what controllers cost."""
    for objects in (0, OBJECTS):
        for way in WAYS:
            with serving() as server:
                anyio.run(measure, server, objects, way)
