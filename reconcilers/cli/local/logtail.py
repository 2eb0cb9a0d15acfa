"""The end of a log, kept in memory for the case that somebody has to be told why."""

import io
from collections import deque

from typing_extensions import override

LINES = 40


class LogTail(io.TextIOBase):
    """A stream that remembers the last lines written to it.

    Args:
        lines: how many.
    """

    def __init__(self, lines: int = LINES) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=lines)

    @override
    def writable(self) -> bool:
        return True

    @override
    def write(self, text: str, /) -> int:
        self._lines.extend(line for line in text.splitlines() if line)
        return len(text)

    def lines(self) -> list[str]:
        """Return the last lines, oldest first."""
        return list(self._lines)
