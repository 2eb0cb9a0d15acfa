"""The choice of a pool by its free space after all waiting requests, kept up to date by events."""

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
from reconcilers.api.ipallocation import POOL_INDEX, IPAllocation, index_by_pool
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.api.tenantcluster import Networking
from reconcilers.networkpool.protocol import decide
from reconcilers.networkpool.view import AllocationsView
from reconcilers.tenantcluster.allocations.poolchoice import PoolChoice
from tests.reconcilers import make

LIMIT = 1_048_576


class PoolCaches:
    """Caches of one pool of 64 addresses and its allocations, and a choice that follows them.

    Args:
        family: the IP family of the pool, 4 or 6.
    """

    def __init__(self, family: int = 4) -> None:
        self.pools: Cache[NetworkPool] = Cache(NETWORK_POOL)
        self.allocations: Cache[IPAllocation] = Cache(
            IP_ALLOCATION, indexes={POOL_INDEX: index_by_pool}
        )
        self.pools.replace([make.pool(cidr=make.cidr(6, family))], 1)
        self.allocations.replace([], 1)
        self.choice = PoolChoice(self.pools, self.allocations, LIMIT)
        self.choice.find_first_fit(make.provider("lab"), lambda _: 1, Networking())

    def apply(self, allocation: IPAllocation) -> None:
        """Have the watch deliver a new version of an allocation."""
        self.allocations.apply(Modified(allocation))

    def delete(self, name: str) -> None:
        """Have the watch deliver the deletion of an allocation, if the cache has it."""
        allocation = self.allocations.get(make.key(name))
        if allocation is not None:
            later = make.allocation("later").metadata.resourceVersion
            meta = replace(allocation.metadata, resourceVersion=later)
            self.allocations.apply(Deleted(structs.replace(allocation, metadata=meta)))

    def run_pool_pass(self) -> None:
        """Allocate ranges to waiting requests, at most eight, as a pass over the pool does."""
        pool = next(iter(self.pools))
        requests = self.allocations.list_by_index(POOL_INDEX, str(pool.metadata.key))
        view = AllocationsView.from_allocations(
            self.allocations.position, requests, self.allocations.get
        )
        for grant in decide(
            pool, view, geometry=parse_layouts(pool.spec, LIMIT), batch=8
        ).choice.grants:
            name = grant.asker.metadata.name
            self.apply(
                make.allocation(
                    name, held_range=(grant.addresses[0].start_text, grant.addresses[0].end_text)
                )
            )

    def find_largest_fit(self, choice: PoolChoice) -> int:
        """Return the size of the largest request for which a choice finds room; 0 for none."""
        provider = make.provider("lab")

        def fits(size: int) -> bool:
            return choice.find_first_fit(provider, lambda _: size, Networking()) is not None

        return max(filter(fits, range(1, 65)), default=0)


NAMES = st.sampled_from("abcdefgh")
STEPS = st.one_of(
    st.tuples(st.just("request"), NAMES, st.integers(1, 20)),
    st.tuples(st.just("block"), NAMES, st.integers(0, 5)),
    st.tuples(st.just("pin"), NAMES, st.integers(0, 63)),
    st.tuples(st.just("delete"), NAMES, st.just(0)),
    st.tuples(st.just("hold"), NAMES, st.integers(0, 60)),
    st.tuples(st.just("pass"), st.just(""), st.just(0)),
)
"""What happens, the name of the allocation, and a number whose meaning depends on the first.

The number is a count for `request`, the bits of a block for `block`, and the offset of the first
address in the pool for `pin` and `hold`; the others do not use it.
"""


