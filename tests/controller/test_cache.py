"""The cache: delivered state and own writes, changes, indexes.

An own write is an object that a response to this process's request contained. The position is the
revision up to which lists and watches have delivered all events.
"""

from controller.cache import Cache, Change
from controller.codec import Added, Deleted, Modified, Unreadable
from controller.meta import Key, Version
from tests.controller.widgets import WIDGETS, Widget, build_widget

A = Key("default", "a")


class ObservedCache:
    """A cache of widgets with an index `color`, and the changes that its subscriber got."""

    def __init__(self) -> None:
        self.cache = Cache(WIDGETS, indexes={"color": lambda widget: [widget.spec.color]})
        self.changes: list[Change[Widget]] = []
        self.cache.subscribe(self.changes.append)

    def load_list(self, revision: int, *items: Widget) -> "ObservedCache":
        """Put a list of this revision into the cache, and forget the changes up to now."""
        self.cache.replace(items, revision)
        self.changes.clear()
        return self


def list_names(objects: tuple[Widget, ...]) -> list[str]:
    return [widget.metadata.name for widget in objects]


def test_the_first_list_is_delivered_as_initial() -> None:
    observed = ObservedCache()
    a, b = build_widget("a", 1), build_widget("b", 2)
    observed.cache.replace([a, b], 5)
    assert observed.changes == [Change(None, a, initial=True), Change(None, b, initial=True)]
    assert observed.cache.is_synced
    assert observed.cache.position == 5


def test_events_move_the_position_and_the_indexes() -> None:
    observed = ObservedCache().load_list(5, build_widget("a", 1))
    observed.cache.apply(Modified(build_widget("a", 6, color="blue")))
    observed.cache.apply(Added(build_widget("b", 7, color="blue")))
    assert observed.cache.position == 7
    assert list_names(observed.cache.list_by_index("color", "blue")) == ["a", "b"]
    assert observed.cache.list_by_index("color", "red") == ()


def test_an_event_at_or_below_the_position_of_a_list_changes_nothing() -> None:
    observed = ObservedCache().load_list(5, build_widget("a", 4))
    observed.cache.apply(Deleted(build_widget("a", 5)))
    observed.cache.apply(Modified(build_widget("a", 3)))
    assert observed.cache.get(A) == build_widget("a", 4)
    assert observed.changes == []


def test_all_objects_that_are_deleted_at_one_revision_are_deleted() -> None:
    # As etcd deletes Events whose time to live ends together.
    observed = ObservedCache().load_list(
        5, build_widget("a", 1), build_widget("b", 2), build_widget("c", 3)
    )
    observed.cache.apply(Deleted(build_widget("a", 6)))
    observed.cache.apply(Deleted(build_widget("b", 6)))
    observed.cache.apply_bookmark(6)
    observed.cache.apply(Deleted(build_widget("c", 6)))
    assert [widget.metadata.name for widget in observed.cache] == ["c"]
    assert observed.changes == [
        Change(build_widget("a", 1), None),
        Change(build_widget("b", 2), None),
    ]


def test_an_event_that_comes_again_changes_nothing() -> None:
    observed = ObservedCache().load_list(5, build_widget("a", 4))
    for _ in range(2):
        observed.cache.apply(Modified(build_widget("a", 6, color="blue")))
    assert len(observed.changes) == 1


def test_an_own_write_is_cached_at_once_and_its_event_is_no_second_change() -> None:
    observed = ObservedCache().load_list(5, build_widget("a", 1))
    own_write = build_widget("a", 9, color="blue")
    observed.cache.apply_own_write(own_write)
    assert observed.changes == [Change(build_widget("a", 1), own_write)]
    assert observed.cache.position == 5
    observed.cache.apply(Modified(build_widget("a", 9, color="blue")))
    assert len(observed.changes) == 1
    assert observed.cache.position == 9


def test_an_older_event_does_not_hide_an_own_write() -> None:
    observed = ObservedCache().load_list(5, build_widget("a", 1))
    observed.cache.apply_own_write(build_widget("a", 9))
    observed.changes.clear()
    observed.cache.apply(Modified(build_widget("a", 7)))
    assert observed.cache.get(A) == build_widget("a", 9)
    assert observed.changes == []


def test_an_own_write_at_or_below_the_position_is_ignored() -> None:
    observed = ObservedCache().load_list(9)
    observed.cache.apply_own_write(build_widget("a", 9))
    assert len(observed.cache) == 0


def test_a_late_response_to_removing_the_last_finalizer_does_not_bring_the_object_back() -> None:
    observed = ObservedCache().load_list(5, build_widget("a", 4))
    last = build_widget("a", 8)
    observed.cache.apply(Modified(last))
    observed.cache.apply(Deleted(build_widget("a", 10)))
    observed.cache.apply_own_write(last)
    assert A not in observed.cache


