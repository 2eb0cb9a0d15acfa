"""Network and broadcast addresses of a pool: excluded by a field, otherwise a warning.

These addresses are the edges of a pool. The parameter `edges` is excludeNetworkAndBroadcast.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator import AddressRange, Layout, PoolExhausted, Space, name_edge_addresses
from reconcilers.addressing import poolgeometry
from reconcilers.networkpool.offers import make_offers
from reconcilers.specrules.verdict import Verdict
from reconcilers.webhooks import networkpool
from tests.reconcilers import make

LIMIT = 1 << 20
"""The largest number of addresses that a pool may have."""
SECOND = {"cidr": "fd00::/120"}
HINT = (
    "; set spec.excludeNetworkAndBroadcast to true to leave such addresses out, or to false to"
    " confirm them"
)


def list_handed_out(**spec: object) -> list[str]:
    """Return the ranges that a pool of 10.0.0.0/24 hands out, without its edges by default."""
    pool = make.pool(cidr="10.0.0.0/24", **({"edges": True} | spec))  # type: ignore[arg-type]
    [offer] = make_offers(pool, LIMIT)
    return [f"{part.start_text}-{part.end_text}" for part in offer.ranges]


def review_creation(cidr: str, **spec: object) -> Verdict:
    """Return the verdict on a new pool that does not say whether edges are excluded."""
    pool = make.pool(cidr=cidr, **({"edges": None} | spec))  # type: ignore[arg-type]
    return networkpool.review_creation(pool, make.spaces(), LIMIT)


def test_a_pool_that_excludes_edges_hands_out_the_addresses_between() -> None:
    assert list_handed_out() == ["10.0.0.1-10.0.0.254"]
    assert list_handed_out(edges=False) == ["10.0.0.0-10.0.0.255"]
    assert list_handed_out(edges=None) == ["10.0.0.0-10.0.0.255"]


def test_only_the_first_address_of_an_ipv6_cidr_is_excluded() -> None:
    assert list_handed_out(secondary=SECOND) == ["10.0.0.1-10.0.0.254", "fd00::1-fd00::ff"]


@pytest.mark.parametrize("cidr", ["10.0.0.0/31", "10.0.0.0/32", "fd00::/127", "fd00::/128"])
def test_a_cidr_of_one_or_two_addresses_has_no_edges_and_no_warning(cidr: str) -> None:
    pool = make.pool(cidr=cidr, edges=True)
    [layout] = poolgeometry.parse_layouts(pool.spec, LIMIT)
    assert layout.total == layout.cidr.size
    assert review_creation(cidr).warnings == ()


def test_all_addresses_between_the_edges_can_be_allocated_and_no_more() -> None:
    [layout] = poolgeometry.parse_layouts(make.pool(cidr="10.0.0.0/29", edges=True).spec, LIMIT)
    space = Space(layout, [])
    assert space.compute_capacity().total == 6
    assert space.allocate(6).text == "10.0.0.1-10.0.0.6"
    assert space.compute_capacity().available == 0


def test_a_pool_without_the_field_has_a_warning_that_names_addresses_and_field() -> None:
    both = "spec.cidr: the pool hands out 10.0.0.0 (network address) and 10.0.0.255 (broadcast"
    assert review_creation("10.0.0.0/24").warnings == (f"{both} address){HINT}",)
    tenant = {"ranges": [{"start": "10.0.0.16", "end": "10.0.0.255"}]}
    warning = "spec.cidr: the pool hands out 10.0.0.255 (broadcast address)"
    assert review_creation("10.0.0.0/24", tenant=tenant).warnings == (f"{warning}{HINT}",)
    second = "spec.secondary.cidr: the pool hands out fd00:: (subnet-router anycast address)"
    kept = review_creation(
        "10.0.0.0/24", reserved=["10.0.0.0/32", "10.0.0.255/32"], secondary=SECOND
    )
    assert kept.warnings == (f"{second}{HINT}",)


def test_a_pool_with_the_field_or_without_edges_in_its_ranges_has_no_warning() -> None:
    assert review_creation("10.0.0.0/24", edges=True).warnings == ()
    assert review_creation("10.0.0.0/24", edges=False).warnings == ()
    tenant = {"ranges": [{"start": "10.0.0.1", "end": "10.0.0.254"}]}
    assert review_creation("10.0.0.0/24", tenant=tenant).warnings == ()


def review_exclusion(first: str, last: str, cidr: str = "10.0.0.0/24") -> Verdict:
    """Return the verdict on excluding the edges while an allocation holds `first` to `last`."""
    old, new = make.pool(cidr=cidr, edges=False), make.pool(cidr=cidr, edges=True)
    allocation = make.allocation(
        "a", status={"phase": "Allocated", "startAddress": first, "endAddress": last}
    )
    assert networkpool.gives_up_addresses(new, old, LIMIT)
    return networkpool.review_update(
        new, old, view=make.view(allocation), spaces=make.spaces(), max_addresses=LIMIT
    )


@pytest.mark.parametrize(
    ("first", "last", "address", "name"),
    [
        ("10.0.0.0", "10.0.0.7", "10.0.0.0", "network"),
        ("10.0.0.248", "10.0.0.255", "10.0.0.255", "broadcast"),
    ],
)
def test_excluding_a_held_edge_is_rejected_with_the_allocation_and_the_address(
    first: str, last: str, address: str, name: str
) -> None:
    [cause] = review_exclusion(first, last).causes
    assert cause.field == "spec.excludeNetworkAndBroadcast"
    assert cause.message == (
        f'cannot reserve {name} address "{address}": IPAllocation "a" has address {address} in it.'
        " Migrate or delete affected allocations first"
    )


def test_excluding_edges_that_no_allocation_holds_is_allowed() -> None:
    assert review_exclusion("10.0.0.1", "10.0.0.254").allowed


def test_a_pool_that_grows_may_hand_out_the_broadcast_address_of_its_old_cidr() -> None:
    [layout] = poolgeometry.parse_layouts(make.pool(cidr="10.0.0.0/23", edges=True).spec, LIMIT)
    assert [part.text for part in layout.blocks] == ["10.0.0.1-10.0.1.254"]


@given(
    base=st.sampled_from(["10.0.0.0", "fd00::"]),
    length=st.integers(0, 8),
    spans=st.lists(st.integers(0, 255), max_size=6, unique=True).map(sorted),
    sizes=st.lists(st.integers(1, 40), max_size=30),
)
def test_excluded_addresses_are_never_handed_out_and_the_figures_add_up(
    base: str, length: int, spans: list[int], sizes: list[int]
) -> None:
    bits = 128 if ":" in base else 32
    cidr = AddressRange.parse_cidr(f"{base}/{bits - length}")
    inside = [cidr.first + number for number in spans if number < cidr.size]
    pairs = zip(inside[::2], inside[1::2], strict=False)
    tenant = {
        "ranges": [
            {"start": part.start_text, "end": part.end_text}
            for part in (AddressRange(first, last, cidr.family) for first, last in pairs)
        ]
    }
    excluding, plain = (
        poolgeometry.parse_layout(
            make.pool(cidr=cidr.text, tenant=tenant, edges=edges).spec, LIMIT
        )
        for edges in (True, False)
    )
    edges = name_edge_addresses(cidr).values()
    lost_edges = [edge for edge in edges if _has_address(plain, edge)]
    assert excluding.total == plain.total - len(lost_edges)
    space, ranges = Space(excluding, []), list[AddressRange]()
    for size in (*sizes, *[1] * excluding.total):
        try:
            ranges.append(space.allocate(size))
        except PoolExhausted:
            continue
    assert not [part for part in ranges for edge in edges if part.overlaps(edge)]
    assert sum(part.size for part in ranges) == excluding.total
    figures = space.compute_capacity()
    assert (figures.total, figures.allocated, figures.available) == (excluding.total,) * 2 + (0,)


def _has_address(layout: Layout, address: AddressRange) -> bool:
    """Return whether a layout hands out an address."""
    return any(part.contains(address) for part in layout.blocks)
