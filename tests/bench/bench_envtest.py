"""What the embedded API server bears: writes, watchers, long lists, memory, start.

The server runs in a process of its own; this process is the client, over TLS with kept-alive
connections. For each number there is the wall time and the CPU time of the server's process. The
first depends on what else the machine does; the second says what a core of its own would give the
server, and still grows by half or more where others share caches and hardware threads. How much is
told by the first line: turns of an empty loop per second of CPU time, to be compared with the same
machine at rest. Of the patches the least disturbed of 16 windows is shown, too.

- patches: 8 connections, each merge-patching the status of its own 25 IPAllocations in turn, with
  the resourceVersion of the last answer, so that every patch checks, changes and stores an object.
- fan-out: 10 watchers of the same kind read what those patches cause, each on its own connection;
  then they read the last 4,000 events of the history, as after a reconnect.
- list: 50,000 objects in pages of 500, over one connection.
- memory: of the server with 10,000 objects that were created one by one by requests, and their
  history; before and after all of them were patched.
- start: from starting the process to the first answer of /readyz.
"""

import re
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from time import perf_counter, process_time
from typing import TypeVar

import anyio
import click
import msgspec
import yaml
from anyio.abc import TaskGroup

from tests.bench.envtest_objects import PATH, allocation, status
from tests.bench.wire import Wire

CONNECTIONS = 8
OBJECTS_EACH = 25
PATCHES = 8_000
WINDOWS = 16
WATCHERS = 10
HISTORY = 4_000
LISTED = 50_000
PAGE = 500
KEPT = 10_000
TURNS = 10_000_000
_CRD = Path(__file__).parents[2] / "manifests/crds/butler.butlerlabs.dev_ipallocations.yaml"
_REVISION = re.compile(rb'"resourceVersion":"(\d+)"')
_CONTINUE = re.compile(rb'"continue":"([^"]*)"')
_MERGE = "application/merge-patch+json"
_JSON = "application/json"

T = TypeVar("T")


@dataclass(slots=True)
class Cost:
    """The cost of an operation: seconds on the clock, and CPU seconds of the server."""

    wall: float = 0.0
    cpu: float = 0.0

    def format_per(self, number: int) -> str:
        """Return the rates of `number` operations, and the CPU time of one."""
        return (
            f"{number / self.wall:9,.0f}/s wall, {number / self.cpu:9,.0f}/s of server CPU "
            f"({1000 * self.cpu / number:.3f} ms each)"
        )


