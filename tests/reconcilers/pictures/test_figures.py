"""The figures of a picture count what its extents show, for pools of all kinds."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator.addresses import BITS
from reconcilers.integrations.core.platforms import NetworkPools
from reconcilers.integrations.views import from_manifests
from reconcilers.networkpool.picture import make_picture
from reconcilers.pictures.extents import AddressState
from reconcilers.pictures.poolpicture import PoolFamily, PoolPicture
from tests.reconcilers import make
from tests.reconcilers.cli import test_platforms as platforms
from tests.reconcilers.cli.test_claims import (
    make_address,
    make_claim,
    make_ip_pool,
    make_saved_object,
)

OBJECTS = (
    make_ip_pool("machines", "10.0.0.10-10.0.0.13", "10.0.0.20", gateway="10.0.0.9"),
    make_claim("served", "machines"),
    make_address("served", "machines", "10.0.0.11"),
    make_address("stray", "machines", "10.0.0.9"),
    make_claim("waits", "machines"),
    make_saved_object(
        "GlobalInClusterPrefixPool",
        "prefixes",
        spec={"prefixes": ["fd00:71::/60"], "allocationPrefixLength": 64},
        version="v1alpha2",
    ),
    platforms.make_ipam_pool("metallb", east=platforms.RANGE, west=platforms.PREFIX),
    platforms.make_kkp_cluster("a", "east"),
    platforms.make_ipam_allocation("metallb", "a", "east", addresses=["10.1.0.0-10.1.0.3"]),
    platforms.make_ipam_allocation("metallb", "b", "east", addresses=["10.1.0.3-10.1.0.5"]),
    platforms.make_ipam_allocation("metallb", "d", "west", cidr="10.2.0.4/30"),
    platforms.make_network(),
    platforms.make_vitistack_request("web", "10.3.0.11"),
    platforms.make_vitistack_request("out", "10.3.0.99"),
)
PICTURES = from_manifests(
    OBJECTS, "b", pools=NetworkPools(), now=datetime(2026, 1, 1, tzinfo=UTC)
).pictures
NOT_USABLE = {AddressState.STRAY, AddressState.RESERVED, AddressState.OUTSIDE}


def check_figures(family: PoolFamily) -> None:
    """Check that figures and extents agree, in what the pool hands out."""
    assert family.family is not None
    unit = 1
    if family.prefix_length is not None:
        unit = 1 << BITS[family.family] - family.prefix_length
    capacity, free, held_count = family.figures.capacity, 0, 0
    for extent in family.extents:
        if extent.state is AddressState.FREE:
            free += extent.range.size
        elif extent.state not in NOT_USABLE:
            usable = [extent.range.intersection(part) for part in family.usable]
            held_count += sum(part.size for part in usable if part is not None)
    assert capacity.available * unit == free
    assert capacity.allocated * unit == held_count
    assert capacity.total == capacity.available + capacity.allocated
    is_outside = any(extent.state is AddressState.STRAY for extent in family.extents)
    assert bool(family.figures.outside) == is_outside


@pytest.mark.parametrize("pool", PICTURES, ids=[pool.title for pool in PICTURES])
def test_figures_of_pools_of_other_platforms_count_what_is_shown(pool: PoolPicture) -> None:
    for family in pool.families:
        check_figures(family)


spans = st.tuples(st.integers(0, 70), st.integers(1, 9)).map(lambda s: (s[0], s[0] + s[1] - 1))


@given(held_ranges=st.lists(spans, max_size=6), window=spans)
def test_figures_of_network_pools_count_what_is_shown(
    held_ranges: list[tuple[int, int]], window: tuple[int, int]
) -> None:
    first, last = (make.address(min(end, 63)) for end in window)
    pool = make.pool(cidr=make.cidr(6), tenant={"ranges": [{"start": first, "end": last}]})
    allocations = [
        make.allocation(
            f"a{at}", phase="Allocated", held_range=(make.address(span[0]), make.address(span[1]))
        )
        for at, span in enumerate(held_ranges)
    ]
    picture = make_picture(pool, allocations)
    for family in picture.families:
        capacity = family.figures.capacity
        free = family.count_states()[AddressState.FREE]
        assert capacity.available == free
        assert capacity.total == sum(part.size for part in family.usable)
    assert not picture.waiting
