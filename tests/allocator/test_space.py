"""What the allocator does, one rule at a time."""

import pytest

from allocator import (
    AddressRange,
    AllocatorError,
    Capacity,
    InvalidRequest,
    Layout,
    NotHeld,
    OutOfRange,
    PinnedRangeConflict,
    PoolExhausted,
    RequestRefused,
    Space,
)


def span(start: str | int, end: str | int) -> AddressRange:
    """Return a range; ints are the last part of 10.0.0.x."""
    first = f"10.0.0.{start}" if isinstance(start, int) else start
    last = f"10.0.0.{end}" if isinstance(end, int) else end
    return AddressRange.parse(first, last)


def pool(*ranges: tuple[int, int], reserved: tuple[str, ...] = ()) -> Layout:
    return Layout.parse(
        "10.0.0.0/24", reserved, [(f"10.0.0.{a}", f"10.0.0.{b}") for a, b in ranges]
    )


def free(space: Space) -> list[tuple[int, int]]:
    return [(extent.first & 255, extent.last & 255) for extent in space.free_extents()]


def test_the_smallest_block_that_fits_is_taken_from_its_start() -> None:
    space = Space(pool(), [span(0, 9), span(20, 29), span(35, 39), span(48, 199)])
    assert free(space) == [(10, 19), (30, 34), (40, 47), (200, 255)]
    assert space.allocate(6) == span(40, 45)
    assert space.allocate(5) == span(30, 34)
    assert space.allocate(11) == span(200, 210)
    assert free(space) == [(10, 19), (46, 47), (211, 255)]


def test_of_equal_blocks_the_lowest_address_wins() -> None:
    space = Space(pool(), [span(5, 9), span(15, 19), span(25, 255)])
    assert free(space) == [(0, 4), (10, 14), (20, 24)]
    assert [space.allocate(3) for _ in range(3)] == [span(0, 2), span(10, 12), span(20, 22)]
    assert [space.allocate(2) for _ in range(3)] == [span(3, 4), span(13, 14), span(23, 24)]


def test_ranges_that_touch_serve_one_request_together_and_a_gap_does_not() -> None:
    assert Space(pool((0, 3), (4, 7))).allocate(8) == span(0, 7)
    with pytest.raises(PoolExhausted):
        Space(pool((0, 3), (5, 8))).allocate(5)


def test_reserved_addresses_are_never_handed_out() -> None:
    space = Space(pool((0, 31), reserved=("10.0.0.8/29",)))
    assert space.allocate(9) == span(16, 24)
    assert space.allocate(8) == span(0, 7)
    with pytest.raises(PoolExhausted):
        space.allocate(8)


@pytest.mark.parametrize("count", [0, -1])
def test_a_count_has_to_be_positive(count: int) -> None:
    space = Space(pool())
    assert not space.fits(count)
    with pytest.raises(InvalidRequest, match=r"^requested count must be positive$"):
        space.allocate(count)


def test_an_exhausted_pool_says_so_and_is_left_as_it_was() -> None:
    space = Space(pool((0, 9)), [span(4, 4)])
    assert space.fits(5)
    assert not space.fits(6)
    with pytest.raises(PoolExhausted) as caught:
        space.allocate(6)
    assert str(caught.value) == "pool exhausted: no contiguous block available"
    assert caught.value.requested == 6
    assert isinstance(caught.value, RequestRefused)
    assert free(space) == [(0, 3), (5, 9)]


def test_a_request_that_never_fits_says_so_and_what_would_fit() -> None:
    with pytest.raises(PoolExhausted) as caught:
        Space(pool((0, 9)), [span(4, 4)]).allocate(11)
    assert str(caught.value) == (
        "pool exhausted: no contiguous block available:"
        " it never has 11 addresses in a row, 10 at the most"
    )


def test_a_block_is_one_cidr_out_of_the_shortest_run_that_holds_one() -> None:
    space = Space(pool((1, 20), (64, 73), (100, 127)))
    assert space.allocate_block(29) == span(64, 71)  # not 8-15: that run is longer
    assert space.allocate_block(29) == span(8, 15)
    assert space.allocate_block(32) == span(72, 72)
    assert free(space) == [(1, 7), (16, 20), (73, 73), (100, 127)]
    with pytest.raises(PoolExhausted, match="it never has 32 addresses in a row as one CIDR, 16"):
        space.allocate_block(27)


