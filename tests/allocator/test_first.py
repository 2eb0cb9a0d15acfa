"""Handing out the lowest free addresses, in a row or not."""

import pytest

from allocator import AddressRange, InvalidRequest, Layout, PoolExhausted, Space


def span(first: int, last: int) -> AddressRange:
    return AddressRange.parse(f"10.0.0.{first}", f"10.0.0.{last}")


def test_the_lowest_free_addresses_are_taken_whatever_the_block_they_are_in() -> None:
    space = Space(Layout.parse("10.0.0.0/28"), [span(1, 3), span(6, 6)])
    assert [space.take_lowest(1) for _ in range(3)] == [
        (span(0, 0),),
        (span(4, 4),),
        (span(5, 5),),
    ]
    space.release(span(1, 3))
    assert space.take_lowest(1) == (span(1, 1),)


def test_what_is_in_no_row_is_given_as_several_ranges() -> None:
    space = Space(Layout.parse("10.0.0.0/28"), [span(2, 3), span(6, 6)])
    assert space.take_lowest(5) == (span(0, 1), span(4, 5), span(7, 7))
    assert space.free == 8


def test_more_than_there_is_takes_nothing() -> None:
    space = Space(Layout.parse("10.0.0.0/29"), [span(0, 5)])
    with pytest.raises(PoolExhausted):
        space.take_lowest(3)
    with pytest.raises(InvalidRequest):
        space.take_lowest(0)
    assert space.take_lowest(2) == (span(6, 7),)
    assert space.free == 0


def test_what_is_only_tried_is_free_again() -> None:
    space = Space(Layout.parse("10.0.0.0/29"))
    with space.trial():
        space.take_lowest(3)
    assert space.take_lowest(1) == (span(0, 0),)
