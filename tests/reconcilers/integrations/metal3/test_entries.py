"""The addresses that an IPPool hands out, by the entries in its spec."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator import AddressRange
from reconcilers.integrations.metal3.api import Metal3PoolSpec, PoolEntry
from reconcilers.integrations.metal3.entries import OUTSIDE, parse_space, parse_span


def make_single(address: str) -> AddressRange:
    """Return the range of one address."""
    return AddressRange.parse(address, address)


@pytest.mark.parametrize(
    ("fields", "first", "last"),
    [
        ({"start": "10.0.0.5", "end": "10.0.0.9"}, "10.0.0.5", "10.0.0.9"),
        ({"start": "255.255.255.250"}, "255.255.255.250", "255.255.255.255"),
        ({"subnet": "10.0.0.0/24"}, "10.0.0.1", "10.0.0.255"),
        ({"subnet": "10.0.0.1/26"}, "10.0.0.2", "10.0.0.63"),
        ({"subnet": "10.0.0.0/24", "start": "10.0.0.9"}, "10.0.0.9", "10.0.0.255"),
        ({"subnet": "10.0.0.0/24", "end": "10.0.0.9"}, "10.0.0.1", "10.0.0.9"),
        ({"subnet": "fd00::/64"}, "fd00::1", "fd00::ffff:ffff:ffff:ffff"),
    ],
)
def test_an_entry_is_parsed_to_a_range(fields: dict[str, Any], first: str, last: str) -> None:
    assert parse_span(PoolEntry(**fields)) == AddressRange.parse(first, last)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"end": "10.0.0.9"},
        {"start": "10.0.0.9", "end": "10.0.0.5"},
        {"start": "10.0.0.9", "end": "fd00::5"},
        {"start": "10.0.1.9", "subnet": "10.0.0.0/24"},
        {"start": "10.0.0.9", "subnet": "10.0.1.0/24"},
        {"subnet": "10.0.0.1/32"},
        {"start": "ten"},
        {"subnet": "10.0.0.0/33"},
    ],
)
def test_an_entry_without_addresses_hands_out_nothing(fields: dict[str, Any]) -> None:
    entry = PoolEntry(**fields)
    assert parse_span(entry) is None
    assert parse_space(Metal3PoolSpec("p", (entry,))).entries == ()


def test_an_address_of_two_entries_has_the_settings_of_the_first() -> None:
    spec = Metal3PoolSpec(
        "p",
        (
            PoolEntry(start="10.0.0.5", end="10.0.0.6", prefix=24),
            PoolEntry(start="10.0.0.1", end="10.0.0.9", gateway="10.0.0.254"),
        ),
        prefix=16,
        gateway="10.0.0.9",
        dnsServers=("9.9.9.9",),
    )
    space = parse_space(spec)
    assert [layout.total for layout in space.layouts.values()] == [2, 6]
    first, second = (
        space.find_settings(make_single(address)) for address in ("10.0.0.5", "10.0.0.1")
    )
    assert (first.prefix, first.gateway, first.dns_servers) == (24, "10.0.0.9", ("9.9.9.9",))
    assert (second.prefix, second.gateway) == (16, "10.0.0.254")
    assert space.make_promised_range(make_single("10.0.0.6")).space == "0"
    assert space.make_promised_range(make_single("10.0.1.6")).space == OUTSIDE


def test_gateway_broadcast_address_and_pre_allocations_are_not_handed_out() -> None:
    spec = Metal3PoolSpec(
        "p",
        (PoolEntry(subnet="10.0.0.0/29", gateway="10.0.0.1"),),
        preAllocations={"a": "10.0.0.3", "b": "nonsense"},
    )
    blocks = parse_space(spec).layouts["0"].blocks
    assert [block.text for block in blocks] == ["10.0.0.2/32", "10.0.0.4-10.0.0.6"]


OCTETS = st.integers(min_value=0, max_value=40)
ENTRIES = st.builds(
    lambda start, size: PoolEntry(start=f"10.0.0.{start}", end=f"10.0.0.{start + size}"),
    OCTETS,
    OCTETS,
)


@given(st.lists(ENTRIES, max_size=5), st.lists(OCTETS, max_size=5))
def test_overlapping_entries_hand_out_every_address_once(
    entries: list[PoolEntry], preallocated_octets: list[int]
) -> None:
    preallocations = {f"c{octet}": f"10.0.0.{octet}" for octet in preallocated_octets}
    space = parse_space(Metal3PoolSpec("p", tuple(entries), preAllocations=preallocations))
    handed_out = [
        address
        for layout in space.layouts.values()
        for block in layout.blocks
        for address in range(block.first, block.last + 1)
    ]
    expected = {
        address
        for spec_entry in entries
        if (span := parse_span(spec_entry)) is not None
        for address in range(span.first, span.last + 1)
    } - {make_single(preallocation).first for preallocation in preallocations.values()}
    assert sorted(handed_out) == sorted(expected)
    for address in expected:
        part = space.make_promised_range(AddressRange(address, address, 4))
        assert any(block.contains(address) for block in space.layouts[part.space].blocks)
