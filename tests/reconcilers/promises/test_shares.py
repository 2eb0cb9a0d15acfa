"""Which requests may get a promise.

A request whose write was refused is deferred for one resync. The promises of one tenant, and the
promises of all tenants that have some, fill half of a journal at most.
"""

from collections.abc import Sequence

from allocator import AddressRange
from controller.meta import Key, ObjectMeta
from reconcilers.promises.identities import Tenant
from reconcilers.promises.journal import Promise, PromisedRange
from reconcilers.promises.shares import (
    MOST_STUCK,
    Eligibility,
    Shares,
    ShareVerdict,
    get_namespace_as_tenant,
)

RESYNC = 60.0
"""Seconds for which a request is deferred."""
CAPACITY = 40
"""How many promises the journal has room for."""


def make_metadata(name: str, generation: int = 1) -> ObjectMeta:
    """Return the metadata of the request n/`name`."""
    return ObjectMeta(name=name, namespace="n", uid=f"uid-{name}", generation=generation)


def make_promise(number: int, namespace: str = "n") -> Promise:
    """Return a promise to the request r`number` in a namespace."""
    promised = (PromisedRange(AddressRange(number, number, 4)),)
    return Promise(
        "K",
        Key(namespace, f"r{number}"),
        uid=f"uid-r{number}",
        resourceVersion="1",
        ranges=promised,
    )


def make_tenant(namespace: str) -> Tenant:
    """Return the tenant of the requests in a namespace."""
    return Tenant("K", namespace)


def compute_eligibility(
    shares: Shares, promises: Sequence[Promise] = (), now: float = 0.0
) -> Eligibility:
    """Return the eligibility at the time `now`, in seconds, beside these open promises."""
    return shares.build_eligibility(promises, get_namespace_as_tenant, capacity=CAPACITY, now=now)


def test_a_deferred_request_waits_for_one_resync() -> None:
    shares = Shares(RESYNC)
    shares.defer(make_metadata("a"), now=5.0)
    assert (
        compute_eligibility(shares, now=64.0).judge(make_metadata("a"), make_tenant("n"))
        is ShareVerdict.DEFERRED
    )
    assert shares.next_in(64.0) == 1.0
    assert (
        compute_eligibility(shares, now=64.0).judge(make_metadata("b"), make_tenant("n"))
        is ShareVerdict.ELIGIBLE
    )
    assert (
        compute_eligibility(shares, now=65.0).judge(make_metadata("a"), make_tenant("n"))
        is ShareVerdict.ELIGIBLE
    )
    assert shares.next_in(65.0) is None, "the deferral is over"


def test_a_new_spec_ends_the_deferral_of_a_request() -> None:
    shares = Shares(RESYNC)
    shares.defer(make_metadata("a"), now=0.0)
    assert (
        compute_eligibility(shares).judge(make_metadata("a", generation=2), make_tenant("n"))
        is ShareVerdict.ELIGIBLE
    )


def test_another_request_of_the_same_name_is_not_deferred() -> None:
    shares = Shares(RESYNC)
    shares.defer(make_metadata("a"), now=0.0)
    another = ObjectMeta(name="a", namespace="n", uid="another", generation=1)
    assert compute_eligibility(shares).judge(another, make_tenant("n")) is ShareVerdict.ELIGIBLE


def test_a_tenant_gets_half_of_a_journal_at_most() -> None:
    eligible = compute_eligibility(
        Shares(RESYNC), [make_promise(number) for number in range(CAPACITY // 2 - 1)]
    )
    assert eligible.judge(make_metadata("a"), make_tenant("n")) is ShareVerdict.ELIGIBLE
    eligible.note_promised(make_tenant("n"))
    assert eligible.judge(make_metadata("b"), make_tenant("n")) is ShareVerdict.TENANT_WAITS
    assert eligible.has_waiting_tenant, "there is room once the open promises are written"
    assert eligible.judge(make_metadata("b"), make_tenant("other")) is ShareVerdict.ELIGIBLE


def test_requests_without_a_tenant_may_fill_a_journal() -> None:
    eligible = compute_eligibility(
        Shares(RESYNC), [make_promise(number, "") for number in range(CAPACITY)]
    )
    assert eligible.judge(make_metadata("a"), None) is ShareVerdict.ELIGIBLE


def test_a_tenant_with_stuck_promises_waits_until_they_are_over() -> None:
    shares = Shares(RESYNC)
    promises = [make_promise(number) for number in range(MOST_STUCK)]
    for stuck in promises[1:]:
        shares.note_stuck(stuck)
    assert (
        compute_eligibility(shares, promises).judge(make_metadata("a"), make_tenant("n"))
        is ShareVerdict.ELIGIBLE
    )
    shares.note_stuck(promises[0])
    eligible = compute_eligibility(shares, promises)
    assert eligible.judge(make_metadata("a"), make_tenant("n")) is ShareVerdict.TENANT_WAITS
    assert not eligible.has_waiting_tenant, "stuck promises do not end soon"
    assert eligible.judge(make_metadata("a"), make_tenant("other")) is ShareVerdict.ELIGIBLE
    assert (
        compute_eligibility(shares, promises[1:]).judge(make_metadata("a"), make_tenant("n"))
        is ShareVerdict.ELIGIBLE
    )


def test_an_eligibility_without_any_promises_limits_nothing() -> None:
    assert Eligibility().judge(make_metadata("a"), make_tenant("n")) is ShareVerdict.ELIGIBLE


def test_tenants_with_open_promises_wait_while_all_of_them_fill_half_of_a_journal() -> None:
    promises = [make_promise(number, f"n{number % 4}") for number in range(CAPACITY // 2 - 1)]
    eligible = compute_eligibility(Shares(RESYNC), promises)
    assert eligible.judge(make_metadata("a"), make_tenant("n0")) is ShareVerdict.ELIGIBLE
    eligible.note_promised(make_tenant("n0"))
    assert eligible.judge(make_metadata("b"), make_tenant("n1")) is ShareVerdict.TENANT_WAITS
    assert eligible.has_waiting_tenant, "there is room once the open promises are written"
    assert eligible.judge(make_metadata("b"), make_tenant("other")) is ShareVerdict.ELIGIBLE
    eligible.note_promised(make_tenant("other"))
    assert eligible.judge(make_metadata("c"), make_tenant("other")) is ShareVerdict.TENANT_WAITS


def test_a_tenant_is_not_expected_to_get_more_soon_while_half_of_a_journal_is_stuck() -> None:
    shares = Shares(RESYNC)
    promises = [make_promise(number, f"n{number % 4}") for number in range(CAPACITY // 2)]
    for stuck in promises:
        shares.note_stuck(stuck)
    eligible = compute_eligibility(shares, promises)
    assert eligible.judge(make_metadata("a"), make_tenant("n0")) is ShareVerdict.TENANT_WAITS
    assert not eligible.has_waiting_tenant