def test_subnets_of_a_large_pool_are_handed_out_without_gaps() -> None:
    space = Space(Layout.parse("fd00::/48"))
    blocks = [space.allocate_block(64).text for _ in range(3)]
    assert blocks == ["fd00::/64", "fd00:0:0:1::/64", "fd00:0:0:2::/64"]
    assert space.allocate(8).text == "fd00:0:0:3::/125"
    assert space.allocate_block(64).text == "fd00:0:0:4::/64"
    assert space.allocate_block(80).text == "fd00:0:0:3:1::/80"


def test_a_pinned_range_splits_the_block_that_it_lies_in() -> None:
    space = Space(pool((0, 31)))
    assert space.pin(span(8, 15)) == span(8, 15)
    assert free(space) == [(0, 7), (16, 31)]
    space.pin(span(0, 3))
    space.pin(span(28, 31))
    space.pin(span(4, 7))
    assert free(space) == [(16, 27)]


@pytest.mark.parametrize(
    ("address_range", "culprit"),
    [
        (span(0, 31), "10.0.0.8"),  # reserved 8-15
        (span(15, 16), "10.0.0.15"),
        (span(16, 31), "10.0.0.20"),  # held 20-21
        (span(21, 22), "10.0.0.21"),
        (span(20, 21), "10.0.0.20"),
        (span(0, 9), "10.0.0.8"),
    ],
)
def test_a_pinned_range_that_is_not_free_names_its_first_obstacle(
    address_range: AddressRange, culprit: str
) -> None:
    space = Space(pool((0, 31), reserved=("10.0.0.8/29",)), [span(20, 21)])
    with pytest.raises(PinnedRangeConflict) as caught:
        space.pin(address_range)
    assert caught.value.address == culprit
    assert str(caught.value) == (
        f"pinned range conflicts at IP {culprit} (reserved or already allocated)"
    )
    assert free(space) == [(0, 7), (16, 19), (22, 31)]


TWO_RANGES = "[ranges[0] 10.0.0.16-10.0.0.31, ranges[1] 10.0.0.64-10.0.0.95]"


@pytest.mark.parametrize(
    ("address_range", "detail"),
    [
        (span(0, 3), f"10.0.0.0-10.0.0.3 is outside allocatable ranges {TWO_RANGES}"),
        (span(15, 20), f"10.0.0.15-10.0.0.20 is outside allocatable ranges {TWO_RANGES}"),
        (span(90, 96), f"10.0.0.90-10.0.0.96 is outside allocatable ranges {TWO_RANGES}"),
        (span(40, 50), f"10.0.0.40-10.0.0.50 is outside allocatable ranges {TWO_RANGES}"),
        (
            span("9.255.255.255", "10.1.0.0"),
            (
                "9.255.255.255-10.1.0.0 straddles allocatable ranges; must fit entirely within "
                "one range. Overlapping ranges: "
                "ranges[0] 10.0.0.16-10.0.0.31, ranges[1] 10.0.0.64-10.0.0.95"
            ),
        ),
        (
            span(31, 64),
            (
                "10.0.0.31-10.0.0.64 straddles allocatable ranges; must fit entirely within one "
                "range. Overlapping ranges: "
                "ranges[0] 10.0.0.16-10.0.0.31, ranges[1] 10.0.0.64-10.0.0.95"
            ),
        ),
        (
            span("fd00::1", "fd00::2"),
            "fd00::1-fd00::2 is IPv6, the pool is IPv4",
        ),
    ],
)
def test_a_pinned_range_outside_says_what_there_is(
    address_range: AddressRange, detail: str
) -> None:
    with pytest.raises(OutOfRange) as caught:
        Space(pool((16, 31), (64, 95))).pin(address_range)
    assert str(caught.value) == f"range falls outside pool boundaries: pinned range {detail}"


def test_a_straddling_pin_names_only_the_ranges_that_it_touches() -> None:
    with pytest.raises(OutOfRange) as caught:
        Space(pool((0, 3), (4, 7), (8, 11))).pin(span(7, 8))
    assert str(caught.value).endswith(
        "Overlapping ranges: ranges[1] 10.0.0.4-10.0.0.7, ranges[2] 10.0.0.8-10.0.0.11"
    )


def test_a_released_range_can_be_allocated_again() -> None:
    space = Space(pool((0, 7)))
    first, second = space.allocate(4), space.allocate(4)
    space.release(first)
    assert free(space) == [(0, 3)]
    space.release(second)
    assert free(space) == [(0, 7)]
    assert space.allocate(8) == span(0, 7)


