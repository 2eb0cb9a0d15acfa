"""Which requests may be promised something."""

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
    tenant_of_namespace,
)

RESYNC = 60.0
CAPACITY = 40


def meta(name: str, generation: int = 1) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="n", uid=f"uid-{name}", generation=generation)


def promise(number: int, namespace: str = "n") -> Promise:
    promised = (PromisedRange(AddressRange(number, number, 4)),)
    return Promise(
        "K",
        Key(namespace, f"r{number}"),
        uid=f"uid-r{number}",
        resourceVersion="1",
        ranges=promised,
    )


def tenant(namespace: str) -> Tenant:
    return Tenant("K", namespace)


def eligibility(shares: Shares, promises: Sequence[Promise] = (), now: float = 0.0) -> Eligibility:
    return shares.eligibility(promises, tenant_of_namespace, capacity=CAPACITY, now=now)


def test_a_deferred_request_waits_for_one_resync() -> None:
    shares = Shares(RESYNC)
    shares.defer(meta("a"), now=5.0)
    assert eligibility(shares, now=64.0).judge(meta("a"), tenant("n")) is ShareVerdict.DEFERRED
    assert shares.next_in(64.0) == 1.0
    assert eligibility(shares, now=64.0).judge(meta("b"), tenant("n")) is ShareVerdict.ELIGIBLE
    assert eligibility(shares, now=65.0).judge(meta("a"), tenant("n")) is ShareVerdict.ELIGIBLE
    assert shares.next_in(65.0) is None, "it is forgotten"


def test_a_new_spec_ends_the_deferral_of_a_request() -> None:
    shares = Shares(RESYNC)
    shares.defer(meta("a"), now=0.0)
    assert eligibility(shares).judge(meta("a", generation=2), tenant("n")) is ShareVerdict.ELIGIBLE


def test_another_request_of_the_same_name_is_not_deferred() -> None:
    shares = Shares(RESYNC)
    shares.defer(meta("a"), now=0.0)
    another = ObjectMeta(name="a", namespace="n", uid="another", generation=1)
    assert eligibility(shares).judge(another, tenant("n")) is ShareVerdict.ELIGIBLE


def test_a_tenant_gets_half_of_a_journal_at_most() -> None:
    eligible = eligibility(
        Shares(RESYNC), [promise(number) for number in range(CAPACITY // 2 - 1)]
    )
    assert eligible.judge(meta("a"), tenant("n")) is ShareVerdict.ELIGIBLE
    eligible.note_promised(tenant("n"))
    assert eligible.judge(meta("b"), tenant("n")) is ShareVerdict.TENANT_WAITS
    assert eligible.has_waiting_tenant, "there is room once these are written"
    assert eligible.judge(meta("b"), tenant("other")) is ShareVerdict.ELIGIBLE


def test_requests_without_a_tenant_may_fill_a_journal() -> None:
    eligible = eligibility(Shares(RESYNC), [promise(number, "") for number in range(CAPACITY)])
    assert eligible.judge(meta("a"), None) is ShareVerdict.ELIGIBLE


def test_a_tenant_with_stuck_promises_waits_until_they_are_over() -> None:
    shares = Shares(RESYNC)
    promises = [promise(number) for number in range(MOST_STUCK)]
    for stuck in promises[1:]:
        shares.note_stuck(stuck)
    assert eligibility(shares, promises).judge(meta("a"), tenant("n")) is ShareVerdict.ELIGIBLE
    shares.note_stuck(promises[0])
    eligible = eligibility(shares, promises)
    assert eligible.judge(meta("a"), tenant("n")) is ShareVerdict.TENANT_WAITS
    assert not eligible.has_waiting_tenant, "nothing is to be expected soon"
    assert eligible.judge(meta("a"), tenant("other")) is ShareVerdict.ELIGIBLE
    assert eligibility(shares, promises[1:]).judge(meta("a"), tenant("n")) is ShareVerdict.ELIGIBLE


def test_nothing_is_limited_without_memory() -> None:
    assert Eligibility().judge(meta("a"), tenant("n")) is ShareVerdict.ELIGIBLE


def test_tenants_with_open_promises_wait_while_all_of_them_fill_half_of_a_journal() -> None:
    promises = [promise(number, f"n{number % 4}") for number in range(CAPACITY // 2 - 1)]
    eligible = eligibility(Shares(RESYNC), promises)
    assert eligible.judge(meta("a"), tenant("n0")) is ShareVerdict.ELIGIBLE
    eligible.note_promised(tenant("n0"))
    assert eligible.judge(meta("b"), tenant("n1")) is ShareVerdict.TENANT_WAITS
    assert eligible.has_waiting_tenant, "there is room once these are written"
    assert eligible.judge(meta("b"), tenant("other")) is ShareVerdict.ELIGIBLE
    eligible.note_promised(tenant("other"))
    assert eligible.judge(meta("c"), tenant("other")) is ShareVerdict.TENANT_WAITS


def test_a_tenant_is_not_expected_to_get_more_soon_while_half_of_a_journal_is_stuck() -> None:
    shares = Shares(RESYNC)
    promises = [promise(number, f"n{number % 4}") for number in range(CAPACITY // 2)]
    for stuck in promises:
        shares.note_stuck(stuck)
    eligible = eligibility(shares, promises)
    assert eligible.judge(meta("a"), tenant("n0")) is ShareVerdict.TENANT_WAITS
    assert not eligible.has_waiting_tenant
