"""What histories claim is true, however late answers and events come."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.meta import Key
from tests.audit.history import History, Interval, Sighting, Stay

KEY = Key("team", "web")


def _sighting(revision: int, uid: str = "one") -> Sighting[str]:
    return Sighting(KEY, uid, revision=revision, value=f"version {revision}")


def _only(history: History[str]) -> Stay[str]:
    (stay,) = history.stays()
    return stay


def test_what_two_lists_show_was_there_from_the_first_answer_to_the_second_question() -> None:
    history = History[str]()
    history.note_list(1.0, 1.2, revision=10, items=[_sighting(7)])
    history.note_list(2.0, 2.2, revision=12, items=[_sighting(7)])
    assert _only(history).certain == Interval(1.2, 2.0)
    assert _only(history).possible == Interval(float("-inf"), float("inf"))


def test_what_a_list_showed_once_is_not_certain_for_any_time() -> None:
    history = History[str]()
    history.note_list(1.0, 1.2, revision=10, items=[_sighting(7)])
    assert _only(history).certain is None


def test_an_event_says_that_a_version_was_there_before_the_next_list() -> None:
    history = History[str]()
    history.note_list(1.0, 1.2, revision=5, items=[])
    history.event(1.5, _sighting(7))
    history.note_list(2.0, 2.2, revision=12, items=[_sighting(7)])
    assert _only(history).certain == Interval(1.5, 2.0)
    assert _only(history).possible.begin == 1.0, "the first list was older than it"


def test_a_deletion_ends_what_is_possible_and_not_what_is_certain() -> None:
    history = History[str]()
    history.note_list(1.0, 1.2, revision=10, items=[_sighting(7)])
    history.note_list(2.0, 2.2, revision=12, items=[_sighting(7)])
    history.deletion(2.7, "one")
    assert _only(history).certain == Interval(1.2, 2.0)
    assert _only(history).possible.end == 2.7


def test_an_object_missing_in_a_list_was_gone_when_the_answer_arrived() -> None:
    history = History[str]()
    history.note_list(1.0, 1.2, revision=10, items=[_sighting(7)])
    history.note_list(2.0, 2.2, revision=12, items=[])
    assert _only(history).possible.end == 2.2


def test_an_object_younger_than_a_late_list_is_not_gone() -> None:
    history = History[str]()
    history.event(1.5, _sighting(7))
    history.note_list(1.0, 2.2, revision=6, items=[])
    assert _only(history).possible == Interval(1.0, float("inf"))


def test_a_version_has_ended_when_a_later_one_was_seen() -> None:
    history = History[str]()
    history.note_list(1.0, 1.2, revision=10, items=[_sighting(7)])
    history.event(1.6, _sighting(11))
    first, second = history.stays()
    assert first.possible.end == 1.6
    assert second.possible.begin == 1.0


def test_a_deletion_happened_between_the_last_list_with_the_object_and_its_event() -> None:
    history = History[str]()
    history.note_list(1.0, 1.2, revision=10, items=[_sighting(7)])
    history.note_list(2.0, 2.2, revision=12, items=[_sighting(7)])
    history.event(2.5, _sighting(13))
    history.deletion(2.7, "one")
    assert list(history.ends()) == [("version 13", Interval(2.0, 2.7))]


def test_the_next_look_is_the_first_list_asked_for_at_a_moment_or_later() -> None:
    history = History[str]()
    history.note_list(1.0, 1.2, revision=10, items=[])
    history.note_list(2.0, 2.2, revision=12, items=[])
    assert history.next_look(1.1) == 2.0
    assert history.next_look(2.1) == float("inf")


@dataclass(frozen=True)
class _Truth:
    """A version, and when it was in force."""

    revision: int
    during: Interval


# In tenths of a second, so that what happens at one moment is met too.
_gaps = st.integers(0, 5)
_writes = st.lists(_gaps, min_size=1, max_size=8)
_lists = st.lists(st.tuples(_gaps, _gaps, _gaps), min_size=1, max_size=8)
_delays = st.lists(st.integers(0, 20) | st.none(), min_size=8, max_size=8)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(writes=_writes, lists=_lists, delays=_delays, deleted=st.booleans())
def test_certain_intervals_lie_within_the_true_ones_and_those_within_possible_ones(
    writes: list[int],
    lists: list[tuple[int, int, int]],
    delays: list[int | None],
    deleted: bool,
) -> None:
    """One object is written again and again, and deleted; some events never come."""
    truth = _truth(writes, deleted)
    known = {fact.revision: fact for fact in truth}
    history = History[str]()
    happenings: list[tuple[float, Callable[[], None]]] = []
    for fact, delay in zip(truth, delays, strict=False):
        if delay is not None:
            at = fact.during.begin + delay
            happenings.append((at, partial(history.event, at, _sighting(fact.revision))))
    if deleted and delays[-1] is not None:
        at = truth[-1].during.end + delays[-1]
        happenings.append((at, partial(history.deletion, at, "one")))
    now = 0.0
    for before, travel, back in lists:
        began = now + before
        looked = began + travel
        now = looked + back
        happenings.append((now, partial(_list, history, truth, began, looked, now)))
    for _, happen in sorted(happenings, key=itemgetter(0)):
        happen()
    for stay in history.stays():
        was = known[int(stay.value.removeprefix("version "))].during
        assert stay.possible.begin <= was.begin
        assert was.end <= stay.possible.end
        if stay.certain is not None:
            assert was.begin <= stay.certain.begin < stay.certain.end <= was.end


def _truth(writes: list[int], deleted: bool) -> list[_Truth]:
    """Return versions 10, 20, ... one after the other, with gaps of `writes` between."""
    begins, now = [], 0.0
    for gap in writes:
        now += gap + 1
        begins.append(now)
    ends = [*begins[1:], now + 3 if deleted else float("inf")]
    return [
        _Truth(10 * number, Interval(begin, end))
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True), start=1)
    ]


def _list(
    history: History[str], truth: list[_Truth], began: float, looked: float, ended: float
) -> None:
    """Take in a list whose answer shows the objects as they were at `looked`."""
    past = [fact for fact in truth if fact.during.begin <= looked]
    there = [fact for fact in past if looked < fact.during.end]
    revision = max((fact.revision + (fact.during.end <= looked) for fact in past), default=0)
    history.note_list(
        began, ended, revision=revision, items=[_sighting(fact.revision) for fact in there]
    )
