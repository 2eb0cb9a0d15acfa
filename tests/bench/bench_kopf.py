"""The same operator on this framework and on kopf: latency, load, repair, deletion, memory.

examples/websites.py and examples/kopf/websites.py do one job: a finalizer, a claim in a ConfigMap,
a Deployment, a status. Each runs as a process of its own against a control plane of its own (the
embedded server, or the programs of KUBEBUILDER_ASSETS). Printed is, by framework, what a user
waits for, in milliseconds by the clock of the test: so compare within one run.

    python -m tests.bench kopf [--websites N] [--single N]
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import click
import httpx
import yaml

from envtest import ControlPlane
from envtest.plane import RunningControlPlane as Plane
from tests.bench.processes import read_cpu_seconds, read_peak_mib, read_resident_mib

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SITES = "/apis/example.com/v1/websites"
DEPLOYMENTS = "/apis/apps/v1/deployments"
MERGE = {"Content-Type": "application/merge-patch+json"}
Objects = dict[str, dict[str, Any]]
PATIENCE = 300.0
REPAIR_PATIENCE = 15.0
"""Longer than either takes to act on an event; after it a change counts as not repaired."""
COMMANDS = {
    "controller": [sys.executable, str(EXAMPLES / "websites.py")],
    "kopf": [
        *(sys.executable, "-m", "kopf", "run", "--standalone", "-A", "--quiet"),
        str(EXAMPLES / "kopf" / "websites.py"),
    ],
}


@dataclass(slots=True)
class Figures:
    """The costs of one framework: times in seconds, memory in MiB.

    Attributes:
        start: from the start of the process to the first child.
        created: for each Website, from its creation to its child.
        scaled: for each Website, from the new number of replicas to the child with it.
        edited: until an edited child was repaired; None if it was not.
        removed: until a deleted child was created again; None if it was not.
        gone: for each Website, from its deletion until it was gone.
        many: until all Websites that were created at once had a status.
        many_gone: until all Websites that were deleted at once were gone.
        cpu: CPU time of the process.
        memory: memory of the process at the end.
        top: the most memory that the process ever had.
    """

    start: float = 0.0
    created: list[float] = field(default_factory=list)
    scaled: list[float] = field(default_factory=list)
    edited: float | None = None
    removed: float | None = None
    gone: list[float] = field(default_factory=list)
    many: float = 0.0
    many_gone: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0
    top: float = 0.0


class ObjectWatch:
    """The newest state of each object of a collection, from one watch."""

    def __init__(self, http: httpx.AsyncClient, collection: str) -> None:
        self._http = http
        self._collection = collection
        self.objects: Objects = {}
        self._changed = anyio.Event()

    async def run(self) -> None:
        """Watch until cancelled."""
        query = {"watch": "1", "resourceVersion": "0"}
        while True:
            async with self._http.stream("GET", self._collection, params=query) as events:
                async for line in events.aiter_lines():
                    event = json.loads(line)
                    name = event["object"]["metadata"].get("name")
                    if event["type"] == "DELETED":
                        self.objects.pop(name, None)
                    elif event["type"] in {"ADDED", "MODIFIED"}:
                        self.objects[name] = event["object"]
                    self._changed.set()
                    self._changed = anyio.Event()

    async def wait(self, holds: Callable[[Objects], bool]) -> float:
        """Wait until a condition holds for the objects; return the time then, in seconds."""
        while not holds(self.objects):
            await self._changed.wait()
        return time.perf_counter()


def build_path(collection: str, namespace: str = "default", name: str = "") -> str:
    """Return the path of a collection in a namespace, or of an object in it."""
    root, _, plural = collection.rpartition("/")
    path = f"{root}/namespaces/{namespace}/{plural}"
    return f"{path}/{name}" if name else path


def make_website(name: str, replicas: int = 1) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Website",
        "metadata": {"name": name},
        "spec": {"host": f"{name}.example", "replicas": replicas},
    }


@asynccontextmanager
async def run_operator(framework: str, plane: Plane, folder: Path) -> AsyncIterator[int]:
    """Run the operator on one of the frameworks; yield its process id."""
    config = str(plane.write_kubeconfig(folder / "kubeconfig"))
    env = {**os.environ, "KUBECONFIG": config, "PYTHONPATH": str(ROOT)}
    with (folder / "log").open("wb") as log:
        async with await anyio.open_process(
            COMMANDS[framework], env=env, stdout=log, stderr=subprocess.STDOUT
        ) as process:
            try:
                yield process.pid
            finally:
                process.kill()


async def measure(framework: str, websites: int, single: int) -> Figures:
    """Run an operator, and measure it with Websites one by one and at once.

    Args:
        framework: a key of COMMANDS.
        websites: how many Websites are created at once.
        single: how many Websites are created one after another.
    """
    figures = Figures()
    definitions = list(yaml.safe_load_all((EXAMPLES / "manifests/crds.yaml").read_text()))
    definitions = [
        {**definition, "spec": {**definition["spec"], "conversion": None}}
        for definition in definitions
    ]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        async with (
            ControlPlane.start() as plane,
            httpx.AsyncClient(
                base_url=plane.url,
                verify=plane.create_admin_tls(),
                headers=plane.build_admin_headers(),
                timeout=None,
            ) as http,
            anyio.create_task_group() as group,
        ):
            await plane.install_crds(definitions)
            sites, children = ObjectWatch(http, SITES), ObjectWatch(http, DEPLOYMENTS)
            group.start_soon(sites.run)
            group.start_soon(children.run)
            with anyio.fail_after(PATIENCE):
                begun = time.perf_counter()
                async with run_operator(framework, plane, folder) as process:
                    await http.post(build_path(SITES), json=make_website("first"))
                    figures.start = await children.wait(lambda all_: "first" in all_) - begun
                    await _play_single(
                        http, sites, children=children, number=single, figures=figures
                    )
                    await _play_many(
                        http, sites, children=children, number=websites, figures=figures
                    )
                    figures.cpu = read_cpu_seconds(process)
                    figures.memory, figures.top = (
                        read_resident_mib(process),
                        read_peak_mib(process),
                    )
            group.cancel_scope.cancel()
    return figures


async def _play_single(
    http: httpx.AsyncClient,
    sites: ObjectWatch,
    children: ObjectWatch,
    number: int,
    figures: Figures,
) -> None:
    """Create, scale, disturb and delete Websites one after another."""
    for index in range(number):
        name = f"s{index}"
        begun = time.perf_counter()
        (await http.post(build_path(SITES), json=make_website(name))).raise_for_status()
        figures.created.append(await children.wait(partial(has_object, name)) - begun)
        await sites.wait(partial(_has_status, [name]))
        begun = time.perf_counter()
        await _patch(http, build_path(SITES, name=name), {"spec": {"replicas": 3}})
        figures.scaled.append(await children.wait(partial(_has_size, name, 3)) - begun)
    name = "s0"
    begun = time.perf_counter()
    edited = await _patch(http, build_path(DEPLOYMENTS, name=name), {"spec": {"replicas": 7}})
    with anyio.move_on_after(REPAIR_PATIENCE):
        figures.edited = await children.wait(partial(_is_repaired, name, 3, edited)) - begun
    begun, uid = time.perf_counter(), children.objects[name]["metadata"]["uid"]
    await http.delete(build_path(DEPLOYMENTS, name=name))
    with anyio.move_on_after(REPAIR_PATIENCE):
        figures.removed = await children.wait(partial(_is_another, name, uid)) - begun
    for index in range(number):
        name = f"s{index}"
        begun = time.perf_counter()
        await http.delete(build_path(SITES, name=name))
        figures.gone.append(await sites.wait(partial(_are_gone, [name])) - begun)


async def _play_many(
    http: httpx.AsyncClient,
    sites: ObjectWatch,
    children: ObjectWatch,
    number: int,
    figures: Figures,
) -> None:
    """Create Websites as fast as the server accepts them, and delete them as fast.

    Each is in a namespace of its own: in one they would write one ConfigMap, and kopf retries a
    conflict after a minute.
    """
    names = [f"m{index}" for index in range(number)]
    for name in names:
        namespace = {"metadata": {"name": name}}
        (await http.post("/api/v1/namespaces", json=namespace)).raise_for_status()
    begun = time.perf_counter()
    for name in names:
        (await http.post(build_path(SITES, name), json=make_website(name))).raise_for_status()
    figures.many = await sites.wait(partial(_has_status, names)) - begun
    begun = time.perf_counter()
    for name in names:
        (await http.delete(build_path(SITES, name, name))).raise_for_status()
    figures.many_gone = await sites.wait(partial(_are_gone, names)) - begun


async def _patch(http: httpx.AsyncClient, path: str, patch: dict[str, Any]) -> int:
    """Merge a patch; return the resourceVersion that the object has then."""
    answer = await http.patch(path, content=json.dumps(patch), headers=MERGE)
    return int(answer.raise_for_status().json()["metadata"]["resourceVersion"])


def has_object(name: str, objects: Objects) -> bool:
    return name in objects


def _are_gone(names: Sequence[str], objects: Objects) -> bool:
    return objects.keys().isdisjoint(names)


def _has_status(names: Sequence[str], objects: Objects) -> bool:
    return all((objects.get(name, {}).get("status") or {}).get("conditions") for name in names)


def _has_size(name: str, replicas: int, objects: Objects) -> bool:
    return name in objects and objects[name]["spec"]["replicas"] == replicas


def _is_repaired(name: str, replicas: int, edited: int, objects: Objects) -> bool:
    is_newer = int(objects[name]["metadata"]["resourceVersion"]) > edited
    return is_newer and _has_size(name, replicas, objects)


def _is_another(name: str, uid: str, objects: Objects) -> bool:
    return name in objects and objects[name]["metadata"]["uid"] != uid


def count_code_lines(path: Path) -> int:
    """Return the number of lines of a program that are neither blank nor comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return len([line for line in lines if line.strip() and not line.strip().startswith("#")])


