"""What pools of the in-cluster provider may hand out, held against sets of single addresses."""

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


def text(family: int, offset: int) -> str:
    """Return the address that lies so far into the addresses these tests play in."""
    return str(ip_address(BASES[family] + offset))


@dataclass(frozen=True)
class Entry:
    """One entry of a pool's list, with the offsets of the addresses it stands for."""

    entry_text: str
    offsets: frozenset[int]


@st.composite
def entries(draw: st.DrawFn, family: int) -> Entry:
    """Draw an address, a range or a CIDR with host bits."""
    first = draw(st.integers(0, SIZE - 1))
    match draw(st.sampled_from(("single", "range", "cidr"))):
        case "single":
            return Entry(text(family, first), frozenset({first}))
        case "range":
            last = draw(st.integers(first, SIZE - 1))
            span = f"{text(family, first)}-{text(family, last)}"
            return Entry(span, frozenset(range(first, last + 1)))
        case _:
            length = draw(st.integers(FULL[family] - 6, FULL[family]))
            written = f"{text(family, first)}/{length}"
            network = ip_network(written, strict=False)
            return Entry(written, frozenset(int(ip) - BASES[family] for ip in network))


def lists(family: int, least: int = 0) -> st.SearchStrategy[list[Entry]]:
    """Return a strategy for the lists of entries that pools have."""
    return st.lists(entries(family), min_size=least, max_size=5)


def join_offsets(entries: Iterable[Entry]) -> set[int]:
    """Return all offsets that entries stand for."""
    return {offset for entry in entries for offset in entry.offsets}


@dataclass(frozen=True)
class Drawn:
    """A pool, with the offsets that it may hand out by the oracle."""

    spec: IPPoolSpec
    family: int
    usable: set[int]


@st.composite
def pools(draw: st.DrawFn) -> Drawn:
    """Draw a pool of addresses and work out one by one what it may hand out."""
    family = draw(st.sampled_from((4, 6)))
    listed, excluded = draw(lists(family, 1)), draw(lists(family))
    offsets = join_offsets(listed)
    shared = FULL[family] - (min(offsets) ^ max(offsets)).bit_length()
    prefix = draw(st.integers(FULL[family] - 6, shared) | st.just(0))
    gateway = draw(st.none() | st.integers(0, SIZE - 1))
    allocate_reserved = draw(st.booleans())
    usable = offsets - join_offsets(excluded) - {gateway}
    if not allocate_reserved:
        network = ip_network(f"{text(family, min(offsets))}/{prefix}", strict=False)
        if network.prefixlen < FULL[family] - 1:
            usable.discard(int(network.network_address) - BASES[family])
            if family == 4:
                usable.discard(int(network.broadcast_address) - BASES[family])
    spec = IPPoolSpec(
        addresses=tuple(entry.entry_text for entry in listed),
        prefix=prefix,
        gateway="" if gateway is None else text(family, gateway),
        excludedAddresses=tuple(entry.entry_text for entry in excluded),
        allocateReservedIPAddresses=allocate_reserved,
    )
    return Drawn(spec, family, usable)


def holdings_of(space: PoolSpace, holders: Iterable[tuple[str, int]] = ()) -> Holdings:
    """Return the holdings of a pool with an IPAddress of each address and prefix."""
    addresses = {
        Key("", f"address-{number}"): IPAddress(
            ObjectMeta(name=f"address-{number}"), AddressSpec(address=address, prefix=prefix)
        )
        for number, (address, prefix) in enumerate(holders)
    }
    return compute_claim_holdings({}, addresses, space)


def all_free(space: PoolSpace, holdings: Holdings) -> list[str]:
    """Take all that is free, and return the first address of each block in that order."""
    taken_offsets = []
    while holdings.space().free:
        [block] = holdings.space().take_lowest(1)
        taken_offsets.append(space.get_first_address(block.first))
    return taken_offsets


@given(pools())
def test_a_pool_hands_out_what_its_texts_say_lowest_first(drawn: Drawn) -> None:
    space = parse_ip_space(drawn.spec)
    assert all_free(space, holdings_of(space)) == [
        text(drawn.family, offset) for offset in sorted(drawn.usable)
    ]
    assert space.total == len(drawn.usable)


