"""Remembers the last event about each object, so that a state has one event, not one per pass."""

from collections.abc import Container, Hashable
from typing import Generic, TypeVar

from controller.events import Recorder
from controller.meta import Key, Object
from controller.resource import Resource

KeyT = TypeVar("KeyT", bound=Hashable)


class EventMemory(Generic[KeyT]):
    """Remembers for each object the state that its last event reported.

    It is kept in memory only: another replica, or the next process, records a state once more.
    """

    def __init__(self) -> None:
        self._recorded: dict[KeyT, tuple[str, Hashable]] = {}

    def note_state(self, key: KeyT, uid: str, state: Hashable) -> bool:
        """Remember a state; return whether it is new, so that it should be recorded.

        Args:
            key: of the object.
            uid: of the object; a recreated object has another uid, so its state is new.
            state: reason and message, or anything else that makes another event necessary.
        """
        is_new = self._recorded.get(key) != (uid, state)
        self._recorded[key] = uid, state
        return is_new

    def forget(self, key: KeyT) -> None:
        """Forget an object that is gone, or about which nothing is to be recorded any more."""
        self._recorded.pop(key, None)

    def retain(self, keys: Container[KeyT]) -> None:
        """Forget all objects but those with these keys."""
        for key in [key for key in self._recorded if key not in keys]:
            del self._recorded[key]


class StateEvents:
    """Records a warning about an object once, and again if its reason or message changes.

    Args:
        recorder: records the events.
        action: the action that all of these events name.
    """

    def __init__(self, recorder: Recorder, action: str) -> None:
        self._recorder = recorder
        self._action = action
        self._recorded = EventMemory[tuple[str, Key]]()
        """By full name of a kind, and key of an object."""

    def report(self, kind: Resource[Object], obj: Object, reason: str, message: str) -> None:
        """Record a warning about an object, unless the last event about it has the same words."""
        meta = obj.metadata
        if self._recorded.note_state((kind.full_name, meta.key), meta.uid, (reason, message)):
            self._recorder.record(kind, obj, "Warning", reason, message, action=self._action)

    def forget(self, kind: Resource[Object], key: Key) -> None:
        """Forget an object that is gone, or with which nothing is wrong any more."""
        self._recorded.forget((kind.full_name, key))
