"""What the last event about each object said, so that a state has one event, not one a pass."""

from collections.abc import Container, Hashable
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)


class EventMemory(Generic[KeyT]):
    """Remembers by object, and by its uid, what was recorded last.

    It is kept in memory only: another replica, or the next process, records a state once more.
    """

    def __init__(self) -> None:
        self._recorded: dict[KeyT, tuple[str, Hashable]] = {}

    def begin(self, key: KeyT, uid: str, state: Hashable) -> bool:
        """Remember a state; return whether it is new, so that it should be recorded.

        Args:
            key: of the object.
            uid: of the object: one of the same name that was created again has no state yet.
            state: what is compared.
        """
        is_new = self._recorded.get(key) != (uid, state)
        self._recorded[key] = uid, state
        return is_new

    def end(self, key: KeyT) -> None:
        """Forget an object that is gone, or about which nothing is to be recorded any more."""
        self._recorded.pop(key, None)

    def retain(self, keys: Container[KeyT]) -> None:
        """Forget all objects but those with these keys."""
        for key in [key for key in self._recorded if key not in keys]:
            del self._recorded[key]
