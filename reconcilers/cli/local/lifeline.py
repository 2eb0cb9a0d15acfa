"""A way into an API server that can be cut, as a network between the two can be."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager

from typing_extensions import override

from controller.errors import NoAnswer
from controller.transport import NO_QUERY, Transport


class Lifeline(Transport):
    """A transport that can be cut for good.

    What is under way then may have been done by the server: like in a real network, nobody on
    this side is told.

    Args:
        inner: the way in; whoever gave it closes it.
    """

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._is_cut = False

    async def cut(self) -> None:
        """Let nothing through any more."""
        self._is_cut = True
        await self._inner.aclose()

    @override
    async def request(  # as Transport has it
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
        self._check(method, path)
        answer = await self._inner.request(
            method,
            path,
            query=query,
            body=body,
            content_type=content_type,
            accept=accept,
            timeout=timeout,
        )
        self._check(method, path)
        return answer

    @override
    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self._check("watch", path)
        async with (
            self._inner.stream(path, query=query) as chunks,
            aclosing(self._checked(path, chunks)) as checked,
        ):
            yield checked

    async def _checked(
        self, path: str, chunks: AsyncIterator[bytes]
    ) -> AsyncGenerator[bytes, None]:
        async for chunk in chunks:
            yield chunk
            self._check("watch", path)

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()

    def _check(self, method: str, path: str) -> None:
        if self._is_cut:
            raise NoAnswer(f"{method} {path}: the connection is cut")
