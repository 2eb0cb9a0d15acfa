"""The page and its updates over HTTP.

GET /             the page, without data and without authentication, as it is the same for all
GET /ui/updates   server-sent events: everything once, then what is new; to whom the guard lets in

Both are compressed for clients that accept gzip. There is nothing else, and nothing that writes.
The page asks for the updates with a token in the Authorization header: no cookie and no other
site's page can do that for a person. A stream ends after a while, and the page asks again, so that
who is let in is looked at again, too.
"""

import gzip
import zlib
from contextlib import suppress
from functools import cache
from hmac import compare_digest

from aiohttp import web

from controller.clock import Clock
from controller.pages import Guard, PageResponse
from reconcilers.addressmap.page import page, template
from reconcilers.ui.feed import Feed

UPDATES = "/ui/updates"
STREAM_SECONDS = 300.0
BEAT_SECONDS = 15.0
"""So often an idle stream sends a comment; a page that receives nothing for three reconnects."""
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


def token_guard(token: str) -> Guard:
    """Return a guard that accepts requests with this token."""

    async def guard(_method: str, _path: str, authorization: str) -> PageResponse | None:
        credentials = authorization.encode()
        if compare_digest(credentials, f"Bearer {token}".encode()):
            return None
        return PageResponse(OLD_URL, 401)

    return guard


def application(feed: Feed, guard: Guard, clock: Clock) -> web.Application:
    """Return the web application that serves the page and its messages."""

    async def show(request: web.Request) -> web.Response:
        policy = f"{template()[1]}; frame-ancestors 'none'"
        headers = {**HEADERS, "Content-Security-Policy": policy, "Vary": "Accept-Encoding"}
        if not _accepts_gzip(request):
            return web.Response(text=page(None), content_type="text/html", headers=headers)
        headers |= {"Content-Encoding": _GZIP, "Content-Type": "text/html; charset=utf-8"}
        return web.Response(body=_compressed_page(), headers=headers)

    async def updates(request: web.Request) -> web.StreamResponse:
        authorization = request.headers.get("Authorization", "")
        refusal = await guard(request.method, request.path, authorization)
        if refusal is None and feed.readers >= MOST_READERS:
            refusal = PageResponse(b"too many read this page already", 503)
        if refusal is not None:
            return web.Response(body=refusal.body, status=refusal.status, headers=HEADERS)
        stream = UpdateStream(compressed=_accepts_gzip(request))
        await stream.response.prepare(request)
        with suppress(ConnectionError):  # the reader has closed the connection
            await _write(stream, feed, clock)
        return stream.response

    app = web.Application()
    app.router.add_get("/", show)
    app.router.add_get(UPDATES, updates)
    return app


class UpdateStream:
    """Server-sent events, each of which reaches the client at once.

    Args:
        compressed: by gzip, which aiohttp's own compression would hold back until a block is full.
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
        """Send what ends the stream."""
        if self._packer is not None:
            await self.response.write(self._packer.flush())


@cache
def _compressed_page() -> bytes:
    return gzip.compress(page(None).encode())


def _accepts_gzip(request: web.Request) -> bool:
    """Return whether a client names gzip among the encodings that it accepts (RFC 9110)."""
    offers = request.headers.get("Accept-Encoding", "").lower().split(",")
    parsed = [offer.replace(" ", "").partition(";q=") for offer in offers]
    return any(
        name == _GZIP and (not separator or bool(quality.strip("0.")))
        for name, separator, quality in parsed
    )


async def _write(stream: UpdateStream, feed: Feed, clock: Clock) -> None:
    """Write news as server-sent events, and beats while there is none."""
    ends = clock.monotonic() + STREAM_SECONDS
    with feed.reading() as reader:
        await stream.write(": hello\n\n")
        while clock.monotonic() < ends:
            chunk = ": still here\n\n"
            with clock.move_on_after(BEAT_SECONDS):
                chunk = f"data: {await reader.news()}\n\n"
            await stream.write(chunk)
        await stream.end()
