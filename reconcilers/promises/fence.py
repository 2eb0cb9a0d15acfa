"""The fence: earlier promises of a pool are voided before the pool gets a memory.

To *keep* a promise is to write its ranges to its request. To *void* a promise is to write its
request so that the request gets a new resourceVersion; the promise names the old one and can no
longer be kept. A pool has a *memory* of a kind of requests if its journal has a revision of that
kind: then the journal records all promises to that kind. Other promises are *lost*.

A pool that was just created, recreated or restored from a backup, or whose journal was wiped, does
not know what was promised before. A write of such a promise may still be on its way. So the fence
writes every request that a lost promise may name, with its resourceVersion as precondition.
After that no promise to the older version can be kept.

A lost promise was made before the pool was read. It names a version that is shown by a LIST that
began after that read, or a version that is gone. So a request that gets a new version before the
fence writes it needs no voiding. Its new version may exist because a lost promise was kept just
then. So the fence reads such a request again, and the memory of the pool reaches up to the version
that was read.

Rejected: to start over with a new LIST. Two replicas that fence at once would each write requests
that the other replica has listed, so neither would ever finish.
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
from reconcilers.promises.results import raise_unless_voided

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
        turns: is entered for each request, where other callers share the width.
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
            listed: the requests that a LIST returned which began after the pool was read.

        Returns:
            The requests as they are now, without the requests that are gone.

        Raises:
            ControllerError: a request failed, so earlier promises may still be kept.
        """
        to_void = [request for request in listed if self.may_have_promise(request)]
        answers = await self._send_all([partial(self._void_one, request) for request in to_void])
        changed_meanwhile = [
            request for request, answer in zip(to_void, answers, strict=True) if answer is None
        ]
        reread = await self._send_all(
            [partial(self._read_changed, request) for request in changed_meanwhile]
        )
        requests_by_key = {request.metadata.key: request for request in listed}
        # Removed first, so that a request that is gone does not stay at its listed version.
        for request in changed_meanwhile:
            del requests_by_key[request.metadata.key]
        for new_version in (*answers, *reread):
            if new_version is not None:
                requests_by_key[new_version.metadata.key] = new_version
        return [*requests_by_key.values()]

    async def _send_all(
        self, work: Sequence[Callable[[], Awaitable[RequestT | None]]]
    ) -> list[RequestT | None]:
        """Run functions that send one request each; return their results, in order."""
        return await run_concurrently(work, self.width, self.turns)

    async def _void_one(self, request: RequestT) -> RequestT | None:
        """Write a request once; return its new version.

        Returns:
            None if the request already has a newer version, or is gone.

        Raises:
            ControllerError: the request may still have the listed version, so it is not voided.
        """
        try:
            return await self.void(request)
        except ControllerError as error:
            raise_unless_voided(error)
            return None

    async def _read_changed(self, request: RequestT) -> RequestT | None:
        """Read a request that has changed or is gone, as its voiding write showed.

        Returns:
            The request at its new version; None if it is gone.

        Raises:
            ControllerError: the request still has the version that was to be voided. An admission
                webhook may have denied the write with the status code of a conflict.
        """
        key = request.metadata.key
        live_request = await self.client.find(self.resource, key)
        if (
            live_request is not None
            and live_request.metadata.revision == request.metadata.revision
        ):
            raise ControllerError(
                f"{self.resource.kind} {key} was not voided: its write was refused as a conflict,"
                " although its version is still the same"
            )
        return live_request
