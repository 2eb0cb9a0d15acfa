"""The cache: delivered state and own writes, changes, indexes."""

from controller.cache import Cache, Change
from controller.codec import Added, Deleted, Modified, Unreadable
from controller.meta import Key, Version
from tests.controller.widgets import WIDGETS, Widget, build_widget

A = Key("default", "a")


class Watched:
    """A cache and the changes that its subscriber got."""

    def __init__(self) -> None:
        self.cache = Cache(WIDGETS, indexes={"color": lambda w: [w.spec.color]})
        self.changes: list[Change[Widget]] = []
        self.cache.subscribe(self.changes.append)

    def list_revision(self, revision: int, *items: Widget) -> "Watched":
        self.cache.replace(items, revision)
        self.changes.clear()
        return self


def list_names(objects: tuple[Widget, ...]) -> list[str]:
    return [o.metadata.name for o in objects]


def test_the_first_list_is_delivered_as_initial() -> None:
    w = Watched()
    a, b = build_widget("a", 1), build_widget("b", 2)
    w.cache.replace([a, b], 5)
    assert w.changes == [Change(None, a, initial=True), Change(None, b, initial=True)]
    assert w.cache.is_synced
    assert w.cache.position == 5


def test_events_move_the_position_and_the_indexes() -> None:
    w = Watched().list_revision(5, build_widget("a", 1))
    w.cache.apply(Modified(build_widget("a", 6, color="blue")))
    w.cache.apply(Added(build_widget("b", 7, color="blue")))
    assert w.cache.position == 7
    assert list_names(w.cache.list_by_index("color", "blue")) == ["a", "b"]
    assert w.cache.list_by_index("color", "red") == ()


def test_an_event_at_or_below_the_position_of_a_list_changes_nothing() -> None:
    w = Watched().list_revision(5, build_widget("a", 4))
    w.cache.apply(Deleted(build_widget("a", 5)))
    w.cache.apply(Modified(build_widget("a", 3)))
    assert w.cache.get(A) == build_widget("a", 4)
    assert w.changes == []


def test_all_objects_that_are_deleted_at_one_revision_are_deleted() -> None:
    # As etcd deletes Events whose time to live ends together.
    w = Watched().list_revision(
        5, build_widget("a", 1), build_widget("b", 2), build_widget("c", 3)
    )
    w.cache.apply(Deleted(build_widget("a", 6)))
    w.cache.apply(Deleted(build_widget("b", 6)))
    w.cache.apply_bookmark(6)
    w.cache.apply(Deleted(build_widget("c", 6)))
    assert [o.metadata.name for o in w.cache] == ["c"]
    assert w.changes == [Change(build_widget("a", 1), None), Change(build_widget("b", 2), None)]


def test_an_event_that_comes_again_changes_nothing() -> None:
    w = Watched().list_revision(5, build_widget("a", 4))
    for _ in range(2):
        w.cache.apply(Modified(build_widget("a", 6, color="blue")))
    assert len(w.changes) == 1


def test_an_own_write_is_shown_at_once_and_its_event_is_dropped() -> None:
    w = Watched().list_revision(5, build_widget("a", 1))
    own_write = build_widget("a", 9, color="blue")
    w.cache.apply_own_write(own_write)
    assert w.changes == [Change(build_widget("a", 1), own_write)]
    assert w.cache.position == 5
    w.cache.apply(Modified(build_widget("a", 9, color="blue")))
    assert len(w.changes) == 1
    assert w.cache.position == 9


def test_an_older_event_does_not_hide_an_own_write() -> None:
    w = Watched().list_revision(5, build_widget("a", 1))
    w.cache.apply_own_write(build_widget("a", 9))
    w.changes.clear()
    w.cache.apply(Modified(build_widget("a", 7)))
    assert w.cache.get(A) == build_widget("a", 9)
    assert w.changes == []


def test_an_own_write_at_or_below_the_position_is_ignored() -> None:
    w = Watched().list_revision(9)
    w.cache.apply_own_write(build_widget("a", 9))
    assert len(w.cache) == 0


def test_a_late_response_to_removing_the_last_finalizer_does_not_bring_the_object_back() -> None:
    w = Watched().list_revision(5, build_widget("a", 4))
    last = build_widget("a", 8)
    w.cache.apply(Modified(last))
    w.cache.apply(Deleted(build_widget("a", 10)))
    w.cache.apply_own_write(last)
    assert A not in w.cache


