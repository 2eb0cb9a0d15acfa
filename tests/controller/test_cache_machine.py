"""The cache against a model of the API server: own writes, late events, lists, in any order.

The model keeps all versions of all objects. By it the cache must have, for each name, the own
write above the position, and without such a write the object as it was at the position.
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
    """The API server: all events, and the responses that this process has not received yet.

    Attributes:
        created_count: the number of objects created so far, which makes their uids unique.
        live: the present objects, by name.
        write_responses: objects in responses to our writes.
        own_deletions: the last versions of objects that we deleted.
    """

    revision: int = 10
    created_count: int = 0
    live: dict[str, Widget] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    write_responses: list[Widget] = field(default_factory=list)
    own_deletions: list[Widget] = field(default_factory=list)

    def put(self, name: str, color: str) -> Widget:
        """Create or change a widget; return its new version."""
        self.revision += 1
        old = self.live.get(name)
        self.created_count += old is None
        uid = old.metadata.uid if old else f"{name}-{self.created_count}"
        new = build_widget(name, self.revision, uid=uid, color=color)
        self.live[name] = new
        self.events.append(Modified(new) if old else Added(new))
        return new

    def delete(self, name: str) -> Widget:
        """Delete a widget; return its last version, the response to removing its finalizer."""
        self.revision += 1
        old = self.live.pop(name)
        last = build_widget(name, self.revision, uid=old.metadata.uid, color=old.spec.color)
        self.events.append(Deleted(last))
        return old

    def list_objects_at(self, revision: int) -> dict[str, Widget]:
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
    """One server and one cache that lags behind it.

    Attributes:
        mirror: the objects according to the changes that the cache reported.
        writes_ahead: the own writes that are above the position, by name.
        known_deletions: the highest revision that is known to be deleted, by name.
        expected_position: the position that the cache should have.
        list_revision: the revision of the list that is being put into the cache.
    """

    def __init__(self) -> None:
        super().__init__()
        self.server = ServerModel()
        self.cache = Cache(WIDGETS, indexes={"color": lambda widget: [widget.spec.color]})
        self.cache.subscribe(self.apply_to_mirror)
        self.mirror: dict[Key, Widget] = {}
        self.writes_ahead: dict[str, Widget] = {}
        self.known_deletions: dict[str, int] = {}
        self.expected_position = 0
        self.list_steps: Iterator[None] | None = None
        """The list that is being put into the cache, one object at each step."""
        self.list_revision = 0

    def apply_to_mirror(self, change: Change[Widget]) -> None:
        """Apply a reported change to the mirror; check that it begins with the mirror's object."""
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
    def create_objects(self, names: list[str]) -> None:
        for name in names:
            self.server.put(name, "red")

    @rule(name=NAMES, color=COLORS)
    def another_client_writes(self, name: str, color: str) -> None:
        self.server.put(name, color)

    @rule(name=NAMES, color=COLORS)
    def we_write(self, name: str, color: str) -> None:
        self.server.write_responses.append(self.server.put(name, color))

    @precondition(lambda self: self.server.live)
    @rule(data=st.data(), is_own_write=st.booleans())
    def a_last_finalizer_is_removed(self, data: st.DataObject, is_own_write: bool) -> None:
        last = self.server.delete(data.draw(st.sampled_from(sorted(self.server.live))))
        if is_own_write:
            self.server.write_responses.append(last)

    @precondition(lambda self: self.server.live)
    @rule(data=st.data())
    def we_delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.server.live)))
        self.server.own_deletions.append(self.server.delete(name))

    @precondition(lambda self: self.server.own_deletions)
    @rule(data=st.data())
    def the_response_to_our_deletion_arrives(self, data: st.DataObject) -> None:
        deleted = self.server.own_deletions.pop(
            data.draw(st.integers(0, len(self.server.own_deletions) - 1), label="which")
        )
        name, revision = deleted.metadata.name, deleted.metadata.revision
        self.known_deletions[name] = max(revision, self.known_deletions.get(name, 0))
        self.writes_ahead = {
            name: obj for name, obj in self.writes_ahead.items() if not self.is_known_deleted(obj)
        }
        self.cache.mark_deleted(Version.from_object(deleted))

    def is_known_deleted(self, obj: Widget) -> bool:
        """Return whether this object, or a later one of its name, is known to be deleted."""
        return obj.metadata.revision <= self.known_deletions.get(obj.metadata.name, 0)

    @precondition(lambda self: self.server.write_responses)
    @rule(data=st.data())
    def the_response_to_our_write_arrives(self, data: st.DataObject) -> None:
        response = self.server.write_responses.pop(
            data.draw(st.integers(0, len(self.server.write_responses) - 1), label="which")
        )
        name, revision = response.metadata.name, response.metadata.revision
        present = self.writes_ahead.get(name)
        if (
            not self.is_known_deleted(response)
            and revision > self.cache.position
            and (present is None or present.metadata.revision < revision)
        ):
            self.writes_ahead[name] = response
        self.cache.apply_own_write(response)

    def pass_position(self, position: int) -> None:
        """Move the expected position, and forget the own writes that it has reached."""
        self.expected_position = position
        self.writes_ahead = {
            name: obj
            for name, obj in self.writes_ahead.items()
            if obj.metadata.revision > position
        }

    @precondition(lambda self: self.cache.is_synced and self.list_steps is None)
    @rule(count=st.integers(1, 5), repeats_events=st.booleans())
    def the_watch_delivers(self, count: int, repeats_events: bool) -> None:
        undelivered = [
            event for event in self.server.events if event.revision > self.cache.position
        ][:count]
        for event in undelivered:
            self.cache.apply(event)
            self.pass_position(event.revision)
        if repeats_events:
            for event in self.server.events[-count:]:
                if event.revision <= self.cache.position:
                    self.cache.apply(event)

    @precondition(lambda self: self.cache.is_synced and self.list_steps is None)
    @rule()
    def a_bookmark_arrives_after_all_events(self) -> None:
        self.the_watch_delivers(10**6, repeats_events=False)
        self.cache.apply_bookmark(self.server.revision)
        self.pass_position(self.server.revision)

    @precondition(lambda self: self.list_steps is None)
    @rule(data=st.data())
    def a_long_list_begins(self, data: st.DataObject) -> None:
        """Begin to put a list into the cache: other rules run between the steps."""
        self.list_revision = data.draw(
            st.integers(max(self.cache.position, 1), self.server.revision), label="revision"
        )
        items = list(self.server.list_objects_at(self.list_revision).values())
        with patch("controller.cache.SLICE", 1):
            self.list_steps = self.cache.replace_in_slices(items, self.list_revision)

    @precondition(lambda self: self.list_steps is not None)
    @rule(count=st.integers(1, 4))
    def a_long_list_continues(self, count: int) -> None:
        assert self.list_steps is not None
        for _ in range(count):
            if next(self.list_steps, "end") == "end":
                self.list_steps = None
                self.pass_position(self.list_revision)
                return

    def end_long_list(self) -> None:
        """Put the rest of a list into the cache."""
        while self.list_steps is not None:
            self.a_long_list_continues(1)

    @precondition(lambda self: self.list_steps is None)
    @rule(data=st.data())
    def a_list_at_or_above_the_position_arrives(self, data: st.DataObject) -> None:
        revision = data.draw(
            st.integers(max(self.cache.position, 1), self.server.revision), label="revision"
        )
        self.cache.replace(self.server.list_objects_at(revision).values(), revision)
        self.pass_position(revision)

    @precondition(lambda self: self.cache.is_synced and self.list_steps is None)
    @rule()
    def a_list_at_the_position_arrives(self) -> None:
        before = dict(self.mirror)
        position = self.cache.position
        self.cache.replace(self.server.list_objects_at(position).values(), position)
        assert self.mirror == before

    @precondition(lambda self: self.cache.position > 1 and self.list_steps is None)
    @rule(lost_revisions=st.integers(1, 10), names=st.lists(NAMES, max_size=4), color=COLORS)
    def the_server_is_restored_from_a_backup(
        self, lost_revisions: int, names: list[str], color: str
    ) -> None:
        position = self.cache.position
        revision = max(1, position - lost_revisions)
        self.server.events = [event for event in self.server.events if event.revision <= revision]
        self.server.live = self.server.list_objects_at(revision)
        self.server.revision = revision
        self.server.write_responses.clear()
        self.server.own_deletions.clear()
        self.known_deletions.clear()
        for name in names[: position - 1 - revision]:
            self.server.put(name, color)
        revision = self.server.revision
        self.cache.replace(self.server.live.values(), revision)
        self.writes_ahead.clear()
        self.expected_position = revision

    @invariant()
    def the_cache_has_the_delivered_objects_and_the_own_writes_ahead_of_them(self) -> None:
        expected = self.server.list_objects_at(self.cache.position) if self.cache.is_synced else {}
        expected = {
            name: obj for name, obj in expected.items() if not self.is_known_deleted(obj)
        } | self.writes_ahead
        cached = {obj.metadata.name: obj for obj in self.cache}
        if self.list_steps is None:
            assert cached == expected
            return
        listed_objects = self.server.list_objects_at(self.list_revision)
        for name in ("a", "b", "c"):
            assert cached.get(name) in (
                expected.get(name),
                self.hide_deleted(listed_objects.get(name)),
            )

    def hide_deleted(self, obj: Widget | None) -> Widget | None:
        """Return the object unless it is known to be deleted."""
        return None if obj is None or self.is_known_deleted(obj) else obj

    @invariant()
    def the_history_is_not_confirmed_while_a_list_is_only_partly_in_the_cache(self) -> None:
        if self.list_steps is not None and self.cache.is_history_confirmed:
            expected = (
                self.server.list_objects_at(self.cache.position) if self.cache.is_synced else {}
            )
            complete = {
                name: obj for name, obj in expected.items() if not self.is_known_deleted(obj)
            } | self.writes_ahead
            assert {obj.metadata.name: obj for obj in self.cache} == complete

    @invariant()
    def the_position_is_that_of_the_last_delivery(self) -> None:
        assert self.cache.position == self.expected_position

    @invariant()
    def the_index_agrees_with_the_cached_objects(self) -> None:
        for color in ("red", "green"):
            expected = sorted(
                (obj for obj in self.cache if obj.spec.color == color),
                key=lambda obj: obj.metadata.key,
            )
            assert self.cache.list_by_index("color", color) == tuple(expected)

    @invariant()
    def the_reported_changes_add_up_to_the_cached_objects(self) -> None:
        assert {obj.metadata.key: obj for obj in self.cache} == self.mirror

    @override
    def teardown(self) -> None:
        """Deliver everything; then the cache has exactly the objects of the server."""
        self.end_long_list()
        for response in self.server.write_responses:
            self.cache.apply_own_write(response)
        for deleted in self.server.own_deletions:
            self.cache.mark_deleted(Version.from_object(deleted))
        self.cache.replace(self.server.live.values(), self.server.revision)
        assert {obj.metadata.name: obj for obj in self.cache} == self.server.live
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
