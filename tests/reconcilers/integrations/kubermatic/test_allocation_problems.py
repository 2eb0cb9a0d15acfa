"""Which other allocation is named by one that shares its addresses, and what that costs."""

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


def _allocation(name: str, *addresses: str, age: int | None = None) -> IPAMAllocation:
    """Return an allocation that is younger by `age` seconds than the oldest one."""
    created = None if age is None else make.EPOCH + timedelta(seconds=age)
    meta = ObjectMeta(POOL, name, f"uid-{name}", "1", creationTimestamp=created)
    return IPAMAllocation(meta, AllocationSpec(RANGE, "x", addresses=addresses))


def _list_ranges(allocation: IPAMAllocation) -> Sequence[AddressRange]:
    return parse_holding(allocation.spec).ranges


def _overlap(allocation: IPAMAllocation, other: IPAMAllocation) -> bool:
    return any(a.overlaps(b) for a in _list_ranges(allocation) for b in _list_ranges(other))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.lists(RANGES, max_size=3), AGES), max_size=8))
def test_each_allocation_names_the_oldest_of_all_others_that_share_addresses_with_it(
    drawn: Sequence[tuple[Sequence[str], int | None]],
) -> None:
    allocations = [
        _allocation(f"n{number}", *addresses, age=age)
        for number, (addresses, age) in enumerate(drawn)
    ]
    expected = {}
    for allocation in allocations:
        others = [
            (9 if age is None else age, other.metadata.key)
            for other, (_, age) in zip(allocations, drawn, strict=True)
            if other is not allocation and _overlap(allocation, other)
        ]
        if others:
            _, expected[allocation.metadata.key] = min(others)
    assert {
        key: other for key, (_, other) in find_overlaps(allocations, SPACE).items()
    } == expected


def test_an_allocation_names_the_oldest_other_one_and_of_two_as_old_the_first_by_name() -> None:
    shared = "10.0.0.1-10.0.0.2"
    allocations = [
        _allocation("a-young", shared, age=2),
        _allocation("b", shared, age=1),
        _allocation("c", shared, age=1),
        _allocation("apart", "10.0.0.9"),
    ]
    named_keys = {
        key.namespace: problem.message.removeprefix(
            "addresses of this allocation are also held by"
        )
        for key, problem in find_problems(allocations, SPACE).items()
    }
    expected = {"a-young": "b/p", "b": "c/p", "c": "b/p"}
    assert named_keys == {name: f" IPAMAllocation {other}" for name, other in expected.items()}


async def _count_on_one_address(holders: int) -> int:
    """Return how many calls find the overlaps of so many holders of one address."""
    allocations = [_allocation(f"n{number}", "10.0.0.1") for number in range(holders)]
    overlaps: dict[Key, Rank] = {}

    async def find() -> None:
        overlaps.update(find_overlaps(allocations, SPACE))

    calls = await calls_of(find)
    assert len(overlaps) == holders
    return calls


async def test_thousands_of_holders_of_one_address_cost_no_more_each_than_a_few() -> None:
    few, many = 100, 2000
    await _count_on_one_address(few)  # parsed addresses are remembered
    assert await _count_on_one_address(many) < 2 * many // few * await _count_on_one_address(few)


async def _count_release(holders: int) -> int:
    """Return how many calls follow if the oldest of so many holders of an address releases it."""
    allocations = {
        make_holder(f"n{number:05}", POOL): _allocation(f"n{number:05}", "10.0.0.1")
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


async def test_a_release_by_the_oldest_of_thousands_of_holders_costs_no_more_each() -> None:
    few, many = 100, 2000
    await _count_release(few)
    assert await _count_release(many) < 2 * many // few * await _count_release(few)
