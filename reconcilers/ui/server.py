"""The page and its updates over HTTP.

GET /             the page without data, for everybody, because it is the same for all
GET /ui/updates   server-sent events, for users whom the guard allows it: first the whole state,
                  then the changes

Both are compressed for clients that accept gzip. There are no other paths, and nothing that
writes. The page requests the updates with a token in the Authorization header. No browser sends
that header for another site's page. A stream ends after STREAM_SECONDS and the page requests the
next one, so the guard checks the user again.
"""

import gzip
import zlib
from contextlib import suppress
from functools import cache
from hmac import compare_digest

from aiohttp import web

from controller.clock import Clock
from controller.pages import Guard, PageResponse
from reconcilers.addressmap.page import build_page, build_template
from reconcilers.ui.feed import Feed

UPDATES = "/ui/updates"
STREAM_SECONDS = 300.0
BEAT_SECONDS = 15.0
"""An idle stream sends a comment after this time. A page that receives nothing for three times as
long reconnects."""
MOST_READERS = 50
OLD_URL = (
    b"This needs the token in the URL that was printed by `butler-ipam ui`, anew at each start."
)

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


_GZIP = "gzip"
_GZIP_STREAM = 31
"""zlib's window bits for a stream with the header of gzip."""


def make_token_guard(token: str) -> Guard:
    """Return a guard that admits requests with a token."""

    async def guard(_method: str, _path: str, authorization: str) -> PageResponse | None:
        """Return None for a request with the token; else the response that refuses it."""
        # `compare_digest` takes equally long for each wrong token, so times betray nothing.
        credentials = authorization.encode()
        if compare_digest(credentials, f"Bearer {token}".encode()):
            return None
        return PageResponse(OLD_URL, 401)

    return guard


def make_application(feed: Feed, guard: Guard, clock: Clock) -> web.Application:
    """Return the web application that serves the page and its messages."""

    async def show_page(request: web.Request) -> web.Response:
        """Answer with the page, compressed if the client accepts gzip."""
        _, policy_of_page = build_template()
        policy = f"{policy_of_page}; frame-ancestors 'none'"
        headers = {**HEADERS, "Content-Security-Policy": policy, "Vary": "Accept-Encoding"}
        if not _accepts_gzip(request):
            return web.Response(text=build_page(None), content_type="text/html", headers=headers)
        headers |= {"Content-Encoding": _GZIP, "Content-Type": "text/html; charset=utf-8"}
        return web.Response(body=_compress_page(), headers=headers)

    async def stream_updates(request: web.Request) -> web.StreamResponse:
        """Answer with a stream of messages.

        Refuse a user whom the guard refuses, and any user if there are too many readers.
        """
        authorization = request.headers.get("Authorization", "")
        refusal = await guard(request.method, request.path, authorization)
        if refusal is None and feed.readers >= MOST_READERS:
            refusal = PageResponse(b"too many read this page already", 503)
        if refusal is not None:
            return web.Response(body=refusal.body, status=refusal.status, headers=HEADERS)
        stream = UpdateStream(compressed=_accepts_gzip(request))
        await stream.response.prepare(request)
        with suppress(ConnectionError):  # the reader has closed the connection
            await _write_messages(stream, feed, clock)
        return stream.response

    app = web.Application()
    app.router.add_get("/", show_page)
    app.router.add_get(UPDATES, stream_updates)
    return app


class UpdateStream:
    """Server-sent events, each of which reaches the client at once.

    Args:
        compressed: whether to compress by gzip. aiohttp's own compression would hold events back
            until a block is full, so each event is flushed here.
    """

    def __init__(self, *, compressed: bool) -> None:
        headers = {**HEADERS, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        self._packer = zlib.compressobj(wbits=_GZIP_STREAM) if compressed else None
        if compressed:
            headers["Content-Encoding"] = _GZIP
        self.response = web.StreamResponse(headers=headers | {"Vary": "Accept-Encoding"})

    async def write(self, content: str) -> None:
        """Send content, compressed if the reader accepts gzip."""
        data = content.encode()
        if self._packer is not None:
            data = self._packer.compress(data) + self._packer.flush(zlib.Z_SYNC_FLUSH)
        await self.response.write(data)

    async def end(self) -> None:
        """Send the end of the gzip stream; nothing if it is not compressed."""
        if self._packer is not None:
            await self.response.write(self._packer.flush())


@cache
def _compress_page() -> bytes:
    """Return the page without data, compressed once."""
    return gzip.compress(build_page(None).encode())


def _accepts_gzip(request: web.Request) -> bool:
    """Return whether a client names gzip among the encodings that it accepts (RFC 9110)."""
    offers = request.headers.get("Accept-Encoding", "").lower().split(",")
    parsed = [offer.replace(" ", "").partition(";q=") for offer in offers]
    return any(
        # A quality of 0, 0.0 and so on means that the client rejects the encoding.
        name == _GZIP and (not separator or bool(quality.strip("0.")))
        for name, separator, quality in parsed
    )


async def _write_messages(stream: UpdateStream, feed: Feed, clock: Clock) -> None:
    """Write messages as server-sent events for STREAM_SECONDS; while none come, write comments.

    The first comment makes the headers reach the client at once.
    """
    deadline = clock.monotonic() + STREAM_SECONDS
    with feed.open_reader() as reader:
        await stream.write(": hello\n\n")
        while clock.monotonic() < deadline:
            chunk = ": still here\n\n"
            with clock.move_on_after(BEAT_SECONDS):
                chunk = f"data: {await reader.read()}\n\n"
            await stream.write(chunk)
        await stream.end()
