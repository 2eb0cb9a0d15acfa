"""Bodies of requests as they arrive: whole, too large, too slow, or asked for first."""

import anyio
from aiohttp import web
from aiohttp.http import HttpVersion11

from envtest.server.bodies import BODY_LIMIT
from envtest.server.failures import StatusError, too_large


class ClientGoneError(Exception):
    """The client hung up in the middle of its request; there is nobody to answer."""


async def read_body(request: web.BaseRequest, seconds: float) -> bytes:
    """Read a body up to the limit.

    Args:
        request: of which the head is there.
        seconds: that the body may take.

    Raises:
        StatusError: 413; 504 when it takes too long.
        ClientGoneError: it will never come.
    """
    content = request.content
    if content.is_eof() and content.total_bytes <= BODY_LIMIT:
        # It came with its head, as small ones do.
        return content.read_nowait()
    if (request.content_length or 0) > BODY_LIMIT:
        raise too_large(BODY_LIMIT)
    if not request.can_read_body:
        return b""
    await _invite(request)
    try:
        with anyio.move_on_after(seconds):
            return await _collected(request)
    except (ConnectionError, web.RequestPayloadError) as error:
        raise ClientGoneError from error
    raise _too_slow()


async def _invite(request: web.BaseRequest) -> None:
    """Tell a client that waits for it to send the body."""
    asked = request.headers.get("Expect", "").lower() == "100-continue"
    if asked and request.version == HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # What was sent is no part of the answer yet.
        request.writer.output_size = 0


async def _collected(request: web.BaseRequest) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > BODY_LIMIT:
            raise too_large(BODY_LIMIT)
        chunks.append(chunk)
    return b"".join(chunks)


def _too_slow() -> StatusError:
    """Return the refusal of kube-apiserver's timeout filter."""
    text = "Timeout: request did not complete within the allotted timeout"
    return StatusError(504, text, "Timeout", details={})
