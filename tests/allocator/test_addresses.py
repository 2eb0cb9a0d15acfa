"""How addresses and ranges are read and written."""

import dataclasses
import ipaddress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator import (
    LISTED_ADDRESSES,
    AddressRange,
    InvalidCIDR,
    InvalidRange,
    MalformedText,
    format_cidr,
    read_range,
)
from allocator.addresses import Span, subtract_spans, union


@given(
    st.sampled_from([ipaddress.IPv4Address, ipaddress.IPv6Address]),
    st.lists(st.integers(0, 2**128 - 1) | st.integers(0, 300), min_size=2, max_size=2).map(sorted),
)
def test_a_range_is_made_up_of_cidrs(
    kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address], ends: list[int]
) -> None:
    bits = 32 if kind is ipaddress.IPv4Address else 128
    first, last = sorted(kind(end % (1 << bits)) for end in ends)
    expected = [str(network) for network in ipaddress.summarize_address_range(first, last)]
    parts = AddressRange.parse(str(first), str(last)).split_into_cidrs()
    assert [str(ipaddress.ip_network(part.text)) for part in parts] == expected


@pytest.mark.parametrize(
    ("start", "end", "content"),
    [
        ("10.40.1.0", "10.40.1.7", "10.40.1.0/29"),
        ("10.40.1.3", "10.40.1.10", "10.40.1.3-10.40.1.10"),  # eight, but not aligned
        ("10.40.1.4", "10.40.1.11", "10.40.1.4-10.40.1.11"),  # aligned to four only
        ("10.40.0.64", "10.40.0.68", "10.40.0.64-10.40.0.68"),  # five
        ("10.40.1.0", "10.40.1.6", "10.40.1.0-10.40.1.6"),  # seven
        ("10.40.2.9", "10.40.2.9", "10.40.2.9/32"),
        ("10.40.2.8", "10.40.2.9", "10.40.2.8/31"),
        ("10.40.2.9", "10.40.2.10", "10.40.2.9-10.40.2.10"),
        ("10.40.0.0", "10.40.255.255", "10.40.0.0/16"),
        ("0.0.0.0", "255.255.255.255", "0.0.0.0/0"),
        ("128.0.0.0", "255.255.255.255", "128.0.0.0/1"),
        ("fd00::", "fd00::ffff:ffff:ffff:ffff", "fd00::/64"),
        ("fd00::1", "fd00::1", "fd00::1/128"),
        ("fd00::1", "fd00::2", "fd00::1-fd00::2"),
        ("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::/0"),
        ("10.40.1.7", "10.40.1.0", "10.40.1.7-10.40.1.0"),  # reversed: as it stands
        ("nonsense", "10.40.1.7", "nonsense-10.40.1.7"),
        ("10.40.1.0", "", "10.40.1.0-"),
        ("10.40.1.0", "fd00::7", "10.40.1.0-fd00::7"),
    ],
)
def test_a_range_is_written_as_a_cidr_only_where_it_is_exactly_one(
    start: str, end: str, content: str
) -> None:
    assert format_cidr(start, end) == content
    parsed = read_range(start, end)
    if isinstance(parsed, AddressRange):
        assert parsed.text == content


@given(family=st.sampled_from([4, 6]), data=st.data())
def test_the_text_of_any_range_reads_back_as_the_same_range(
    family: int, data: st.DataObject
) -> None:
    top = (1 << (32 if family == 4 else 128)) - 1
    first = data.draw(st.integers(0, top))
    last = data.draw(st.integers(first, min(first + 300, top)) | st.integers(first, top))
    span = AddressRange(first, last, 4 if family == 4 else 6)
    assert AddressRange.parse(span.start_text, span.end_text) == span
    assert format_cidr(span.start_text, span.end_text) == span.text
    if "/" in span.text:
        assert AddressRange.parse_cidr(span.text) == span
        network = ipaddress.ip_network(span.text)
        assert int(network.network_address) == first
        assert int(network.broadcast_address) == last


@given(value=st.integers(0, (1 << 128) - 1) | st.integers(0, 1 << 33))
def test_ipv6_addresses_are_written_as_rfc_5952_says(value: int) -> None:
    span = AddressRange(value, value, 6)
    if value >> 32 != 0xFFFF:  # IPv4-mapped ones read better with a dotted tail
        assert span.start_text == str(ipaddress.IPv6Address(value))
    assert int(ipaddress.IPv6Address(span.start_text)) == value


