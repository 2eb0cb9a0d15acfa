"""The fence: earlier promises of a pool are voided before the pool gets a memory.

A pool that was just created, recreated or restored from a backup, or whose journal was wiped, does
not know what was promised before. A write of such a promise may still be on its way. So the fence
writes every request that a lost promise may name, with its resourceVersion as precondition.
After that no promise to the older version can be kept.

A lost promise was made before the pool was read. It names a version that a LIST shows which
began after that read, or a version that is gone. So a request that moves on before it is voided
needs no voiding. It may have moved on because such a promise was kept just then, so the fence
reads it again, and the memory of the pool reaches up to what was read.

Rejected: to start over with a new LIST. Two replicas that fence at once, each moving what the
other has listed, would keep each other from ever finishing.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from controller.client import Client
from controller.errors import ControllerError
from controller.meta import Object
from controller.resource import Resource
from reconcilers.promises.concurrency import NO_TURNS, run_concurrently
from reconcilers.promises.results import check_voided

RequestT = TypeVar("RequestT", bound=Object)


@dataclass(frozen=True, slots=True)
class Fence(Generic[RequestT]):
    """Voids promises to requests of one kind.

    Args:
        client: reads requests again.
        resource: the kind of the requests.
        may_have_promise: returns whether a lost promise may name this version of a request.
        void: writes a request so that it differs from every earlier version; returns the answer.
        width: the most requests to the API server at once.
        turns: is entered for each of them, where other callers share the width.
    """

    client: Client
    resource: Resource[RequestT]
    may_have_promise: Callable[[RequestT], bool]
    void: Callable[[RequestT], Awaitable[RequestT]]
    width: int
    turns: AbstractAsyncContextManager[object] = NO_TURNS

    async def void_earlier(self, listed: Sequence[RequestT]) -> list[RequestT]:
        """Void every promise to these requests that was made before the pool was read.

        Args:
            listed: by a LIST that began after the pool was read.

        Returns:
            The requests as they are now. Those that are gone are left out.

        Raises:
            ControllerError: a request failed, so earlier promises may still be kept.
        """
        exposed = [request for request in listed if self.may_have_promise(request)]
        answers = await self._run([partial(self._void_one, request) for request in exposed])
        pairs = list(zip(exposed, answers, strict=True))
        moved = [request for request, answer in pairs if answer is None]
        read = await self._run([partial(self._read_moved, request) for request in moved])
        current = {request.metadata.key: request for request in listed}
        for request in moved:
            del current[request.metadata.key]
        now = [request for request in (*answers, *read) if request is not None]
        return [*(current | {request.metadata.key: request for request in now}).values()]

    async def _run(
        self, work: Sequence[Callable[[], Awaitable[RequestT | None]]]
    ) -> list[RequestT | None]:
        return await run_concurrently(work, self.width, self.turns)

    async def _void_one(self, request: RequestT) -> RequestT | None:
        """Write a request; return the answer, or None if the request has moved on or is gone."""
        try:
            return await self.void(request)
        except ControllerError as error:
            check_voided(error)
            return None

    async def _read_moved(self, request: RequestT) -> RequestT | None:
        """Read a request whose write was a conflict; return None if it is gone."""
        key = request.metadata.key
        read = await self.client.find(self.resource, key)
        if read is not None and read.metadata.revision == request.metadata.revision:
            raise ControllerError(
                f"{self.resource.kind} {key} was not voided: its write was refused as a conflict,"
                " although its version is still the same"
            )
        return read
