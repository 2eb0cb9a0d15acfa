"""What a pass costs does not depend on how much its pool holds: counted, not timed."""

import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from allocator.addresses import address_text
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


def _range(number: int) -> tuple[str, str]:
    first = (10 << 24) + (64 << 16) + 16 * number  # with gaps, so that free space is in pieces
    return address_text(first, 4), address_text(first + 7, 4)


def _fill_pool(count: int) -> Replica:
    """Return a replica whose pool holds `count` ranges and has been served."""
    lab = Lab()
    lab.server.listeners.clear()
    lab.server.add("networkpools", make.pool(cidr="10.64.0.0/12"))
    for number in range(count):
        allocation = make.allocation(f"held-{number:05}", held_range=_range(number), size=8)
        lab.server.add("ipallocations", allocation)
    return lab.another()


async def _calls_of_pass(replica: Replica) -> int:
    return await calls_of(lambda: replica.pools.reconcile(make.key("lab")))


async def _release(replica: Replica) -> None:
    replica.lab.server.vanish("ipallocations", "held-00031")


async def _request(replica: Replica) -> None:
    replica.lab.server.add("ipallocations", make.allocation("new", size=8))


async def _nothing(replica: Replica) -> None:
    """Nothing changes: a resync."""


@pytest.mark.parametrize("change", [_release, _request, _nothing])
async def test_a_pass_with_one_change_calls_as_much_in_a_large_pool_as_in_a_small_one(
    change: Callable[[Replica], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every pass of these tests checks what is kept, which costs as much as there is.
    monkeypatch.setattr(KeptHoldings, "_check_kept", lambda _self, _pool, kept: kept)
    calls = {}
    for count in (FEW, MANY):
        replica = _fill_pool(count)
        await replica.pools.reconcile(make.key("lab"))
        await replica.pools.reconcile(make.key("lab"))
        await change(replica)
        calls[count] = await _calls_of_pass(replica)
    sys.stdout.write(f"{change.__name__}: {calls}\n")
    assert calls[MANY] <= 1.1 * calls[FEW], calls


async def test_only_what_changed_is_read_and_however_often_it_did_it_is_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replica = _fill_pool(FEW)
    server = replica.lab.server
    await replica.pools.reconcile(make.key("lab"))
    await replica.pools.reconcile(make.key("lab"))
    monkeypatch.setattr(KeptHoldings, "_check_kept", lambda _self, _pool, kept: kept)
    read: list[str] = []
    by_index = Cache.by_index

    allocation_facts = facts.compute_facts

    def noting(allocation: Any, our_manager: str) -> Facts:
        read.append(allocation.metadata.name)
        return allocation_facts(allocation, our_manager)

    monkeypatch.setattr(facts, "compute_facts", noting)
    copied: list[str] = []

    def copying(cache: Cache[Any], index: str, value: str) -> tuple[Any, ...]:
        copied.append(value)
        return by_index(cache, index, value)

    monkeypatch.setattr(Cache, "by_index", copying)
    for number in range(5):
        label = {"metadata": {"labels": {"number": str(number)}}}
        server.edit("ipallocations", "held-00003", label)
    for number in range(10, 20):
        server.vanish("ipallocations", f"held-{number:05}")
    server.requests.clear()
    await replica.pools.reconcile(make.key("lab"))
    assert read == ["held-00003"]
    assert copied == []
    assert server.count(verb="patch", plural="networkpools") == 1, "ten releases, one write"
    assert replica.lab.see("networkpools", "lab")["allocatedIPs"] == 8 * (FEW - 10)


async def test_a_pass_calls_as_much_among_many_pools_as_among_few() -> None:
    calls = {}
    for count in (2, 60):
        replica = _fill_pool(FEW)
        for number in range(count):
            other = make.pool(f"other-{number}", cidr=f"10.{100 + number}.0.0/16")
            replica.lab.server.add("networkpools", other)
        await replica.pools.reconcile(make.key("lab"))
        await _release(replica)
        calls[count] = await _calls_of_pass(replica)
    assert calls[60] <= 1.1 * calls[2], calls


async def test_a_scrape_of_the_metrics_reads_only_allocations_that_wait_or_are_given_back() -> (
    None
):
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


async def test_a_judgement_of_a_request_by_count_reads_no_allocations() -> None:
    calls = {}
    for count in (FEW, MANY):
        replica = _fill_pool(count)
        pools, allocations, clusters, _ = replica.caches.values()
        judge = AllocationValidator(
            *(replica.client, pools, allocations, replica.lab.clock, 1 << 20), clusters=clusters
        )

        async def judge_request(by: AllocationValidator = judge) -> None:
            assert (await by.review_creation(make.allocation("new", size=8))).allowed

        await judge_request()
        calls[count] = await calls_of(judge_request)
    assert calls[MANY] <= 1.1 * calls[FEW], calls
