"""Looking into a watch: what an observer is told, and the words for why a watch began anew."""

from typing import Protocol

from controller.errors import ControllerError, NoAnswer, TooManyRequests

IDLE = "idle"
"""Nothing came for too long, not even a bookmark: the connection was dead."""
ENDED = "ended"
"""The server ended it in good order, as it does every few minutes."""
SHORT = "short"
"""It was over at once, without a word."""
EXPIRED = "expired"
"""The server no longer has, or never had, the history at our position."""
THROTTLED = "throttled"
"""The server had too much to do."""
BROKEN = "broken"
"""The connection failed."""
FAILED = "failed"
"""The server refused, or what came was no watch."""
REASONS = (IDLE, ENDED, SHORT, EXPIRED, THROTTLED, BROKEN, FAILED)


class SilentWatch(NoAnswer):
    """Nothing came for too long."""


class WatchObserver(Protocol):
    """Told how the view of a kind is kept; metrics are one."""

    def restarted(self, reason: str) -> None:
        """A watch ended, for one of `REASONS`, and another one or a list follows."""
        ...

    def listed(self) -> None:
        """Everything was read at once, in parts or as the beginning of a watch."""
        ...


def reason_of(error: ControllerError, *, lapsed: bool) -> str:
    """Return the word for why a watch failed.

    Args:
        error: what it failed with.
        lapsed: whether that means that the history is another one.
    """
    if lapsed:
        return EXPIRED
    match error:
        case SilentWatch():
            return IDLE
        case TooManyRequests():
            return THROTTLED
        case NoAnswer():
            return BROKEN
        case _:
            return FAILED
