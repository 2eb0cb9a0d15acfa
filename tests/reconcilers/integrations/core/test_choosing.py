"""Choosing along rows of equal requests serves whom choosing one by one serves."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from allocator import AddressRange, Layout, PoolExhausted
from controller.meta import Key, ObjectMeta
from reconcilers.integrations.core.rules import Choice, Refusal, Refused, View, choose
from reconcilers.promises.holdings import Facts, Holdings
from reconcilers.promises.identities import Holder, find_by_key
from reconcilers.promises.journal import Journal

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
FULL = ("Exhausted", "no free address")


@dataclass
class Request:
    """A request, and the refusal that its object shows."""

    metadata: ObjectMeta
    shown: tuple[str, str] | None


@dataclass
class Pool:
    """A pool of eight addresses, and its requests."""

    requests: dict[Key, Request]
    ages: dict[Key, int]
    tried: int = 0

    def choose(self, *, in_rows: bool, batch: int = 256) -> Choice[Request]:
        holdings = Holdings({"": Layout.parse("10.0.0.0/29")})
        for key, request in self.requests.items():
            holder = Holder("Request", key)
            place = (EPOCH + timedelta(seconds=self.ages[key]), holder)
            row = ("row", request.shown) if in_rows else None
            holdings.put(holder, Facts(place=place, row=row))

        def take(_: Request) -> AddressRange:
            self.tried += 1
            try:
                return holdings.space().first(1)[0]
            except PoolExhausted:
                raise Refused(*FULL) from None

        def shows(refusal: Refusal[Request]) -> bool:
            return in_rows and refusal.request.shown == (refusal.reason, refusal.message)

        self.tried = 0
        return choose(
            Journal({"Request": 0}),
            "Request",
            View(0, holdings, find_by_key("Request", self.requests.get), lambda _: None),
            to_blocks=lambda addresses: addresses,
            to_addresses=lambda blocks: blocks,
            also_held=(),
            take=take,
            shows=shows,
            batch=batch,
        )


def pool_of(ages: list[tuple[int, bool]]) -> Pool:
    keys = [Key("team", f"r{number:05}") for number in range(len(ages))]
    requests = {
        key: Request(
            ObjectMeta(namespace="team", name=key.name, uid=key.name, resourceVersion="7"),
            FULL if is_refused else None,
        )
        for key, (_, is_refused) in zip(keys, ages, strict=True)
    }
    return Pool(requests, {key: age for key, (age, _) in zip(keys, ages, strict=True)})


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=20), st.integers(1, 12))
def test_rows_change_neither_who_is_served_nor_who_is_told_of_a_refusal(
    ages: list[tuple[int, bool]], batch: int
) -> None:
    pool = pool_of(ages)
    each, rows = pool.choose(in_rows=False, batch=batch), pool.choose(in_rows=True, batch=batch)
    assert rows.grants == each.grants
    assert rows.more == each.more
    new = [refusal for refusal in each.refusals if refusal.request.shown is None]
    assert [refusal for refusal in rows.refusals if refusal.request.shown is None] == new


def test_thousands_that_wait_for_a_full_pool_cost_a_pass_one_attempt() -> None:
    pool = pool_of([(number, True) for number in range(5_000)])
    pool.choose(in_rows=True)
    assert pool.tried == 8 + 1
