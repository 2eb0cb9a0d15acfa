"""`take_lowest` allocates the lowest free addresses, in one range or in several."""

import pytest

from allocator import AddressRange, InvalidRequest, Layout, PoolExhausted, Space


def make_range(first: int, last: int) -> AddressRange:
    """Return the range 10.0.0.`first` to 10.0.0.`last`."""
    return AddressRange.parse(f"10.0.0.{first}", f"10.0.0.{last}")


def test_the_lowest_free_address_is_taken_regardless_of_the_size_of_its_block() -> None:
    space = Space(Layout.parse("10.0.0.0/28"), [make_range(1, 3), make_range(6, 6)])
    assert [space.take_lowest(1) for _ in range(3)] == [
        (make_range(0, 0),),
        (make_range(4, 4),),
        (make_range(5, 5),),
    ]
    space.release(make_range(1, 3))
    assert space.take_lowest(1) == (make_range(1, 1),)


def test_addresses_that_are_not_contiguous_are_returned_as_several_ranges() -> None:
    space = Space(Layout.parse("10.0.0.0/28"), [make_range(2, 3), make_range(6, 6)])
    assert space.take_lowest(5) == (make_range(0, 1), make_range(4, 5), make_range(7, 7))
    assert space.free == 8


def test_a_request_for_more_than_the_free_addresses_takes_none() -> None:
    space = Space(Layout.parse("10.0.0.0/29"), [make_range(0, 5)])
    with pytest.raises(PoolExhausted):
        space.take_lowest(3)
    with pytest.raises(InvalidRequest):
        space.take_lowest(0)
    assert space.take_lowest(2) == (make_range(6, 7),)
    assert space.free == 0


def test_addresses_that_are_taken_in_a_trial_are_free_after_it() -> None:
    space = Space(Layout.parse("10.0.0.0/29"))
    with space.roll_back_at_exit():
        space.take_lowest(3)
    assert space.take_lowest(1) == (make_range(0, 0),)
