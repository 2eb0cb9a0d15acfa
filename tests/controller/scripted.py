"""A Transport whose answers and watches a test lists beforehand.

It is for tests that decide exactly which chunks of bytes arrive, and when none arrive.
"""

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from typing_extensions import override

from controller.errors import NoAnswer
from controller.transport import NO_QUERY, Transport


@dataclass
class ScriptedWatch:
    """A watch that sends its chunks at once; then it ends, fails, or stays open for more.

    Args:
        chunks: sent as soon as the watch is opened.
        end: what follows the chunks: "close" ends the watch, an error is raised by it, and None
            keeps it open.
        query: the parameters of the request that opened the watch.
        is_open: whether a client reads the watch now.
    """

    chunks: Sequence[bytes] = ()
    end: str | Exception | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    is_open: bool = False

    def __post_init__(self) -> None:
        self._pending = deque(self.chunks)
        self._more = anyio.Event()

    def send(self, *chunks: bytes) -> None:
        """Send more chunks on an open watch."""
        self._pending.extend(chunks)
        self._more.set()

    def finish(self, end: str | Exception = "close") -> None:
        """End an open watch: "close" ends it properly, an error is raised to its reader."""
        self.end = end
        self._more.set()

    async def read(self) -> AsyncIterator[bytes]:
        """Yield the chunks, those sent later too, until the watch ends."""
        while True:
            while self._pending:
                yield self._pending.popleft()
            if isinstance(self.end, Exception):
                raise self.end
            if self.end == "close":
                return
            self._more = anyio.Event()
            await self._more.wait()


class ScriptedTransport(Transport):
    """Answers requests and watches in the order of a script.

    After the last answer requests fail; after the last watch, watches stay open without events.

    Args:
        answers: bodies of requests, or the errors they fail with.
        watches: the watches, or the errors with which opening them fails.

    Attributes:
        request_queries: the parameters of each request so far.
        watch_queries: the parameters of each watch so far.
    """

    def __init__(
        self,
        answers: Sequence[bytes | Exception],
        watches: Sequence[ScriptedWatch | Exception] = (),
    ) -> None:
        self.answers = deque(answers)
        self.watches = deque(watches)
        self.request_queries: list[Mapping[str, str]] = []
        self.watch_queries: list[Mapping[str, str]] = []

    @override
    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = NO_QUERY,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float | None = 30.0,
    ) -> bytes:
        self.request_queries.append(dict(query))
        answer = self.answers.popleft() if self.answers else NoAnswer("the script is over")
        if isinstance(answer, Exception):
            raise answer
        return answer

    @override
    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.watch_queries.append(dict(query))
        watch = self.watches.popleft() if self.watches else ScriptedWatch()
        if isinstance(watch, Exception):
            raise watch
        watch.query, watch.is_open = dict(query), True
        chunks = watch.read()
        try:
            yield chunks
        finally:
            watch.is_open = False

    @override
    async def aclose(self) -> None:
        """Nothing to close."""
