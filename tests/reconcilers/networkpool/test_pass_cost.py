"""The cost of a pass does not depend on how many allocations its pool has.

The cost is the number of Python calls, which does not vary as times do.
"""

import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from allocator.addresses import format_address
from controller.cache import Cache
from reconcilers.metrics.objectgauges import Gauges
from reconcilers.networkpool import facts
from reconcilers.networkpool.statusjournal import count_promises
from reconcilers.promises.holdings import Facts, KeptHoldings
from reconcilers.webhooks.validators import AllocationValidator
from tests.calls import calls_of
from tests.reconcilers import make
from tests.reconcilers.lab import Lab, Replica

FEW, MANY = 64, 2_048
"""Numbers of allocations that hold a range."""


def _make_range(number: int) -> tuple[str, str]:
    """Return the ends of the range `number`, of eight addresses."""
    # There is a gap of eight addresses after each range, so that free space is fragmented.
    first = (10 << 24) + (64 << 16) + 16 * number
    return format_address(first, 4), format_address(first + 7, 4)


def _fill_pool(count: int) -> Replica:
    """Return a replica whose pool holds `count` ranges and has been served."""
    lab = Lab()
    lab.server.listeners.clear()
    lab.server.add("networkpools", make.pool(cidr="10.64.0.0/12"))
    for number in range(count):
        allocation = make.allocation(f"held-{number:05}", held_range=_make_range(number), size=8)
        lab.server.add("ipallocations", allocation)
    return lab.make_replica()


async def _count_calls_of_pass(replica: Replica) -> int:
    """Return how many Python calls one pass makes."""
    return await calls_of(lambda: replica.pools.reconcile(make.key("lab")))


async def _release_range(replica: Replica) -> None:
    """Delete an allocation that holds a range."""
    replica.lab.server.vanish("ipallocations", "held-00031")


async def _add_request(replica: Replica) -> None:
    """Add an allocation that waits for a range."""
    replica.lab.server.add("ipallocations", make.allocation("new", size=8))


async def _change_nothing(replica: Replica) -> None:
    """Change nothing: the next pass is that of a resync."""


@pytest.mark.parametrize("change", [_release_range, _add_request, _change_nothing])
async def test_a_pass_with_one_change_calls_as_much_in_a_large_pool_as_in_a_small_one(
    change: Callable[[Replica], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise each pass of a test also compares the kept holdings with all allocations.
    monkeypatch.setattr(KeptHoldings, "_check_kept", lambda _self, _pool, kept: kept)
    calls = {}
    for count in (FEW, MANY):
        replica = _fill_pool(count)
        await replica.pools.reconcile(make.key("lab"))
        await replica.pools.reconcile(make.key("lab"))
        await change(replica)
        calls[count] = await _count_calls_of_pass(replica)
    sys.stdout.write(f"{change.__name__}: {calls}\n")
    assert calls[MANY] <= 1.1 * calls[FEW], calls


async def test_a_pass_reads_each_changed_allocation_once_however_often_it_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replica = _fill_pool(FEW)
    server = replica.lab.server
    await replica.pools.reconcile(make.key("lab"))
    await replica.pools.reconcile(make.key("lab"))
    monkeypatch.setattr(KeptHoldings, "_check_kept", lambda _self, _pool, kept: kept)
    read_names: list[str] = []
    list_by_index = Cache.list_by_index

    allocation_facts = facts.compute_facts

    def record_read(allocation: Any, our_manager: str) -> Facts:
        read_names.append(allocation.metadata.name)
        return allocation_facts(allocation, our_manager)

    monkeypatch.setattr(facts, "compute_facts", record_read)
    copied_values: list[str] = []

    def record_copy(cache: Cache[Any], index: str, value: str) -> tuple[Any, ...]:
        copied_values.append(value)
        return list_by_index(cache, index, value)

    monkeypatch.setattr(Cache, "list_by_index", record_copy)
    for number in range(5):
        label = {"metadata": {"labels": {"number": str(number)}}}
        server.edit("ipallocations", "held-00003", label)
    for number in range(10, 20):
        server.vanish("ipallocations", f"held-{number:05}")
    server.requests.clear()
    await replica.pools.reconcile(make.key("lab"))
    assert read_names == ["held-00003"]
    assert copied_values == []
    assert server.count(verb="patch", plural="networkpools") == 1, "ten releases, one write"
    assert replica.lab.read_status("networkpools", "lab")["allocatedIPs"] == 8 * (FEW - 10)


async def test_a_pass_calls_as_much_among_many_pools_as_among_few() -> None:
    calls = {}
    for count in (2, 60):
        replica = _fill_pool(FEW)
        for number in range(count):
            other = make.pool(f"other-{number}", cidr=f"10.{100 + number}.0.0/16")
            replica.lab.server.add("networkpools", other)
        await replica.pools.reconcile(make.key("lab"))
        await _release_range(replica)
        calls[count] = await _count_calls_of_pass(replica)
    assert calls[60] <= 1.1 * calls[2], calls


async def test_a_scrape_of_the_metrics_calls_as_much_with_many_holders_as_with_few() -> None:
    calls = {}
    for count in (FEW, MANY):
        replica = _fill_pool(count)
        pools, allocations, clusters, providers = replica.caches.values()
        clock = replica.lab.clock
        gauges = Gauges(
            pools,
            allocations,
            providers=providers,
            clusters=clusters,
            clock=clock,
            is_leading=lambda: True,
            count_promises=count_promises,
        )

        async def scrape(scraped: Gauges = gauges) -> None:
            list(scraped.collect())

        await scrape()
        calls[count] = await calls_of(scrape)
    assert calls[MANY] == calls[FEW], calls


async def test_the_admission_of_a_request_calls_as_much_with_many_holders_as_with_few() -> None:
    calls = {}
    for count in (FEW, MANY):
        replica = _fill_pool(count)
        pools, allocations, clusters, _ = replica.caches.values()
        validator = AllocationValidator(
            *(replica.client, pools, allocations, replica.lab.clock, 1 << 20), clusters=clusters
        )

        async def review_request(by: AllocationValidator = validator) -> None:
            assert (await by.review_creation(make.allocation("new", size=8))).allowed

        await review_request()
        calls[count] = await calls_of(review_request)
    assert calls[MANY] <= 1.1 * calls[FEW], calls
