"""Faults of any exchange: late, refused, lost, cut, slow."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from typing_extensions import override

from envtest.faults.fault import Answer, ConnectionTornError, End, Fault, Pause, Step, status

_HTML = {"Content-Type": "text/html"}


@dataclass(frozen=True, slots=True)
class LateRequest(Fault):
    """The request waits on its way to the server; it runs late, even if nobody waits any more."""

    pause: Pause

    @override
    async def before(self) -> Answer | None:
        await self.pause.wait()
        return None


@dataclass(frozen=True, slots=True)
class LateAnswer(Fault):
    """The request runs at once; its answer waits on its way back."""

    pause: Pause

    @override
    async def after(self) -> None:
        await self.pause.wait()


@dataclass(frozen=True, slots=True)
class Refusal(Fault):
    """The request does not run; a Status comes in its place, as an API server words it.

    Args:
        code: the HTTP status.
        reason: the Status' reason; may be empty.
        message: the Status' message.
        retry_after: seconds in the Retry-After header; none without.
    """

    code: int
    reason: str = ""
    message: str = "injected"
    retry_after: int | None = None
    instead: ClassVar[bool] = True

    @override
    async def before(self) -> Answer | None:
        headers = {"Content-Type": "application/json"}
        details: dict[str, object] = {}
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
            details["retryAfterSeconds"] = self.retry_after
        return Answer(
            self.code, status(self.code, self.reason, self.message, details or None), headers
        )


def too_many_requests(retry_after: int = 1) -> Refusal:
    """Return the refusal of an overloaded server, whose flow control had no place left."""
    message = "Too many requests, please try again later."
    return Refusal(429, "TooManyRequests", message, retry_after)


def internal_error() -> Refusal:
    """Return a 500."""
    return Refusal(500, "InternalError", "Internal error occurred: injected")


def unavailable(retry_after: int | None = None) -> Refusal:
    """Return a 503, as of a server that is starting or stopping."""
    message = "the server is currently unable to handle the request"
    return Refusal(503, "ServiceUnavailable", message, retry_after)


def expired() -> Refusal:
    """Return a 410: the resourceVersion or the continue token is too old."""
    return Refusal(410, "Expired", "too old resource version: 1 (2)")


def forbidden(what: str = "it") -> Refusal:
    """Return a 403, as while a role is missing."""
    return Refusal(403, "Forbidden", f"{what} is forbidden: User cannot do that")


@dataclass(frozen=True, slots=True)
class GatewayPage(Fault):
    """The request does not run; a page for people comes, as of a load balancer.

    Args:
        code: the HTTP status.
    """

    code: int = 502
    instead: ClassVar[bool] = True

    @override
    async def before(self) -> Answer | None:
        page = f"<html><body><h1>{self.code} Bad Gateway</h1></body></html>\r\n"
        return Answer(self.code, page.encode(), _HTML)


@dataclass(frozen=True, slots=True)
class RefusedConnection(Fault):
    """The connection is reset before the request reaches the server."""

    instead: ClassVar[bool] = True

    @override
    async def before(self) -> Answer | None:
        raise ConnectionTornError


@dataclass(frozen=True, slots=True)
class LostAnswer(Fault):
    """The request runs; the connection is reset before a byte of the answer."""

    @override
    async def after(self) -> None:
        raise ConnectionTornError


@dataclass(frozen=True, slots=True)
class CutAnswer(Fault):
    """The answer stops in the middle: after `pieces` whole ones and some bytes of the next.

    Args:
        size: bytes of the piece that is cut.
        pieces: whole lines of a watch before that; other answers are one piece.
        end: what follows.
    """

    size: int = 10
    pieces: int = 0
    end: End = End.RESET

    @override
    def alter(self, number: int, piece: bytes) -> Iterator[Step]:
        if number <= self.pieces:
            yield piece
        else:
            yield piece[: self.size]
            yield self.end


@dataclass(frozen=True, slots=True)
class SlowAnswer(Fault):
    """The answer comes in drops.

    Args:
        size: bytes of each drop.
        pause: between drops.
    """

    size: int = 1
    pause: Pause = field(default_factory=Pause)

    @override
    def alter(self, number: int, piece: bytes) -> Iterator[Step]:
        if not number:
            yield piece
        for start in range(0, len(piece), self.size):
            yield piece[start : start + self.size]
            yield self.pause
