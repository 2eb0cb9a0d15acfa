"""Allocations that share addresses: each reports the oldest other one, at a bounded cost.

Cost is a number of function calls.
"""

from collections.abc import Sequence
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import AddressRange
from controller.meta import Key, ObjectMeta
from reconcilers.integrations.kubermatic.allocationproblems import (
    AllocationProblems,
    Rank,
    find_overlaps,
    find_problems,
)
from reconcilers.integrations.kubermatic.api import (
    RANGE,
    AllocationSpec,
    Datacenter,
    IPAMAllocation,
)
from reconcilers.integrations.kubermatic.facts import compute_holdings, make_holder
from reconcilers.integrations.kubermatic.holdings import parse_holding
from reconcilers.integrations.kubermatic.spaces import parse_space
from tests.calls import calls_of
from tests.reconcilers import make

POOL = "p"
SPACE = parse_space(Datacenter(RANGE, "10.0.0.0/24", allocationRange=1))
RANGES = st.tuples(st.integers(0, 40), st.integers(0, 6)).map(
    lambda span: f"10.0.0.{span[0]}-10.0.0.{sum(span)}"
)
AGES = st.sampled_from([None, 0, 1, 2])
UNKNOWN_AGE = 9
"""An allocation of unknown age counts as younger than all others."""


def _make_allocation(name: str, *addresses: str, age: int | None = None) -> IPAMAllocation:
    """Return the allocation of pool p in a namespace.

    Args:
        name: the namespace.
        *addresses: the ranges of its spec.
        age: how many seconds after make.EPOCH it was created; None if that is unknown.
    """
    created = None if age is None else make.EPOCH + timedelta(seconds=age)
    meta = ObjectMeta(POOL, name, f"uid-{name}", "1", creationTimestamp=created)
    return IPAMAllocation(meta, AllocationSpec(RANGE, "x", addresses=addresses))


def _list_ranges(allocation: IPAMAllocation) -> Sequence[AddressRange]:
    return parse_holding(allocation.spec).ranges


def _do_overlap(allocation: IPAMAllocation, other: IPAMAllocation) -> bool:
    """Return whether two allocations share an address."""
    return any(a.overlaps(b) for a in _list_ranges(allocation) for b in _list_ranges(other))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.lists(RANGES, max_size=3), AGES), max_size=8))
def test_each_allocation_names_the_oldest_of_all_others_that_share_addresses_with_it(
    drawn: Sequence[tuple[Sequence[str], int | None]],
) -> None:
    allocations = [
        _make_allocation(f"n{number}", *addresses, age=age)
        for number, (addresses, age) in enumerate(drawn)
    ]
    expected = {}
    for allocation in allocations:
        others = [
            (UNKNOWN_AGE if age is None else age, other.metadata.key)
            for other, (_, age) in zip(allocations, drawn, strict=True)
            if other is not allocation and _do_overlap(allocation, other)
        ]
        if others:
            _, expected[allocation.metadata.key] = min(others)
    assert {
        key: other for key, (_, other) in find_overlaps(allocations, SPACE).items()
    } == expected


def test_an_allocation_names_the_oldest_other_allocation_and_the_first_by_name_of_the_oldest() -> (
    None
):
    shared = "10.0.0.1-10.0.0.2"
    allocations = [
        _make_allocation("a-young", shared, age=2),
        _make_allocation("b", shared, age=1),
        _make_allocation("c", shared, age=1),
        _make_allocation("apart", "10.0.0.9"),
    ]
    named_keys = {
        key.namespace: problem.message.removeprefix(
            "addresses of this allocation are also held by"
        )
        for key, problem in find_problems(allocations, SPACE).items()
    }
    expected = {"a-young": "b/p", "b": "c/p", "c": "b/p"}
    assert named_keys == {name: f" IPAMAllocation {other}" for name, other in expected.items()}


async def _count_calls_of_search(holders: int) -> int:
    """Return how many calls it costs to find the overlaps of `holders` holders of one address."""
    allocations = [_make_allocation(f"n{number}", "10.0.0.1") for number in range(holders)]
    overlaps: dict[Key, Rank] = {}

    async def find() -> None:
        overlaps.update(find_overlaps(allocations, SPACE))

    calls = await calls_of(find)
    assert len(overlaps) == holders
    return calls


async def test_a_search_among_thousands_of_holders_of_one_address_costs_no_more_per_holder() -> (
    None
):
    few, many = 100, 2000
    await _count_calls_of_search(few)  # fills the memory of parsed addresses
    assert await _count_calls_of_search(many) < 2 * many // few * await _count_calls_of_search(few)


async def _count_calls_of_release(holders: int) -> int:
    """Return how many calls it costs to update the problems after a release.

    The oldest of `holders` holders of one address releases the address.
    """
    allocations = {
        make_holder(f"n{number:05}", POOL): _make_allocation(f"n{number:05}", "10.0.0.1")
        for number in range(holders)
    }
    kept = AllocationProblems({"x": SPACE}, allocations.values())
    oldest = make_holder("n00000", POOL)
    del allocations[oldest]
    holdings = compute_holdings(
        POOL,
        {"x": SPACE},
        allocations=allocations.values(),
        find_cluster=lambda _: None,
        namespaces=(),
    )

    async def update() -> None:
        kept.update([oldest], holdings, allocations.get)

    calls = await calls_of(update)
    assert not kept.list_differences(AllocationProblems({"x": SPACE}, allocations.values()))
    assert {problem.message.rpartition(" ")[2] for problem in kept.by_key.values()} == {
        "n00001/p",
        "n00002/p",
    }
    return calls


async def test_a_release_by_the_oldest_of_thousands_of_holders_costs_no_more_per_holder() -> None:
    few, many = 100, 2000
    await _count_calls_of_release(few)  # fills the memory of parsed addresses
    assert await _count_calls_of_release(many) < 2 * many // few * await _count_calls_of_release(
        few
    )
