"""The states of objects that were logged, so that a state has one line, not one in each pass."""

from collections.abc import Container

from controller.meta import Key


class StateLog:
    """Remembers which state of an object was logged last, by topic.

    It is kept in memory only: another replica, or the next process, logs a state once more.
    """

    def __init__(self) -> None:
        self._states: dict[Key, dict[str, str]] = {}

    def __len__(self) -> int:
        """Return of how many objects a state is remembered."""
        return len(self._states)

    def begin(self, key: Key, topic: str, state: str) -> bool:
        """Remember a state; return whether it is new, so that it should be logged.

        Args:
            key: of the object.
            topic: what the state is about; an object has one state per topic.
            state: the text that is compared. Leave out what differs from pass to pass.
        """
        topics = self._states.setdefault(key, {})
        if topics.get(topic) == state:
            return False
        topics[topic] = state
        return True

    def end(self, key: Key, topic: str) -> str | None:
        """Forget the state of a topic; return it, so that its end can be logged, or None."""
        topics = self._states.get(key, {})
        state = topics.pop(topic, None)
        if not topics:
            self._states.pop(key, None)
        return state

    def retain(self, keys: Container[Key]) -> None:
        """Forget all objects but those with these keys."""
        for key in [key for key in self._states if key not in keys]:
            del self._states[key]

    def forget(self, key: Key) -> None:
        """Forget an object that is gone, or that another replica works on from now on."""
        self._states.pop(key, None)
