"""The rules on NetworkPools and IPAllocations of two IP families."""

from typing import Any

import pytest
from msgspec.structs import replace

from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.poolrules import GATEWAY_FAMILY
from reconcilers.specrules.verdict import Verdict
from reconcilers.webhooks import ipallocation, networkpool
from tests.reconcilers import make

LIMIT = 1 << 20
"""The largest number of addresses that a pool may have."""
SECOND: dict[str, Any] = {"cidr": "fd00::/120"}
REQUIRE = {"ipFamilyPolicy": "RequireDualStack"}
PREFER = {"ipFamilyPolicy": "PreferDualStack"}
FREE_PIN = {"startAddress": "10.40.0.1", "endAddress": "10.40.0.1"}
BOTH = {
    "families": [
        {"family": "IPv4", "startAddress": "10.40.0.8", "endAddress": "10.40.0.9"},
        {"family": "IPv6", "startAddress": "fd00::8", "endAddress": "fd00::9"},
    ]
}
HOLDER = make.allocation("a", held_range=("10.40.0.8", "10.40.0.9"), asks=REQUIRE, status=BOTH)


def make_dual_pool(**second: Any) -> NetworkPool:
    """Return a pool with the block SECOND, of which some fields are replaced."""
    return make.pool(secondary=SECOND | second)


def make_ranges(*spans: tuple[str, str]) -> dict[str, Any]:
    """Return a tenantAllocation with ranges of fd00::, each given by the ends of its addresses."""
    return {"ranges": [{"start": f"fd00::{a}", "end": f"fd00::{b}"} for a, b in spans]}


def review_update(
    new: NetworkPool, *holders: IPAllocation, old: NetworkPool | None = None
) -> Verdict:
    """Return the verdict on an edit of a pool, with the allocations of the pool."""
    before = make_dual_pool() if old is None else old
    return networkpool.review_update(
        new, before, view=make.view(*holders), spaces=make.spaces(), max_addresses=LIMIT
    )


def review_request(pool: NetworkPool, **spec: Any) -> Verdict:
    """Return the verdict on a new allocation of a pool in which HOLDER holds its ranges."""
    new = make.allocation("a", asks=spec)
    return ipallocation.review_creation(
        new, pool, read_view=lambda: make.view(HOLDER), max_addresses=LIMIT
    )


def list_causes(verdict: Verdict) -> list[tuple[str, str]]:
    """Return field and message of each cause of a rejection."""
    return [(cause.field, cause.message) for cause in verdict.causes]


@pytest.mark.parametrize(
    ("second", "field", "expected_message"),
    [
        ({"cidr": "fd00::/200"}, "spec.secondary.cidr", "invalid pool CIDR"),
        ({"cidr": "10.41.0.0/24"}, "spec.secondary.cidr", "has the IP family of cidr"),
        ({"reserved": [{"cidr": "fd01::/124"}]}, "spec.secondary.reserved[0]", "is not within"),
        (
            {"tenantAllocation": make_ranges(("8", "f"), ("0", "3"))},
            "spec.secondary.tenantAllocation.ranges[1].start",
            "must be sorted",
        ),
    ],
)
def test_a_second_block_that_contradicts_itself_is_refused_at_its_field(
    second: dict[str, Any], field: str, expected_message: str
) -> None:
    [(where, message)] = list_causes(
        networkpool.review_creation(make_dual_pool(**second), make.spaces(), LIMIT)
    )
    assert where == field
    assert expected_message in message


@pytest.mark.parametrize(
    ("cidr", "gateway", "is_rejected"),
    [
        ("10.40.0.0/24", "fd00::1", True),
        ("10.40.0.0/24", "10.40.0.1", False),
        ("10.40.0.0/24", "", False),
        ("fd00:40::/64", "10.40.0.1", True),
        ("fd00:40::/64", "fe80::1", False),
    ],
)
def test_a_gateway_of_the_other_family_is_refused(
    cidr: str, gateway: str, is_rejected: bool
) -> None:
    """Machines get the gateway with addresses of the first family."""
    pool = make.pool(cidr=cidr, secondary=None if ":" in cidr else SECOND)
    new = replace(pool, spec=replace(pool.spec, gateway=gateway))
    found_causes = list_causes(networkpool.review_creation(new, make.spaces(), LIMIT))
    assert found_causes == ([("spec.gateway", GATEWAY_FAMILY.message)] if is_rejected else [])


def test_a_second_block_gets_the_same_warnings_as_the_first() -> None:
    other = make.pool("other", cidr="fd00::/64")
    verdict = networkpool.review_creation(
        make_dual_pool(cidr="fd00::7/120"), make.spaces(other), LIMIT
    )
    host_bits, shared = verdict.warnings
    assert host_bits == (
        "spec.secondary.cidr: 'fd00::7/120' has host bits set; it is read as fd00::/120"
    )
    key = other.metadata.key
    assert shared == (
        f"spec.secondary.cidr: addresses are also handed out by NetworkPool {key} (256 addresses)"
    )