@pytest.mark.parametrize("other", [span(0, 2), span(1, 4), span(0, 7), span(4, 7)])
def test_only_a_range_that_is_held_can_be_released(other: AddressRange) -> None:
    space = Space(pool((0, 7)), [span(0, 3)])
    with pytest.raises(NotHeld, match="is not held: release a range exactly as it was taken"):
        space.release(other)
    space.release(span(0, 3))
    with pytest.raises(NotHeld) as caught:
        space.release(span(0, 3))
    assert str(caught.value).startswith("10.0.0.0-10.0.0.3 is not held")
    assert isinstance(caught.value, AllocatorError)
    assert not isinstance(caught.value, RequestRefused)
    assert free(space) == [(0, 7)]


def test_of_overlapping_ranges_each_release_frees_only_what_no_other_holds() -> None:
    space = Space(pool((0, 19)), [span(0, 9), span(5, 14), span(7, 8), span(0, 9)])
    assert (space.used, free(space)) == (15, [(15, 19)])
    space.release(span(0, 9))
    assert free(space) == [(15, 19)]
    space.release(span(5, 14))
    assert free(space) == [(10, 19)]
    space.release(span(0, 9))
    assert free(space) == [(0, 6), (9, 19)]
    assert space.allocate(3) == span(0, 2)
    space.release(span(7, 8))
    assert free(space) == [(3, 19)]


def test_a_single_shared_address_stays_held_until_both_are_released() -> None:
    held_ranges = [span(0, 5), span(5, 9), span(10, 12)]
    for first, second in (held_ranges[:2], held_ranges[1::-1]):
        space = Space(pool((0, 19)), held_ranges)
        space.release(first)
        assert space.used == second.size + 3
        space.release(second)
        assert free(space) == [(0, 9), (13, 19)]


def test_space_that_overlapping_ranges_left_can_be_held_and_released_like_any_other() -> None:
    space = Space(pool((0, 19)), [span(0, 9), span(5, 14)])
    space.release(span(0, 9))
    space.release(span(5, 14))
    again = space.pin(span(0, 9))
    over = space.pin(span(10, 16))
    space.release(again)
    assert free(space) == [(0, 9), (17, 19)]
    space.release(over)
    assert free(space) == [(0, 19)]


def test_a_release_gives_back_no_reserved_address_and_no_gap() -> None:
    space = Space(pool((0, 31), (64, 95), reserved=("10.0.0.8/29",)), [span(0, 70)])
    assert free(space) == [(71, 95)]
    space.release(span(0, 70))
    assert free(space) == [(0, 7), (16, 31), (64, 95)]


def test_ranges_held_outside_the_pool_do_not_matter_but_can_be_released() -> None:
    strangers = [
        span("9.0.0.0", "11.0.0.0"),
        span("9.0.0.0", "9.0.0.1"),
        span("fd00::", "fd00::9"),
    ]
    space = Space(pool((0, 3)), strangers)
    assert space.compute_capacity() == Capacity(
        4, 4, available=0, largest_free=0, fragmentation_percent=0
    )
    for stranger in strangers:
        space.release(stranger)
    assert space.compute_capacity() == Capacity(
        4, 0, available=4, largest_free=4, fragmentation_percent=0
    )


def test_a_held_range_of_ipv4_addresses_written_as_ipv6_counts() -> None:
    held_range = AddressRange.parse("::ffff:10.0.0.0", "::ffff:10.0.0.3")
    space = Space(pool((0, 7)), [held_range])
    assert free(space) == [(4, 7)]
    space.release(held_range)
    assert free(space) == [(0, 7)]


@pytest.mark.parametrize(
    ("address_ranges", "capacity"),
    [
        (
            [],
            Capacity(48, 0, available=48, largest_free=32, fragmentation_percent=34),
        ),  # 100 - 3200 // 48
        ([span(0, 255)], Capacity(48, 48, available=0, largest_free=0, fragmentation_percent=0)),
        (
            [span(0, 31)],
            Capacity(48, 16, available=32, largest_free=32, fragmentation_percent=0),
        ),  # one block left
        ([span(64, 95)], Capacity(48, 32, available=16, largest_free=16, fragmentation_percent=0)),
        (
            [span(40, 60)],
            Capacity(48, 0, available=48, largest_free=32, fragmentation_percent=34),
        ),  # in a gap only
        (
            [span(0, 15)],
            Capacity(48, 0, available=48, largest_free=32, fragmentation_percent=34),
        ),  # in reserved space only
        (
            [span(8, 17)],
            Capacity(48, 2, available=46, largest_free=32, fragmentation_percent=31),
        ),  # partly reserved
        (
            [span(16, 17), span(17, 18)],
            Capacity(48, 3, available=45, largest_free=32, fragmentation_percent=29),
        ),  # 17 counts once
        (
            [span(64, 64), span(70, 70)],
            Capacity(48, 2, available=46, largest_free=25, fragmentation_percent=46),
        ),  # 100 - 2500 // 46
    ],
)
def test_capacity_counts_what_lies_in_ranges_and_is_not_reserved(
    address_ranges: list[AddressRange], capacity: Capacity
) -> None:
    layout = pool((0, 31), (64, 95), reserved=("10.0.0.0/28",))
    assert Space(layout, address_ranges).compute_capacity() == capacity


