"""What a pool's specification means."""

import pytest

from allocator import (
    MAX_ADDRESSES,
    AddressRange,
    InvalidPool,
    InvalidRequest,
    Layout,
    PoolTooLarge,
    Space,
)


def texts(layout: Layout) -> list[str]:
    return [f"{block.start_text}-{block.end_text}" for block in layout.blocks]


def test_without_ranges_the_whole_cidr_is_handed_out_network_and_broadcast_included() -> None:
    layout = Layout.parse("10.50.0.0/24")
    assert texts(layout) == ["10.50.0.0-10.50.0.255"]
    assert layout.total == 256
    assert Space(layout).allocate(1).start_text == "10.50.0.0"


def test_host_bits_of_the_cidr_are_masked() -> None:
    assert Layout.parse("10.50.0.77/24") == Layout.parse("10.50.0.0/24")


@pytest.mark.parametrize(
    ("reserved", "ranges", "blocks"),
    [
        ([], [("10.0.0.16", "10.0.0.239")], ["10.0.0.16-10.0.0.239"]),
        (
            ["10.0.0.0/28", "10.0.0.240/28"],
            [],
            ["10.0.0.16-10.0.0.239"],
        ),
        (
            ["10.0.0.32/28"],
            [("10.0.0.16", "10.0.0.239")],
            ["10.0.0.16-10.0.0.31", "10.0.0.48-10.0.0.239"],
        ),
        (  # reserved CIDRs that overlap and touch, in any order
            ["10.0.0.48/28", "10.0.0.32/28", "10.0.0.32/30"],
            [],
            ["10.0.0.0-10.0.0.31", "10.0.0.64-10.0.0.255"],
        ),
        (  # ranges that touch are one block, a gap splits
            [],
            [("10.0.0.0", "10.0.0.9"), ("10.0.0.10", "10.0.0.19"), ("10.0.0.21", "10.0.0.29")],
            ["10.0.0.0-10.0.0.19", "10.0.0.21-10.0.0.29"],
        ),
        (["10.0.0.0/26"], [("10.0.0.1", "10.0.0.9")], []),
    ],
)
def test_blocks_are_the_ranges_without_what_is_reserved(
    reserved: list[str], ranges: list[tuple[str, str]], blocks: list[str]
) -> None:
    layout = Layout.parse("10.0.0.0/24", reserved, ranges)
    assert texts(layout) == blocks
    assert layout.total == sum(block.size for block in layout.blocks)


@pytest.mark.parametrize(
    ("expected", "parts"),
    [
        ((0, 255), [(16, 31), (48, 63), (200, 200)]),
        ((0, 15), []),
        ((0, 16), [(16, 16)]),
        ((16, 31), [(16, 31)]),
        ((20, 21), [(20, 21)]),
        ((31, 48), [(31, 31), (48, 48)]),
        ((32, 47), []),
        ((63, 199), [(63, 63)]),
        ((64, 200), [(200, 200)]),
        ((201, 255), []),
    ],
)
def test_a_span_is_clipped_to_the_blocks(
    expected: tuple[int, int], parts: list[tuple[int, int]]
) -> None:
    ranges = [("0.0.0.16", "0.0.0.31"), ("0.0.0.48", "0.0.0.63"), ("0.0.0.200", "0.0.0.200")]
    assert Layout.parse("0.0.0.0/24", [], ranges).clip(expected) == parts


def test_a_pool_that_reserves_everything_is_sound_and_hands_out_nothing() -> None:
    layout = Layout.parse("10.0.0.0/24", ["10.0.0.0/24"])
    assert layout.total == 0
    assert not layout.can_ever_fit(1)
    assert not layout.can_ever_pin(AddressRange.parse("10.0.0.1", "10.0.0.1"))


def test_ipv4_addresses_written_as_ipv6_mean_the_same_in_an_ipv4_pool() -> None:
    layout = Layout.parse(
        "10.0.0.0/24", ["::ffff:10.0.0.16/124"], [("::ffff:10.0.0.16", "10.0.0.239")]
    )
    assert layout == Layout.parse("10.0.0.0/24", ["10.0.0.16/28"], [("10.0.0.16", "10.0.0.239")])


def test_every_fault_is_carried_by_the_error() -> None:
    with pytest.raises(InvalidPool) as caught:
        Layout.parse("10.0.0.0/24", ["10.1.0.0/28"], [("10.0.0.9", "10.0.0.1")])
    assert caught.value.messages == (
        'reserved CIDR "10.1.0.0/28" is not within pool CIDR "10.0.0.0/24"',
        "ranges[0] start 10.0.0.9 is after end 10.0.0.1",
    )
    assert str(caught.value) == "; ".join(caught.value.messages)


def test_a_pool_may_span_a_slash_twelve_and_no_more() -> None:
    assert MAX_ADDRESSES == 1 << 20
    assert Layout.parse("10.0.0.0/12").total == 1 << 20
    with pytest.raises(PoolTooLarge) as caught:
        Layout.parse("10.0.0.0/11")
    assert str(caught.value) == "pool too large: 2097152 IPs (max 1048576)"
    assert isinstance(caught.value, InvalidPool)


def test_the_limit_counts_gaps_but_not_what_lies_outside_all_ranges() -> None:
    assert Layout.parse("10.0.0.0/8", [], [("10.0.0.0", "10.0.0.9")]).total == 10
    with pytest.raises(PoolTooLarge, match=r"pool too large: 1048577 IPs \(max 1048576\)"):
        Layout.parse("10.0.0.0/8", [], [("10.0.0.1", "10.0.0.9"), ("10.16.0.0", "10.16.0.1")])