@pytest.mark.parametrize(
    ("new", "field", "address"),
    [
        (make.pool(), "spec.secondary", "fd00::8"),
        (
            make_dual_pool(tenantAllocation=make_ranges(("0", "8"))),
            "spec.secondary.tenantAllocation",
            "fd00::9",
        ),
        (
            make_dual_pool(reserved=[{"cidr": "fd00::9/128"}]),
            "spec.secondary.reserved[0]",
            "fd00::9",
        ),
        (make.pool(reserved=["10.40.0.8/29"], secondary=SECOND), "spec.reserved[0]", "10.40.0.8"),
    ],
    ids=["taken away", "narrowed", "reserved", "the first"],
)
def test_an_edit_that_leaves_out_held_addresses_of_either_family_is_rejected(
    new: NetworkPool, field: str, address: str
) -> None:
    assert networkpool.gives_up_addresses(new, make_dual_pool(), LIMIT)
    assert review_update(new).allowed, "no allocation holds anything"
    [(where, message)] = list_causes(review_update(new, HOLDER))
    assert where == field
    assert 'IPAllocation "a"' in message
    assert address in message


def test_the_second_range_of_a_promise_cannot_be_removed_from_the_pool() -> None:
    waiting = make.allocation("b", asks=REQUIRE)
    meta = waiting.metadata
    promise = {
        "name": "b",
        "uid": meta.uid,
        "resourceVersion": meta.resourceVersion,
        "startAddress": "10.40.0.0",
        "endAddress": "10.40.0.0",
        "secondaryStartAddress": "fd00::",
        "secondaryEndAddress": "fd00::",
    }
    old = make.pool(secondary=SECOND, status={"assignments": [promise]})
    [(where, _)] = list_causes(review_update(make.pool(), waiting, old=old))
    assert where == "spec.secondary"


def test_a_second_family_can_be_added_to_a_used_pool_and_only_grow_afterwards() -> None:
    single = make.allocation("b", held_range=("10.40.0.0", "10.40.0.3"))
    assert not networkpool.gives_up_addresses(make_dual_pool(), make.pool(), LIMIT)
    assert review_update(make_dual_pool(), single, old=make.pool()).allowed
    assert review_update(make_dual_pool(cidr="fd00::/64"), HOLDER).allowed
    [(where, message)] = list_causes(review_update(make_dual_pool(cidr="fd00::/124")))
    assert where == "spec.secondary.cidr"
    assert "does not contain the previous CIDR" in message


@pytest.mark.parametrize(
    ("spec", "field", "expected_message"),
    [
        ({"ipFamilies": ["IPv6", "IPv4"]}, "spec.ipFamilyPolicy", "when multiple IP families"),
        ({"ipFamilies": ["IPv4", "IPv4"], **PREFER}, "spec.ipFamilies[1]", "must differ"),
        ({"prefixLength": 120, **PREFER}, "spec.prefixLength", "is for one family"),
        ({"count": 300, **REQUIRE}, "spec.count", "asks for 300 addresses in a row"),
        ({"prefixLength": 112, "ipFamilies": ["IPv6"]}, "spec.prefixLength", "as one CIDR"),
        (
            {"pinnedRanges": [FREE_PIN, {"startAddress": "fd00::9", "endAddress": "fd00::8"}]},
            "spec.pinnedRanges",
            "start is after end",
        ),
        (
            {"pinnedRanges": [FREE_PIN, {"startAddress": "fd00::9", "endAddress": "fd01::"}]}
            | REQUIRE,
            "spec.pinnedRanges[1]",
            "outside allocatable ranges",
        ),
        (
            {
                "pinnedRanges": [{"startAddress": "fd01::", "endAddress": "fd01::"}],
                **REQUIRE,
            },
            "spec.pinnedRanges[0]",
            "outside allocatable ranges",
        ),
    ],
)
def test_a_request_that_a_pool_of_two_families_can_never_serve_is_rejected(
    spec: dict[str, Any], field: str, expected_message: str
) -> None:
    [(where, message)] = list_causes(review_request(make_dual_pool(), **spec))
    assert where == field
    assert expected_message in message


@pytest.mark.parametrize(
    ("pool", "spec", "warned"),
    [
        (make.pool(), REQUIRE, "not configured for dual-stack allocations"),
        (make.pool(), {"ipFamilies": ["IPv6"]}, 'spec.ipFamilies[0]: Invalid value: "IPv6"'),
        (
            make_dual_pool(),
            {"pinnedRanges": [{"startAddress": "fd00::9", "endAddress": "fd00::a"}], **PREFER},
            "pinnedRanges[0]: fd00::9-fd00::a is not free now: IPAllocation a has fd00::8/127",
        ),
        (
            make.pool(
                secondary=SECOND,
                status={
                    "observedGeneration": 1,
                    "largestFreeBlock": 99,
                    "secondary": {"largestFreeBlock": 3},
                },
            ),
            {"count": 4, **REQUIRE},
            "has 3 of IPv6 free now; the request waits",
        ),
        (
            make.pool(
                secondary=SECOND,
                status={
                    "observedGeneration": 1,
                    "largestFreeBlock": 99,
                    "secondary": {"largestFreeBlock": 3},
                },
            ),
            {"count": 4, **PREFER},
            "has 3 of IPv6 free now; the request does without it",
        ),
    ],
)
def test_a_request_that_has_to_wait_gets_a_warning(
    pool: NetworkPool, spec: dict[str, Any], warned: str
) -> None:
    verdict = review_request(pool, **spec)
    assert verdict.allowed
    [warning] = verdict.warnings
    assert warned in warning
