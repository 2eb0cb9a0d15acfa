"""Faults of one exchange: delay the request, answer in the server's place, or alter the answer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import ClassVar

import anyio
import msgspec
from typing_extensions import override


class End(Enum):
    """How an answer ends too early."""

    CLOSED = auto()
    """The answer ends regularly, as if it were complete."""
    RESET = auto()
    """The connection is reset (RST)."""
    SILENCE = auto()
    """Nothing more arrives and the connection stays open, as when a network drops packets."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait of `seconds`, and then for the event `until` if it is given."""

    seconds: float = 0.0
    until: anyio.Event | None = None

    async def wait(self) -> None:
        """Wait for both."""
        await anyio.sleep(self.seconds)
        if self.until is not None:
            await self.until.wait()


Step = bytes | Pause | End
"""A step of an answer: bytes to send, a pause, or an early end."""


class ConnectionTornError(Exception):
    """The connection to the client has to be reset."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that the proxy sends instead of the server."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(
        default_factory=lambda: {"Content-Type": "application/json"}
    )


class Fault:
    """A fault that does nothing; subclasses override the method of the step that they disturb.

    Attributes:
        watches_only: whether the fault alters events, so that only watches get it.
        replaces_server: whether the fault answers or resets in the server's place, so that the
            request never reaches the server.
    """

    watches_only: ClassVar[bool] = False
    replaces_server: ClassVar[bool] = False

    async def intercept_request(self) -> Answer | None:
        """Act before the request is forwarded; return an answer to send instead of the server's.

        Raises:
            ConnectionTornError: reset the connection.
        """
        return None

    async def intercept_answer(self) -> None:
        """Act when the server has answered, before the answer is forwarded.

        Raises:
            ConnectionTornError: reset the connection.
        """

    def alter_piece(self, number: int, piece: bytes) -> Iterator[Step]:  # noqa: ARG002 - some count
        """Yield the steps that send a piece of the answer.

        Args:
            number: the number of the piece, counted from 1. Number 0 is an empty piece before the
                first, which must be yielded so that other faults get it, too.
            piece: a line of a watch with its end, or the whole body of any other answer.
        """
        yield piece


def encode_status(
    code: int, reason: str, message: str, details: Mapping[str, object] | None = None
) -> bytes:
    """Return a Status with status Failure, as JSON."""
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


def encode_event(event_type: str, body: object) -> bytes:
    """Return an event as a line of a watch."""
    return msgspec.json.encode({"type": event_type, "object": body}) + b"\n"


_HTML = {"Content-Type": "text/html"}


@dataclass(frozen=True, slots=True)
class LateRequest(Fault):
    """The request reaches the server late, even if the client has given up."""

    pause: Pause

    @override
    async def intercept_request(self) -> Answer | None:
        await self.pause.wait()
        return None


@dataclass(frozen=True, slots=True)
class LateAnswer(Fault):
    """The request reaches the server at once, and its answer reaches the client late."""

    pause: Pause

    @override
    async def intercept_answer(self) -> None:
        await self.pause.wait()


@dataclass(frozen=True, slots=True)
class Refusal(Fault):
    """The request does not reach the server; the client gets a Status, as from an API server.

    Args:
        code: the HTTP status.
        reason: the reason of the Status; may be empty.
        message: the message of the Status.
        retry_after: seconds of the Retry-After header; None for no such header.
    """

    code: int
    reason: str = ""
    message: str = "injected"
    retry_after: int | None = None
    replaces_server: ClassVar[bool] = True

    @override
    async def intercept_request(self) -> Answer | None:
        headers = {"Content-Type": "application/json"}
        details: dict[str, object] = {}
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
            details["retryAfterSeconds"] = self.retry_after
        return Answer(
            self.code,
            encode_status(self.code, self.reason, message=self.message, details=details or None),
            headers,
        )


def refuse_as_overloaded(retry_after: int = 1) -> Refusal:
    """Return a refusal with code 429, as from an overloaded server."""
    message = "Too many requests, please try again later."
    return Refusal(429, "TooManyRequests", message=message, retry_after=retry_after)


def refuse_as_internal_error() -> Refusal:
    """Return a refusal with code 500 and reason InternalError."""
    return Refusal(500, "InternalError", "Internal error occurred: injected")


def refuse_as_unavailable(retry_after: int | None = None) -> Refusal:
    """Return a refusal with code 503, as from a server that is starting or stopping."""
    message = "the server is currently unable to handle the request"
    return Refusal(503, "ServiceUnavailable", message=message, retry_after=retry_after)


def refuse_as_expired() -> Refusal:
    """Return a refusal with code 410: the resourceVersion or the continue token is too old."""
    return Refusal(410, "Expired", "too old resource version: 1 (2)")


def refuse_as_forbidden(subject: str = "it") -> Refusal:
    """Return a refusal with code 403, as for a user who lacks a role."""
    return Refusal(403, "Forbidden", f"{subject} is forbidden: User cannot do that")


@dataclass(frozen=True, slots=True)
class GatewayPage(Fault):
    """The request does not reach the server; the client gets HTML, as from a load balancer.

    Args:
        code: the HTTP status.
    """

    code: int = 502
    replaces_server: ClassVar[bool] = True

    @override
    async def intercept_request(self) -> Answer | None:
        page = f"<html><body><h1>{self.code} Bad Gateway</h1></body></html>\r\n"
        return Answer(self.code, page.encode(), _HTML)


@dataclass(frozen=True, slots=True)
class RefusedConnection(Fault):
    """The connection is reset before the request reaches the server."""

    replaces_server: ClassVar[bool] = True

    @override
    async def intercept_request(self) -> Answer | None:
        raise ConnectionTornError


@dataclass(frozen=True, slots=True)
class LostAnswer(Fault):
    """The server answers, but the connection is reset before the client gets a byte."""

    @override
    async def intercept_answer(self) -> None:
        raise ConnectionTornError


@dataclass(frozen=True, slots=True)
class CutAnswer(Fault):
    """The answer ends in the middle of a piece.

    Args:
        size: the number of bytes that the client gets of the piece that is cut.
        pieces: the number of whole pieces before it: lines of a watch. Any other answer is a
            single piece.
        end: how the answer ends.
    """

    size: int = 10
    pieces: int = 0
    end: End = End.RESET

    @override
    def alter_piece(self, number: int, piece: bytes) -> Iterator[Step]:
        """Yield whole pieces, then the beginning of the next piece, then the end."""
        if number <= self.pieces:
            yield piece
        else:
            yield piece[: self.size]
            yield self.end


@dataclass(frozen=True, slots=True)
class SlowAnswer(Fault):
    """The answer arrives in small chunks with pauses.

    Args:
        size: the number of bytes of each chunk.
        pause: the pause after each chunk.
    """

    size: int = 1
    pause: Pause = field(default_factory=Pause)

    @override
    def alter_piece(self, number: int, piece: bytes) -> Iterator[Step]:
        """Yield a piece in chunks, with a pause after each."""
        # The empty piece 0 has no chunks, and other faults need it.
        if not number:
            yield piece
        for start in range(0, len(piece), self.size):
            yield piece[start : start + self.size]
            yield self.pause