@pytest.mark.parametrize(
    ("content", "start", "end"),
    [
        ("10.40.0.0/22", "10.40.0.0", "10.40.3.255"),
        ("10.40.3.7/22", "10.40.0.0", "10.40.3.255"),  # host bits are masked
        ("10.40.3.7/32", "10.40.3.7", "10.40.3.7"),
        ("10.40.3.7/31", "10.40.3.6", "10.40.3.7"),
        ("10.40.3.7/0", "0.0.0.0", "255.255.255.255"),
        ("10.0.0.0/08", "10.0.0.0", "10.255.255.255"),
        ("fd00::5/64", "fd00::", "fd00::ffff:ffff:ffff:ffff"),
        ("fd00::5/128", "fd00::5", "fd00::5"),
    ],
)
def test_a_cidr_is_read_with_its_host_bits_masked(content: str, start: str, end: str) -> None:
    assert AddressRange.parse_cidr(content) == AddressRange.parse(start, end)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("10.40.0.0", '"10.40.0.0" is not ADDRESS/PREFIX, as in 10.40.0.0/24'),
        ("", '"" is not ADDRESS/PREFIX, as in 10.40.0.0/24'),
        ("10.40.0/24", '"10.40.0/24" is not ADDRESS/PREFIX, as in 10.40.0.0/24'),
        ("010.40.0.0/24", '"010.40.0.0/24" is not ADDRESS/PREFIX, as in 10.40.0.0/24'),
        ("nonsense/24", '"nonsense/24" is not ADDRESS/PREFIX, as in 10.40.0.0/24'),
        ("10.40.0.0/33", '"10.40.0.0/33" needs a prefix length from 0 to 32'),
        ("10.40.0.0/", '"10.40.0.0/" needs a prefix length from 0 to 32'),
        ("10.40.0.0/-1", '"10.40.0.0/-1" needs a prefix length from 0 to 32'),
        ("10.40.0.0/+8", '"10.40.0.0/+8" needs a prefix length from 0 to 32'),
        ("10.40.0.0/²", '"10.40.0.0/²" needs a prefix length from 0 to 32'),
        ("10.40.0.0/24/8", '"10.40.0.0/24/8" needs a prefix length from 0 to 32'),
        ("10.40.0.0/255.0.0.0", '"10.40.0.0/255.0.0.0" needs a prefix length from 0 to 32'),
        ("10.40.0.0/" + "9" * 5000, "needs a prefix length from 0 to 32"),
        ("fd00::/129", '"fd00::/129" needs a prefix length from 0 to 128'),
    ],
)
def test_an_invalid_cidr_is_rejected_with_a_message(content: str, message: str) -> None:
    with pytest.raises(InvalidCIDR) as caught:
        AddressRange.parse_cidr(content)
    assert str(caught.value).startswith("invalid CIDR notation: ")
    assert str(caught.value).endswith(message)
    assert isinstance(caught.value, MalformedText)


@pytest.mark.parametrize(
    "content",
    [
        "", " 10.0.0.1", "10.0.0.1 ", "10.0.0.01", "10.0.0", "10.0.0.256", "10.0.0.1.2",
        "0x0a.0.0.1", "10.0.0.-1", "1\u0660.0.0.1", "10.0.0.1\0", "\ud800", "10.0.0.1/32",
        "fd00::1%eth0", "fd00:::1", "fd00::12345", "1:2:3:4:5:6:7:8:9", "::10.0.0.01",
    ],
)  # fmt: skip
def test_only_canonical_dotted_quads_and_ipv6_texts_are_addresses(content: str) -> None:
    with pytest.raises(InvalidRange, match=r"invalid IP range: .* is not an IP address"):
        AddressRange.parse(content, "10.0.0.9")
    with pytest.raises(InvalidRange, match="is not an IP address"):
        AddressRange.parse("10.0.0.1", content)
    assert isinstance(read_range(content, content), str)


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (
            "10.0.0.9",
            "10.0.0.1",
            "invalid IP range: start is after end: start 10.0.0.9, end 10.0.0.1",
        ),
        (
            "10.0.0.1",
            "fd00::1",
            "invalid IP range: 10.0.0.1 is IPv4, fd00::1 is IPv6: use one family",
        ),
        ("10.0.0.x", "10.0.0.1", 'invalid IP range: "10.0.0.x" is not an IP address'),
        ("10.0.0.1", "x" * 64, f'invalid IP range: "{"x" * 64}" is not an IP address'),
        ("10.0.0.1", "x" * 65, f'invalid IP range: "{"x" * 64}..." is not an IP address'),
        ("10.0.0.1", 'a"b\n', 'invalid IP range: "a\\"b\\n" is not an IP address'),
    ],
)
def test_an_invalid_range_is_rejected_with_a_message(start: str, end: str, message: str) -> None:
    assert read_range(start, end) == message
    with pytest.raises(InvalidRange) as caught:
        AddressRange.parse(start, end)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("first", "last", "family", "message"),
    [
        (5, 4, 4, "start is after end: start 5, end 4"),
        (-1, 4, 4, "-1 to 4 are not IPv4 addresses"),
        (-1, -1, 4, "-1 to -1 are not IPv4 addresses"),
        (0, 1 << 32, 4, "0 to 4294967296 are not IPv4 addresses"),
        (0, 1 << 128, 6, f"0 to {1 << 128} are not IPv6 addresses"),
        (0, 4, 5, "family must be 4 or 6, not 5"),
    ],
)
def test_integers_that_are_no_range_are_rejected(
    first: int, last: int, family: int, message: str
) -> None:
    with pytest.raises(InvalidRange) as caught:
        AddressRange(first, last, family)  # type: ignore[arg-type]
    assert str(caught.value) == f"invalid IP range: {message}"


