"""The page and its updates over HTTP.

GET /             the page, without data and without authentication, as it is the same for all
GET /ui/updates   server-sent events: everything once, then what is new; to whom the guard lets in

There is nothing else, and nothing that writes. The page asks for the updates with a token in the
Authorization header: no cookie and no other site's page can do that for a person. A stream ends
after a while, and the page asks again, so that who is let in is looked at again, too.
"""

from contextlib import suppress
from hmac import compare_digest

from aiohttp import web

from controller.clock import Clock
from controller.httpserver import Guard, Response
from reconcilers.addressmap.page import page, page_data, template
from reconcilers.ui.feed import Feed

UPDATES = "/ui/updates"
STREAM_SECONDS = 300.0
BEAT_SECONDS = 15.0
"""So often an idle stream sends a comment; a page that receives nothing for three asks anew."""
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


def token_guard(token: str) -> Guard:
    """Return a guard that lets in who has this token."""

    async def guard(_method: str, _path: str, authorization: str) -> Response | None:
        given = authorization.encode()
        if compare_digest(given, f"Bearer {token}".encode()):
            return None
        return Response(OLD_URL, 401)

    return guard


def application(feed: Feed, guard: Guard, clock: Clock) -> web.Application:
    """Return what is served."""

    async def show(_: web.Request) -> web.Response:
        policy = f"{template()[1]}; frame-ancestors 'none'"
        headers = {**HEADERS, "Content-Security-Policy": policy}
        return web.Response(text=page(None), content_type="text/html", headers=headers)

    async def updates(request: web.Request) -> web.StreamResponse:
        authorization = request.headers.get("Authorization", "")
        refusal = await guard(request.method, request.path, authorization)
        if refusal is None and feed.readers >= MOST_READERS:
            refusal = Response(b"too many read this page already", 503)
        if refusal is not None:
            return web.Response(body=refusal.body, status=refusal.status, headers=HEADERS)
        headers = {**HEADERS, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        with suppress(ConnectionError):  # the reader has closed the connection
            await _write(response, feed, clock)
        return response

    app = web.Application()
    app.router.add_get("/", show)
    app.router.add_get(UPDATES, updates)
    return app


async def _write(response: web.StreamResponse, feed: Feed, clock: Clock) -> None:
    """Write news as server-sent events, and beats while there is none."""
    ends = clock.monotonic() + STREAM_SECONDS
    with feed.reading() as reader:
        await response.write(b": hello\n\n")
        while clock.monotonic() < ends:
            chunk = b": still here\n\n"
            with clock.move_on_after(BEAT_SECONDS):
                chunk = f"data: {page_data(await reader.news())}\n\n".encode()
            await response.write(chunk)
