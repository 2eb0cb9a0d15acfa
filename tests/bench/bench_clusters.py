"""The cost of a thousand idle tenants for a controller: a TLS watch and a cache for each.

The server is the embedded one in a process of its own; to this process each watch is a cluster
with credentials, TLS settings, connections and an informer of its own. For a while nothing happens
but the bookmarks that come every minute; then memory and the share of a core are read.
"""

import os
import resource
from time import perf_counter, process_time

import anyio
import click

from controller.clock import SystemClock
from controller.clusters import Clusters, ClusterSettings
from controller.logs import configure_logs
from controller.meta import Key
from controller.renewable import Connection
from controller.tenantconfig import TenantCredentials, create_tenant_transport
from reconcilers.api.services import SERVICE
from tests.bench.bench_envtest import Server
from tests.bench.bench_envtest import server as serving
from tests.bench.processes import read_resident_mib

TENANTS = 1000
IDLE_SECONDS = 70.0
FILES = 8192
"""How many files the process may open: each tenant needs several."""
PATIENCE = 180.0
"""Seconds until all tenants have to be synced."""


async def measure(server: Server) -> None:
    """Open the clusters, wait, and print CPU time and memory."""
    credentials = TenantCredentials(server.url, authority=server.authority, token=server.token)

    async def open_cluster(key: Key) -> Connection:
        return Connection(
            create_tenant_transport(credentials, max_bytes=2**24, timeout=30.0), key.name
        )

    clusters = Clusters(open_cluster, SystemClock(), ClusterSettings(limit=TENANTS))
    clusters.watch_kind(SERVICE)
    before = read_resident_mib(os.getpid())
    keys = [Key("tenants", f"tenant-{number}") for number in range(TENANTS)]
    async with anyio.create_task_group() as group:
        group.start_soon(clusters.run)
        begun, cpu = perf_counter(), process_time()
        for key in keys:
            clusters.open(key)
        with anyio.fail_after(PATIENCE):
            while not all(map(clusters.is_synced, keys)):  # noqa: ASYNC110 - it is not measured
                await anyio.sleep(0.5)
        click.echo(
            f"{TENANTS:,} clusters synced in {perf_counter() - begun:.1f} s wall,"
            f" {1000 * (process_time() - cpu) / TENANTS:.1f} ms of CPU each"
        )
        await anyio.sleep(1)
        begun, cpu = perf_counter(), process_time()
        await anyio.sleep(IDLE_SECONDS)
        share = (process_time() - cpu) / (perf_counter() - begun)
        after = read_resident_mib(os.getpid())
        click.echo(
            f"idle: {after:.0f} MiB resident ({1024 * (after - before) / TENANTS:.0f} KiB for each"
            f" cluster, {before:.0f} MiB without any), {100 * share:.1f} % of a core"
        )
        assert all(map(clusters.is_synced, keys))
        group.cancel_scope.cancel()


def run() -> None:
    """Print what idle clusters cost."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    expected = max(soft, FILES)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (expected if hard < 0 else min(expected, hard), hard)
    )
    configure_logs(level="error")
    with serving() as server:
        anyio.run(measure, server)
