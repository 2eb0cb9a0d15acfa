"""Which promises stay open, by what was read of their requests."""

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
    """What was read: these requests, up to a position."""

    position: int
    requests: Mapping[Key, Object] = field(default_factory=dict)
    unreadable: frozenset[Key] = frozenset()

    def find(self, holder: Holder) -> Object | None:
        return self.requests.get(holder.key)


@dataclass
class Request:
    metadata: ObjectMeta


def request(version: str, uid: str = "uid") -> dict[Key, Object]:
    meta = ObjectMeta(namespace="n", name="a", uid=uid, resourceVersion=version)
    return {KEY: Request(meta)}


def journal(revision: int = 1, *promises: Promise) -> Journal:
    return Journal({"Claim": revision}, promises)


@pytest.mark.parametrize(("unreadable", "is_open"), [({KEY}, True), (set(), False)])
def test_a_promise_to_a_request_that_cannot_be_decoded_stays_open(
    unreadable: set[Key], is_open: bool
) -> None:
    settled = settle(journal(1, PROMISE), "Claim", Requests(9, {}, frozenset(unreadable)))
    assert settled == journal(1, *([PROMISE] if is_open else []))


def test_a_promise_stays_open_while_its_request_is_at_the_promised_version() -> None:
    assert settle(journal(1, PROMISE), "Claim", Requests(9, request("5"))) == journal(1, PROMISE)


def test_a_later_version_settles_a_promise_and_raises_the_revision_of_the_kind() -> None:
    assert settle(journal(1, PROMISE), "Claim", Requests(9, request("7"))) == journal(7)


def test_the_revision_never_falls() -> None:
    assert settle(journal(8, PROMISE), "Claim", Requests(9, request("7"))) == journal(8)


@pytest.mark.parametrize(("position", "is_open"), [(4, True), (5, False)])
def test_a_promise_to_an_absent_request_is_over_once_the_requests_were_read_that_far(
    position: int, is_open: bool
) -> None:
    expected = journal(1, *([PROMISE] if is_open else []))
    assert settle(journal(1, PROMISE), "Claim", Requests(position)) == expected
    other = Requests(position, request("9", uid="another"))
    assert settle(journal(1, PROMISE), "Claim", other) == expected


def test_settling_gives_no_memory_to_a_journal_without() -> None:
    forgotten = Journal({}, (PROMISE,))
    assert settle(forgotten, "Claim", Requests(9, request("7"))) == Journal({})


def test_promises_to_requests_of_other_kinds_stay_whatever_was_read() -> None:
    other = Promise("Allocation", KEY, uid="uid", resourceVersion="5", ranges=(RANGE,))
    of_both = Journal({"Claim": 1, "Allocation": 3}, (PROMISE, other))
    settled = settle(of_both, "Claim", Requests(9, request("7")))
    assert settled == Journal({"Claim": 7, "Allocation": 3}, (other,))


@dataclass
class Leaves:
    """What a promise left: an object at this resourceVersion; None if that is not known."""

    revision: int | None
    position: int = 0
    kind: str = "Address"

    def find_revision(self, promise: Promise) -> int | None:
        del promise
        return self.revision


@pytest.mark.parametrize("requests", [{}, request("7")], ids=["absent", "moved on"])
def test_a_promise_stays_open_until_the_object_that_it_left_was_read(
    requests: dict[Key, Object],
) -> None:
    before = Journal({"Claim": 1, "Address": 0}, (PROMISE,))
    assert settle(before, "Claim", Requests(9, requests), Leaves(None)) == before
    settled = settle(before, "Claim", Requests(9, requests), Leaves(6))
    assert settled.promises == ()
    assert settled.revisions["Address"] == 6


def test_a_promise_that_left_no_object_lowers_no_revision() -> None:
    before = Journal({"Claim": 1, "Address": 4}, (PROMISE,))
    settled = settle(before, "Claim", Requests(9), Leaves(0))
    assert settled == Journal({"Claim": 1, "Address": 4})


def test_nothing_gives_a_journal_without_memory_a_revision_of_what_promises_left() -> None:
    settled = settle(Journal({}, (PROMISE,)), "Claim", Requests(9), Leaves(6))
    assert settled == Journal()
    settled = settle(Journal({"Claim": 1}, (PROMISE,)), "Claim", Requests(9), Leaves(6))
    assert settled == Journal({"Claim": 1})