@pytest.mark.slow
@given(pools(), st.lists(st.integers(0, SIZE + 8), max_size=80))
def test_what_is_in_use_is_counted_and_the_lowest_of_the_rest_is_next(
    drawn: Drawn, offsets: list[int]
) -> None:
    space = parse_ip_space(drawn.spec)
    holders = [(text(drawn.family, offset), drawn.spec.prefix) for offset in offsets]
    remaining = drawn.usable - set(offsets)
    holdings = holdings_of(space, holders)
    assert compute_counts(space, holdings) == PoolCounts(
        total=len(drawn.usable),
        used=len(offsets),
        free=len(remaining),
        outOfRange=len(set(offsets) - drawn.usable),
    )
    assert all_free(space, holdings) == [
        text(drawn.family, offset) for offset in sorted(remaining)
    ]


@pytest.mark.slow
@given(pools(), st.integers(0, SIZE + 8))
def test_a_pool_tells_what_it_may_hand_out(drawn: Drawn, offset: int) -> None:
    space = parse_ip_space(drawn.spec)
    assert space.hands_out(text(drawn.family, offset), 7) == (offset in drawn.usable)


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
    held_prefixes = [(text(6, offset), prefix) for offset, prefix in in_use]
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
    holdings = holdings_of(space, held_prefixes)
    free_counts = compute_counts(space, holdings)
    assert (free_counts.used, free_counts.free) == (len(held_prefixes), len(free))
    assert all_free(space, holdings) == [text(6, min(block)) for block in free]
    for offset, prefix in in_use:
        whole = frozenset(range(offset, offset + size))
        exact = prefix == length and whole in usable
        assert space.hands_out(text(6, offset), prefix) == exact


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
    assert all_free(space, holdings_of(space)) == handed_out


def test_the_counts_of_an_immense_pool_end_at_the_largest_number_of_the_api() -> None:
    space = parse_ip_space(IPPoolSpec(addresses=("2001:db8::/32",), prefix=32))
    in_use = [("2001:db8::1", 32), ("2001:db8:0:0:0:0:0:2", 32), ("::5", 32), ("none", 32)]
    holdings = holdings_of(space, in_use)
    assert compute_counts(space, holdings_of(space)) == PoolCounts(total=MAX_COUNT, free=MAX_COUNT)
    assert compute_counts(space, holdings) == PoolCounts(
        total=MAX_COUNT, used=4, free=MAX_COUNT, outOfRange=2
    )
    [lowest] = holdings.space().take_lowest(1)
    assert space.get_first_address(lowest.first) == "2001:db8::3"


def test_what_is_no_address_of_the_pools_family_holds_nothing_and_is_counted() -> None:
    space = parse_ip_space(IPPoolSpec(addresses=("10.0.0.1-10.0.0.2",), prefix=24))
    odd = [("2001:db8::1", 64), ("", 24), ("010.0.0.1", 24), ("10.0.0.1/24", 24)]
    assert compute_counts(space, holdings_of(space, odd)) == PoolCounts(
        total=2, used=4, free=2, outOfRange=4
    )


def test_an_address_that_two_objects_hold_is_used_twice_and_not_free_once() -> None:
    space = parse_ip_space(IPPoolSpec(addresses=("10.0.0.1-10.0.0.2",), prefix=24))
    twice = [("10.0.0.1", 24), ("10.0.0.1", 24)]
    assert compute_counts(space, holdings_of(space, twice)) == PoolCounts(total=2, used=2, free=1)


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
def test_a_pool_that_cannot_be_read_says_why(spec: IPPoolSpec, message: str) -> None:
    with pytest.raises(InvalidPool) as refused:
        parse_ip_space(spec)
    assert message in str(refused.value)


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
def test_a_prefix_pool_that_cannot_be_read_says_why(spec: PrefixPoolSpec, message: str) -> None:
    with pytest.raises(InvalidPool) as refused:
        parse_prefix_space(spec)
    assert message in str(refused.value)