def test_the_limit_is_a_setting() -> None:
    assert Layout.parse("10.0.0.0/8", max_addresses=None).total == 1 << 24
    assert Layout.parse("10.0.0.0/8", max_addresses=1 << 24).total == 1 << 24
    with pytest.raises(PoolTooLarge, match=r"pool too large: 256 IPs \(max 255\)"):
        Layout.parse("10.0.0.0/24", max_addresses=255)


def test_the_limit_is_one_of_ipv4() -> None:
    assert Layout.parse("fd00::/8").total == 1 << 120
    assert Layout.parse("fd00::/64", max_addresses=1).total == 1 << 64


@pytest.mark.parametrize(
    ("cidr", "reserved", "ranges"),
    [
        ("10.0.0.0/24", ["fd00::/120"], ["10.0.0.0/24"]),
        ("10.0.0.0/24", [], ["fd00::/120"]),
        ("10.0.0.0/24", [], ["10.0.0.0/23"]),
        ("10.0.0.0/24", [], ["10.0.0.8/29", "10.0.0.0/29"]),
        ("10.0.0.0/24", [], ["10.0.0.0/29", "10.0.0.0/28"]),
        ("10.0.0.0/24", [], ["10.0.0.0/32", "10.0.0.0/28"]),
    ],
)
def test_a_layout_that_contradicts_itself_cannot_be_made(
    cidr: str, reserved: list[str], ranges: list[str]
) -> None:
    with pytest.raises(InvalidPool, match="ranges must lie in the pool CIDR"):
        Layout(
            AddressRange.parse_cidr(cidr),
            tuple(map(AddressRange.parse_cidr, reserved)),
            tuple(map(AddressRange.parse_cidr, ranges)),
        )


def test_a_layout_needs_a_range() -> None:
    with pytest.raises(InvalidPool, match="no allocatable ranges defined"):
        Layout(AddressRange.parse_cidr("10.0.0.0/24"), (), ())


@pytest.mark.parametrize(
    ("cidr", "spans", "largest"),
    [
        ("fd00::/64", [], 1 << 64),
        ("fd00::/64", [("fd00::1", "fd00::ffff:ffff:ffff:ffff")], 1 << 63),
        ("fd00::/64", [("fd00::6", "fd00::9")], 2),
        ("fd00::/64", [("fd00::7", "fd00::7")], 1),
        ("10.0.0.0/24", [("10.0.0.1", "10.0.0.15"), ("10.0.0.32", "10.0.0.47")], 16),
        ("10.0.0.0/24", [("10.0.0.1", "10.0.0.15"), ("10.0.0.33", "10.0.0.47")], 8),
    ],
)
def test_the_largest_block_that_is_one_cidr_is_known(
    cidr: str, spans: list[tuple[str, str]], largest: int
) -> None:
    assert Layout.parse(cidr, ranges=spans).largest_aligned == largest


def test_a_prefix_length_is_one_of_the_pools_family() -> None:
    four, six = Layout.parse("10.0.0.0/24"), Layout.parse("fd00::/48")
    assert (four.block_size(28), six.block_size(64), six.block_size(128)) == (16, 1 << 64, 1)
    for layout, length in ((four, 33), (six, 129), (six, -1)):
        with pytest.raises(InvalidRequest, match=f"prefix length {length} is none of IPv"):
            layout.block_size(length)


def test_what_the_empty_pool_could_ever_serve_is_known_without_its_allocations() -> None:
    layout = Layout.parse(
        "10.0.0.0/24",
        ["10.0.0.8/29"],
        [("10.0.0.0", "10.0.0.31"), ("10.0.0.32", "10.0.0.35"), ("10.0.0.99", "10.0.0.99")],
    )
    space = Space(layout, [AddressRange.parse_cidr("10.0.0.0/24")])
    assert [count for count in range(-1, 40) if space.can_ever_fit(count)] == list(range(1, 21))
    pins = {
        ("10.0.0.0", "10.0.0.7"): True,
        ("10.0.0.0", "10.0.0.8"): False,  # reserved
        ("10.0.0.15", "10.0.0.16"): False,  # reserved
        ("10.0.0.16", "10.0.0.31"): True,
        ("10.0.0.31", "10.0.0.32"): False,  # two ranges, though they touch
        ("10.0.0.99", "10.0.0.99"): True,
        ("10.0.0.98", "10.0.0.99"): False,
        ("10.0.0.200", "10.0.0.201"): False,
        ("fd00::1", "fd00::1"): False,
        ("::ffff:10.0.0.16", "::ffff:10.0.0.17"): True,
    }
    assert {ends: space.can_ever_pin(AddressRange.parse(*ends)) for ends in pins} == pins


@pytest.mark.parametrize(("cidr", "bits"), [("fd00::/64", 64), ("::/0", 128), ("0.0.0.0/0", 32)])
def test_pools_can_be_as_large_as_the_address_space(cidr: str, bits: int) -> None:
    space = Space(Layout.parse(cidr, max_addresses=None))
    assert space.total == space.free == space.largest_free == 1 << bits
    first = space.allocate(1)
    rest = space.allocate((1 << bits) - 1)
    assert first.overlaps(rest) is False
    assert (space.free, space.largest_free, space.fragmentation_percent) == (0, 0, 0)
    assert not space.fits(1)
    space.release(first)
    space.release(rest)
    assert [free.text for free in space.free_extents()] == [cidr]
