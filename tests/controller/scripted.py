"""A Transport that answers from a script: which list, which watch, in which order.

It stands in where a test must say exactly what arrives in which chunk, and when nothing does.
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
class Watch:
    """One watch: what it says at once; then it ends, breaks, or stays open for more.

    Args:
        chunks: said as soon as it is opened.
        end: how it ends after the chunks: None stays open, "close" ends, an error breaks it.
    """

    chunks: Sequence[bytes] = ()
    end: str | Exception | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    open: bool = False

    def __post_init__(self) -> None:
        self._pending = deque(self.chunks)
        self._more = anyio.Event()

    def say(self, *chunks: bytes) -> None:
        """Send more on an open watch."""
        self._pending.extend(chunks)
        self._more.set()

    def finish(self, end: str | Exception = "close") -> None:
        """End an open watch."""
        self.end = end
        self._more.set()

    async def read(self) -> AsyncIterator[bytes]:
        """Yield the scripted chunks, until the end."""
        while True:
            while self._pending:
                yield self._pending.popleft()
            if isinstance(self.end, Exception):
                raise self.end
            if self.end == "close":
                return
            self._more = anyio.Event()
            await self._more.wait()


class Scripted(Transport):
    """Answers requests and watches in the order given; a request beyond the script is refused.

    Args:
        answers: bodies of requests, or the errors they fail with.
        watches: the watches, or the errors with which opening them fails.
    """

    def __init__(
        self, answers: Sequence[bytes | Exception], watches: Sequence[Watch | Exception] = ()
    ) -> None:
        self.answers = deque(answers)
        self.watches = deque(watches)
        self.asked: list[Mapping[str, str]] = []
        self.watched: list[Mapping[str, str]] = []

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
        self.asked.append(dict(query))
        answer = self.answers.popleft() if self.answers else NoAnswer("the script is over")
        if isinstance(answer, Exception):
            raise answer
        return answer

    @override
    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.watched.append(dict(query))
        watch = self.watches.popleft() if self.watches else Watch()
        if isinstance(watch, Exception):
            raise watch
        watch.query, watch.open = dict(query), True
        chunks = watch.read()
        try:
            yield chunks
        finally:
            watch.open = False

    @override
    async def aclose(self) -> None:
        """Nothing to close."""
