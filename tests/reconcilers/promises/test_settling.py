"""Which promises are settled, after their requests and the effects of promises were read."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from allocator import AddressRange
from controller.meta import Key, Object, ObjectMeta
from reconcilers.promises.identities import Holder
from reconcilers.promises.journal import Journal, Promise, PromisedRange
from reconcilers.promises.settling import settle

KEY = Key("n", "a")
RANGE = PromisedRange(AddressRange.parse("10.0.0.1", "10.0.0.1"))
PROMISE = Promise("Claim", KEY, uid="uid", resourceVersion="5", ranges=(RANGE,))


@dataclass
class Requests:
    """The requests as they were read, complete up to a position."""

    position: int
    requests: Mapping[Key, Object] = field(default_factory=dict)
    unreadable: frozenset[Key] = frozenset()

    def find(self, holder: Holder) -> Object | None:
        return self.requests.get(holder.key)


@dataclass
class Request:
    """A request, of which settling needs only the metadata."""

    metadata: ObjectMeta


def make_requests(version: str, uid: str = "uid") -> dict[Key, Object]:
    """Return the request n/a at a resourceVersion."""
    meta = ObjectMeta(namespace="n", name="a", uid=uid, resourceVersion=version)
    return {KEY: Request(meta)}


def make_journal(revision: int = 1, *promises: Promise) -> Journal:
    """Return a journal with a revision of claims, and with promises."""
    return Journal({"Claim": revision}, promises)


@pytest.mark.parametrize(("unreadable", "is_open"), [({KEY}, True), (set(), False)])
def test_a_promise_to_a_request_that_cannot_be_decoded_stays_open(
    unreadable: set[Key], is_open: bool
) -> None:
    settled = settle(make_journal(1, PROMISE), "Claim", Requests(9, {}, frozenset(unreadable)))
    assert settled == make_journal(1, *([PROMISE] if is_open else []))


def test_a_promise_stays_open_while_its_request_is_at_the_promised_version() -> None:
    assert settle(
        make_journal(1, PROMISE), "Claim", Requests(9, make_requests("5"))
    ) == make_journal(1, PROMISE)


def test_a_later_version_settles_a_promise_and_raises_the_revision_of_the_kind() -> None:
    assert settle(
        make_journal(1, PROMISE), "Claim", Requests(9, make_requests("7"))
    ) == make_journal(7)


def test_the_revision_never_falls() -> None:
    assert settle(
        make_journal(8, PROMISE), "Claim", Requests(9, make_requests("7"))
    ) == make_journal(8)


@pytest.mark.parametrize(("position", "is_open"), [(4, True), (5, False)])
def test_a_promise_to_an_absent_request_is_settled_once_its_version_was_read(
    position: int, is_open: bool
) -> None:
    expected = make_journal(1, *([PROMISE] if is_open else []))
    assert settle(make_journal(1, PROMISE), "Claim", Requests(position)) == expected
    other = Requests(position, make_requests("9", uid="another"))
    assert settle(make_journal(1, PROMISE), "Claim", other) == expected


def test_settling_adds_no_revision_to_a_journal_without_one() -> None:
    forgotten = Journal({}, (PROMISE,))
    assert settle(forgotten, "Claim", Requests(9, make_requests("7"))) == Journal({})


def test_promises_to_requests_of_other_kinds_stay_open() -> None:
    other = Promise("Allocation", KEY, uid="uid", resourceVersion="5", ranges=(RANGE,))
    of_both = Journal({"Claim": 1, "Allocation": 3}, (PROMISE, other))
    settled = settle(of_both, "Claim", Requests(9, make_requests("7")))
    assert settled == Journal({"Claim": 7, "Allocation": 3}, (other,))


@dataclass
class AddressEffects:
    """Effects of promises, as they were read: an address for each promise.

    Attributes:
        revision: the resourceVersion of the address, 0 if there is none; None if that is unknown.
    """

    revision: int | None
    position: int = 0
    kind: str = "Address"

    def find_revision(self, promise: Promise) -> int | None:
        del promise
        return self.revision


@pytest.mark.parametrize(
    "requests", [{}, make_requests("7")], ids=["absent", "at a later version"]
)
def test_a_promise_stays_open_until_its_effect_was_read(
    requests: dict[Key, Object],
) -> None:
    before = Journal({"Claim": 1, "Address": 0}, (PROMISE,))
    assert settle(before, "Claim", Requests(9, requests), AddressEffects(None)) == before
    settled = settle(before, "Claim", Requests(9, requests), AddressEffects(6))
    assert settled.promises == ()
    assert settled.revisions["Address"] == 6


def test_a_promise_without_an_effect_lowers_no_revision() -> None:
    before = Journal({"Claim": 1, "Address": 4}, (PROMISE,))
    settled = settle(before, "Claim", Requests(9), AddressEffects(0))
    assert settled == Journal({"Claim": 1, "Address": 4})


def test_settling_adds_no_revision_of_effects_to_a_journal_without_one() -> None:
    settled = settle(Journal({}, (PROMISE,)), "Claim", Requests(9), AddressEffects(6))
    assert settled == Journal()
    settled = settle(Journal({"Claim": 1}, (PROMISE,)), "Claim", Requests(9), AddressEffects(6))
    assert settled == Journal({"Claim": 1})
