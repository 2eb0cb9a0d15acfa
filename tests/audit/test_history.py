"""The intervals of a history are correct, however late answers and events come."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.meta import Key
from tests.audit.history import History, Interval, Observation, RecordedVersion

KEY = Key("team", "web")


def _make_observation(revision: int, uid: str = "one") -> Observation[str]:
    return Observation(KEY, uid, revision=revision, value=f"version {revision}")


def _get_only_version(history: History[str]) -> RecordedVersion[str]:
    (version,) = history.list_versions()
    return version


def test_a_version_in_two_lists_certainly_existed_from_first_answer_to_second_request() -> None:
    history = History[str]()
    history.note_list(1.0, 1.2, revision=10, items=[_make_observation(7)])
    history.note_list(2.0, 2.2, revision=12, items=[_make_observation(7)])
    assert _get_only_version(history).certain == Interval(1.2, 2.0)
    assert _get_only_version(history).possible == Interval(float("-inf"), float("inf"))


def test_a_version_in_one_list_has_no_certain_interval() -> None:
    history = History[str]()
    history.note_list(1.0, 1.2, revision=10, items=[_make_observation(7)])
    assert _get_only_version(history).certain is None


def test_a_version_certainly_existed_from_its_event_to_the_request_of_the_next_list() -> None:
    history = History[str]()
    history.note_list(1.0, 1.2, revision=5, items=[])
    history.note_event(1.5, _make_observation(7))
    history.note_list(2.0, 2.2, revision=12, items=[_make_observation(7)])
    assert _get_only_version(history).certain == Interval(1.5, 2.0)
    assert _get_only_version(history).possible.begin == 1.0, "the first list was older than it"


def test_a_deletion_ends_the_possible_interval_and_leaves_the_certain_one() -> None:
    history = History[str]()
    history.note_list(1.0, 1.2, revision=10, items=[_make_observation(7)])
    history.note_list(2.0, 2.2, revision=12, items=[_make_observation(7)])
    history.note_deletion(2.7, "one")
    assert _get_only_version(history).certain == Interval(1.2, 2.0)
    assert _get_only_version(history).possible.end == 2.7


def test_an_object_missing_in_a_list_was_gone_when_the_answer_arrived() -> None:
    history = History[str]()
    history.note_list(1.0, 1.2, revision=10, items=[_make_observation(7)])
    history.note_list(2.0, 2.2, revision=12, items=[])
    assert _get_only_version(history).possible.end == 2.2


def test_an_object_younger_than_a_late_list_is_not_gone() -> None:
    history = History[str]()
    history.note_event(1.5, _make_observation(7))
    history.note_list(1.0, 2.2, revision=6, items=[])
    assert _get_only_version(history).possible == Interval(1.0, float("inf"))


def test_a_version_has_ended_when_a_later_one_was_seen() -> None:
    history = History[str]()
    history.note_list(1.0, 1.2, revision=10, items=[_make_observation(7)])
    history.note_event(1.6, _make_observation(11))
    first, second = history.list_versions()
    assert first.possible.end == 1.6
    assert second.possible.begin == 1.0


def test_a_deletion_happened_between_the_last_list_with_the_object_and_its_event() -> None:
    history = History[str]()
    history.note_list(1.0, 1.2, revision=10, items=[_make_observation(7)])
    history.note_list(2.0, 2.2, revision=12, items=[_make_observation(7)])
    history.note_event(2.5, _make_observation(13))
    history.note_deletion(2.7, "one")
    assert list(history.list_deletions()) == [("version 13", Interval(2.0, 2.7))]


def test_the_next_list_is_the_first_one_that_was_sent_at_a_moment_or_later() -> None:
    history = History[str]()
    history.note_list(1.0, 1.2, revision=10, items=[])
    history.note_list(2.0, 2.2, revision=12, items=[])
    assert history.find_next_list(1.1) == 2.0
    assert history.find_next_list(2.1) == float("inf")


@dataclass(frozen=True)
class _Fact:
    """A version, and the time for which it really existed."""

    revision: int
    during: Interval


# Integers, so that several things may happen at the same moment.
_gaps = st.integers(0, 5)
_writes = st.lists(_gaps, min_size=1, max_size=8)
_lists = st.lists(st.tuples(_gaps, _gaps, _gaps), min_size=1, max_size=8)
_delays = st.lists(st.integers(0, 20) | st.none(), min_size=8, max_size=8)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(writes=_writes, lists=_lists, delays=_delays, deleted=st.booleans())
def test_the_true_interval_contains_the_certain_one_and_lies_in_the_possible_one(
    writes: list[int],
    lists: list[tuple[int, int, int]],
    delays: list[int | None],
    deleted: bool,
) -> None:
    """One object is written several times, and perhaps deleted; some events never come."""
    facts = _list_facts(writes, deleted)
    known = {fact.revision: fact for fact in facts}
    history = History[str]()
    calls: list[tuple[float, Callable[[], None]]] = []
    for fact, delay in zip(facts, delays, strict=False):
        if delay is not None:
            at = fact.during.begin + delay
            calls.append((at, partial(history.note_event, at, _make_observation(fact.revision))))
    if deleted and delays[-1] is not None:
        at = facts[-1].during.end + delays[-1]
        calls.append((at, partial(history.note_deletion, at, "one")))
    now = 0.0
    for before, travel, back in lists:
        began = now + before
        looked = began + travel
        now = looked + back
        calls.append((now, partial(_note_list, history, facts, began, looked, now)))
    for _, call in sorted(calls, key=itemgetter(0)):
        call()
    for version in history.list_versions():
        true_interval = known[int(version.value.removeprefix("version "))].during
        assert version.possible.begin <= true_interval.begin
        assert true_interval.end <= version.possible.end
        if version.certain is not None:
            assert (
                true_interval.begin
                <= version.certain.begin
                < version.certain.end
                <= true_interval.end
            )


def _list_facts(writes: list[int], deleted: bool) -> list[_Fact]:
    """Return versions 10, 20, ... one after the other, with gaps of `writes` between."""
    begins, now = [], 0.0
    for gap in writes:
        now += gap + 1
        begins.append(now)
    ends = [*begins[1:], now + 3 if deleted else float("inf")]
    return [
        _Fact(10 * number, Interval(begin, end))
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True), start=1)
    ]


def _note_list(
    history: History[str], facts: list[_Fact], began: float, looked: float, ended: float
) -> None:
    """Note a LIST whose answer shows the versions that existed at `looked`."""
    past = [fact for fact in facts if fact.during.begin <= looked]
    there = [fact for fact in past if looked < fact.during.end]
    revision = max((fact.revision + (fact.during.end <= looked) for fact in past), default=0)
    history.note_list(
        began, ended, revision=revision, items=[_make_observation(fact.revision) for fact in there]
    )
