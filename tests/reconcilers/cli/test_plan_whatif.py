"""`plan --fit`: the figures of the pools before and after, and how many tenants would fit."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator import AddressRange, Layout, Space
from reconcilers.cli.planning.report import Size, count_tenants
from tests.reconcilers.cli.commandline import (
    make_allocation,
    make_held_status,
    make_pool,
    plan,
    plan_text,
    run,
)


def read_forecast(*objects: Any, fit: str) -> dict[str, dict[str, Any]]:
    """Run `plan --fit NODES+BALANCERS`; return the forecast of each pool by name."""
    outcome = plan(*objects, options=("--fit", fit))
    assert outcome.code == 0
    document = json.loads(outcome.out)
    assert (document["apiVersion"], document["kind"]) == (
        "report.butler-ipam/v1",
        "PoolForecastList",
    )
    return {item["name"]: item for item in document["items"]}


def test_the_largest_block_and_the_fragmentation_are_printed_before_and_after() -> None:
    holder = make_allocation("old", 8, status=make_held_status("10.40.0.8", "10.40.0.15"))
    printed = read_forecast(
        make_pool(
            cidr="10.40.0.0/27",
        ),
        holder,
        make_allocation("new", 16),
        fit="0+8",
    )["lab"]
    assert (printed["before"]["largestFreeBlock"], printed["after"]["largestFreeBlock"]) == (16, 8)
    assert (
        printed["before"]["fragmentationPercent"],
        printed["after"]["fragmentationPercent"],
    ) == (
        34,
        0,
    )
    assert printed["before"]["fits"] == [{"nodes": 0, "loadBalancers": 8, "tenants": 3}]
    assert printed["after"]["fits"] == [{"nodes": 0, "loadBalancers": 8, "tenants": 1}]


def test_a_tenant_fits_only_where_both_its_ranges_do() -> None:
    printed = read_forecast(make_pool(cidr="10.40.0.0/28"), fit="5+8")["lab"]
    assert printed["before"]["fits"][0]["tenants"] == 1
    printed = read_forecast(make_pool(cidr="10.40.0.0/28"), fit="9+8")["lab"]
    assert printed["before"]["fits"][0]["tenants"] == 0


def test_the_number_of_tenants_is_computed_for_a_very_large_pool() -> None:
    printed = read_forecast(make_pool(cidr="fd00::/64"), fit="5+8")["lab"]
    assert printed["before"]["fits"][0]["tenants"] == str(2**64 // 13)
    assert printed["before"]["total"] == str(2**64), "as text: it is above 2^53"


def test_the_forecast_has_an_entry_for_each_family_of_a_pool() -> None:
    both = make_pool(cidr="10.40.0.0/28")
    both["spec"]["secondary"] = {"cidr": "fd00::/122"}
    request = make_allocation("a", 4)
    request["spec"]["ipFamilyPolicy"] = "RequireDualStack"
    printed = json.loads(plan(both, request, options=("--fit", "2+2")).out)["items"]
    outcomes = [
        (item["cidr"], [item[when]["fits"][0]["tenants"] for when in ("before", "after")])
        for item in printed
    ]
    assert outcomes == [("10.40.0.0/28", [4, 3]), ("fd00::/122", [16, 15])]
    out = plan_text(json.dumps(both) + "\n---\n" + json.dumps(request), "--fit", "2+2").out
    sections = [part.splitlines() for part in out.split("\n\n")]
    for rows in sections[:2]:
        assert [row.split()[2] for row in rows[2:]] == ["10.40.0.0/28", "fd00::/122"]
    assert "10.40.0.0/30, fd00::/126" in out


def test_the_table_has_a_column_for_each_size() -> None:
    manifests = json.dumps(make_pool(cidr="10.40.0.0/24"))
    out = plan_text(manifests, "--fit", "5+8", "--fit", "0+4").out
    section = out.partition("Before and after\n")[2].partition("\n\n")[0]
    head, row = section.splitlines()
    assert head.split() == [
        *("NAMESPACE", "NAME", "CIDR", "ALLOCATED", "FREE", "LARGEST", "FRAGMENTED"),
        *("FITS", "5+8", "FITS", "0+4"),
    ]
    assert row.split() == [
        *("butler-system", "lab", "10.40.0.0/24", "0", "256", "256", "0%", "19", "64")
    ]


def test_without_fit_the_table_of_an_unchanged_pool_has_no_comparison() -> None:
    assert "Before and after" not in plan_text(json.dumps(make_pool())).out


def test_an_invalid_pool_has_no_forecast_and_no_tenant_fits_into_a_deleted_pool() -> None:
    deleted = make_pool("deleted", "10.0.0.0/24", deletionTimestamp="2026-01-01T00:00:00Z")
    outcome = plan(make_pool("bad", "10.0.0.0/33"), deleted, options=("--fit", "1+1"))
    printed = {item["name"]: item for item in json.loads(outcome.out)["items"]}
    assert list(printed) == ["deleted"]
    assert printed["deleted"]["before"]["fits"][0]["tenants"] == 0


@pytest.mark.parametrize(
    "content", ["8", "0+0", "5+", "+8", "a+b", "5+8+1", "-1+4", "5000000000+1"]
)
def test_an_invalid_size_is_rejected_and_quoted(content: str) -> None:
    outcome = run("plan", "-f", "-", f"--fit={content}")
    assert outcome.code == 2
    assert content in outcome.errors[0]


def test_output_name_lists_the_allocations_that_get_a_range_in_the_plan() -> None:
    holder = make_allocation("old", 8, status=make_held_status("10.40.0.8", "10.40.0.15"))
    manifests = "\n---\n".join(map(json.dumps, (make_pool(), holder, make_allocation("new", 16))))
    assert plan_text(manifests, "-o", "name").out == ("ipallocation.butler.butlerlabs.dev/new\n")


@given(
    st.integers(0, 9),
    st.integers(0, 9),
    st.lists(st.integers(0, 63), max_size=12),
)
def test_the_printed_number_of_tenants_fits_and_not_one_more(
    nodes: int, balancers: int, used_offsets: list[int]
) -> None:
    if nodes + balancers == 0:
        return
    first = AddressRange.parse_cidr("10.0.0.0/26").first

    def make_space() -> Space:
        address_ranges = [AddressRange(first + n, first + n, 4) for n in set(used_offsets)]
        return Space(Layout.parse("10.0.0.0/26", (), ()), address_ranges)

    counted = count_tenants(make_space(), Size(nodes, balancers))
    space = make_space()
    sizes = [count for count in (balancers, nodes) if count]
    for _ in range(counted):
        for size in sizes:
            space.allocate(size)
    if space.fits(sizes[0]):
        space.allocate(sizes[0])
        assert len(sizes) == 2
        assert not space.fits(sizes[1])
