"""Parts for reading a watch: its lines, a deadline for silence, a limit for bytes, its end."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable

from controller.clock import Clock
from controller.errors import (
    ControllerError,
    MalformedAnswer,
    NoAnswer,
    SilentWatch,
    TooManyRequests,
    is_expired,
)

MAX_LINE = 32 * 1024 * 1024
"""Bytes of the longest event that is accepted; etcd rejects objects above 1.5 MiB."""

OBJECT_BYTES = 1024
"""Bytes that count for each object besides its JSON: about what an empty one takes in a cache."""
PAGE_BYTES = 64 * 1024
"""Bytes that count for each page of a list, so that a list of endless empty pages ends."""

IDLE = "idle"
"""Nothing came for too long, not even a bookmark: the connection was dead."""
ENDED = "ended"
"""The server ended the watch normally, as every few minutes; or we did, to list again."""
SHORT = "short"
"""The server ended the watch within a second without sending anything."""
EXPIRED = "expired"
"""The server has no events for our position."""
THROTTLED = "throttled"
"""The server answered 429."""
BROKEN = "broken"
"""The connection failed."""
FAILED = "failed"
"""The server rejected the watch, or sent something else than a watch."""
REASONS = (IDLE, ENDED, SHORT, EXPIRED, THROTTLED, BROKEN, FAILED)
"""The values of the metric label `reason`."""


class WatchObserver:
    """Called when lists and watches end. This class does nothing; InformerMetrics counts."""

    def note_restart(self, reason: str) -> None:
        """Note that a watch ended, for one of `REASONS`; another watch or a list follows."""

    def note_undelivered(self) -> None:
        """Note that a handler raised on a change, which is delivered to it again later."""

    def note_listed(self) -> None:
        """Note that all objects were read, in pages or as initial events."""


def classify_end(error: ControllerError) -> str:
    """Return the reason, one of `REASONS`, for a watch that ended with `error`."""
    if is_expired(error):
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


class ReadLimit:
    """Counts the bytes that a server sends, so that an untrusted server cannot fill the memory.

    A list may have as many bytes as the limit, and so may the events of the watches after it. Then
    the objects are listed again. So the cache never holds more than twice the limit.

    Args:
        max_list_bytes: of one list, or of the events after it; None for no limit.
    """

    def __init__(self, max_list_bytes: int | None = None) -> None:
        self._max_list_bytes = max_list_bytes
        self._bytes_read = 0

    @property
    def is_exceeded(self) -> bool:
        """Whether more bytes came than the limit allows."""
        return self._max_list_bytes is not None and self._bytes_read > self._max_list_bytes

    def reset(self) -> None:
        """Count from zero again; called before a list and after it."""
        self._bytes_read = 0

    def add(self, size: int, objects: int) -> None:
        """Count the bytes of a part of a response.

        Args:
            size: its bytes.
            objects: the number of objects in it.
        """
        self._bytes_read += size + objects * OBJECT_BYTES

    def add_page(self, plural: str, size: int, objects: int) -> None:
        """Count a page of a list.

        Args:
            plural: the kind, for the error.
            size: the page's bytes.
            objects: the number of objects in the page.

        Raises:
            MalformedAnswer: the list is larger than the limit.
        """
        self.add(PAGE_BYTES + size, objects)
        if self.is_exceeded:
            raise MalformedAnswer(
                f"the list of {plural} is larger than {self._max_list_bytes} bytes"
                f" (an object counts {OBJECT_BYTES} more, a page {PAGE_BYTES})"
            )


class LineSplitter:
    """Cuts a stream of chunks into lines.

    Rejected: `readline` of aiohttp's reader. It is slower, and large objects exceed its limit.

    Args:
        max_line: bytes of the longest line.
    """

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._parts: list[bytes] = []
        self._pending = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes, without line ends and empty lines.

        The incomplete last line is kept for the next chunk.

        Raises:
            MalformedAnswer: the line that was incomplete before this chunk is longer than allowed.
                Lines that lie inside one chunk are not checked: the chunk is in memory already.
        """
        first, newline, rest = chunk.partition(b"\n")
        self._parts.append(first)
        self._pending += len(first)
        if self._pending > self._max_line:
            raise MalformedAnswer(f"a line of the watch is longer than {self._max_line} bytes")
        if not newline:
            return []
        lines = [b"".join(self._parts), *rest.split(b"\n")]
        incomplete = lines.pop()
        self._parts, self._pending = [incomplete], len(incomplete)
        return [line for line in lines if line]


async def read_lines(
    chunks: AsyncIterator[bytes], clock: Clock, max_silence: Callable[[], float]
) -> AsyncGenerator[list[bytes], None]:
    """Yield the lines of a watch; lines that arrived together are in one list.

    An incomplete last line is dropped: the next watch sends that event again, because the
    position is still before it.

    Args:
        chunks: the body of the response.
        clock: measures the silence.
        max_silence: returns the seconds within which the next chunk must arrive. HTTP/1.1 has no
            ping, so a dead connection shows only by the bookmarks that do not come.

    Raises:
        SilentWatch: no chunk arrived in time.
        NoAnswer: the connection broke.
        MalformedAnswer: a line is longer than allowed.
    """
    splitter = LineSplitter()
    while True:
        chunk: bytes | None = None
        seconds = max_silence()
        with clock.move_on_after(seconds) as silence:
            chunk = await anext(chunks, None)
        if silence.cancelled_caught:
            raise SilentWatch(f"the watch was silent for {seconds:g} s")
        if chunk is None:
            return
        if lines := splitter.feed(chunk):
            yield lines
