"""A watch as it comes over the wire: chunks, cut into lines, under a deadline for each read."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable

from controller.clock import Clock
from controller.errors import MalformedAnswer
from controller.watchview import SilentWatch

MAX_LINE = 32 * 1024 * 1024
"""Bytes of the longest event that is accepted; etcd refuses objects above 1.5 MiB."""


class LineSplitter:
    """Cuts a stream of chunks into lines.

    Own, and not the reader's readline: that is slower, and has a limit that large objects exceed.

    Args:
        max_line: bytes of the longest line.
    """

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._parts: list[bytes] = []
        self._pending = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes, without their ends; empty ones are left out.

        Raises:
            MalformedAnswer: a line is longer than allowed.
        """
        first, newline, rest = chunk.partition(b"\n")
        self._parts.append(first)
        self._pending += len(first)
        if self._pending > self._max_line:
            raise MalformedAnswer(f"a line of the watch is longer than {self._max_line} bytes")
        if not newline:
            return []
        lines = [b"".join(self._parts), *rest.split(b"\n")]
        last = lines.pop()
        self._parts, self._pending = [last], len(last)
        return [line for line in lines if line]


async def read_lines(
    chunks: AsyncIterator[bytes], clock: Clock, patience: Callable[[], float]
) -> AsyncGenerator[list[bytes], None]:
    """Yield the lines of a watch, as many at a time as arrived together.

    A line that the end of the stream cut off is dropped: what it said will be told
    again, since no position has passed it.

    Args:
        chunks: the body of the answer.
        clock: measures the silence.
        patience: for how many seconds from now nothing may arrive. HTTP/1.1 has no ping, so a
            connection that died without a word shows only by the bookmarks that are missing.

    Raises:
        SilentWatch: the silence was too long.
        NoAnswer: the connection broke.
        MalformedAnswer: a line is longer than allowed.
    """
    splitter = LineSplitter()
    while True:
        chunk: bytes | None = None
        seconds = patience()
        with clock.move_on_after(seconds) as silence:
            chunk = await anext(chunks, None)
        if silence.cancelled_caught:
            raise SilentWatch(f"the watch was silent for {seconds:g} s")
        if chunk is None:
            return
        if lines := splitter.feed(chunk):
            yield lines
