"""What Go's server says to what is no request, byte for byte: no date, no length, then the end."""

from http import HTTPStatus

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import LineTooLong
from typing_extensions import override

# What Go adds to its refusal of a request, by the words in which our parser refuses it.
_REASONS = {
    "Missing 'Host' header": "missing required Host header",
    "Duplicate 'Host' header": "too many Host headers",
    "Invalid header value char": "invalid header value",
}
_VERSION = "Invalid HTTP version"
_ENCODING = "Request has invalid `Transfer-Encoding`"
_FLOOD = "Too many headers"
UNSUPPORTED_VERSION = "505 HTTP Version Not Supported: unsupported protocol version"
MALFORMED = "400 Bad Request"
TOO_LARGE = "431 Request Header Fields Too Large"


class RawAnswer(web.Response):
    """An answer whose bytes are all there; the connection ends with it."""

    def __init__(self, status: str, text: str = "") -> None:
        super().__init__(status=int(status[:3]))
        self.raw = refusal(status, text)
        self.force_close()

    @override
    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        await request.writer.write(self.raw)
        return None

    @override
    async def write_eof(self, data: bytes = b"") -> None:
        """There is nothing to add."""


def refusal(status: str, text: str = "") -> bytes:
    """Return the bytes of a refusal.

    Args:
        status: code and words, as in the first line.
        text: the body, where it is not the status once more.
    """
    head = (
        f"HTTP/1.1 {status}",
        "Content-Type: text/plain; charset=utf-8",
        "Connection: close",
    )
    return "\r\n".join((*head, "", text or status)).encode()


def answer_to(error: BaseException | None, message: str) -> RawAnswer:
    """Return what is said to a request that cannot be parsed.

    Args:
        error: what the parser raised.
        message: its words.
    """
    if isinstance(error, LineTooLong) or message.startswith(_FLOOD):
        return RawAnswer(TOO_LARGE)
    if _VERSION in message:
        return RawAnswer(UNSUPPORTED_VERSION)
    if message.startswith(_ENCODING):
        code = HTTPStatus.NOT_IMPLEMENTED
        return RawAnswer(f"{code.value} {code.phrase}", "Unsupported transfer encoding")
    reasons = (told for words, told in _REASONS.items() if message.startswith(words))
    reason = next(reasons, "")
    return RawAnswer(f"{MALFORMED}: {reason}" if reason else MALFORMED)
