"""Unions and differences of spans are those of the sets of their addresses."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from allocator.spans import Span, minus, union

SPANS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda pair: (pair[0], sum(pair)))
)


def members(spans: list[Span]) -> set[int]:
    return {address for first, last in spans for address in range(first, last + 1)}


def maximal(spans: list[Span]) -> bool:
    return all(low[1] + 1 < high[0] for low, high in pairwise(spans))


@given(spans=SPANS)
def test_a_union_holds_the_same_addresses_in_maximal_spans(spans: list[Span]) -> None:
    merged = union(sorted(spans))
    assert members(merged) == members(spans)
    assert maximal(merged)


@given(spans=SPANS, holes=SPANS)
def test_a_difference_holds_what_is_not_in_the_holes(spans: list[Span], holes: list[Span]) -> None:
    left = list(minus(union(sorted(spans)), union(sorted(holes))))
    assert members(left) == members(spans) - members(holes)
    assert maximal(left)
