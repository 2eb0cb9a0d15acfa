"""A state is new once, until it changes or ends."""

from controller.meta import Key
from controller.statelog import StateLog

A, B = Key("team", "a"), Key("team", "b")


def test_a_state_is_new_when_it_begins_and_when_it_changes() -> None:
    logged = StateLog()
    assert [logged.begin(A, "client", state) for state in ("x", "x", "y", "y", "x")] == [
        *(True, False, True, False, True)
    ]


def test_objects_and_topics_have_states_of_their_own() -> None:
    logged = StateLog()
    assert logged.begin(A, "client", "x")
    assert logged.begin(B, "client", "x")
    assert logged.begin(A, "quota", "x")


def test_a_state_that_ended_is_returned_once_and_new_again() -> None:
    logged = StateLog()
    logged.begin(A, "client", "x")
    assert [logged.end(A, "client"), logged.end(A, "client")] == ["x", None]
    assert len(logged) == 0
    assert logged.begin(A, "client", "x")


def test_nothing_is_kept_of_objects_that_are_forgotten() -> None:
    logged = StateLog()
    for key in (A, B):
        logged.begin(key, "client", "x")
        logged.begin(key, "quota", "x")
    logged.retain({B})
    assert (len(logged), logged.begin(B, "quota", "x")) == (1, False)
    logged.forget(B)
    assert len(logged) == 0