def format_median(seconds: Sequence[float]) -> str:
    return f"{1000 * statistics.median(seconds):.0f}"


def format_milliseconds(seconds: float | None) -> str:
    return "not repaired" if seconds is None else f"{1000 * seconds:.0f}"


@click.command()
@click.option("--websites", default=200, show_default=True, help="how many at once")
@click.option("--single", default=20, show_default=True, help="how many one after another")
def _command(websites: int, single: int) -> None:
    """Measure both, and print the figures side by side."""
    figures = {name: anyio.run(measure, name, websites, single) for name in COMMANDS}
    rows: dict[str, Callable[[str], str]] = {
        "lines of code": lambda name: str(
            count_code_lines(EXAMPLES / ("kopf/websites.py" if name == "kopf" else "websites.py"))
        ),
        "start to the first child, ms": lambda name: format_milliseconds(figures[name].start),
        "Website to its child, ms (median)": lambda name: format_median(figures[name].created),
        "new size to the child, ms (median)": lambda name: format_median(figures[name].scaled),
        "an edited child repaired, ms": lambda name: format_milliseconds(figures[name].edited),
        "a deleted child made again, ms": lambda name: format_milliseconds(figures[name].removed),
        "deletion to gone, ms (median)": lambda name: format_median(figures[name].gone),
        f"{websites} at once to their status, s": lambda name: f"{figures[name].many:.1f}",
        f"{websites} deleted at once, s": lambda name: f"{figures[name].many_gone:.1f}",
        "CPU of the process, s": lambda name: f"{figures[name].cpu:.1f}",
        "memory at the end, MiB": lambda name: f"{figures[name].memory:.0f}",
        "most memory, MiB": lambda name: f"{figures[name].top:.0f}",
    }
    click.echo(f"{'':44}" + "".join(f"{name:>14}" for name in COMMANDS))
    for label, value in rows.items():
        click.echo(f"{label:44}" + "".join(f"{value(name):>14}" for name in COMMANDS))


def run(arguments: Sequence[str] = ()) -> None:
    """Measure both frameworks."""
    _command.main(args=list(arguments), standalone_mode=False)
