"""The webhooks refuse pools with the messages of Cluster API's in-cluster provider."""

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

SCHEMA_MESSAGES = ("Required value", "greater than or", "less than or equal")
"""What messages begin with that only the schema of the CRD has."""
CASES = {
    name: case
    for name, case in {**REFUSED, **REFUSED_BY_WEBHOOK}.items()
    if not case[3].startswith(SCHEMA_MESSAGES)
}
"""By name: the kind of a pool, its spec, the wrong field, and the message about it."""


def decode_spec(kind: str, spec: Json) -> IPPoolSpec | PrefixPoolSpec:
    """Return the spec of a pool of a kind as the webhook decodes it."""
    [model] = [resource.type for resource in POOLS if resource.kind == kind]
    decoded: IPPoolSpec | PrefixPoolSpec = msgspec.convert(
        {"metadata": {"name": "x"}, "spec": spec}, model
    ).spec
    return decoded


@pytest.mark.parametrize("name", CASES)
def test_the_webhook_refuses_each_spec_that_the_schema_or_upstream_refuses(name: str) -> None:
    kind, spec, field, message = CASES[name]
    faults = rules.find_faults(decode_spec(kind, spec))
    assert field.partition("[")[0] in {cause.field for cause in faults}
    assert any(message in cause.message for cause in faults), faults


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_webhook_accepts_each_spec_that_the_schema_accepts(name: str) -> None:
    assert rules.find_faults(decode_spec(*ACCEPTED[name])) == []


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
"""Address and prefix length of each IPAddress of the pool."""


@pytest.mark.parametrize(
    ("new", "lost_ranges"),
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
def test_an_edit_that_takes_addresses_in_use_out_of_the_pool_is_refused(
    new: IPPoolSpec, lost_ranges: str
) -> None:
    expected = f"pool addresses do not contain allocated addresses: {lost_ranges}"
    message = rules.describe_left_out(new, BASE, IN_USE)
    assert message == (expected if lost_ranges else "")


def test_reserving_the_network_address_again_is_refused_while_it_is_in_use() -> None:
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


def test_an_edit_that_takes_a_prefix_in_use_out_of_the_pool_is_refused() -> None:
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
def test_an_edit_is_refused_whenever_it_takes_an_address_in_use_out_of_the_pool(
    old_spans: list[tuple[int, int]], new_spans: list[tuple[int, int]], used: list[int]
) -> None:
    """A span is the last octet of its first address, and how many addresses follow that one."""

    def make_spec(spans: list[tuple[int, int]]) -> IPPoolSpec:
        addresses = tuple(f"10.0.0.{first}-10.0.0.{first + size}" for first, size in spans)
        return IPPoolSpec(addresses, 24)

    old, new = make_spec(old_spans), make_spec(new_spans)
    in_use = [(f"10.0.0.{number}", 24) for number in used]
    old_space, new_space = rules.parse_space(old), rules.parse_space(new)
    lost = [
        address
        for address, prefix in in_use
        if old_space.hands_out(address, prefix) and not new_space.hands_out(address, prefix)
    ]
    assert bool(rules.describe_left_out(new, old, in_use)) == bool(lost)
    assert rules.may_give_up_blocks(new, old) or not lost


def test_a_prefix_pool_that_hands_out_single_addresses_gets_warnings() -> None:
    spec = PrefixPoolSpec(("2001:db8::/64",), 128, "2001:db8::1")
    first, second = rules.find_warnings(spec)
    assert first.startswith("spec.allocationPrefixLength=128 behaves like host-address allocation")
    assert second.startswith("spec.gateway is within spec.prefixes and is not reserved")
    assert list(rules.find_warnings(PrefixPoolSpec(("2001:db8::/64",), 128, "fe80::1"))) == [first]
    assert list(rules.find_warnings(PrefixPoolSpec(("2001:db8::/48",), 64, "2001:db8::1"))) == []


@pytest.mark.parametrize(
    ("annotation", "is_allowed"),
    [(SKIP_DELETE_CHECK, True), (DELETE_FOR_MOVE, True), (PAUSED, False), (None, False)],
)
def test_a_pool_in_use_may_be_deleted_only_with_certain_annotations(
    annotation: str | None, *, is_allowed: bool
) -> None:
    annotations: dict[str, Any] = {annotation: ""} if annotation else {}
    body = {"metadata": {"name": "x", "annotations": annotations}, "spec": {}}
    assert rules.may_be_deleted_in_use(msgspec.convert(body, InClusterIPPool)) is is_allowed
