"""The cache against a model of the API server: own writes, late events, lists, in any order.

The model keeps all versions of all objects. It states what the cache must show for each name: the
object that was delivered at the position, unless there is an own write ahead of the position.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from typing_extensions import override

from controller.cache import Cache, Change
from controller.codec import Added, Deleted, Modified, Unreadable
from controller.meta import Key, Version
from tests.controller.widgets import WIDGETS, Widget, build_widget

NAMES = st.sampled_from(["a", "b", "c"])
COLORS = st.sampled_from(["red", "green"])
Event = Added[Widget] | Modified[Widget] | Deleted[Widget]


@dataclass
class ServerModel:
    """What happened, in order, and the responses to our writes and deletions not yet received."""

    revision: int = 10
    births: int = 0
    live: dict[str, Widget] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    answers: list[Widget] = field(default_factory=list)
    ends: list[Widget] = field(default_factory=list)

    def put(self, name: str, color: str) -> Widget:
        self.revision += 1
        old = self.live.get(name)
        self.births += old is None
        uid = old.metadata.uid if old else f"{name}-{self.births}"
        new = build_widget(name, self.revision, uid=uid, color=color)
        self.live[name] = new
        self.events.append(Modified(new) if old else Added(new))
        return new

    def drop(self, name: str) -> Widget:
        """Delete; returns the last version as it was, the answer to removing the finalizer."""
        self.revision += 1
        old = self.live.pop(name)
        last = build_widget(name, self.revision, uid=old.metadata.uid, color=old.spec.color)
        self.events.append(Deleted(last))
        return old

    def at(self, revision: int) -> dict[str, Widget]:
        """Return the objects as they were at `revision`."""
        state: dict[str, Widget] = {}
        for event in self.events:
            if event.revision > revision:
                break
            if isinstance(event, Deleted):
                state.pop(event.key.name, None)
            else:
                state[event.key.name] = event.object
        return state


class CacheMachine(RuleBasedStateMachine):
    """One server, one cache that lags behind it, and a mirror built from changes alone."""

    def __init__(self) -> None:
        super().__init__()
        self.server = ServerModel()
        self.cache = Cache(WIDGETS, indexes={"color": lambda w: [w.spec.color]})
        self.cache.subscribe(self.saw)
        self.mirror: dict[Key, Widget] = {}
        self.ahead: dict[str, Widget] = {}
        self.known_gone: dict[str, int] = {}
        self.floor = 0
        self.steps: Iterator[None] | None = None
        """The list that is being put into the cache, one object at each step."""
        self.listed = 0

    def saw(self, change: Change[Widget]) -> None:
        state = change.new or change.old
        assert state is not None
        key = state.metadata.key
        assert self.mirror.get(key) == change.old
        assert change.old != change.new
        if change.new is None:
            del self.mirror[key]
        else:
            self.mirror[key] = change.new

    @initialize(names=st.lists(NAMES, unique=True))
    def begin(self, names: list[str]) -> None:
        for name in names:
            self.server.put(name, "red")

    @rule(name=NAMES, color=COLORS)
    def another_client_writes(self, name: str, color: str) -> None:
        self.server.put(name, color)

    @rule(name=NAMES, color=COLORS)
    def we_write(self, name: str, color: str) -> None:
        self.server.answers.append(self.server.put(name, color))

    @precondition(lambda self: self.server.live)
    @rule(data=st.data(), ours=st.booleans())
    def an_object_ends(self, data: st.DataObject, ours: bool) -> None:
        last = self.server.drop(data.draw(st.sampled_from(sorted(self.server.live))))
        if ours:
            self.server.answers.append(last)

    @precondition(lambda self: self.server.live)
    @rule(data=st.data())
    def we_delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.server.live)))
        self.server.ends.append(self.server.drop(name))

    @precondition(lambda self: self.server.ends)
    @rule(data=st.data())
    def we_hear_of_an_end_however_late(self, data: st.DataObject) -> None:
        ended = self.server.ends.pop(
            data.draw(st.integers(0, len(self.server.ends) - 1), label="which")
        )
        name, revision = ended.metadata.name, ended.metadata.revision
        self.known_gone[name] = max(revision, self.known_gone.get(name, 0))
        self.ahead = {n: o for n, o in self.ahead.items() if not self.is_gone(o)}
        self.cache.mark_deleted(Version.from_object(ended))

    def is_gone(self, obj: Widget) -> bool:
        """Whether we know that this object, or a later one of its name, was deleted."""
        return obj.metadata.revision <= self.known_gone.get(obj.metadata.name, 0)

    @precondition(lambda self: self.server.answers)
    @rule(data=st.data())
    def an_answer_arrives_however_late(self, data: st.DataObject) -> None:
        answer = self.server.answers.pop(
            data.draw(st.integers(0, len(self.server.answers) - 1), label="which")
        )
        name, revision = answer.metadata.name, answer.metadata.revision
        known = self.ahead.get(name)
        if (
            not self.is_gone(answer)
            and revision > self.cache.position
            and (known is None or known.metadata.revision < revision)
        ):
            self.ahead[name] = answer
        self.cache.apply_own_write(answer)

    def pass_position(self, position: int) -> None:
        """Forget the answers that the position has reached."""
        self.floor = position
        self.ahead = {n: o for n, o in self.ahead.items() if o.metadata.revision > position}

    @precondition(lambda self: self.cache.is_synced and self.steps is None)
    @rule(count=st.integers(1, 5), again=st.booleans())
    def the_watch_delivers(self, count: int, again: bool) -> None:
        coming = [e for e in self.server.events if e.revision > self.cache.position][:count]
        for event in coming:
            self.cache.apply(event)
            self.pass_position(event.revision)
        if again:
            for event in self.server.events[-count:]:
                if event.revision <= self.cache.position:
                    self.cache.apply(event)

    @precondition(lambda self: self.cache.is_synced and self.steps is None)
    @rule()
    def a_bookmark_comes_after_all_events(self) -> None:
        self.the_watch_delivers(10**6, again=False)
        self.cache.apply_bookmark(self.server.revision)
        self.pass_position(self.server.revision)

    @precondition(lambda self: self.steps is None)
    @rule(data=st.data())
    def a_long_list_comes(self, data: st.DataObject) -> None:
        """It is put into the cache between the steps of other rules."""
        self.listed = data.draw(
            st.integers(max(self.cache.position, 1), self.server.revision), label="revision"
        )
        items = list(self.server.at(self.listed).values())
        with patch("controller.cache.SLICE", 1):
            self.steps = self.cache.replace_in_slices(items, self.listed)

    @precondition(lambda self: self.steps is not None)
    @rule(count=st.integers(1, 4))
    def a_long_list_goes_on(self, count: int) -> None:
        assert self.steps is not None
        for _ in range(count):
            if next(self.steps, "end") == "end":
                self.steps = None
                self.pass_position(self.listed)
                return

    def end_long_list(self) -> None:
        """Put the rest of a list into the cache."""
        while self.steps is not None:
            self.a_long_list_goes_on(1)

    @precondition(lambda self: self.steps is None)
    @rule(data=st.data())
    def a_list_comes_not_older_than_the_position(self, data: st.DataObject) -> None:
        revision = data.draw(
            st.integers(max(self.cache.position, 1), self.server.revision), label="revision"
        )
        self.cache.replace(self.server.at(revision).values(), revision)
        self.pass_position(revision)

    @precondition(lambda self: self.cache.is_synced and self.steps is None)
    @rule()
    def a_list_repeats_what_is_known(self) -> None:
        before = dict(self.mirror)
        position = self.cache.position
        self.cache.replace(self.server.at(position).values(), position)
        assert self.mirror == before

    @precondition(lambda self: self.cache.position > 1 and self.steps is None)
    @rule(back=st.integers(1, 10), names=st.lists(NAMES, max_size=4), color=COLORS)
    def the_server_comes_back_from_a_backup(self, back: int, names: list[str], color: str) -> None:
        position = self.cache.position
        revision = max(1, position - back)
        self.server.events = [e for e in self.server.events if e.revision <= revision]
        self.server.live = self.server.at(revision)
        self.server.revision = revision
        self.server.answers.clear()
        self.server.ends.clear()
        self.known_gone.clear()
        for name in names[: position - 1 - revision]:
            self.server.put(name, color)
        revision = self.server.revision
        self.cache.replace(self.server.live.values(), revision)
        self.ahead.clear()
        self.floor = revision

    @invariant()
    def it_shows_what_was_delivered_and_the_own_answers_ahead_of_it(self) -> None:
        expected = self.server.at(self.cache.position) if self.cache.is_synced else {}
        expected = {n: o for n, o in expected.items() if not self.is_gone(o)} | self.ahead
        cached = {o.metadata.name: o for o in self.cache}
        if self.steps is None:
            assert cached == expected
            return
        listed = self.server.at(self.listed)
        for name in ("a", "b", "c"):
            assert cached.get(name) in (expected.get(name), self.visible(listed.get(name)))

    def visible(self, obj: Widget | None) -> Widget | None:
        return None if obj is None or self.is_gone(obj) else obj

    @invariant()
    def a_cache_that_shows_a_part_of_a_list_confirms_nothing(self) -> None:
        if self.steps is not None and self.cache.history_confirmed:
            expected = self.server.at(self.cache.position) if self.cache.is_synced else {}
            known = {n: o for n, o in expected.items() if not self.is_gone(o)} | self.ahead
            assert {o.metadata.name: o for o in self.cache} == known

    @invariant()
    def the_position_never_falls_without_another_history(self) -> None:
        assert self.cache.position == self.floor

    @invariant()
    def the_indexes_are_what_they_would_be_if_computed_now(self) -> None:
        for color in ("red", "green"):
            expected = sorted(
                (o for o in self.cache if o.spec.color == color), key=lambda o: o.metadata.key
            )
            assert self.cache.list_by_index("color", color) == tuple(expected)

    @invariant()
    def changes_alone_lead_to_what_is_shown(self) -> None:
        assert {o.metadata.key: o for o in self.cache} == self.mirror

    @override
    def teardown(self) -> None:
        """Once everything has been delivered, only the objects of the server are in the cache."""
        self.end_long_list()
        for answer in self.server.answers:
            self.cache.apply_own_write(answer)
        for ended in self.server.ends:
            self.cache.mark_deleted(Version.from_object(ended))
        self.cache.replace(self.server.live.values(), self.server.revision)
        assert {o.metadata.name: o for o in self.cache} == self.server.live
        assert self.cache.tombstones == 0


CacheMachine.TestCase.settings = settings(
    max_examples=120,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestCache = pytest.mark.slow(CacheMachine.TestCase)


def test_an_event_that_cannot_be_decoded_moves_the_position() -> None:
    cache = Cache(WIDGETS)
    cache.replace([build_widget("a", 1)], 5)
    cache.apply(Unreadable(Key("default", "x"), 6, "odd"))
    assert cache.position == 6
    assert dict(cache.unreadable) == {Key("default", "x"): "odd"}