@pytest.mark.slow
@example([("pin", "a", 32), ("pin", "b", 0), ("pin", "b", 32)], 4)
@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=25), st.sampled_from([4, 6]))
def test_a_choice_that_follows_events_finds_the_same_room_as_one_built_from_the_caches(
    steps: list[tuple[str, str, int]], family: int
) -> None:
    caches = PoolCaches(family)
    for case, name, number in steps:
        address = make.address(number, family)
        if case == "block":
            caches.apply(make.allocation(name, prefix=make.prefix_length(number, family)))
        elif case == "request":
            caches.apply(make.allocation(name, size=number))
        elif case == "pin":
            caches.apply(make.allocation(name, pin=(address, address)))
        elif case == "hold":
            caches.apply(
                make.allocation(name, held_range=(address, make.address(number + 3, family)))
            )
        elif case == "delete":
            caches.delete(name)
        else:
            caches.run_pool_pass()
    for _ in range(4):
        caches.run_pool_pass()
    rebuilt_choice = PoolChoice(caches.pools, caches.allocations, LIMIT)
    assert caches.find_largest_fit(caches.choice) == caches.find_largest_fit(rebuilt_choice)


def test_addresses_that_are_kept_free_are_not_available_to_other_requests_meanwhile() -> None:
    caches = PoolCaches()
    pool = next(iter(caches.pools))
    assert caches.find_largest_fit(caches.choice) == 64
    with caches.choice.keep_free(pool, 32, Networking()):
        assert caches.find_largest_fit(caches.choice) == 32
        caches.apply(make.allocation("a", held_range=("10.40.0.60", "10.40.0.63")))
        assert caches.find_largest_fit(caches.choice) == 28
    assert caches.find_largest_fit(caches.choice) == 60


def test_the_choice_uses_a_changed_spec_of_a_pool() -> None:
    caches = PoolCaches()
    changed = make.pool(cidr="10.40.0.0/27", generation=2, resourceVersion="100000000")
    caches.pools.apply(Modified(changed))
    assert caches.find_largest_fit(caches.choice) == 32


def test_a_request_costs_the_same_however_many_allocations_there_are() -> None:
    """Reading the index of a pool costs more, the more allocations there are."""
    caches = PoolCaches()
    index_reads = []
    original = caches.allocations.list_by_index

    def list_by_index(index: str, value: str) -> tuple[IPAllocation, ...]:
        index_reads.append(value)
        return original(index, value)

    caches.allocations.list_by_index = list_by_index  # type: ignore[method-assign]
    for number in range(50):
        caches.apply(make.allocation(f"n{number}", size=1))
        caches.choice.find_first_fit(make.provider("lab"), lambda _: 1, Networking())
    assert index_reads == []


def test_a_release_tries_only_the_oldest_waiting_request_of_each_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caches = PoolCaches()
    caches.apply(make.allocation("one", held_range=("10.40.0.0", "10.40.0.1")))
    caches.apply(make.allocation("all", held_range=("10.40.0.2", "10.40.0.63")))
    for number in range(30):
        caches.apply(make.allocation(f"n{number}", size=3 + number % 2, age=float(number)))
    tried_names, take = [], rangetaking.take_ranges

    def record_and_take(pool: NetworkPool, allocation: IPAllocation, spaces: Any) -> Any:
        tried_names.append(allocation.metadata.name)
        return take(pool, allocation, spaces)

    monkeypatch.setattr(rangetaking, "take_ranges", record_and_take)
    caches.delete("one")
    assert sorted(tried_names) == ["n28", "n29"], "the oldest request of 3, and of 4 addresses"
    assert caches.find_largest_fit(caches.choice) == 2
    tried_names.clear()
    caches.delete("all")
    assert len(tried_names) == 18 + 2, "18 requests fit, and then one of each size does not"
    assert caches.find_largest_fit(caches.choice) == 1


def test_a_range_that_is_promised_to_a_claim_is_not_free_until_the_promise_is_dropped() -> None:
    """The choice reads no claims, so it cannot know whether a claim already has its range."""
    caches = PoolCaches()
    pool = next(iter(caches.pools))
    claimed = [make.render_claim_promise("10.40.0.32", "10.40.0.32")]
    for assignments, largest in ((claimed, 32), ([], 64)):
        status = {"assignments": assignments}
        shown_pool = make.pool(cidr=pool.spec.cidr, uid=pool.metadata.uid, status=status)
        caches.pools.apply(Modified(shown_pool))
        assert caches.find_largest_fit(caches.choice) == largest
        rebuilt_choice = PoolChoice(caches.pools, caches.allocations, LIMIT)
        assert caches.find_largest_fit(rebuilt_choice) == largest