def test_a_range_is_immutable_and_equals_a_range_with_the_same_ends_and_family() -> None:
    span = AddressRange.parse("10.0.0.1", "10.0.0.4")
    with pytest.raises(dataclasses.FrozenInstanceError):
        span.first = 3  # type: ignore[misc]
    assert {span, AddressRange.parse("10.0.0.1", "10.0.0.4")} == {span}
    assert span != AddressRange(span.first, span.last, 6)
    assert (span.size, span.start_text, span.end_text) == (4, "10.0.0.1", "10.0.0.4")


def test_a_range_contains_its_own_addresses_and_no_others() -> None:
    span = AddressRange.parse("10.0.0.2", "10.0.0.5")
    around = AddressRange.parse("10.0.0.0", "10.0.0.7").list_addresses()
    assert [address for address in around if span.contains(address)] == span.list_addresses()
    assert span.contains(span.first)
    assert span.contains(span.last)
    assert not span.contains(span.first - 1)
    assert not span.contains(span.last + 1)
    assert not span.contains("::a00:2")
    assert not span.contains(AddressRange(span.first, span.last, 6))
    assert span.contains(span)
    assert not span.contains(AddressRange(span.first, span.last + 1, 4))
    assert not span.contains(AddressRange(span.first - 1, span.last, 4))
    with pytest.raises(InvalidRange):
        span.contains("nonsense")


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (AddressRange(1, 9, 4), False),
        (AddressRange(1, 10, 4), True),
        (AddressRange(12, 13, 4), True),
        (AddressRange(1, 90, 4), True),
        (AddressRange(20, 30, 4), True),
        (AddressRange(21, 30, 4), False),
        (AddressRange(10, 20, 6), False),
    ],
)
def test_ranges_overlap_if_they_share_an_address(other: AddressRange, expected: bool) -> None:
    assert AddressRange(10, 20, 4).overlaps(other) is expected
    assert other.overlaps(AddressRange(10, 20, 4)) is expected


_numbers = st.integers(0, 30)
_few = st.builds(
    lambda first, other, family: AddressRange(min(first, other), max(first, other), family),
    _numbers,
    _numbers,
    st.sampled_from([4, 6]),
)


@given(_few, _few)
def test_the_intersection_of_two_ranges_is_what_lies_in_both(
    address_range: AddressRange, other: AddressRange
) -> None:
    def members(of: AddressRange | None) -> set[tuple[int, int]]:
        return set() if of is None else {(n, of.family) for n in range(of.first, of.last + 1)}

    assert members(address_range.intersection(other)) == members(address_range) & members(other)


def test_the_addresses_of_a_long_range_are_listed_up_to_a_limit() -> None:
    assert AddressRange.parse("10.0.0.254", "10.0.1.1").list_addresses() == [
        "10.0.0.254", "10.0.0.255", "10.0.1.0", "10.0.1.1",
    ]  # fmt: skip
    listed = AddressRange.parse_cidr("10.0.0.0/8").list_addresses()
    assert len(listed) == LISTED_ADDRESSES[4] == 65_536
    assert (listed[0], listed[-1]) == ("10.0.0.0", "10.0.255.255")
    listed = AddressRange.parse_cidr("fd00::/64").list_addresses()
    assert (len(listed), listed[-1]) == (LISTED_ADDRESSES[6], "fd00::3fff")
    assert AddressRange.parse_cidr("fd00::/64").list_addresses(2) == ["fd00::", "fd00::1"]
    assert AddressRange.parse_cidr("fd00::/64").list_addresses(0) == []


def test_ipv4_addresses_written_as_ipv6_are_ipv4_for_who_asks() -> None:
    mapped = AddressRange.parse("::ffff:10.0.0.1", "::ffff:10.0.0.9")
    assert mapped.family == 6
    assert mapped.convert_to_family(6) is mapped
    assert mapped.convert_to_family(4) == AddressRange.parse("10.0.0.1", "10.0.0.9")
    everything = AddressRange.parse("::ffff:0.0.0.0", "::ffff:255.255.255.255")
    assert everything.convert_to_family(4) == AddressRange.parse_cidr("0.0.0.0/0")
    assert AddressRange.parse("::ffff:10.0.0.1", "::1:0:0:0").convert_to_family(4) is None
    assert AddressRange.parse("::fffe:ffff:ffff", "::ffff:10.0.0.9").convert_to_family(4) is None
    assert AddressRange.parse("fd00::1", "fd00::1").convert_to_family(4) is None
    assert AddressRange.parse("10.0.0.1", "10.0.0.9").convert_to_family(6) is None


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
    remaining = list(subtract_spans(union(sorted(spans)), union(sorted(holes))))
    assert members(remaining) == members(spans) - members(holes)
    assert maximal(remaining)
