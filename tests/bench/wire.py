"""The least HTTP that a benchmark needs: a client so cheap that it measures the server.

Keep-alive over TLS, one request at a time per connection. Bodies are bytes; nothing is decoded.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

_LIMIT = 64 * 1024 * 1024


class Wire:
    """One connection to the server, as its administrator."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._head = f"Host: bench\r\nAuthorization: Bearer {token}\r\n"

    @classmethod
    async def open(cls, url: str, tls: ssl.SSLContext, token: str) -> Self:
        """Connect to the server at a URL, with a token of its administrator."""
        host, _, port = url.removeprefix("https://").partition(":")
        streams = await asyncio.open_connection(host, int(port), ssl=tls, limit=_LIMIT)
        return cls(*streams, token)

    async def ask(self, method: str, path: str, body: bytes = b"", media: str = "") -> bytes:
        """Send a request and return the body of its answer.

        Raises:
            RuntimeError: the answer is a refusal.
        """
        await self._send(method, path, body=body, media=media)
        code, length = await self._read_head()
        if length is None:
            answer = b"".join([piece async for piece in self._read_pieces()])
        else:
            answer = await self._reader.readexactly(length)
        if code >= 400:
            raise RuntimeError(f"{method} {path} gave {code}: {answer.decode()}")
        return answer

    async def watch(self, path: str) -> AsyncIterator[bytes]:
        """Yield the pieces of an endless answer, as they were sent."""
        await self._send("GET", path, body=b"", media="")
        code, _ = await self._read_head()
        if code != 200:
            raise RuntimeError(f"GET {path} gave {code}")
        async for piece in self._read_pieces():
            yield piece

    async def _read_pieces(self) -> AsyncIterator[bytes]:
        """Yield the pieces of an answer in chunked encoding, as they were sent."""
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readexactly(2)

    async def _send(self, method: str, path: str, body: bytes, media: str) -> None:
        kind = f"Content-Type: {media}\r\n" if media else ""
        head = f"{method} {path} HTTP/1.1\r\n{self._head}{kind}Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        await self._writer.drain()

    async def _read_head(self) -> tuple[int, int | None]:
        """Read the head of an answer; return its status and its body's length, None for pieces."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        _, separator, rest = head.partition(b"content-length:")
        if not separator:
            return int(head[9:12]), None if b"transfer-encoding: chunked" in head else 0
        return int(head[9:12]), int(rest.partition(b"\r\n")[0])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._writer.transport.abort()
