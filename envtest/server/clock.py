"""The server's clock: the real one, unless a test has put it forward or back.

Time is asked for deep inside rules that know nothing of the server they run in. So the clock of
the server that answers a request goes with the request's context, and is the machine's own
wherever there is none.
"""

import time
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta


class ServerClock:
    """The clock of one server.

    Attributes:
        skew: by how much it is fast; negative if it is slow.
    """

    def __init__(self) -> None:
        self.skew = timedelta()

    def now(self) -> datetime:
        """Return the time in UTC as the server believes it to be."""
        return datetime.now(UTC) + self.skew

    def seconds(self) -> float:
        """Return the same in seconds since the epoch."""
        return time.time() + self.skew.total_seconds()

    def rule(self) -> None:
        """Be the clock of the current task, and of what it starts."""
        _ruling.set(self)


_ruling: ContextVar[ServerClock | None] = ContextVar("server clock", default=None)


def now() -> datetime:
    """Return the time in UTC by the clock of the server that answers the current request."""
    clock = _ruling.get()
    return datetime.now(UTC) if clock is None else clock.now()


def seconds() -> float:
    """Return the same in seconds since the epoch."""
    clock = _ruling.get()
    return time.time() if clock is None else clock.seconds()