def test_a_deletion_event_removes_the_object_from_which_we_removed_the_last_finalizer() -> None:
    observed = ObservedCache().load_list(5, build_widget("a", 4))
    observed.cache.apply_own_write(build_widget("a", 8))
    observed.changes.clear()
    observed.cache.apply(Deleted(build_widget("a", 10)))
    assert A not in observed.cache
    assert observed.changes == [Change(build_widget("a", 8), None)]


def test_a_deletion_event_removes_an_own_write_of_the_same_uid_even_if_it_is_newer() -> None:
    observed = ObservedCache().load_list(5, build_widget("a", 4))
    observed.cache.apply_own_write(build_widget("a", 12))
    observed.cache.apply(Deleted(build_widget("a", 10)))
    assert A not in observed.cache


def test_the_deletion_of_its_predecessor_does_not_hide_a_recreated_object() -> None:
    observed = ObservedCache().load_list(5, build_widget("a", 4, uid="first"))
    second = build_widget("a", 12, uid="second", color="blue")
    observed.cache.apply_own_write(second)
    assert observed.changes == [Change(build_widget("a", 4, uid="first"), second)]
    observed.cache.apply(Deleted(build_widget("a", 10, uid="first")))
    assert observed.cache.get(A) == second
    assert observed.cache.list_by_index("color", "red") == ()


def test_a_list_newer_than_an_own_write_replaces_it() -> None:
    observed = ObservedCache().load_list(5)
    observed.cache.apply_own_write(build_widget("a", 8))
    observed.changes.clear()
    observed.cache.replace([], 9)
    assert A not in observed.cache
    assert observed.changes == [Change(build_widget("a", 8), None, final_state_unknown=True)]


def test_a_list_older_than_an_own_write_does_not_remove_it() -> None:
    observed = ObservedCache().load_list(5)
    observed.cache.apply_own_write(build_widget("a", 8))
    observed.changes.clear()
    observed.cache.replace([], 7)
    assert observed.cache.get(A) == build_widget("a", 8)
    assert observed.changes == []


def test_a_list_reports_deletions_in_a_gap_and_no_unchanged_objects() -> None:
    observed = ObservedCache().load_list(5, build_widget("a", 1), build_widget("b", 2))
    b = observed.cache.get(Key("default", "b"))
    observed.cache.replace([build_widget("b", 2)], 9)
    assert observed.changes == [Change(build_widget("a", 1), None, final_state_unknown=True)]
    assert observed.cache.get(Key("default", "b")) is b


def test_an_object_recreated_in_a_gap_is_an_update_to_another_uid() -> None:
    observed = ObservedCache().load_list(5, build_widget("a", 1, uid="first"))
    observed.cache.replace([build_widget("a", 8, uid="second", color="blue")], 9)
    assert observed.changes == [
        Change(build_widget("a", 1, uid="first"), build_widget("a", 8, uid="second", color="blue"))
    ]
    assert observed.cache.list_by_index("color", "red") == ()
    assert list_names(observed.cache.list_by_index("color", "blue")) == ["a"]


def test_a_list_of_a_lower_revision_replaces_everything_and_drops_own_writes() -> None:
    observed = ObservedCache().load_list(50, build_widget("a", 40))
    observed.cache.apply_own_write(build_widget("b", 60))
    observed.changes.clear()
    observed.cache.replace([build_widget("c", 3)], 7)
    assert observed.cache.position == 7
    assert [widget.metadata.name for widget in observed.cache] == ["c"]
    observed.cache.apply_own_write(build_widget("d", 8))
    assert observed.cache.get(Key("default", "d")) == build_widget("d", 8)


def test_the_last_readable_version_of_an_unreadable_object_stays_cached() -> None:
    observed = ObservedCache().load_list(5, build_widget("a", 1))
    observed.cache.apply(Unreadable(A, 6, "no number"))
    assert observed.cache.get(A) == build_widget("a", 1)
    assert observed.cache.unreadable == {A: "no number"}
    observed.cache.replace([], 8, {A: "still none"})
    assert observed.cache.get(A) == build_widget("a", 1)
    observed.cache.apply(Modified(build_widget("a", 9)))
    assert observed.cache.unreadable == {}
    assert observed.cache.get(A) == build_widget("a", 9)


def test_subscribers_of_unreadable_objects_are_called_when_an_object_can_be_read_again() -> None:
    observed = ObservedCache().load_list(5, build_widget("a", 1))
    called_keys: list[Key] = []
    observed.cache.subscribe_unreadable(called_keys.append)
    observed.cache.apply(Unreadable(A, 6, "odd"))
    assert called_keys == [A]
    observed.cache.apply(Modified(build_widget("a", 7)))
    assert called_keys == [A] * 2
    observed.cache.apply(Unreadable(A, 8, "odd"))
    observed.cache.replace([build_widget("a", 9)], 9)
    assert called_keys == [A] * 4
    observed.cache.apply(Modified(build_widget("a", 10)))
    assert called_keys == [A] * 4


