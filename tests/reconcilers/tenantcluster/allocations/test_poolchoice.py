"""How a pool will be once all requests were served: kept up to date as if it were built anew."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from controller.cache import Cache
from controller.codec import Deleted, Modified
from reconcilers.addressing import rangetaking
from reconcilers.addressing.poolgeometry import parse_layouts
from reconcilers.api.ipallocation import POOL_INDEX, IPAllocation, pool_index
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.api.tenantcluster import Networking
from reconcilers.networkpool.protocol import decide
from reconcilers.networkpool.view import AllocationsView
from reconcilers.tenantcluster.allocations.poolchoice import PoolChoice
from tests.reconcilers import make

LIMIT = 1_048_576


class PoolCaches:
    """A pool and its allocations, in caches that a choice listens to from the beginning."""

    def __init__(self, family: int = 4) -> None:
        self.pools: Cache[NetworkPool] = Cache(NETWORK_POOL)
        self.allocations: Cache[IPAllocation] = Cache(
            IP_ALLOCATION, indexes={POOL_INDEX: pool_index}
        )
        self.pools.replace([make.pool(cidr=make.cidr(6, family))], 1)
        self.allocations.replace([], 1)
        self.choice = PoolChoice(self.pools, self.allocations, LIMIT)
        self.choice.find_first_fit(make.provider("lab"), lambda _: 1, Networking())

    def put(self, allocation: IPAllocation) -> None:
        """Show a new version of an allocation."""
        self.allocations.apply(Modified(allocation))

    def delete(self, name: str) -> None:
        """Show that an allocation is gone."""
        allocation = self.allocations.get(make.key(name))
        if allocation is not None:
            later = make.allocation("later").metadata.resourceVersion
            meta = replace(allocation.metadata, resourceVersion=later)
            self.allocations.apply(Deleted(structs.replace(allocation, metadata=meta)))

    def work(self) -> None:
        """Let the pool serve who waits, as its own pass does."""
        pool = next(iter(self.pools))
        requests = self.allocations.by_index(POOL_INDEX, str(pool.metadata.key))
        view = AllocationsView.from_allocations(
            self.allocations.position, requests, self.allocations.get
        )
        for grant in decide(
            pool, view, geometry=parse_layouts(pool.spec, LIMIT), batch=8
        ).choice.grants:
            name = grant.asker.metadata.name
            self.put(
                make.allocation(
                    name, held_range=(grant.addresses[0].start_text, grant.addresses[0].end_text)
                )
            )

    def largest(self, choice: PoolChoice) -> int:
        """Return the largest request that a choice finds room for."""
        provider = make.provider("lab")

        def fits(size: int) -> bool:
            return choice.find_first_fit(provider, lambda _: size, Networking()) is not None

        return max(filter(fits, range(1, 65)), default=0)


NAMES = st.sampled_from("abcdefgh")
STEPS = st.one_of(
    st.tuples(st.just("ask"), NAMES, st.integers(1, 20)),
    st.tuples(st.just("block"), NAMES, st.integers(0, 5)),
    st.tuples(st.just("pin"), NAMES, st.integers(0, 63)),
    st.tuples(st.just("delete"), NAMES, st.just(0)),
    st.tuples(st.just("hold"), NAMES, st.integers(0, 60)),
    st.tuples(st.just("work"), st.just(""), st.just(0)),
)


@pytest.mark.slow
@example([("pin", "a", 32), ("pin", "b", 0), ("pin", "b", 32)], 4)
@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=25), st.sampled_from([4, 6]))
def test_a_pools_free_space_after_allocation_is_what_was_predicted(
    steps: list[tuple[str, str, int]], family: int
) -> None:
    caches = PoolCaches(family)
    for case, name, number in steps:
        address = make.address(number, family)
        if case == "block":
            caches.put(make.allocation(name, prefix=make.prefix_length(number, family)))
        elif case == "ask":
            caches.put(make.allocation(name, size=number))
        elif case == "pin":
            caches.put(make.allocation(name, pin=(address, address)))
        elif case == "hold":
            caches.put(
                make.allocation(name, held_range=(address, make.address(number + 3, family)))
            )
        elif case == "delete":
            caches.delete(name)
        else:
            caches.work()
    for _ in range(4):
        caches.work()
    anew = PoolChoice(caches.pools, caches.allocations, LIMIT)
    assert caches.largest(caches.choice) == caches.largest(anew)


def test_what_is_reserved_is_not_available_to_others_until_it_is_released() -> None:
    caches = PoolCaches()
    pool = next(iter(caches.pools))
    assert caches.largest(caches.choice) == 64
    with caches.choice.keep_free(pool, 32, Networking()):
        assert caches.largest(caches.choice) == 32
        caches.put(make.allocation("a", held_range=("10.40.0.60", "10.40.0.63")))
        assert caches.largest(caches.choice) == 28
    assert caches.largest(caches.choice) == 60


def test_a_changed_spec_is_seen() -> None:
    caches = PoolCaches()
    changed = make.pool(cidr="10.40.0.0/27", generation=2, resourceVersion="100000000")
    caches.pools.apply(Modified(changed))
    assert caches.largest(caches.choice) == 32


def test_a_request_costs_the_same_however_many_allocations_there_are() -> None:
    """Looking at an index is what would cost more; it is looked at once, and never again."""
    caches = PoolCaches()
    looked = []
    original = caches.allocations.by_index

    def by_index(index: str, value: str) -> tuple[IPAllocation, ...]:
        looked.append(value)
        return original(index, value)

    caches.allocations.by_index = by_index  # type: ignore[method-assign]
    for number in range(50):
        caches.put(make.allocation(f"n{number}", size=1))
        caches.choice.find_first_fit(make.provider("lab"), lambda _: 1, Networking())
    assert looked == []


def test_a_release_tries_one_of_those_that_ask_for_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caches = PoolCaches()
    caches.put(make.allocation("one", held_range=("10.40.0.0", "10.40.0.1")))
    caches.put(make.allocation("all", held_range=("10.40.0.2", "10.40.0.63")))
    for number in range(30):
        caches.put(make.allocation(f"n{number}", size=3 + number % 2, age=float(number)))
    tried, take = [], rangetaking.take_ranges

    def noting(pool: NetworkPool, allocation: IPAllocation, spaces: Any) -> Any:
        tried.append(allocation.metadata.name)
        return take(pool, allocation, spaces)

    monkeypatch.setattr(rangetaking, "take_ranges", noting)
    caches.delete("one")
    assert sorted(tried) == ["n28", "n29"], "the oldest of each size"
    assert caches.largest(caches.choice) == 2
    tried.clear()
    caches.delete("all")
    assert len(tried) == 18 + 2, "those that fit, and one more of each size"
    assert caches.largest(caches.choice) == 1


def test_what_is_promised_to_a_claim_is_not_free_until_the_promise_is_dropped() -> None:
    """The choice reads no claims, so how far it has read allocations says nothing about them."""
    caches = PoolCaches()
    pool = next(iter(caches.pools))
    claimed = [make.listed_for_claim("10.40.0.32", "10.40.0.32")]
    for assignments, largest in ((claimed, 32), ([], 64)):
        status = {"assignments": assignments}
        shown_pool = make.pool(cidr=pool.spec.cidr, uid=pool.metadata.uid, status=status)
        caches.pools.apply(Modified(shown_pool))
        assert caches.largest(caches.choice) == largest
        anew = PoolChoice(caches.pools, caches.allocations, LIMIT)
        assert caches.largest(anew) == largest