@dataclass(slots=True)
class Server:
    """A server in a process of its own, and how to reach it."""

    process: subprocess.Popen[str]
    url: str = ""
    token: str = ""
    authority: str = ""
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    cpu: float = 0.0

    def send_command(self, command: str) -> dict[str, float]:
        """Send a command; return the CPU seconds and the memory that the server has used."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return self._read_record(dict[str, float])

    def read_greeting(self) -> None:
        """Read the URL and the credentials that the server prints first."""
        greeting = self._read_record(dict[str, str | float])
        self.url, self.token, self.cpu = (
            str(greeting["url"]),
            str(greeting["token"]),
            float(greeting["cpu"]),
        )
        self.authority = str(greeting["authority"])
        self.tls = ssl.create_default_context(cadata=self.authority)
        self.tls.check_hostname = False

    def _read_record(self, kind: type[T]) -> T:
        assert self.process.stdout is not None
        return msgspec.json.decode(self.process.stdout.readline(), type=kind)

    async def connect(self) -> Wire:
        """Return a new connection."""
        return await Wire.open(self.url, self.tls, self.token)

    @contextmanager
    def measure_block(self) -> Iterator[Cost]:
        """Yield a cost that has the figures of the block once it has ended."""
        cost, cpu, begun = Cost(), self.send_command("cost")["cpu"], perf_counter()
        yield cost
        cost.wall = perf_counter() - begun
        cost.cpu = self.send_command("cost")["cpu"] - cpu


@contextmanager
def server(data: str = "") -> Iterator[Server]:
    """Run a server for as long as the block lasts."""
    command = [sys.executable, "-m", "tests.bench.envtest_server", *([data] if data else [])]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        started = Server(process)
        started.read_greeting()
        yield started


async def serve_allocations(of: Server) -> None:
    """Install the kind IPAllocation, and wait until it is served."""
    definition = yaml.safe_load(_CRD.read_text(encoding="utf-8"))
    async with await of.connect() as wire:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await wire.ask("POST", path, body=msgspec.json.encode(definition), media=_JSON)
        # The watch answers as soon as the kind is served.
        await wire.ask("GET", f"{PATH}?limit=1")


async def create(of: Server, names: list[str]) -> None:
    """Create allocations over several connections."""
    remaining = iter(names)

    async def create_on(wire: Wire) -> None:
        for name in remaining:
            await wire.ask("POST", PATH, body=msgspec.json.encode(allocation(name)), media=_JSON)

    await _run_on_connections(of, create_on)


async def _run_on_connections(
    of: Server, work: Callable[[Wire], Coroutine[None, None, None]]
) -> None:
    """Run `work` on several connections at the same time."""
    async with AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(await of.connect()) for _ in range(CONNECTIONS)]
        async with anyio.create_task_group() as group:
            for wire in wires:
                group.start_soon(work, wire)


async def patch(of: Server, names: list[str], patches: int) -> None:
    """Patch the statuses of allocations in turn, each connection those of its own."""
    shares = iter([names[at::CONNECTIONS] for at in range(CONNECTIONS)])
    remaining = iter(range(patches))

    async def patch_on(wire: Wire) -> None:
        own_share = next(shares)
        revisions: dict[str, str] = {}
        for turn, number in zip(count(), remaining, strict=False):
            name = own_share[turn % len(own_share)]
            body = {"status": status(number)}
            if name in revisions:
                body["metadata"] = {"resourceVersion": revisions[name]}
            answer = await wire.ask(
                "PATCH", f"{PATH}/{name}/status", body=msgspec.json.encode(body), media=_MERGE
            )
            match = _REVISION.search(answer)
            assert match is not None
            revisions[name] = match[1].decode()

    await _run_on_connections(of, patch_on)


async def watch(of: Server, revision: str, events: int, ready: anyio.Semaphore) -> None:
    """Read a number of events from a revision on."""
    async with await of.connect() as wire:
        ready.release()
        seen = 0
        async for piece in wire.watch(f"{PATH}?watch=1&resourceVersion={revision}"):
            seen += piece.count(b'{"type":"')
            if seen >= events:
                return


async def fan_out(of: Server, names: list[str]) -> None:
    """Patch while all watchers read; then let new watchers read the events from the history."""
    async with await of.connect() as wire:
        revision = await _read_revision(wire)
        with of.measure_block() as cost:
            async with anyio.create_task_group() as group:
                await _start_watchers(of, group, revision)
                await patch(of, names, HISTORY)
        click.echo(
            f"  {'patched and told to 10 watchers':32}{cost.format_per(HISTORY * WATCHERS)}"
        )
        with of.measure_block() as cost:
            async with anyio.create_task_group() as group:
                await _start_watchers(of, group, revision)
        click.echo(f"  {'history told to 10 watchers':32}{cost.format_per(HISTORY * WATCHERS)}")


async def _start_watchers(of: Server, group: TaskGroup, revision: str) -> None:
    """Start the watchers, and wait until all are connected."""
    ready = anyio.Semaphore(0)
    for _ in range(WATCHERS):
        group.start_soon(watch, of, revision, HISTORY, ready)
    for _ in range(WATCHERS):
        await ready.acquire()


async def _read_revision(wire: Wire) -> str:
    """Return the current revision of the server."""
    match = _REVISION.search(
        await wire.ask("GET", f"{PATH}?limit=1&fieldSelector=metadata.name=x")
    )
    assert match is not None
    return match[1].decode()


async def list_all(of: Server) -> None:
    """Read a long list in pages."""
    pages, token = 0, ""
    async with await of.connect() as wire:
        with of.measure_block() as cost:
            while token or not pages:
                page = await wire.ask("GET", f"{PATH}?limit={PAGE}&continue={token}")
                match = _CONTINUE.search(page)
                token = match[1].decode() if match else ""
                pages += 1
    click.echo(
        f"  {f'{LISTED:,} objects in {pages} pages':32}"
        f"{cost.wall:9.2f} s wall, {cost.cpu:9.2f} s of server CPU"
    )


async def measure_writes(of: Server) -> None:
    """Print the cost of patches and of watchers."""
    await serve_allocations(of)
    names = [f"allocation-{number:04}" for number in range(CONNECTIONS * OBJECTS_EACH)]
    await create(of, names)
    await patch(of, names, PATCHES // 10)
    windows: list[Cost] = []
    for _ in range(WINDOWS):
        with of.measure_block() as cost:
            await patch(of, names, PATCHES // WINDOWS)
        windows.append(cost)
    total = Cost(sum(window.wall for window in windows), sum(window.cpu for window in windows))
    best = Cost(min(window.wall for window in windows), min(window.cpu for window in windows))
    click.echo(f"  {'status patches':32}{total.format_per(PATCHES)}")
    click.echo(f"  {'the best window of them':32}{best.format_per(PATCHES // WINDOWS)}")
    await fan_out(of, names)


async def measure_long_list(of: Server) -> None:
    """Print the cost of a long list."""
    await serve_allocations(of)
    of.send_command(f"fill {LISTED}")
    await list_all(of)


async def measure_memory(of: Server) -> None:
    """Print the memory of the server with many objects."""
    await serve_allocations(of)
    empty = of.send_command("cost")["memory"]
    names = [f"allocation-{number:05}" for number in range(KEPT)]
    with of.measure_block() as cost:
        await create(of, names)
    click.echo(f"  {f'{KEPT:,} objects created':32}{cost.format_per(KEPT)}")
    memory = of.send_command("cost")["memory"]
    await patch(of, names, KEPT)
    patched = of.send_command("cost")["memory"]
    click.echo(
        f"  {f'memory with {KEPT:,} objects':32}{memory:9.0f} MiB; "
        f"{patched:.0f} MiB once all of them were patched; {empty:.0f} MiB without"
    )


async def ready(of: Server) -> None:
    """Ask whether the server is ready."""
    async with await of.connect() as wire:
        await wire.ask("GET", "/readyz")


def start(title: str, data: str = "") -> None:
    """Print how long a server takes to start."""
    begun = perf_counter()
    with server(data) as of:
        anyio.run(ready, of)
        wall = perf_counter() - begun
        cpu = of.send_command("cost")["cpu"]
    click.echo(f"  {title:32}{wall:9.2f} s wall, {cpu:9.2f} s of server CPU")


def starts() -> None:
    """Print how long servers take to start: without data, with none yet, with much."""
    start("start in memory")
    with tempfile.TemporaryDirectory() as data:
        start("start with --data, empty", data)
        with server(data) as of:
            anyio.run(serve_allocations, of)
            of.send_command(f"fill {KEPT}")
        start(f"start with {KEPT:,} objects", data)


def run() -> None:
    """Print all numbers."""
    begun = process_time()
    for _ in range(TURNS):
        pass
    rate = TURNS / (process_time() - begun) / 1e6
    click.echo(f"  {'an empty loop':32}{rate:9.1f} million turns per CPU second")
    starts()
    for title, work in (("in memory", measure_writes), ("with --data", measure_writes)):
        click.echo(f"  -- {title}")
        with tempfile.TemporaryDirectory() as data, server(data if "data" in title else "") as of:
            anyio.run(work, of)
    click.echo("  -- many objects, in memory")
    for work in (measure_long_list, measure_memory):
        with server() as of:
            anyio.run(work, of)
