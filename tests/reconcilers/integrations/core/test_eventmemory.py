"""An object gets one event for a state until the state changes.

`EventMemory.begin` returns whether the state is new, so that an event has to be recorded.
"""

from reconcilers.integrations.core.eventmemory import EventMemory


def test_a_state_is_new_once_until_it_changes() -> None:
    memory = EventMemory[str]()
    states = ["full", "full", "broken", "full"]
    assert [memory.note_state("a", "uid", state) for state in states] == [True, False, True, True]


def test_a_state_is_new_for_an_object_that_was_created_again() -> None:
    memory = EventMemory[str]()
    assert [memory.note_state("a", uid, "full") for uid in ("one", "two")] == [True, True]


def test_a_state_that_ended_is_new_when_it_returns() -> None:
    memory = EventMemory[str]()
    memory.note_state("a", "uid", "full")
    memory.note_state("b", "uid", "full")
    memory.forget("a")
    memory.retain({"a"})
    assert [memory.note_state(key, "uid", "full") for key in "ab"] == [True, True]
