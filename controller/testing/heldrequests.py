"""Held requests: a test decides when the server sees each, and whether the client gets its answer.

    waiting: list[HeldRequest] = []
    client = Client(HeldRequests(api, waiting))
    group.start_soon(client.get, WIDGETS, key)
    await settle()
    waiting[0].run()              # the server has seen it
    waiting.pop(0).land()         # the client has its answer

A request can still run when its client has given up, as if the client's process had died.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
from typing_extensions import override

from controller.codec import decode_json
from controller.errors import ControllerError, NoAnswer
from controller.testing.api import FakeApi
from controller.transport import NO_QUERY, Transport


class HeldRequest:
    """A request that the server sees when a test runs it.

    Args:
        method: the HTTP method.
        path: the path of the URL.
        body: the body, decoded; an empty dictionary if there is none.
        answer: carries the request out, and returns the body of the response.
        server: the name of the server that it is for.
    """

    def __init__(
        self, method: str, path: str, body: Any, answer: Callable[[], bytes], *, server: str = ""
    ) -> None:
        self.method = method
        self.path = path
        self.body = body
        self.server = server
        self._carry_out = answer
        self._answer: bytes | ControllerError = NoAnswer(f"{method} {path}: timed out")
        self._landed = anyio.Event()

    @property
    def is_awaited(self) -> bool:
        """Whether the sender still waits for the answer."""
        return not self._landed.is_set()

    def run(self) -> None:
        """Let the server see the request, now; its answer waits for `land`."""
        try:
            answer: bytes | ControllerError = self._carry_out()
        except ControllerError as error:
            answer = error  # the sender gets it: `wait` raises it
        if self.is_awaited:  # otherwise the sender has its answer already
            self._answer = answer

    def land(self, *, lost: bool = False) -> None:
        """Give the sender the answer of the request.

        Args:
            lost: give the sender NoAnswer instead. It also gets NoAnswer if the request has not
                run.
        """
        if lost and self.is_awaited:
            self._answer = NoAnswer(f"{self.method} {self.path}: the answer was lost")
        self._landed.set()

    async def wait(self) -> bytes:
        """Wait until the answer lands; return the body of the response.

        Raises:
            ControllerError: the request failed or has not run, or its answer was lost.
        """
        await self._landed.wait()
        if isinstance(self._answer, ControllerError):
            raise self._answer
        return self._answer


class HeldRequests(Transport):
    """A client's way to a fake API server on which requests wait.

    Args:
        api: the server.
        waiting: the list to which each request is added; the test takes it out.
        server: the name of the server, for tests in which several servers share `waiting`.
    """

    def __init__(self, api: FakeApi, waiting: list[HeldRequest], server: str = "") -> None:
        self._api = api
        self._waiting = waiting
        self._server = server

    @override
    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = NO_QUERY,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float | None = 30.0,
    ) -> bytes:
        """Hold a request until the test lands it; return the body of its response.

        `accept` and `timeout` have no effect.

        Raises:
            ControllerError: the request failed or has not run, or its answer was lost.
        """

        def answer() -> bytes:
            """Carry the request out on the server."""
            return self._api.answer(
                method, path, query=query, body=body, content_type=content_type
            )

        sent = decode_json(body) if body else {}
        held_request = HeldRequest(method, path, body=sent, answer=answer, server=self._server)
        self._waiting.append(held_request)
        return await held_request.wait()

    @override
    def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch of the server at once: watches are not held."""
        return self._api.stream(path, query=query, accept=accept)

    @override
    async def aclose(self) -> None:
        """Close the connection to the server, which counts that."""
        await self._api.aclose()
