"""Random pools and edits, compared with an oracle.

The oracle computes the addresses that a pool hands out one by one.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import Family, InvalidPool
from reconcilers.addressing import poolgeometry
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool, NetworkPoolSpec
from reconcilers.specrules.verdict import Verdict
from reconcilers.webhooks import networkpool
from tests.reconcilers import make

BASES: dict[Family, int] = {4: int(IPv4Address("10.0.0.0")), 6: int(IPv6Address("fd00::ffc0"))}
"""The first address of pools, by family; it lets IPv6 addresses get longer after the 64th."""
LIMIT = 1 << 20
"""The largest number of addresses that a pool may have."""


def address(family: Family, offset: int) -> str:
    """Return the address `offset` after the first of pools, in one of several spellings."""
    number = BASES[family] + offset
    if family == 4:
        return str(IPv4Address(number))
    written = IPv6Address(number)
    return (str(written), written.exploded.upper(), str(written).upper())[offset % 3]


def _draw_cidrs(family: Family) -> st.SearchStrategy[str]:
    """Draw CIDRs of at most 64 addresses in the pools."""
    bits = 32 if family == 4 else 128
    return st.builds(
        lambda host, length: f"{address(family, host)}/{length}",
        st.integers(0, 31),
        st.integers(bits - 6, bits),
    )


def _draw_spans(family: Family) -> st.SearchStrategy[list[tuple[str, str]]]:
    """Draw the ranges of a pool, half of them valid."""
    valid = st.lists(st.integers(0, 31), min_size=2, max_size=6, unique=True).map(
        lambda ends: [
            (address(family, a), address(family, b))
            for a, b in zip(sorted(ends)[::2], sorted(ends)[1::2], strict=False)
        ]
    )
    ends = st.integers(-2, 34).map(lambda offset: address(family, offset))
    return st.one_of(st.just([]), valid, st.lists(st.tuples(ends, ends), max_size=3))


def _make_tenant_allocation(
    spans: list[tuple[str, str]], in_ranges: bool
) -> dict[str, Any] | None:
    """Return a tenantAllocation with ranges, or with start and end; None without spans."""
    if not spans:
        return None
    if in_ranges:
        return {"ranges": [{"start": a, "end": b} for a, b in spans]}
    return {"start": spans[0][0], "end": spans[0][1]}


def _draw_pools(family: Family) -> st.SearchStrategy[NetworkPool]:
    """Draw pools of a family."""
    large = [
        f"{address(family, 0)}/{length}" for length in ((27, 26) if family == 4 else (123, 122))
    ]
    return st.builds(
        lambda cidr, reserved, spans, in_ranges: make.pool(
            cidr=cidr, reserved=reserved, tenant=_make_tenant_allocation(spans, in_ranges)
        ),
        st.one_of(*map(st.just, large), _draw_cidrs(family)),
        st.lists(_draw_cidrs(family), max_size=2),
        _draw_spans(family),
        st.booleans(),
    )


POOLS = st.sampled_from(list(BASES)).flatmap(_draw_pools)
HELD_RANGES = st.lists(
    st.tuples(st.integers(0, 31), st.integers(0, 4), st.booleans()), min_size=1, max_size=4
)
"""Held ranges: offset of the first address, the number of further ones, if only promised."""


def get_family(pool: NetworkPool) -> Family:
    """Return the family of a pool."""
    return 6 if ":" in pool.spec.cidr else 4


def list_addresses(spec: NetworkPoolSpec) -> set[int] | None:
    """Return the addresses that a spec hands out, one by one; None if it is invalid."""
    try:
        poolgeometry.parse_layout(spec, LIMIT)
    except InvalidPool:
        return None
    network = ip_network(spec.cidr, strict=False)
    spans = spec.list_declared_spans() or ((str(network[0]), str(network[-1])),)
    numbers = {
        number
        for start, end in spans
        for number in range(int(ip_address(start)), int(ip_address(end)) + 1)
    }
    reserved = [ip_network(reserved_range.cidr, strict=False) for reserved_range in spec.reserved]
    kind = type(network[0])
    return {a for a in numbers if not any(kind(a) in network for network in reserved)}


def make_holders(
    old: NetworkPool, held_ranges: list[tuple[int, int, bool]]
) -> tuple[NetworkPool, list[IPAllocation], dict[str, set[int]]]:
    """Return a pool with promises, the allocations, and the addresses of each by its name."""
    allocations, promises, addresses_by_name = [], [], {}
    family = get_family(old)
    for number, (offset, more, promised) in enumerate(held_ranges):
        name, first = f"a{number}", BASES[family] + offset
        ends = address(family, offset), address(family, offset + more)
        allocation = make.allocation(name, held_range=None if promised else ends)
        allocations.append(allocation)
        addresses_by_name[name] = set(range(first, first + more + 1))
        if promised:
            promises.append(make.render_promise(make.promise(allocation, *ends)))
    spec = old.spec
    reserved = [reserved_range.cidr for reserved_range in spec.reserved]
    tenant = None
    if spec.tenantAllocation is not None:
        in_ranges = bool(spec.tenantAllocation.ranges)
        tenant = _make_tenant_allocation([*spec.list_declared_spans()], in_ranges)
    pool = make.pool(
        cidr=spec.cidr, reserved=reserved, tenant=tenant, status={"assignments": promises}
    )
    return pool, allocations, addresses_by_name


def review_edit(new: NetworkPool, old: NetworkPool, allocations: list[IPAllocation]) -> Verdict:
    """Review an edit as the webhook does: read allocations only if the pool gives up addresses."""
    lost = networkpool.gives_up_addresses(new, old, LIMIT)
    view = make.view(*allocations) if lost else None
    return networkpool.review_update(
        new, old, view=view, spaces=make.spaces(), max_addresses=LIMIT
    )


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(POOLS)
def test_the_webhook_accepts_a_new_pool_only_if_the_controller_does(new: NetworkPool) -> None:
    verdict = networkpool.review_creation(new, make.spaces(), LIMIT)
    assert verdict.allowed is (list_addresses(new.spec) is not None)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(POOLS, POOLS, HELD_RANGES)
def test_an_edit_is_allowed_only_if_no_holder_loses_an_address(
    old: NetworkPool, new: NetworkPool, held_ranges: list[tuple[int, int, bool]]
) -> None:
    before, after = list_addresses(old.spec), list_addresses(new.spec)
    pool, allocations, addresses_by_name = make_holders(old, held_ranges)
    verdict = review_edit(new, pool, allocations)
    if after is None:
        assert not verdict.allowed
        return
    losers = {
        name
        for name, addresses in addresses_by_name.items()
        if (addresses if before is None else addresses & before) - after
    }
    reported = " ".join(cause.message for cause in verdict.causes)
    assert {name for name in addresses_by_name if f'IPAllocation "{name}"' in reported} == losers
    shrunk = "does not contain the previous CIDR" in reported
    assert verdict.allowed is (not losers and not shrunk)


@pytest.mark.slow
@settings(deadline=None, max_examples=75)
@given(POOLS, POOLS, POOLS, HELD_RANGES)
def test_two_accepted_edits_leave_no_allocation_outside(
    first: NetworkPool,
    second: NetworkPool,
    third: NetworkPool,
    held_ranges: list[tuple[int, int, bool]],
) -> None:
    covered, base = list_addresses(first.spec) or set(), BASES[get_family(first)]
    inside = [
        held_range
        for held_range in held_ranges
        if set(range(base + held_range[0], base + held_range[0] + held_range[1] + 1)) <= covered
    ]
    pool, allocations, addresses_by_name = make_holders(first, inside)
    current = pool
    for expected in (second, third):
        edit, _, _ = make_holders(expected, [])
        candidate = make.pool(
            cidr=edit.spec.cidr,
            reserved=[reserved_range.cidr for reserved_range in edit.spec.reserved],
            tenant=_make_tenant_allocation([*edit.spec.list_declared_spans()], in_ranges=True),
            status={
                "assignments": [
                    make.render_promise(assignment) for assignment in pool.status.assignments
                ]
            },
        )
        if review_edit(candidate, current, allocations).allowed:
            current = candidate
    now = list_addresses(current.spec) or set()
    assert all(addresses <= now for addresses in addresses_by_name.values())
