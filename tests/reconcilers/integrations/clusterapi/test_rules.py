"""What the webhooks refuse of pools, in the words of Cluster API's in-cluster provider."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcilers.integrations.clusterapi import rules
from reconcilers.integrations.clusterapi.api import (
    DELETE_FOR_MOVE,
    PAUSED,
    POOLS,
    SKIP_DELETE_CHECK,
    InClusterIPPool,
    IPPoolSpec,
    PrefixPoolSpec,
)
from tests.contract.clusterapi_pool_cases import (
    ACCEPTED,
    REFUSED,
    REFUSED_BY_WEBHOOK,
    Json,
)

BY_THE_SCHEMA = ("Required value", "greater than or", "less than or equal")
CASES = {
    name: case
    for name, case in {**REFUSED, **REFUSED_BY_WEBHOOK}.items()
    if not case[3].startswith(BY_THE_SCHEMA)
}


def render_spec(kind: str, spec: Json) -> IPPoolSpec | PrefixPoolSpec:
    """Return a spec as the webhook reads it."""
    [model] = [resource.type for resource in POOLS if resource.kind == kind]
    read: IPPoolSpec | PrefixPoolSpec = msgspec.convert(
        {"metadata": {"name": "x"}, "spec": spec}, model
    ).spec
    return read


@pytest.mark.parametrize("name", CASES)
def test_the_webhook_refuses_what_the_schema_refuses_and_more(name: str) -> None:
    kind, spec, field, message = CASES[name]
    faults = rules.find_faults(render_spec(kind, spec))
    assert field.partition("[")[0] in {cause.field for cause in faults}
    assert any(message in cause.message for cause in faults), faults


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_webhook_accepts_what_the_schema_accepts(name: str) -> None:
    assert rules.find_faults(render_spec(*ACCEPTED[name])) == []


def test_a_value_is_quoted_as_the_api_server_quotes_it() -> None:
    [cause] = rules.find_faults(IPPoolSpec(("garbage",), 24))
    assert cause.message == (
        'Invalid value: "garbage": provided address is not a valid IP, range, nor CIDR'
    )


def test_all_faults_are_named_at_once() -> None:
    spec = IPPoolSpec(
        ("x", "10.0.0.1", "::1"),
        -1,
        gateway="y",
        excludedAddresses=("z",),
        allocateReservedIPAddresses=None,
        addressReuseGracePeriodSeconds=-5,
    )
    assert [cause.field for cause in rules.find_faults(spec)] == [
        "spec.prefix",
        "spec.addresses",
        "spec.addresses",
        "spec.gateway",
        "spec.excludedAddresses",
        "spec.addressReuseGracePeriodSeconds",
    ]


def test_the_length_of_prefixes_cannot_be_changed() -> None:
    old, new = PrefixPoolSpec(("2001:db8::/48",)), PrefixPoolSpec(("2001:db8::/48",), 60)
    [cause] = rules.find_immutable_edits(new, old)
    assert cause.message == "Invalid value: 60: spec.allocationPrefixLength is immutable"
    assert rules.find_immutable_edits(old, old) == []


BASE = IPPoolSpec(("10.0.0.1-10.0.0.20",), 24)
IN_USE = [("10.0.0.3", 24), ("10.0.0.4", 24), ("10.0.0.9", 24)]


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (IPPoolSpec(("10.0.0.5-10.0.0.20",), 24), "[10.0.0.3-10.0.0.4]"),
        (IPPoolSpec(("10.0.0.4-10.0.0.8",), 24), "[10.0.0.3-10.0.0.3 10.0.0.9-10.0.0.9]"),
        (IPPoolSpec(BASE.addresses, 24, "10.0.0.9"), "[10.0.0.9-10.0.0.9]"),
        (
            IPPoolSpec(BASE.addresses, 24, gateway="", excludedAddresses=("10.0.0.0/30",)),
            "[10.0.0.3-10.0.0.3]",
        ),
        (IPPoolSpec(("10.1.0.0/24",), 24), "[10.0.0.3-10.0.0.4 10.0.0.9-10.0.0.9]"),
        (IPPoolSpec(("10.0.0.3-10.0.0.30",), 24), ""),
        (IPPoolSpec(BASE.addresses, 24, "10.0.0.10"), ""),
    ],
)
def test_an_edit_that_leaves_out_what_is_in_use_is_refused(new: IPPoolSpec, expected: str) -> None:
    said = rules.describe_left_out(new, BASE, IN_USE)
    assert said == (expected and f"pool addresses do not contain allocated addresses: {expected}")


def test_reserving_a_subnets_end_again_is_refused_while_it_is_in_use() -> None:
    old = IPPoolSpec(("10.0.0.0/24",), 24, allocateReservedIPAddresses=True)
    new = IPPoolSpec(("10.0.0.0/24",), 24)
    assert rules.may_give_up_blocks(new, old)
    assert "[10.0.0.0-10.0.0.0]" in rules.describe_left_out(new, old, [("10.0.0.0", 24)])


def test_an_edit_is_not_refused_for_an_address_that_was_outside_before() -> None:
    wider = IPPoolSpec(("10.0.0.1-10.0.0.20", "10.0.0.40"), 24)
    assert (
        rules.describe_left_out(wider, BASE, [("10.0.0.30", 24), ("2001:db8::1", 64), ("x", 0)])
        == ""
    )
    assert rules.describe_left_out(wider, None, [("10.0.0.30", 24)]) != ""


def test_an_edit_of_a_prefix_pool_that_leaves_out_what_is_in_use_is_refused() -> None:
    old = PrefixPoolSpec(("2001:db8::/60",))
    new = PrefixPoolSpec(("2001:db8::/60",), excludedPrefixes=("2001:db8:0:1::7",))
    in_use = [("2001:db8::", 64), ("2001:db8:0:1::", 64)]
    assert rules.may_give_up_blocks(new, old)
    assert rules.describe_left_out(new, old, in_use) == (
        "existing allocations become non-allocatable: [2001:db8:0:1::]"
    )


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), min_size=1, max_size=4),
    st.lists(st.integers(0, 60), max_size=6),
)
def test_every_address_in_use_that_an_edit_leaves_out_is_reported(
    before: list[tuple[int, int]], after: list[tuple[int, int]], used: list[int]
) -> None:
    def spec(spans: list[tuple[int, int]]) -> IPPoolSpec:
        texts = tuple(f"10.0.0.{first}-10.0.0.{first + size}" for first, size in spans)
        return IPPoolSpec(texts, 24)

    old, new = spec(before), spec(after)
    in_use = [(f"10.0.0.{number}", 24) for number in used]
    old_space, new_space = rules.parse_space(old), rules.parse_space(new)
    lost = [a for a, p in in_use if old_space.hands_out(a, p) and not new_space.hands_out(a, p)]
    assert bool(rules.describe_left_out(new, old, in_use)) == bool(lost)
    assert rules.may_give_up_blocks(new, old) or not lost


def test_a_pool_of_single_addresses_in_prefixes_is_warned_of() -> None:
    spec = PrefixPoolSpec(("2001:db8::/64",), 128, "2001:db8::1")
    first, second = rules.find_warnings(spec)
    assert first.startswith("spec.allocationPrefixLength=128 behaves like host-address allocation")
    assert second.startswith("spec.gateway is within spec.prefixes and is not reserved")
    assert list(rules.find_warnings(PrefixPoolSpec(("2001:db8::/64",), 128, "fe80::1"))) == [first]
    assert list(rules.find_warnings(PrefixPoolSpec(("2001:db8::/48",), 64, "2001:db8::1"))) == []


@pytest.mark.parametrize(
    ("annotation", "allowed"),
    [(SKIP_DELETE_CHECK, True), (DELETE_FOR_MOVE, True), (PAUSED, False), (None, False)],
)
def test_an_annotation_lets_a_pool_go_though_it_is_in_use(
    annotation: str | None, *, allowed: bool
) -> None:
    annotations: dict[str, Any] = {annotation: ""} if annotation else {}
    body = {"metadata": {"name": "x", "annotations": annotations}, "spec": {}}
    assert rules.may_be_deleted_in_use(msgspec.convert(body, InClusterIPPool)) is allowed
