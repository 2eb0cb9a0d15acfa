"""The store's promises, on random histories."""

from hypothesis import given
from hypothesis import strategies as st

from envtest.storage import EventLog, Store, StoredChange, StoredObject
from envtest.storage.log import KEPT_EVENTS, KEPT_SECONDS, SHARED_EVENTS

KEYS = st.sampled_from([f"{space}/{name}" for space in ("a", "a-b", "b") for name in "xyz"])
STEPS = st.lists(st.tuples(KEYS, st.booleans()), max_size=60)


def play(store: Store, steps: list[tuple[str, bool]]) -> list[tuple[int, dict[str, int]]]:
    """Write and delete; return each revision with what was there then (key -> revision)."""
    now: dict[str, int] = {}
    past: list[tuple[int, dict[str, int]]] = [(store.revision, {})]
    for key, removes in steps:
        if removes and key in now:
            store.delete("things", key)
            del now[key]
        elif not removes:
            now[key] = store.write("things", key, {"metadata": {"name": key}}).revision
        past.append((store.revision, dict(now)))
    return past


@given(STEPS)
def test_every_kept_revision_can_be_read_again(steps: list[tuple[str, bool]]) -> None:
    store = Store()
    table = store.get_table("things")
    for revision, was in play(store, steps):
        then = {key: table.get(key) for key in table.iterate_keys()}
        then.update(table.read_former_states(revision))
        assert {key: stored.revision for key, stored in then.items() if stored} == was


@given(STEPS)
def test_a_watch_from_any_revision_arrives_at_the_present(steps: list[tuple[str, bool]]) -> None:
    store = Store()
    table = store.get_table("things")
    past = play(store, steps)
    for revision, was in past:
        seen = dict(was)
        for event in (
            table.log.list_from(table.log.find_position_after(revision), limit=1000) or ()
        ):
            if event.type == "DELETED":
                del seen[event.current.key]
            else:
                seen[event.current.key] = event.revision
        assert seen == past[-1][1]


@given(STEPS)
def test_revisions_rise_by_one_with_every_write(steps: list[tuple[str, bool]]) -> None:
    store = Store()
    start = store.revision
    play(store, steps)
    revisions = [event.revision for event in store.get_table("things").log.list_after(0)]

    assert revisions == list(range(start + 1, store.revision + 1))


@given(STEPS, st.sampled_from(["", "a/", "a-b/", "b/"]), KEYS)
def test_a_scan_is_sorted_and_begins_behind_its_start(
    steps: list[tuple[str, bool]], prefix: str, after: str
) -> None:
    store = Store()
    was = play(store, steps)[-1][1]

    assert list(store.get_table("things").iterate_keys(prefix, after)) == sorted(
        key for key in was if key.startswith(prefix) and key > after
    )


def build_event(revision: int, at: float = 0.0) -> StoredChange:
    return StoredChange(
        "ADDED", revision, current=StoredObject("k", revision, b"{}"), previous=None, at=at
    )


def test_a_log_forgets_its_oldest_entries_when_it_is_full() -> None:
    log = EventLog(floor=0)
    for revision in range(1, KEPT_EVENTS + 2):
        log.append(build_event(revision))

    assert log.list_from(0) is None
    assert log.floor == KEPT_EVENTS // 4
    assert [event.revision for event in log.list_after(KEPT_EVENTS)] == [KEPT_EVENTS + 1]


def test_only_recent_events_keep_their_bytes_for_the_wire() -> None:
    store = Store()
    for _ in range(SHARED_EVENTS + 10):
        store.write("things", "a", {"metadata": {"name": "a"}})
        newest = store.get_table("things").log.list_after(store.revision - 1)[0]
        assert store.is_recent(newest)
        newest.frames["form"] = b"bytes"

    kept = [event for event in store.get_table("things").log.list_after(0) if event.frames]
    assert len(kept) == SHARED_EVENTS
    assert all(store.is_recent(event) for event in kept)


def test_a_log_drops_entries_that_are_too_old() -> None:
    log = EventLog(floor=0)
    log.append(build_event(1, at=0.0))
    log.append(build_event(2, at=KEPT_SECONDS))
    log.append(build_event(3, at=KEPT_SECONDS + 100))

    assert (log.floor, [event.revision for event in log.list_after(0)]) == (1, [2, 3])
