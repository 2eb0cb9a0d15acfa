"""Edits of all kinds against an oracle that counts addresses one by one."""

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
"""Where the pools begin; in the IPv6 one addresses after the 64th have one digit more."""
LIMIT = 1 << 20


def address(family: Family, offset: int) -> str:
    """Return an address in or near the pools, as people write it: in capitals, say."""
    number = BASES[family] + offset
    if family == 4:
        return str(IPv4Address(number))
    written = IPv6Address(number)
    return (str(written), written.exploded.upper(), str(written).upper())[offset % 3]


def _cidrs(family: Family) -> st.SearchStrategy[str]:
    bits = 32 if family == 4 else 128
    return st.builds(
        lambda host, length: f"{address(family, host)}/{length}",
        st.integers(0, 31),
        st.integers(bits - 6, bits),
    )


def _spans(family: Family) -> st.SearchStrategy[list[tuple[str, str]]]:
    """Draw the ranges of a pool, sound ones and any."""
    sound = st.lists(st.integers(0, 31), min_size=2, max_size=6, unique=True).map(
        lambda ends: [
            (address(family, a), address(family, b))
            for a, b in zip(sorted(ends)[::2], sorted(ends)[1::2], strict=False)
        ]
    )
    ends = st.integers(-2, 34).map(lambda offset: address(family, offset))
    return st.one_of(st.just([]), sound, st.lists(st.tuples(ends, ends), max_size=3))


def _tenant(spans: list[tuple[str, str]], in_ranges: bool) -> dict[str, Any] | None:
    if not spans:
        return None
    if in_ranges:
        return {"ranges": [{"start": a, "end": b} for a, b in spans]}
    return {"start": spans[0][0], "end": spans[0][1]}


def _pools(family: Family) -> st.SearchStrategy[NetworkPool]:
    large = [
        f"{address(family, 0)}/{length}" for length in ((27, 26) if family == 4 else (123, 122))
    ]
    return st.builds(
        lambda cidr, reserved, spans, in_ranges: make.pool(
            cidr=cidr, reserved=reserved, tenant=_tenant(spans, in_ranges)
        ),
        st.one_of(*map(st.just, large), _cidrs(family)),
        st.lists(_cidrs(family), max_size=2),
        _spans(family),
        st.booleans(),
    )


POOLS = st.sampled_from(list(BASES)).flatmap(_pools)
HELD = st.lists(
    st.tuples(st.integers(0, 31), st.integers(0, 4), st.booleans()), min_size=1, max_size=4
)


def family_of(pool: NetworkPool) -> Family:
    """Return the family of a pool."""
    return 6 if ":" in pool.spec.cidr else 4


def oracle(spec: NetworkPoolSpec) -> set[int] | None:
    """Return the addresses that a spec hands out, one by one; None if it contradicts itself."""
    try:
        poolgeometry.parse_layout(spec, LIMIT)
    except InvalidPool:
        return None
    network = ip_network(spec.cidr, strict=False)
    spans = spec.list_declared_spans() or ((str(network[0]), str(network[-1])),)
    handed = {
        number
        for start, end in spans
        for number in range(int(ip_address(start)), int(ip_address(end)) + 1)
    }
    reserved = [ip_network(reserved_range.cidr, strict=False) for reserved_range in spec.reserved]
    kind = type(network[0])
    return {a for a in handed if not any(kind(a) in network for network in reserved)}


def situation(
    old: NetworkPool, held_ranges: list[tuple[int, int, bool]]
) -> tuple[NetworkPool, list[IPAllocation], dict[str, set[int]]]:
    """Return the pool with its promises, the allocations, and who has which addresses."""
    allocations, promises, has = [], [], {}
    family = family_of(old)
    for number, (offset, more, promised) in enumerate(held_ranges):
        name, first = f"a{number}", BASES[family] + offset
        ends = address(family, offset), address(family, offset + more)
        allocation = make.allocation(name, held_range=None if promised else ends)
        allocations.append(allocation)
        has[name] = set(range(first, first + more + 1))
        if promised:
            promises.append(make.list_promise(make.promise(allocation, *ends)))
    spec = old.spec
    reserved = [reserved_range.cidr for reserved_range in spec.reserved]
    tenant = None
    if spec.tenantAllocation is not None:
        in_ranges = bool(spec.tenantAllocation.ranges)
        tenant = _tenant([*spec.list_declared_spans()], in_ranges)
    pool = make.pool(
        cidr=spec.cidr, reserved=reserved, tenant=tenant, status={"assignments": promises}
    )
    return pool, allocations, has


def review_edit(new: NetworkPool, old: NetworkPool, allocations: list[IPAllocation]) -> Verdict:
    """Judge as the webhook does: who holds what is looked up only if something is let go."""
    lost = networkpool.gives_up_addresses(new, old, LIMIT)
    view = make.view(*allocations) if lost else None
    return networkpool.review_update(
        new, old, view=view, spaces=make.spaces(), max_addresses=LIMIT
    )


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(POOLS)
def test_what_is_accepted_is_what_the_pools_controller_accepts(new: NetworkPool) -> None:
    verdict = networkpool.review_creation(new, make.spaces(), LIMIT)
    assert verdict.allowed is (oracle(new.spec) is not None)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(POOLS, POOLS, HELD)
def test_an_edit_passes_exactly_if_no_holder_loses_an_address(
    old: NetworkPool, new: NetworkPool, held_ranges: list[tuple[int, int, bool]]
) -> None:
    before, after = oracle(old.spec), oracle(new.spec)
    pool, allocations, has = situation(old, held_ranges)
    verdict = review_edit(new, pool, allocations)
    if after is None:
        assert not verdict.allowed
        return
    losers = {
        name
        for name, addresses in has.items()
        if (addresses if before is None else addresses & before) - after
    }
    reported = " ".join(cause.message for cause in verdict.causes)
    assert {name for name in has if f'IPAllocation "{name}"' in reported} == losers
    shrunk = "does not contain the previous CIDR" in reported
    assert verdict.allowed is (not losers and not shrunk)


@pytest.mark.slow
@settings(deadline=None, max_examples=75)
@given(POOLS, POOLS, POOLS, HELD)
def test_no_row_of_accepted_edits_leaves_an_allocation_outside(
    first: NetworkPool,
    second: NetworkPool,
    third: NetworkPool,
    held_ranges: list[tuple[int, int, bool]],
) -> None:
    covered, base = oracle(first.spec) or set(), BASES[family_of(first)]
    inside = [
        held_range
        for held_range in held_ranges
        if set(range(base + held_range[0], base + held_range[0] + held_range[1] + 1)) <= covered
    ]
    pool, allocations, has = situation(first, inside)
    current = pool
    for expected in (second, third):
        edit, _, _ = situation(expected, [])
        candidate = make.pool(
            cidr=edit.spec.cidr,
            reserved=[reserved_range.cidr for reserved_range in edit.spec.reserved],
            tenant=_tenant([*edit.spec.list_declared_spans()], in_ranges=True),
            status={
                "assignments": [
                    make.list_promise(assignment) for assignment in pool.status.assignments
                ]
            },
        )
        if review_edit(candidate, current, allocations).allowed:
            current = candidate
    now = oracle(current.spec) or set()
    assert all(addresses <= now for addresses in has.values())