def test_an_own_write_stays_if_its_event_cannot_be_decoded() -> None:
    observed = ObservedCache().load_list(5, build_widget("a", 1))
    observed.cache.apply_own_write(build_widget("a", 8))
    observed.cache.apply(Unreadable(A, 8, "odd"))
    observed.cache.apply_bookmark(20)
    assert observed.cache.get(A) == build_widget("a", 8)


def test_a_deletion_event_that_cannot_be_decoded_deletes_the_object() -> None:
    observed = ObservedCache().load_list(5, build_widget("a", 1))
    observed.cache.apply(Unreadable(A, 6, "odd"))
    observed.cache.apply(Unreadable(A, 7, "odd", deleted=True))
    assert A not in observed.cache
    assert observed.cache.unreadable == {}
    assert observed.changes == [Change(build_widget("a", 1), None)]


def test_a_bookmark_moves_the_position_and_never_back() -> None:
    observed = ObservedCache().load_list(5)
    observed.cache.apply_bookmark(9)
    observed.cache.apply_bookmark(7)
    assert observed.cache.position == 9


def test_an_own_write_that_is_not_delivered_is_dropped_when_the_position_passes_it() -> None:
    observed = ObservedCache().load_list(5)
    observed.cache.apply_own_write(build_widget("a", 8))
    observed.changes.clear()
    observed.cache.apply_bookmark(8)
    assert A not in observed.cache
    assert observed.changes == [Change(build_widget("a", 8), None, final_state_unknown=True)]


def test_own_writes_that_an_event_moves_the_position_past_are_dropped() -> None:
    observed = ObservedCache().load_list(5, build_widget("a", 4))
    observed.cache.apply_own_write(build_widget("a", 9, color="blue"))
    observed.cache.apply_own_write(build_widget("a", 10, color="green"))
    observed.cache.apply(Modified(build_widget("a", 7)))
    observed.changes.clear()
    observed.cache.apply(Added(build_widget("b", 11)))
    assert observed.cache.get(A) == build_widget("a", 7)
    assert observed.changes == [
        Change(None, build_widget("b", 11)),
        Change(build_widget("a", 10, color="green"), build_widget("a", 7)),
    ]
    assert list_names(observed.cache.list_by_index("color", "red")) == ["a", "b"]


def test_after_the_history_changed_objects_of_equal_revisions_are_compared_by_content() -> None:
    observed = ObservedCache().load_list(
        50, build_widget("a", 40), build_widget("b", 41), build_widget("c", 42)
    )
    others = [
        build_widget("a", 40, uid="other"),
        build_widget("b", 41, color="blue"),
        build_widget("c", 42),
    ]
    observed.cache.replace(others, 45)
    assert [(change.old, change.new) for change in observed.changes] == [
        (build_widget("a", 40), others[0]),
        (build_widget("b", 41), others[1]),
    ]
    assert list(observed.cache) == others


def test_a_late_older_own_write_does_not_replace_a_newer_own_write() -> None:
    observed = ObservedCache().load_list(5)
    observed.cache.apply_own_write(build_widget("a", 9))
    observed.cache.apply_own_write(build_widget("a", 8))
    assert observed.cache.get(A) == build_widget("a", 9)


def test_when_two_own_writes_are_dropped_the_delivered_object_is_cached_again() -> None:
    observed = ObservedCache().load_list(5, build_widget("a", 4))
    observed.cache.apply_own_write(build_widget("a", 8))
    observed.cache.apply_own_write(build_widget("a", 9))
    observed.cache.apply_bookmark(9)
    assert observed.cache.get(A) == build_widget("a", 4)


def test_a_late_own_write_of_an_object_that_is_known_to_be_deleted_is_ignored() -> None:
    observed = ObservedCache().load_list(10)
    observed.cache.mark_deleted(Version.from_object(build_widget("a", 14, uid="second")))
    observed.cache.apply_own_write(build_widget("a", 11, uid="first"))
    assert observed.cache.get(A) is None
    assert observed.changes == []


def test_objects_up_to_a_known_deletion_are_ignored_in_lists_and_events() -> None:
    observed = ObservedCache().load_list(10)
    observed.cache.mark_deleted(Version.from_object(build_widget("a", 14, uid="second")))
    observed.cache.replace([build_widget("a", 11, uid="first")], 11)
    assert observed.cache.get(A) is None
    observed.cache.apply(Deleted(build_widget("a", 12, uid="first")))
    observed.cache.apply(Added(build_widget("a", 14, uid="second")))
    assert observed.cache.get(A) is None
    observed.cache.apply(Deleted(build_widget("a", 15, uid="second")))
    observed.cache.apply(Added(build_widget("a", 16, uid="third")))
    assert observed.cache.get(A) == build_widget("a", 16, uid="third")
    assert observed.cache.tombstones == 0