def test_the_response_to_removing_the_last_finalizer_is_removed_by_the_deletion_event() -> None:
    w = Watched().list_revision(5, build_widget("a", 4))
    w.cache.apply_own_write(build_widget("a", 8))
    w.changes.clear()
    w.cache.apply(Deleted(build_widget("a", 10)))
    assert A not in w.cache
    assert w.changes == [Change(build_widget("a", 8), None)]


def test_a_deletion_event_removes_an_own_write_of_the_same_uid_whatever_its_version() -> None:
    w = Watched().list_revision(5, build_widget("a", 4))
    w.cache.apply_own_write(build_widget("a", 12))
    w.cache.apply(Deleted(build_widget("a", 10)))
    assert A not in w.cache


def test_the_deletion_of_its_predecessor_does_not_hide_a_recreated_object() -> None:
    w = Watched().list_revision(5, build_widget("a", 4, uid="first"))
    second = build_widget("a", 12, uid="second", color="blue")
    w.cache.apply_own_write(second)
    assert w.changes == [Change(build_widget("a", 4, uid="first"), second)]
    w.cache.apply(Deleted(build_widget("a", 10, uid="first")))
    assert w.cache.get(A) == second
    assert w.cache.list_by_index("color", "red") == ()


def test_a_list_newer_than_an_own_write_replaces_it() -> None:
    w = Watched().list_revision(5)
    w.cache.apply_own_write(build_widget("a", 8))
    w.changes.clear()
    w.cache.replace([], 9)
    assert A not in w.cache
    assert w.changes == [Change(build_widget("a", 8), None, final_state_unknown=True)]


def test_a_list_older_than_an_own_write_does_not_remove_it() -> None:
    w = Watched().list_revision(5)
    w.cache.apply_own_write(build_widget("a", 8))
    w.changes.clear()
    w.cache.replace([], 7)
    assert w.cache.get(A) == build_widget("a", 8)
    assert w.changes == []


def test_a_list_reports_deletions_in_a_gap_and_no_unchanged_objects() -> None:
    w = Watched().list_revision(5, build_widget("a", 1), build_widget("b", 2))
    b = w.cache.get(Key("default", "b"))
    w.cache.replace([build_widget("b", 2)], 9)
    assert w.changes == [Change(build_widget("a", 1), None, final_state_unknown=True)]
    assert w.cache.get(Key("default", "b")) is b


def test_an_object_recreated_in_a_gap_is_an_update_to_another_uid() -> None:
    w = Watched().list_revision(5, build_widget("a", 1, uid="first"))
    w.cache.replace([build_widget("a", 8, uid="second", color="blue")], 9)
    assert w.changes == [
        Change(build_widget("a", 1, uid="first"), build_widget("a", 8, uid="second", color="blue"))
    ]
    assert w.cache.list_by_index("color", "red") == ()
    assert list_names(w.cache.list_by_index("color", "blue")) == ["a"]


def test_a_list_below_the_position_is_another_history_and_drops_own_writes() -> None:
    w = Watched().list_revision(50, build_widget("a", 40))
    w.cache.apply_own_write(build_widget("b", 60))
    w.changes.clear()
    w.cache.replace([build_widget("c", 3)], 7)
    assert w.cache.position == 7
    assert [o.metadata.name for o in w.cache] == ["c"]
    w.cache.apply_own_write(build_widget("d", 8))
    assert w.cache.get(Key("default", "d")) == build_widget("d", 8)


def test_the_older_version_of_an_unreadable_object_stays_and_the_reason_is_kept() -> None:
    w = Watched().list_revision(5, build_widget("a", 1))
    w.cache.apply(Unreadable(A, 6, "no number"))
    assert w.cache.get(A) == build_widget("a", 1)
    assert w.cache.unreadable == {A: "no number"}
    w.cache.replace([], 8, {A: "still none"})
    assert w.cache.get(A) == build_widget("a", 1)
    w.cache.apply(Modified(build_widget("a", 9)))
    assert w.cache.unreadable == {}
    assert w.cache.get(A) == build_widget("a", 9)


def test_subscribers_of_unreadable_objects_are_called_when_an_object_can_be_read_again() -> None:
    w = Watched().list_revision(5, build_widget("a", 1))
    called_keys: list[Key] = []
    w.cache.subscribe_unreadable(called_keys.append)
    w.cache.apply(Unreadable(A, 6, "odd"))
    assert called_keys == [A]
    w.cache.apply(Modified(build_widget("a", 7)))
    assert called_keys == [A] * 2
    w.cache.apply(Unreadable(A, 8, "odd"))
    w.cache.replace([build_widget("a", 9)], 9)
    assert called_keys == [A] * 4
    w.cache.apply(Modified(build_widget("a", 10)))
    assert called_keys == [A] * 4


