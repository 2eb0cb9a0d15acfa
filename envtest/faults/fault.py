"""What a fault can do to one exchange: keep the request, answer in its place, spoil the answer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import ClassVar

import anyio
import msgspec


class End(Enum):
    """How an answer stops before its end."""

    CLOSED = auto()
    """In good order, as if it were whole."""
    RESET = auto()
    """The connection is torn down (RST)."""
    SILENCE = auto()
    """Nothing more arrives and nobody closes: a connection that died without a word."""


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
    """Does nothing; a fault overrides the moment at which it strikes.

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
        """Act when the server has answered, before the client hears of it.

        Raises:
            ConnectionTornError: reset the connection.
        """

    def alter(self, number: int, piece: bytes) -> Iterator[Step]:  # noqa: ARG002 - some count
        """Return what becomes of a piece of the answer.

        Args:
            number: 0 for the empty piece before the first, which others need to see, too; then
                counted from 1.
            piece: one line of a watch with its end, or the whole body of any other answer.
        """
        yield piece


def status(
    code: int, reason: str, message: str, details: Mapping[str, object] | None = None
) -> bytes:
    """Return a Status that tells of a failure, as JSON."""
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
