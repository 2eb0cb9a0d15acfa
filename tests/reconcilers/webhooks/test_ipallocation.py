"""The rules on IPAllocations: the pool can serve them at some time, and specs do not change."""

from typing import Any

import pytest

from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.specrules.verdict import Verdict
from reconcilers.webhooks import ipallocation
from tests.reconcilers import make

LIMIT = 1 << 20
"""The largest number of addresses that a pool may have."""
POOL = make.pool(reserved=["10.40.0.0/28"])


def review_creation(new: IPAllocation, pool: NetworkPool | None = POOL, *others: Any) -> Verdict:
    """Return the verdict on a new allocation of a pool, beside `others`."""
    return ipallocation.review_creation(
        new, pool, read_view=lambda: make.view(*others), max_addresses=LIMIT
    )


@pytest.mark.parametrize(
    ("new", "where", "message"),
    [
        (
            make.allocation("a", pin=("10.40.0.9", "10.40.0.3")),
            "pinnedRange",
            "start is after end",
        ),
        (make.allocation("a", pin=("300.0.0.1", "300.0.0.2")), "pinnedRange", "is not an IP"),
        (make.allocation("a", pin=("10.99.0.0", "10.99.0.1")), "pinnedRange", "outside"),
        (make.allocation("a", pin=("10.40.0.0", "10.40.0.3")), "pinnedRange", "holds reserved"),
        (make.allocation("a", size=500), "count", "asks for 500 addresses in a row"),
        (
            make.allocation("a", prefix=24),
            "prefixLength",
            "asks for 256 addresses as one CIDR, a /24",
        ),
        (make.allocation("a", prefix=64), "prefixLength", "prefix length 64 is none of IPv4"),
        (make.allocation("a", prefix=28, size=16), "prefixLength", "set only one of them"),
        (
            make.allocation("a", prefix=28, pin=("10.40.0.16", "10.40.0.31")),
            "prefixLength",
            "set only one of them",
        ),
    ],
)
def test_an_allocation_that_its_pool_can_never_serve_is_rejected(
    new: IPAllocation, where: str, message: str
) -> None:
    [cause] = review_creation(new).causes
    assert cause.field == f"spec.{where}"
    assert message in cause.message


def test_a_block_that_fits_into_its_pool_is_accepted() -> None:
    assert review_creation(make.allocation("a", prefix=25)) == Verdict()
    assert (
        review_creation(make.allocation("a", prefix=64), make.pool(cidr="fd00::/48")) == Verdict()
    )
    full = {"observedGeneration": 1, "largestFreeBlock": 9}
    verdict = review_creation(make.allocation("a", prefix=28), make.pool(status=full))
    assert verdict.allowed
    assert "spec.prefixLength: asks for 16 addresses" in verdict.warnings[0]


def test_an_allocation_without_count_is_rejected_if_the_default_never_fits() -> None:
    tiny = make.pool(cidr="10.40.0.0/30")
    assert not review_creation(make.allocation("a", kind="loadbalancer"), tiny).allowed
    assert review_creation(make.allocation("a", kind="loadbalancer", size=4), tiny).allowed


def test_a_pool_that_does_not_exist_is_a_warning() -> None:
    verdict = review_creation(make.allocation("a", size=500), None)
    assert verdict.allowed
    assert verdict.warnings == (
        (
            "spec.poolRef.name: NetworkPool butler-system/lab does not exist; the request waits"
            " until it does"
        ),
    )


def test_an_invalid_pinned_range_is_rejected_even_if_the_pool_does_not_exist() -> None:
    assert not review_creation(make.allocation("a", pin=("10.40.0.9", "10.40.0.3")), None).allowed


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (make.pool(cidr="10.0.0.0/40"), "hands out nothing until its spec is corrected"),
        (make.pool(deletionTimestamp="2026-01-01T00:00:00Z"), "is being deleted"),
        (
            make.pool(status={"observedGeneration": 1, "largestFreeBlock": 3}),
            "has 3 free now; the request waits",
        ),
    ],
)
def test_a_pool_that_cannot_serve_now_is_a_warning(pool: NetworkPool, message: str) -> None:
    verdict = review_creation(make.allocation("a", size=4), pool)
    assert verdict.allowed
    [warning] = verdict.warnings
    assert message in warning


def test_free_addresses_in_a_status_of_an_older_spec_are_ignored() -> None:
    pool = make.pool(generation=2, status={"observedGeneration": 1, "largestFreeBlock": 0})
    assert review_creation(make.allocation("a", size=4), pool) == Verdict()


def test_a_pinned_range_that_is_held_already_is_a_warning() -> None:
    holder = make.allocation("holder", held_range=("10.40.0.20", "10.40.0.27"))
    verdict = review_creation(make.allocation("a", pin=("10.40.0.24", "10.40.0.31")), POOL, holder)
    assert verdict.allowed
    assert "IPAllocation holder has 10.40.0.20-10.40.0.27" in verdict.warnings[0]


def test_a_pinned_range_that_was_promised_is_a_warning() -> None:
    waiting = make.allocation("waits")
    promise = make.render_promise(make.promise(waiting, "10.40.0.24", "10.40.0.31"))
    pool = make.pool(status={"assignments": [promise]})
    verdict = review_creation(
        make.allocation("a", pin=("10.40.0.24", "10.40.0.31")), pool, waiting
    )
    assert "IPAllocation waits has 10.40.0.24/29" in verdict.warnings[0]


def test_a_pinned_range_that_was_promised_to_a_claim_is_a_warning_that_names_its_kind() -> None:
    promise = make.render_claim_promise("10.40.0.24", "10.40.0.24", name="a")
    pool = make.pool(status={"assignments": [promise]})
    verdict = review_creation(make.allocation("a", pin=("10.40.0.24", "10.40.0.31")), pool)
    assert "IPAddressClaim a has 10.40.0.24" in verdict.warnings[0]


def test_a_count_together_with_another_pinned_range_is_a_warning() -> None:
    new = make.allocation("a", size=4, pin=("10.40.0.24", "10.40.0.31"))
    assert "ignored, as pinnedRange names 8 addresses" in review_creation(new).warnings[0]


@pytest.mark.parametrize("change", [{"size": 9}, {"of": "other"}, {"tenant": "team/b"}])
def test_a_spec_cannot_be_changed(change: dict[str, Any]) -> None:
    old, new = make.allocation("a", size=8), make.allocation("a", **({"size": 8} | change))
    [cause] = ipallocation.review_update(new, old).causes
    assert (cause.field, cause.reason) == ("spec", "FieldValueForbidden")


def test_an_undecodable_allocation_can_be_replaced_by_a_valid_one() -> None:
    assert ipallocation.review_update(make.allocation("a"), None).allowed