def test_fragmentation_nears_a_hundred_when_all_blocks_are_small() -> None:
    every_second = [span(at, at) for at in range(0, 256, 2)]
    assert Space(pool(), every_second).compute_capacity() == Capacity(
        256, 128, available=128, largest_free=1, fragmentation_percent=100
    )


def test_the_documented_example_pool_counts_right() -> None:
    layout = Layout.parse(
        "10.40.0.0/21", ["10.40.0.0/28", "10.40.0.16/28"], [("10.40.1.0", "10.40.7.254")]
    )
    space = Space(layout)
    assert space.total == 1791
    assert space.allocate(8).text == "10.40.1.0/29"
    assert space.allocate(5).text == "10.40.1.8-10.40.1.12"


def test_ranges_that_others_make_later_are_accepted_as_they_are() -> None:
    layout = pool((0, 19), (30, 39))
    later = [span(0, 9), span(5, 14), span(5, 14), span(18, 33), span("fd00::", "fd00::9")]
    space = Space(layout)
    for held_range in later:
        space.hold(held_range)
    assert space.copy_state() == Space(layout, later).copy_state()
    assert free(space) == [(15, 17), (34, 39)]
    for held_range in later:
        space.release(held_range)
    assert space.copy_state() == Space(layout).copy_state()


def test_the_state_of_a_space_is_its_layout_and_its_held_ranges_with_their_counts() -> None:
    space = Space(pool((0, 19)), [span(0, 9), span(10, 19)])
    assert space.copy_state() != Space(pool((0, 29)), [span(0, 9), span(10, 19)]).copy_state()
    assert space.copy_state() != Space(pool((0, 19)), [span(0, 19)]).copy_state()
    assert (
        space.copy_state()
        != Space(pool((0, 19)), [span(0, 9), span(10, 19), span(0, 9)]).copy_state()
    )
    assert space.copy_state() == Space(pool((0, 19)), [span(10, 19), span(0, 9)]).copy_state()


def test_the_end_of_a_trial_restores_the_space() -> None:
    space = Space(pool((0, 19)), [span(0, 4)])
    with space.roll_back_at_exit():
        space.hold(span(3, 6))
        assert space.allocate(10) == span(7, 16)
        with pytest.raises(PoolExhausted):
            space.allocate(4)
    assert space.copy_state() == Space(pool((0, 19)), [span(0, 4)]).copy_state()


def test_taking_the_last_range_is_undone_in_a_trial_and_outside() -> None:
    space = Space(pool((0, 19)), [span(0, 4)])
    before = space.copy_state()
    space.undo_take(space.allocate(6))
    assert space.copy_state() == before
    with space.roll_back_at_exit():
        kept = space.allocate(6)
        space.undo_take(space.allocate(6))
        assert free(space) == [(11, 19)]
        assert kept == span(5, 10)
    assert space.copy_state() == before


def test_a_holder_that_is_left_out_may_take_of_its_own_range_and_keeps_it() -> None:
    space = Space(pool((0, 19)), [span(0, 9), span(8, 12)])
    with space.roll_back_at_exit():
        with space.release_temporarily([span(0, 9)]):
            assert free(space) == [(0, 7), (13, 19)]
            (taken_range,) = space.take_lowest(4)
        assert taken_range == span(0, 3)
        ranges = [span(0, 9), span(8, 12), span(0, 3)]
        assert space.copy_state() == Space(pool((0, 19)), ranges).copy_state()
    assert space.copy_state() == Space(pool((0, 19)), [span(0, 9), span(8, 12)]).copy_state()


def test_a_holder_that_is_left_out_is_there_again_after_a_failure() -> None:
    space = Space(pool((0, 19)), [span(0, 9), span(0, 9)])
    before = space.copy_state()
    with pytest.raises(RequestRefused), space.release_temporarily([span(0, 9), span(0, 9)]):
        space.allocate(21)
    assert space.copy_state() == before


def test_only_a_range_that_is_held_can_be_left_out() -> None:
    space = Space(pool((0, 19)), [span(0, 9)])
    before = space.copy_state()
    with pytest.raises(NotHeld), space.release_temporarily([span(0, 9), span(0, 8)]):
        pass
    assert space.copy_state() == before
