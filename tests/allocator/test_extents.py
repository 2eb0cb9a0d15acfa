"""SortedInts behaves like a sorted list, for all sizes of its internal blocks."""

from bisect import bisect_left

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import extents
from allocator.extents import FreeExtents, SortedInts

VALUES = st.integers(0, 60)


@pytest.fixture(params=[1, 2, 3, 512], autouse=True, scope="module")
def block_size(request: pytest.FixtureRequest) -> object:
    """Set the size of SortedInts' blocks, so that blocks split and vanish at different times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extents, "_BLOCK", request.param)
        yield


def check(ints: SortedInts, model: list[int], bound: int) -> None:
    """Check that `ints` has the members of a sorted list, and answers about `bound` like it."""
    assert list(ints) == model
    assert ints.find_greatest() == (model[-1] if model else None)
    place = bisect_left(model, bound)
    above = model[place] if place < len(model) else None
    below = model[place - 1] if place else None
    assert ints.find_at_least(bound) == above
    assert ints.find_neighbors(bound) == (below, above)
    assert ints.count_at_least(bound) == len(model) - place
    # Its speed depends on this: no block is too long or empty.
    assert all(0 < len(block) <= 2 * extents._BLOCK for block in ints._blocks)


@given(start=st.sets(VALUES), changes=st.lists(st.tuples(VALUES, VALUES), max_size=60))
@settings(max_examples=80, deadline=None)
def test_members_are_added_and_removed_in_order(
    start: set[int], changes: list[tuple[int, int]]
) -> None:
    model = sorted(start)
    ints = SortedInts(model)
    for member, bound in changes:
        if member in model:
            ints.remove(member)
            model.remove(member)
        else:
            ints.add(member)
            model = sorted([*model, member])
        check(ints, model, bound)


@given(start=st.sets(VALUES, min_size=1), data=st.data())
@settings(max_examples=80, deadline=None)
def test_a_member_is_replaced_in_its_place(start: set[int], data: st.DataObject) -> None:
    model = sorted(start)
    ints = SortedInts(model)
    for _ in range(5):
        place = data.draw(st.integers(0, len(model) - 1))
        low = model[place - 1] + 1 if place else -5
        high = model[place + 1] - 1 if place + 1 < len(model) else 70
        successor = data.draw(st.integers(low, high))
        ints.replace(model[place], successor)
        model[place] = successor
        check(ints, model, data.draw(VALUES))


@pytest.mark.parametrize("members", [[], [1], [1, 3, 5, 7]])
@pytest.mark.parametrize("non_member", [0, 2, 9])
def test_an_integer_that_is_no_member_cannot_be_removed_or_replaced(
    members: list[int], non_member: int
) -> None:
    ints = SortedInts(members)
    with pytest.raises(KeyError):
        ints.remove(non_member)
    with pytest.raises(KeyError):
        ints.replace(non_member, 4)
    assert list(ints) == members


def test_a_free_block_that_crosses_an_alignment_boundary_may_have_no_aligned_block() -> None:
    free = FreeExtents([(1, 6), (9, 14)], bits=32)
    assert free.take_aligned(4) is None
    assert list(free) == [(1, 6), (9, 14)]
    assert free.take_aligned(2) == 2
    assert list(free) == [(1, 1), (4, 6), (9, 14)]


def test_take_first_takes_at_most_the_free_addresses() -> None:
    free = FreeExtents([(10, 12)], 32)
    assert free.take_first(5) == (10, 12)
    assert free.take_first(1) is None