def test_an_own_write_stays_if_its_event_cannot_be_decoded() -> None:
    w = Watched().list_revision(5, build_widget("a", 1))
    w.cache.apply_own_write(build_widget("a", 8))
    w.cache.apply(Unreadable(A, 8, "odd"))
    w.cache.apply_bookmark(20)
    assert w.cache.get(A) == build_widget("a", 8)


def test_a_deletion_event_that_cannot_be_decoded_deletes_the_object() -> None:
    w = Watched().list_revision(5, build_widget("a", 1))
    w.cache.apply(Unreadable(A, 6, "odd"))
    w.cache.apply(Unreadable(A, 7, "odd", deleted=True))
    assert A not in w.cache
    assert w.cache.unreadable == {}
    assert w.changes == [Change(build_widget("a", 1), None)]


def test_a_bookmark_moves_the_position_and_never_back() -> None:
    w = Watched().list_revision(5)
    w.cache.apply_bookmark(9)
    w.cache.apply_bookmark(7)
    assert w.cache.position == 9


def test_an_own_write_that_is_not_delivered_is_dropped_when_the_position_passes_it() -> None:
    w = Watched().list_revision(5)
    w.cache.apply_own_write(build_widget("a", 8))
    w.changes.clear()
    w.cache.apply_bookmark(8)
    assert A not in w.cache
    assert w.changes == [Change(build_widget("a", 8), None, final_state_unknown=True)]


def test_an_event_that_passes_undelivered_own_writes_shows_the_delivered_object_again() -> None:
    w = Watched().list_revision(5, build_widget("a", 4))
    w.cache.apply_own_write(build_widget("a", 9, color="blue"))
    w.cache.apply_own_write(build_widget("a", 10, color="green"))
    w.cache.apply(Modified(build_widget("a", 7)))
    w.changes.clear()
    w.cache.apply(Added(build_widget("b", 11)))
    assert w.cache.get(A) == build_widget("a", 7)
    assert w.changes == [
        Change(None, build_widget("b", 11)),
        Change(build_widget("a", 10, color="green"), build_widget("a", 7)),
    ]
    assert list_names(w.cache.list_by_index("color", "red")) == ["a", "b"]


def test_equal_numbers_in_another_history_are_not_equal_objects() -> None:
    w = Watched().list_revision(
        50, build_widget("a", 40), build_widget("b", 41), build_widget("c", 42)
    )
    others = [
        build_widget("a", 40, uid="other"),
        build_widget("b", 41, color="blue"),
        build_widget("c", 42),
    ]
    w.cache.replace(others, 45)
    assert [(change.old, change.new) for change in w.changes] == [
        (build_widget("a", 40), others[0]),
        (build_widget("b", 41), others[1]),
    ]
    assert list(w.cache) == others


def test_an_older_own_write_that_comes_late_does_not_hide_a_newer_one() -> None:
    w = Watched().list_revision(5)
    w.cache.apply_own_write(build_widget("a", 9))
    w.cache.apply_own_write(build_widget("a", 8))
    assert w.cache.get(A) == build_widget("a", 9)


def test_after_two_own_writes_the_delivered_object_is_still_known() -> None:
    w = Watched().list_revision(5, build_widget("a", 4))
    w.cache.apply_own_write(build_widget("a", 8))
    w.cache.apply_own_write(build_widget("a", 9))
    w.cache.apply_bookmark(9)
    assert w.cache.get(A) == build_widget("a", 4)


def test_a_late_response_does_not_show_an_object_older_than_a_deleted_one() -> None:
    w = Watched().list_revision(10)
    w.cache.mark_deleted(Version.from_object(build_widget("a", 14, uid="second")))
    w.cache.apply_own_write(build_widget("a", 11, uid="first"))
    assert w.cache.get(A) is None
    assert w.changes == []


def test_a_lagging_list_does_not_show_an_object_older_than_a_deleted_one() -> None:
    w = Watched().list_revision(10)
    w.cache.mark_deleted(Version.from_object(build_widget("a", 14, uid="second")))
    w.cache.replace([build_widget("a", 11, uid="first")], 11)
    assert w.cache.get(A) is None
    w.cache.apply(Deleted(build_widget("a", 12, uid="first")))
    w.cache.apply(Added(build_widget("a", 14, uid="second")))
    assert w.cache.get(A) is None
    w.cache.apply(Deleted(build_widget("a", 15, uid="second")))
    w.cache.apply(Added(build_widget("a", 16, uid="third")))
    assert w.cache.get(A) == build_widget("a", 16, uid="third")
    assert w.cache.tombstones == 0
