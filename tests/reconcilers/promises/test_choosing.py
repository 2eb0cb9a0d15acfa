"""A choice along rows of equal requests grants the same as a choice that tries each request.

A row is a queue of waiting requests that are equal, so that a refusal of one holds for all.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from allocator import AddressRange, Layout, PoolExhausted
from controller.meta import Key, ObjectMeta
from reconcilers.promises.choosing import (
    AskerRefusal,
    Choice,
    Refused,
    ServedAskers,
    Taken,
    choose,
    exclude_ranges,
)
from reconcilers.promises.holdings import Facts, Holdings
from reconcilers.promises.identities import Find, Holder, Tenant, find_by_key
from reconcilers.promises.journal import Promise, PromisedRange
from reconcilers.promises.queue import TenantRow

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
FULL = ("Exhausted", "no free address")


@dataclass
class Request:
    """A request, and the reason and message of the refusal that it shows; None for no refusal."""

    metadata: ObjectMeta
    shown_refusal: tuple[str, str] | None


class RequestTaker:
    """Takes the lowest free address for requests of one kind.

    Args:
        find: returns the request of a holder.
        holdings: the holdings of the pool.
        in_rows: whether a request that shows its refusal lets the choice leave out its row.
    """

    def __init__(
        self, find: Find[Request], holdings: Holdings, *, in_rows: bool, kind: str = "Request"
    ) -> None:
        self.kind = kind
        self.find = find
        self.tried = 0
        """How often `take` was called."""
        self._holdings = holdings
        self._in_rows = in_rows

    def take(self, asker: Request) -> Taken:
        del asker
        self.tried += 1
        try:
            [address] = self._holdings.get_space().take_lowest(1)
        except PoolExhausted:
            raise Refused(*FULL) from None
        return Taken((PromisedRange(address),))

    def is_refusal_shown(self, asker: Request, refused: Refused) -> bool:
        return self._in_rows and asker.shown_refusal == (refused.reason, refused.message)


@dataclass
class Pool:
    """A pool of eight addresses, and its requests.

    Attributes:
        ages: the seconds after EPOCH at which each request was created.
        tried: how many requests the last choice tried.
    """

    requests: dict[Key, Request]
    ages: dict[Key, int]
    tried: int = 0

    def choose(self, *, in_rows: bool, batch: int = 256) -> Choice[Request]:
        """Return the choice of a pass that makes at most `batch` promises.

        Args:
            in_rows: whether equal requests are in one row.
        """
        holdings = Holdings({"": Layout.parse("10.0.0.0/29")})
        for key, request in self.requests.items():
            holder = Holder("Request", key)
            place = (EPOCH + timedelta(seconds=self.ages[key]), holder)
            row = ("Request", request.shown_refusal) if in_rows else None
            holdings.put(holder, Facts(place=place, row=row))
        find = find_by_key("Request", self.requests.get)
        taker = RequestTaker(find, holdings, in_rows=in_rows)
        with exclude_ranges(holdings, ()):
            choice = choose(holdings, [ServedAskers(taker)], (), batch)
        self.tried = taker.tried
        return choice


def make_pool(ages: list[tuple[int, bool]]) -> Pool:
    """Return a pool with a request for each age; the flag says whether it shows a refusal."""
    keys = [Key("team", f"r{number:05}") for number in range(len(ages))]
    requests = {
        key: Request(
            ObjectMeta(namespace="team", name=key.name, uid=key.name, resourceVersion="7"),
            FULL if is_refused else None,
        )
        for key, (_, is_refused) in zip(keys, ages, strict=True)
    }
    return Pool(requests, {key: age for key, (age, _) in zip(keys, ages, strict=True)})


def list_new_refusals(choice: Choice[Request]) -> list[AskerRefusal[Request]]:
    """Return the refusals of requests that do not show one yet."""
    return [refusal for refusal in choice.refusals if refusal.asker.shown_refusal is None]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=20), st.integers(1, 12))
def test_rows_change_neither_the_grants_nor_the_new_refusals(
    ages: list[tuple[int, bool]], batch: int
) -> None:
    pool = make_pool(ages)
    one_by_one, by_rows = (pool.choose(in_rows=flag, batch=batch) for flag in (False, True))
    assert by_rows.grants == one_by_one.grants
    assert by_rows.more == one_by_one.more
    assert list_new_refusals(by_rows) == list_new_refusals(one_by_one)


def test_thousands_of_equal_requests_to_a_full_pool_cost_one_attempt() -> None:
    pool = make_pool([(number, True) for number in range(5_000)])
    pool.choose(in_rows=True)
    assert pool.tried == 8 + 1, "eight are granted, and one is refused for all others"


class ManyTaker(RequestTaker):
    """Takes as many single addresses as the name of a request says."""

    @override
    def take(self, asker: Request) -> Taken:
        count = int(asker.metadata.name)
        addresses = (self._holdings.get_space().take_lowest(1)[0] for _ in range(count))
        return Taken(tuple(PromisedRange(address) for address in addresses))


def test_a_request_for_more_ranges_than_the_room_is_skipped_and_smaller_ones_are_served() -> None:
    holdings = Holdings({"": Layout.parse("10.0.0.0/29")})
    requests = {}
    for age, name in enumerate(["3", "03", "1", "003"]):
        key = Key("team", name)
        holder = Holder("Request", key)
        requests[key] = Request(ObjectMeta(namespace="team", name=name, uid=name), None)
        place = (EPOCH + timedelta(seconds=age), holder)
        holdings.put(holder, Facts(place=place, row=int(name)))
    find = find_by_key("Request", requests.get)
    taker = ManyTaker(find, holdings, in_rows=False)
    with exclude_ranges(holdings, ()):
        choice = choose(holdings, [ServedAskers(taker)], (), 5)
    assert [grant.asker.metadata.name for grant in choice.grants] == ["3", "1"]
    assert [grant.addresses[-1].text for grant in choice.grants] == ["10.0.0.2/32", "10.0.0.6/32"]
    assert choice.more
    assert choice.refusals == ()


def make_pool_of_two_kinds(
    size: str = "10.0.0.0/29",
) -> tuple[Holdings, list[ServedAskers[Request]]]:
    """Return the holdings of a pool, and the takers of a claim and an allocation named `a`."""
    holdings, askers = Holdings({"": Layout.parse(size)}), []
    for age, kind in enumerate(("Claim", "Allocation")):
        meta = ObjectMeta(namespace="team", name="a", uid=f"{kind}-uid", resourceVersion="7")
        request, holder = Request(meta, FULL), Holder(kind, meta.key)
        row = TenantRow(Tenant(kind, "team"), (kind, FULL))
        holdings.put(holder, Facts(place=(EPOCH + timedelta(seconds=age), holder), row=row))
        find = find_by_key(kind, {meta.key: request}.get)
        askers.append(ServedAskers(RequestTaker(find, holdings, in_rows=True, kind=kind)))
    return holdings, askers


def test_requests_of_two_kinds_are_served_in_one_queue() -> None:
    holdings, askers = make_pool_of_two_kinds()
    with exclude_ranges(holdings, ()):
        choice = choose(holdings, askers, (), 8)
    assert [(grant.holder.kind, grant.addresses[0].text) for grant in choice.grants] == [
        ("Claim", "10.0.0.0/32"),
        ("Allocation", "10.0.0.1/32"),
    ]


def test_a_refusal_of_one_kind_leaves_out_no_request_of_another_kind() -> None:
    holdings, askers = make_pool_of_two_kinds("10.0.0.0/30")
    all_addresses = AddressRange.parse("10.0.0.0", "10.0.0.3")
    with exclude_ranges(holdings, (), [PromisedRange(all_addresses)]):
        choice = choose(holdings, askers, (), 8)
    assert [refusal.holder.kind for refusal in choice.refusals] == ["Claim", "Allocation"]


def test_an_open_promise_to_a_claim_skips_no_allocation_of_the_same_name() -> None:
    holdings, askers = make_pool_of_two_kinds()
    promised = (PromisedRange(AddressRange.parse("10.0.0.0", "10.0.0.0")),)
    promise = Promise(
        "Claim", Key("team", "a"), uid="Claim-uid", resourceVersion="7", ranges=promised
    )
    with exclude_ranges(holdings, promised):
        choice = choose(holdings, askers, [promise], 8)
    assert [(grant.holder.kind, grant.addresses[0].text) for grant in choice.grants] == [
        ("Allocation", "10.0.0.1/32")
    ]


def test_requests_of_a_kind_that_is_not_served_get_nothing() -> None:
    holdings, [_, allocations] = make_pool_of_two_kinds()
    with exclude_ranges(holdings, ()):
        choice = choose(holdings, [allocations], (), 8)
    assert [grant.holder.kind for grant in choice.grants] == ["Allocation"]
