"""The logged states of objects, so that a state is logged once, not in each pass."""

from collections.abc import Container

from controller.meta import Key


class StateLog:
    """Remembers which state of an object was logged last, by topic.

    This is kept in memory only: another replica, or the next process, logs a state once more.
    """

    def __init__(self) -> None:
        self._states: dict[Key, dict[str, str]] = {}

    def __len__(self) -> int:
        """Return the number of objects with a remembered state."""
        return len(self._states)

    def begin(self, key: Key, topic: str, state: str) -> bool:
        """Remember a state; return whether it is new, so that it should be logged.

        Args:
            key: the key of the object.
            topic: the subject of the state; an object has one state per topic.
            state: the text that is compared. Leave out details that differ from pass to pass.
        """
        topics = self._states.setdefault(key, {})
        if topics.get(topic) == state:
            return False
        topics[topic] = state
        return True

    def end(self, key: Key, topic: str) -> str | None:
        """Forget and return the state of a topic, so that its end can be logged; None if none."""
        topics = self._states.get(key, {})
        state = topics.pop(topic, None)
        if not topics:
            self._states.pop(key, None)
        return state

    def retain(self, keys: Container[Key]) -> None:
        """Forget all objects whose keys are not in `keys`."""
        for key in [key for key in self._states if key not in keys]:
            del self._states[key]

    def forget(self, key: Key) -> None:
        """Forget an object that is deleted, or that another replica works on from now on."""
        self._states.pop(key, None)
