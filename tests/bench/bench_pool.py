"""What one change costs the controller, by how much is held: passes, sweeps, scrapes, judgements.

All in this process, against a server in memory, so that only the work of reconcilers and caches
counts: CPU time, and how many functions are called, those written in C too. The calls are the same
in each run, whatever else the machine does.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from time import process_time

import anyio
import click
import structlog

from allocator.addresses import format_address
from reconcilers.api import names
from reconcilers.metrics.objectgauges import Gauges
from reconcilers.networkpool.statusjournal import count_promises
from reconcilers.webhooks.validators import AllocationValidator
from tests.calls import calls_of
from tests.reconcilers import make
from tests.reconcilers.lab import Lab, Replica
from tests.reconcilers.server import Server

HELD = (100, 1_000, 10_000, 65_000)
SHARED = ((100, 10, 1), (10_000, 1_000, 100))
"""The numbers of allocations, tenants and pools in each case of `measure_other_work`."""
WAITING = (100, 10_000)
ROUNDS = 30
SIZE = 8

Step = Callable[[], Awaitable[object]]


def make_range_ends(pool: int, number: int) -> tuple[str, str]:
    """Return the first and last address of the range with that number in a pool."""
    first = (10 << 24) + (pool << 16) + SIZE * number
    return format_address(first, 4), format_address(first + SIZE - 1, 4)


def fill_replica(allocations: int, tenants: int, pools: int, cidr: str = "10.0.0.0/12") -> Replica:
    """Return a replica whose caches have allocations of tenants in some pools.

    Args:
        cidr: the CIDR of the pool, if there is one pool only.
    """
    lab = Lab()
    lab.server.listeners.clear()
    for number in range(pools):
        block = cidr if pools == 1 else f"10.{number}.0.0/16"
        lab.server.add("networkpools", make.pool(f"pool-{number:03}", cidr=block))
    for number in range(tenants):
        ready = make.tenant(f"tenant-{number:04}", status={"phase": "Ready"})
        lab.server.add("tenantclusters", ready)
    for number in range(allocations):
        tenant, pool = f"tenant-{number % tenants:04}", number % pools
        allocation = make.allocation(
            name_allocation(number),
            of=f"pool-{pool:03}",
            held_range=make_range_ends(pool, number // pools),
            tenant=f"team/{tenant}",
            annotations={names.ANNOTATION_TENANT_UID: f"uid-team-{tenant}"},
            labels={
                names.LABEL_POOL: f"pool-{pool:03}",
                names.LABEL_TEAM: "team",
                names.LABEL_TENANT: tenant,
                names.LABEL_TYPE: "loadbalancer",
                names.LABEL_MANAGED_BY: "butler",
            },
        )
        lab.server.add("ipallocations", allocation)
    return lab.make_replica()


def name_allocation(number: int) -> str:
    """Return the name of the allocation with that number."""
    return f"held-{number:06}"


async def measure_step(step: Step, before: Callable[[int], object] = lambda _: None) -> str:
    """Return the cost of a step: its mean CPU time over rounds, and its calls in one more round.

    Args:
        before: is called with the number of the round before each step; it is not measured.
    """
    await step()
    spent = 0.0
    for number in range(ROUNDS):
        before(number)
        begun = process_time()
        await step()
        spent += process_time() - begun
    before(ROUNDS)
    calls = await calls_of(step)
    return f"{1000 * spent / ROUNDS:9.2f} ms {calls:9,} calls"


async def measure_one_pool() -> None:
    """Print the cost of a pass after the release of an allocation, and after a request."""
    for count in HELD:
        replica = fill_replica(count, 10, 1)
        server = replica.lab.server

        reconcile = partial(replica.pools.reconcile, make.key("pool-000"))

        def release(number: int, on: Server = server) -> None:
            on.vanish("ipallocations", name_allocation(number))

        def ask(number: int, on: Server = server) -> None:
            new = make.allocation(f"new-{number}", of="pool-000", size=SIZE)
            on.add("ipallocations", new)

        released = await measure_step(reconcile, release)
        asked = await measure_step(reconcile, ask)
        goal = "  goal: <= 2 ms each" if count == HELD[-1] else ""
        click.echo(f"{count:>7,} held: a release {released}, a request {asked}{goal}")


async def measure_full_pool() -> None:
    """Print the cost of a pass after a release that has no room for any waiting request."""
    for waiting in WAITING:
        replica = fill_replica(512, 10, 1, cidr="10.0.0.0/20")
        server = replica.lab.server
        for number in range(waiting):
            asks = make.allocation(f"waits-{number:05}", of="pool-000", size=SIZE + 1 + number % 8)
            server.add("ipallocations", asks)
        reconcile = partial(replica.pools.reconcile, make.key("pool-000"))
        await reconcile()

        def swap(number: int, on: Server = server) -> None:
            on.vanish("ipallocations", name_allocation(2 * number))
            again = make.allocation(
                f"again-{number}", of="pool-000", held_range=make_range_ends(0, 2 * number - 2)
            )
            if number:
                on.add("ipallocations", again)

        released = await measure_step(reconcile, swap)
        click.echo(f"{waiting:>7,} waiting in a full pool: a release {released}")


async def measure_other_work() -> None:
    """Print the costs of other work on allocations, tenants and pools."""
    for allocations, tenants, pools in SHARED:
        click.echo(f"{allocations:,} allocations, {tenants:,} tenants, {pools} pools:")
        replica = fill_replica(allocations, tenants, pools)
        known, known_allocations, clusters, providers = replica.caches.values()
        gauges = Gauges(
            known,
            known_allocations,
            providers=providers,
            clusters=clusters,
            clock=replica.lab.clock,
            is_leading=lambda: True,
            count_promises=count_promises,
        )
        judge = AllocationValidator(
            *(replica.client, known, known_allocations, replica.lab.clock, 1 << 20),
            clusters=clusters,
        )
        allocation = make.allocation("new", of="pool-000", size=SIZE)

        async def scrape(scraped: Gauges = gauges) -> None:
            list(scraped.collect())

        steps: dict[str, Step] = {
            "a pass over one pool": partial(replica.pools.reconcile, make.key("pool-000")),
            "a pass over one tenant": partial(
                replica.clusters.reconcile, make.key("tenant-0001", "team")
            ),
            "a sweep for orphans": replica.orphans.sweep,
            "a scrape of the metrics": scrape,
            "a judgement of a request": partial(judge.review_creation, allocation),
        }
        for case, step in steps.items():
            click.echo(f"  {case:25} {await measure_step(step)}")


def run() -> None:
    """Print what changes cost."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        anyio.run(measure_one_pool)
        anyio.run(measure_full_pool)
        anyio.run(measure_other_work)
    finally:
        structlog.configure(**before)
