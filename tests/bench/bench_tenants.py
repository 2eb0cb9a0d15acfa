"""A thousand elastic tenants that all grow at once, and what they cost at rest.

The controllers are the real ones, all of them in one manager. Their servers are fakes in the same
process, a management cluster and one for each tenant with a MetalLB that serves at once, and time
is virtual: seconds until all have grown are those that the controllers wait, not what a machine
takes. What it takes is CPU time, that of the fakes included. Each tenant has a Service with an
address; then each gets one more than its pool has room for. Once all are reachable, and once a
hundred never answer. At rest they are looked at as often as tenants that have been Ready for more
than an hour and less than a day. What a watch of a real tenant over TLS takes is
`python -m tests.bench clusters`.
"""

import logging
import math
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import process_time
from typing import Any

import anyio
import click
import msgspec
import structlog
from typing_extensions import override

from controller.errors import NoAnswer
from controller.manager import Manager
from controller.transport import NO_QUERY, Transport
from reconcilers.configuration.settings import TenantSettings
from reconcilers.wiring import assemble
from tests.bench.processes import read_resident_mib
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, add_service, find_address
from tests.reconcilers.platform import Platform
from tests.reconcilers.server import Server
from tests.reconcilers.tenantcluster.elastic.site import make_elastic_platform

TENANTS = 1_000
UNREACHABLE = 100
THRESHOLD = 30.0
PATIENCE = 600.0
REST = 600.0
SETTLING = 120.0
BOOKMARK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class TenantCosts:
    """The costs of tenants.

    Attributes:
        mib_before: resident memory of the process before there were tenants, in MiB.
        mib_at_rest: resident memory with all tenants at rest, in MiB, their fake servers included.
        grown: virtual seconds from THRESHOLD until all tenants that answer had grown.
        cpu: CPU seconds from the creation of the second Services until then.
        rest: the share of a core at rest.
        requests: the number of requests to the management cluster at rest.
    """

    mib_before: float
    mib_at_rest: float
    grown: float
    cpu: float
    rest: float
    requests: int


class BookmarkingTransport(Transport):
    """A transport to a fake server that adds a bookmark each minute, as API servers send them.

    Without bookmarks a watch counts as dead after a while, and everything is listed again.
    """

    def __init__(self, to: Server, platform: Platform) -> None:
        self._to = to
        self._clock = platform.clock

    @override
    async def request(self, method: str, path: str, **options: Any) -> bytes:
        return await self._to.request(method, path, **options)

    @override
    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        send, receive = anyio.create_memory_object_stream[bytes](math.inf)

        async def remind() -> None:
            while True:
                await self._clock.sleep(BOOKMARK_SECONDS)
                metadata = {"resourceVersion": str(self._to.revision)}
                event = {"type": "BOOKMARK", "object": {"metadata": metadata}}
                send.send_nowait(msgspec.json.encode(event) + b"\n")

        with send, receive:
            async with self._to.stream(path, query=query) as chunks:

                async def forward() -> None:
                    async for chunk in chunks:
                        send.send_nowait(chunk)

                async with anyio.create_task_group() as group:
                    group.start_soon(forward)
                    group.start_soon(remind)
                    yield receive
                    group.cancel_scope.cancel()

    @override
    async def aclose(self) -> None:
        await self._to.aclose()


@asynccontextmanager
async def run_controllers(platform: Platform) -> AsyncIterator[None]:
    """Run all controllers on a platform while the context lasts."""
    manager = Manager(BookmarkingTransport(platform.server, platform), clock=platform.clock)
    clients = assemble(
        manager,
        platform.clock,
        settings=platform.settings,
        open_tenant=lambda config: BookmarkingTransport(
            platform.tenants[config.decode()], platform
        ),
    )
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        yield
        group.cancel_scope.cancel()
    await clients.aclose()


async def measure(tenants: int, unreachable: int) -> TenantCosts:
    """Let tenants grow and come to rest; return the costs.

    Args:
        unreachable: how many of them do not answer while the others grow.
    """
    mib_before = read_resident_mib(os.getpid())
    pool = make.pool(cidr="10.0.0.0/12")
    platform, _ = make_elastic_platform(
        pool,
        sizing={"initialPoolSize": 1, "defaultPoolSize": 1},
        service_watches=tenants,
        # They are looked at as those that have been Ready for an hour.
        requeue_young=TenantSettings().requeue_grown,
    )
    platform.server.delete("tenantclusters", "a", namespace="team")
    names = [f"tenant-{number:04}" for number in range(tenants)]
    for name in names:
        Balancer(platform.tenant(name))
        platform.server.add("tenantclusters", make.tenant(name))
    async with run_controllers(platform):
        await platform.clock.advance(SETTLING)
        for name in names:
            add_service(platform.tenants[name], "first")
        await platform.clock.advance(SETTLING)
        answering = names[unreachable:]
        for name in names[:unreachable]:
            platform.tenants[name].fail(NoAnswer("timed out"), times=1_000_000_000)
        cpu = process_time()
        for name in names:
            add_service(platform.tenants[name], "second")
        waited = await _wait_until_grown(platform, answering)
        cpu = process_time() - cpu
        await platform.clock.advance(SETTLING)
        mib_at_rest = read_resident_mib(os.getpid())
        earlier_requests = len(platform.server.requests)
        cpu_at_rest = process_time()
        await platform.clock.advance(REST)
        rest = (process_time() - cpu_at_rest) / REST
        requests = len(platform.server.requests) - earlier_requests
    return TenantCosts(
        mib_before=mib_before,
        mib_at_rest=mib_at_rest,
        grown=waited - THRESHOLD,
        cpu=cpu,
        rest=rest,
        requests=requests,
    )


async def _wait_until_grown(platform: Platform, names: list[str]) -> float:
    """Return after how many virtual seconds each tenant's second Service has an address."""
    waited, remaining = 0.0, set(names)
    while remaining:
        assert waited < PATIENCE, f"{len(remaining)} tenants have not grown"
        await platform.clock.advance(1.0)
        waited += 1.0
        remaining = {
            name for name in remaining if find_address(platform.tenants[name], "second") is None
        }
    return waited


def run() -> None:
    """Print what a thousand tenants cost."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        for unreachable in (0, UNREACHABLE):
            cost = anyio.run(measure, TENANTS, unreachable)
            click.echo(
                f"{TENANTS:,} tenants, {unreachable} of them do not answer: the others have grown"
                f" {cost.grown:.0f} virtual seconds after the threshold, {cost.cpu:.1f} s of CPU"
                "  goal: <= 60"
            )
            click.echo(
                f"  at rest {100 * cost.rest:.2f} % of a core ({cost.requests} requests to the"
                f" management cluster in {REST:.0f} virtual seconds)  goal: <= 2 %;"
                f" {1024 * (cost.mib_at_rest - cost.mib_before) / TENANTS:.0f} KiB each,"
                " the fakes included"
            )
    finally:
        structlog.configure(**before)
