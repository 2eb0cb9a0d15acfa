"""How many watch events per second reach an indexed cache over TLS, and how much memory they need.

The embedded server, in a process of its own, has objects put into its store while this process
watches; an event counts when the cache shows its object, decoded and indexed. The wall time
depends on the server and on what else the machine does; the CPU time of this process is its own.
"""

import os
from time import perf_counter, process_time

import anyio
import click

from controller.clock import SystemClock
from controller.informer import Informer
from controller.logs import configure_logs
from controller.tenantconfig import TenantCredentials, create_tenant_transport
from reconcilers.api.resources import IP_ALLOCATION
from tests.bench.bench_envtest import Server, serve_allocations
from tests.bench.bench_envtest import server as serving
from tests.bench.processes import read_resident_mib

OBJECTS = 20_000


async def measure(server: Server) -> None:
    """Watch while the server is filled, and print CPU time and memory."""
    await serve_allocations(server)
    credentials = TenantCredentials(server.url, authority=server.authority, token=server.token)
    transport = create_tenant_transport(credentials, max_bytes=2**30, timeout=60.0)
    informer = Informer(
        IP_ALLOCATION,
        transport,
        SystemClock(),
        indexes={"pool": lambda allocation: (allocation.spec.poolRef.name,)},
        streams=True,
    )
    full = anyio.Event()
    informer.add_handler(lambda _: full.set() if len(informer.cache) >= OBJECTS else None)
    async with anyio.create_task_group() as group:
        group.start_soon(informer.run)
        await informer.wait_synced()
        before, begun, cpu = read_resident_mib(os.getpid()), perf_counter(), process_time()
        await anyio.to_thread.run_sync(server.send_command, f"fill {OBJECTS}")
        await full.wait()
        wall, cpu = perf_counter() - begun, process_time() - cpu
        click.echo(
            f"{OBJECTS:,} events: {OBJECTS / cpu:,.0f}/s of CPU ({1e6 * cpu / OBJECTS:.0f} µs"
            f" each), {OBJECTS / wall:,.0f}/s wall with the server's part"
        )
        after = read_resident_mib(os.getpid())
        click.echo(
            f"memory: {after:.0f} MiB, {1024 * (after - before) / OBJECTS:.1f} KiB for"
            f" each object, {before:.0f} MiB without any"
        )
        group.cancel_scope.cancel()
    await transport.aclose()


def run() -> None:
    """Print what a watch costs."""
    configure_logs(level="error")
    with serving() as server:
        anyio.run(measure, server)
