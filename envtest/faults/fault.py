"""What a fault can do to one exchange: keep the request, answer in its place, spoil the answer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import ClassVar

import anyio
import msgspec
from typing_extensions import override


class End(Enum):
    """How an answer stops before its end."""

    CLOSED = auto()
    """In good order, as if it were whole."""
    RESET = auto()
    """The connection is torn down (RST)."""
    SILENCE = auto()
    """Nothing more arrives and the connection stays open, as when a network drops packets."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for `seconds`, then for the event `until`, if one is given."""

    seconds: float = 0.0
    until: anyio.Event | None = None

    async def wait(self) -> None:
        """Wait."""
        await anyio.sleep(self.seconds)
        if self.until is not None:
            await self.until.wait()


Step = bytes | Pause | End
"""Something to send, to wait for, or the end."""


class ConnectionTornError(Exception):
    """The connection to the client has to be reset."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that the proxy gives itself."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(
        default_factory=lambda: {"Content-Type": "application/json"}
    )


class Fault:
    """Does nothing; each fault overrides the method for its moment.

    Attributes:
        watches_only: it is about events, and strikes no other requests.
        instead: it answers, or refuses, in the server's place: the request never runs.
    """

    watches_only: ClassVar[bool] = False
    instead: ClassVar[bool] = False

    async def before(self) -> Answer | None:
        """Act before the request is forwarded; return an answer to give in the server's place.

        Raises:
            ConnectionTornError: reset the connection.
        """
        return None

    async def after(self) -> None:
        """Act when the server has answered, before the answer is forwarded.

        Raises:
            ConnectionTornError: reset the connection.
        """

    def alter(self, number: int, piece: bytes) -> Iterator[Step]:  # noqa: ARG002 - some count
        """Return a piece of the answer as the client gets it.

        Args:
            number: 0 for the empty piece before the first, which others need to see, too; then
                counted from 1.
            piece: one line of a watch with its end, or the whole body of any other answer.
        """
        yield piece


def status(
    code: int, reason: str, message: str, details: Mapping[str, object] | None = None
) -> bytes:
    """Return a Status of a failure, as JSON."""
    body: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
    }
    if reason:
        body["reason"] = reason
    if details is not None:
        body["details"] = details
    return msgspec.json.encode({**body, "code": code})


def event(kind: str, body: object) -> bytes:
    """Return a line of a watch."""
    return msgspec.json.encode({"type": kind, "object": body}) + b"\n"


_HTML = {"Content-Type": "text/html"}


@dataclass(frozen=True, slots=True)
class LateRequest(Fault):
    """The request waits on its way to the server; it runs late, even if the client gave up."""

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
            self.code,
            status(self.code, self.reason, message=self.message, details=details or None),
            headers,
        )


def too_many_requests(retry_after: int = 1) -> Refusal:
    """Return the 429 of an overloaded server."""
    message = "Too many requests, please try again later."
    return Refusal(429, "TooManyRequests", message=message, retry_after=retry_after)


def internal_error() -> Refusal:
    """Return a 500."""
    return Refusal(500, "InternalError", "Internal error occurred: injected")


def unavailable(retry_after: int | None = None) -> Refusal:
    """Return a 503, as of a server that is starting or stopping."""
    message = "the server is currently unable to handle the request"
    return Refusal(503, "ServiceUnavailable", message=message, retry_after=retry_after)


def refuse_as_expired() -> Refusal:
    """Return a 410: the resourceVersion or the continue token is too old."""
    return Refusal(410, "Expired", "too old resource version: 1 (2)")


def forbidden(subject: str = "it") -> Refusal:
    """Return a 403, as while a role is missing."""
    return Refusal(403, "Forbidden", f"{subject} is forbidden: User cannot do that")


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
    """The answer comes in small pieces with pauses.

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
