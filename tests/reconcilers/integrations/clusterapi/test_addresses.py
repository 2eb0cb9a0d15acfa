"""The addresses that pools of the in-cluster provider hand out, checked against sets of offsets.

The tests use SIZE addresses of each IP family. The *offset* of an address is its distance from
the first of them, which is in BASES.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from allocator import InvalidPool
from controller.meta import Key, ObjectMeta
from reconcilers.integrations.clusterapi.addresses import (
    MAX_COUNT,
    PoolSpace,
    parse_ip_space,
    parse_prefix_space,
)
from reconcilers.integrations.clusterapi.api import (
    AddressSpec,
    IPAddress,
    IPPoolSpec,
    PoolCounts,
    PrefixPoolSpec,
)
from reconcilers.integrations.clusterapi.caches import compute_claim_holdings
from reconcilers.integrations.clusterapi.poolstatus import compute_counts
from reconcilers.promises.holdings import Holdings

BASES = {4: int(IPv4Address("10.0.0.0")), 6: int(IPv6Address("2001:db8::"))}
SIZE = 64
FULL = {4: 32, 6: 128}
"""The length of the prefix of a single address."""


def render_address(family: int, offset: int) -> str:
    """Return the address at an offset."""
    return str(ip_address(BASES[family] + offset))


@dataclass(frozen=True)
class Entry:
    """One entry of the list of addresses of a pool.

    Args:
        entry_text: the entry as it is written: an address, a range or a CIDR.
        offsets: the offsets of its addresses.
    """

    entry_text: str
    offsets: frozenset[int]


@st.composite
def entries(draw: st.DrawFn, family: int) -> Entry:
    """Draw an entry: an address, a range or a CIDR with host bits."""
    first = draw(st.integers(0, SIZE - 1))
    match draw(st.sampled_from(("single", "range", "cidr"))):
        case "single":
            return Entry(render_address(family, first), frozenset({first}))
        case "range":
            last = draw(st.integers(first, SIZE - 1))
            span = f"{render_address(family, first)}-{render_address(family, last)}"
            return Entry(span, frozenset(range(first, last + 1)))
        case _:
            length = draw(st.integers(FULL[family] - 6, FULL[family]))
            written = f"{render_address(family, first)}/{length}"
            network = ip_network(written, strict=False)
            return Entry(written, frozenset(int(ip) - BASES[family] for ip in network))


def entry_lists(family: int, min_size: int = 0) -> st.SearchStrategy[list[Entry]]:
    """Return a strategy for the list of entries of a pool."""
    return st.lists(entries(family), min_size=min_size, max_size=5)


def join_offsets(entries: Iterable[Entry]) -> set[int]:
    """Return the offsets of the addresses of all entries."""
    return {offset for entry in entries for offset in entry.offsets}


@dataclass(frozen=True)
class DrawnPool:
    """A pool of addresses.

    Args:
        spec: the spec of the pool.
        family: 4 or 6.
        usable: the offsets of the addresses that the pool has to hand out.
    """

    spec: IPPoolSpec
    family: int
    usable: set[int]


@st.composite
def pools(draw: st.DrawFn) -> DrawnPool:
    """Draw a pool, and compute by sets of offsets what it has to hand out."""
    family = draw(st.sampled_from((4, 6)))
    listed, excluded = draw(entry_lists(family, min_size=1)), draw(entry_lists(family))
    offsets = join_offsets(listed)
    shared = FULL[family] - (min(offsets) ^ max(offsets)).bit_length()
    prefix = draw(st.integers(FULL[family] - 6, shared) | st.just(0))
    gateway = draw(st.none() | st.integers(0, SIZE - 1))
    allocate_reserved = draw(st.booleans())
    usable = offsets - join_offsets(excluded) - {gateway}
    if not allocate_reserved:
        network = ip_network(f"{render_address(family, min(offsets))}/{prefix}", strict=False)
        if network.prefixlen < FULL[family] - 1:
            usable.discard(int(network.network_address) - BASES[family])
            if family == 4:
                usable.discard(int(network.broadcast_address) - BASES[family])
    spec = IPPoolSpec(
        addresses=tuple(entry.entry_text for entry in listed),
        prefix=prefix,
        gateway="" if gateway is None else render_address(family, gateway),
        excludedAddresses=tuple(entry.entry_text for entry in excluded),
        allocateReservedIPAddresses=allocate_reserved,
    )
    return DrawnPool(spec, family, usable)


def make_holdings(space: PoolSpace, holders: Iterable[tuple[str, int]] = ()) -> Holdings:
    """Return the holdings of a pool.

    Args:
        space: the addresses of the pool.
        holders: address and prefix length of each IPAddress.
    """
    addresses = {
        Key("", f"address-{number}"): IPAddress(
            ObjectMeta(name=f"address-{number}"), AddressSpec(address=address, prefix=prefix)
        )
        for number, (address, prefix) in enumerate(holders)
    }
    return compute_claim_holdings({}, addresses, space)


def take_all_free(space: PoolSpace, holdings: Holdings) -> list[str]:
    """Take free blocks until there is none; return their first addresses in that order."""
    first_addresses = []
    while holdings.get_space().free:
        [block] = holdings.get_space().take_lowest(1)
        first_addresses.append(space.get_first_address(block.first))
    return first_addresses


@given(pools())
def test_a_pool_hands_out_its_entries_but_not_its_exclusions_lowest_first(
    drawn: DrawnPool,
) -> None:
    space = parse_ip_space(drawn.spec)
    assert take_all_free(space, make_holdings(space)) == [
        render_address(drawn.family, offset) for offset in sorted(drawn.usable)
    ]
    assert space.total == len(drawn.usable)


@pytest.mark.slow
@given(pools(), st.lists(st.integers(0, SIZE + 8), max_size=80))
def test_addresses_in_use_are_counted_and_the_lowest_of_the_others_is_handed_out_next(
    drawn: DrawnPool, offsets: list[int]
) -> None:
    space = parse_ip_space(drawn.spec)
    holders = [(render_address(drawn.family, offset), drawn.spec.prefix) for offset in offsets]
    remaining = drawn.usable - set(offsets)
    holdings = make_holdings(space, holders)
    assert compute_counts(space, holdings) == PoolCounts(
        total=len(drawn.usable),
        used=len(offsets),
        free=len(remaining),
        outOfRange=len(set(offsets) - drawn.usable),
    )
    assert take_all_free(space, holdings) == [
        render_address(drawn.family, offset) for offset in sorted(remaining)
    ]


@pytest.mark.slow
@given(pools(), st.integers(0, SIZE + 8))
def test_hands_out_is_true_for_the_usable_addresses_of_a_pool(
    drawn: DrawnPool, offset: int
) -> None:
    """The prefix length that an IPAddress shows does not matter."""
    space = parse_ip_space(drawn.spec)
    assert space.hands_out(render_address(drawn.family, offset), 7) == (offset in drawn.usable)


@pytest.mark.slow
@given(
    st.lists(entries(6), min_size=1, max_size=4),
    st.lists(entries(6), max_size=4),
    st.integers(124, 128),
    st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(120, 128)), max_size=12),
)
def test_a_prefix_pool_hands_out_whole_blocks_that_touch_nothing_excluded_or_in_use(
    listed: list[Entry], excluded: list[Entry], length: int, in_use: list[tuple[int, int]]
) -> None:
    size = 1 << 128 - length
    assume(all(len(entry.offsets) >= size for entry in listed))
    spec = PrefixPoolSpec(
        prefixes=tuple(entry.entry_text for entry in listed),
        allocationPrefixLength=length,
        excludedPrefixes=tuple(entry.entry_text for entry in excluded),
    )
    space = parse_prefix_space(spec)
    held_prefixes = [(render_address(6, offset), prefix) for offset, prefix in in_use]
    blocks = [frozenset(range(start, start + size)) for start in range(0, SIZE, size)]
    usable = [
        block
        for block in blocks
        if block <= join_offsets(listed) and not block & join_offsets(excluded)
    ]
    taken_offsets = {
        int(ip) - BASES[6]
        for address, prefix in held_prefixes
        for ip in ip_network(f"{address}/{prefix}", strict=False)
    }
    free = [block for block in usable if not block & taken_offsets]
    assert space.total == len(usable)
    holdings = make_holdings(space, held_prefixes)
    free_counts = compute_counts(space, holdings)
    assert (free_counts.used, free_counts.free) == (len(held_prefixes), len(free))
    assert take_all_free(space, holdings) == [render_address(6, min(block)) for block in free]
    for offset, prefix in in_use:
        block = frozenset(range(offset, offset + size))
        is_usable = prefix == length and block in usable
        assert space.hands_out(render_address(6, offset), prefix) == is_usable


@pytest.mark.parametrize(
    ("addresses", "prefix", "handed_out"),
    [
        ("10.0.0.4/31", 31, ["10.0.0.4", "10.0.0.5"]),
        ("10.0.0.4", 32, ["10.0.0.4"]),
        ("2001:db8::4/127", 127, ["2001:db8::4", "2001:db8::5"]),
        ("2001:db8::4", 128, ["2001:db8::4"]),
        ("10.0.0.0/30", 30, ["10.0.0.1", "10.0.0.2"]),
        ("2001:db8::/126", 126, ["2001:db8::1", "2001:db8::2", "2001:db8::3"]),
        ("10.0.1.254-10.0.2.1", 22, ["10.0.1.254", "10.0.1.255", "10.0.2.0", "10.0.2.1"]),
        ("0.0.0.0-0.0.0.2", 0, ["0.0.0.1", "0.0.0.2"]),
    ],
)
def test_a_subnets_ends_are_reserved_where_it_has_more_than_two_addresses(
    addresses: str, prefix: int, handed_out: list[str]
) -> None:
    space = parse_ip_space(IPPoolSpec(addresses=(addresses,), prefix=prefix))
    assert take_all_free(space, make_holdings(space)) == handed_out


def test_the_counts_of_an_immense_pool_end_at_the_largest_number_of_the_api() -> None:
    space = parse_ip_space(IPPoolSpec(addresses=("2001:db8::/32",), prefix=32))
    in_use = [("2001:db8::1", 32), ("2001:db8:0:0:0:0:0:2", 32), ("::5", 32), ("none", 32)]
    holdings = make_holdings(space, in_use)
    assert compute_counts(space, make_holdings(space)) == PoolCounts(
        total=MAX_COUNT, free=MAX_COUNT
    )
    assert compute_counts(space, holdings) == PoolCounts(
        total=MAX_COUNT, used=4, free=MAX_COUNT, outOfRange=2
    )
    [lowest] = holdings.get_space().take_lowest(1)
    assert space.get_first_address(lowest.first) == "2001:db8::3"


def test_an_ipaddress_without_an_address_of_the_pools_family_is_counted_and_holds_nothing() -> (
    None
):
    space = parse_ip_space(IPPoolSpec(addresses=("10.0.0.1-10.0.0.2",), prefix=24))
    odd = [("2001:db8::1", 64), ("", 24), ("010.0.0.1", 24), ("10.0.0.1/24", 24)]
    assert compute_counts(space, make_holdings(space, odd)) == PoolCounts(
        total=2, used=4, free=2, outOfRange=4
    )


def test_an_address_that_two_ipaddresses_hold_counts_twice_as_used_and_once_as_not_free() -> None:
    space = parse_ip_space(IPPoolSpec(addresses=("10.0.0.1-10.0.0.2",), prefix=24))
    twice = [("10.0.0.1", 24), ("10.0.0.1", 24)]
    assert compute_counts(space, make_holdings(space, twice)) == PoolCounts(
        total=2, used=2, free=1
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (IPPoolSpec(), "addresses is required"),
        (IPPoolSpec(("garbage",), 24), '"garbage" is not a valid IP, range, nor CIDR'),
        (IPPoolSpec(("10.0.0.1 - 10.0.0.2",), 24), "is not a valid IP, range, nor CIDR"),
        (IPPoolSpec(("10.0.0.9-10.0.0.2",), 24), "is not a valid IP, range, nor CIDR"),
        (IPPoolSpec(("10.0.0.1-::1",), 24), "is not a valid IP, range, nor CIDR"),
        (IPPoolSpec(("10.0.0.0/33",), 24), "is not a valid IP, range, nor CIDR"),
        (IPPoolSpec(("10.0.0.0/08",), 8), "is not a valid IP, range, nor CIDR"),
        (IPPoolSpec(("10.0.0.1", "::1"), 24), "provided addresses are of mixed IP families"),
        (IPPoolSpec(("10.0.0.1",), 33), "provided prefix is not valid"),
        (IPPoolSpec(("10.0.0.1",), 24, "10.0.0.1/24"), "gateway"),
        (IPPoolSpec(("10.0.1.1", "10.0.0.0-10.0.0.9"), 24), "belongs to a different subnet"),
    ],
)
def test_an_invalid_pool_of_addresses_is_refused_with_a_message(
    spec: IPPoolSpec, message: str
) -> None:
    with pytest.raises(InvalidPool) as raised:
        parse_ip_space(spec)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (PrefixPoolSpec(), "prefixes is required"),
        (PrefixPoolSpec(("10.0.0.0/8",)), "only IPv6 prefixes are supported"),
        (PrefixPoolSpec(("2001:db8::/x",)), "is not a valid IP, range, nor CIDR"),
        (PrefixPoolSpec(("2001:db8::/32",), 0), "allocationPrefixLength must be between"),
        (PrefixPoolSpec(("2001:db8::/72",)), "must be <= allocationPrefixLength (64)"),
    ],
)
def test_an_invalid_pool_of_prefixes_is_refused_with_a_message(
    spec: PrefixPoolSpec, message: str
) -> None:
    with pytest.raises(InvalidPool) as raised:
        parse_prefix_space(spec)
    assert message in str(raised.value)
