"""When an object with a journal is fenced before it hands out, and what stays promised."""

from collections.abc import Container
from dataclasses import dataclass

import pytest

from controller.meta import Key
from reconcilers.integrations.core.journal import Journal, Promise
from reconcilers.integrations.core.rules import needs_fence, settle


@pytest.mark.parametrize("wanted", [True, False])
def test_one_that_was_never_written_is_fenced_once_something_is_wanted(wanted: bool) -> None:
    assert needs_fence(Journal(), 7, wanted=wanted) == wanted


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("position", [6, 7, 8])
def test_one_of_another_history_is_fenced_whatever_is_wanted(position: int, wanted: bool) -> None:
    assert needs_fence(Journal(7), position, wanted=wanted) == (position < 7)


@dataclass
class Requests:
    """What was read: nothing that can be decoded, up to a position."""

    position: int
    unreadable: Container[Key]

    def find(self, key: Key) -> None:
        del key


@pytest.mark.parametrize(("unreadable", "is_open"), [({Key("n", "a")}, True), (set(), False)])
def test_a_promise_to_a_request_that_cannot_be_decoded_stays_open(
    unreadable: set[Key], is_open: bool
) -> None:
    promise = Promise("n", "a", "uid", "5", "10.0.0.1", "10.0.0.1")
    settled = settle(Journal(1, (promise,)), Requests(9, unreadable))
    assert settled == Journal(1, (promise,) if is_open else ())
