"""A server in memory that several connections share, each of which can be made to fail.

It reads, lists, watches, creates, and replaces or patches with a resourceVersion as precondition.
Tests of HTTP use a real server instead.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
from anyio.lowlevel import checkpoint
from typing_extensions import override

from controller.errors import AlreadyExists, Conflict, Invalid, NotFound
from controller.testing.patches import apply_merge_patch
from controller.transport import NO_QUERY, Transport


class Store:
    """The objects by path, and every change of them.

    Attributes:
        log: each change in order: its type (ADDED, MODIFIED or DELETED), the path and the object.
        next_change: is set by the next change; an event for the change after it replaces it.
    """

    def __init__(self) -> None:
        self.revision = 100
        self.objects: dict[str, dict[str, Any]] = {}
        self.log: list[tuple[str, str, dict[str, Any]]] = []
        self.next_change = anyio.Event()

    def put(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Store `body` at `path` with a new resourceVersion, as created or as changed."""
        old = self.objects.get(path)
        self.revision += 1
        server_fields = {
            "resourceVersion": str(self.revision),
            "uid": old["metadata"]["uid"] if old else f"uid-{self.revision}",
        }
        stored = {**body, "metadata": {**body["metadata"], **server_fields}}
        self.objects[path] = stored
        self._log_event("MODIFIED" if old else "ADDED", path, stored)
        return stored

    def remove(self, path: str) -> None:
        """Delete the object at `path`."""
        deleted = self.objects.pop(path)
        self.revision += 1
        self._log_event(
            "DELETED", path, {**deleted, "metadata": deleted["metadata"] | self.newest_version}
        )

    @property
    def newest_version(self) -> dict[str, str]:
        """The newest resourceVersion, as metadata."""
        return {"resourceVersion": str(self.revision)}

    def _log_event(self, kind: str, path: str, stored: dict[str, Any]) -> None:
        self.log.append((kind, path, stored))
        self.next_change.set()
        self.next_change = anyio.Event()


class StoreTransport(Transport):
    """One client's transport to the store.

    Attributes:
        hangs: requests wait for ever and do not reach the store.
        loses_answers: requests reach the store, but no response comes.
        watches_stalled: watches deliver no events.
        errors_by_method: the errors with which requests of a method fail; LIST and WATCH count as
            methods of their own.
        errors_by_plural: the errors with which requests for a kind's collection fail.
        sent: the method and the path of each request so far.
        before_answer: is awaited between a request's effect on the store and its response.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.hangs = False
        self.loses_answers = False
        self.watches_stalled = False
        self.errors_by_method: dict[str, Exception] = {}
        self.errors_by_plural: dict[str, Exception] = {}
        self.sent: list[tuple[str, str]] = []
        self.before_answer: Callable[[], Awaitable[None]] = checkpoint

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
        self.sent.append((method, path))
        if self.hangs:
            await anyio.sleep_forever()
        listing = method == "GET" and bool(query)
        self._raise_error_for("LIST" if listing else method, path)
        if listing:
            answer = self._list(path)
        else:
            answer = self._answer(method, path, msgspec.json.decode(body) if body else {})
        await self.before_answer()
        if self.loses_answers:
            await anyio.sleep_forever()
        return msgspec.json.encode(answer)

    def _raise_error_for(self, method: str, path: str) -> None:
        error = self.errors_by_method.get(method) or self.errors_by_plural.get(
            path.rpartition("/")[2]
        )
        if error is not None:
            raise error

    def _list(self, path: str) -> dict[str, Any]:
        objects = self.store.objects.items()
        items = [obj for key, obj in objects if _is_within(key, path)]
        return {"kind": "List", "metadata": self.store.newest_version, "items": items}

    def _answer(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        store = self.store
        path = path.removesuffix("/status")
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in store.objects:
                raise AlreadyExists(409, "AlreadyExists", path)
            return store.put(path, body)
        stored = store.objects.get(path)
        if stored is None:
            raise NotFound(404, "NotFound", path)
        if method == "GET":
            return stored
        if body["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", path)
        return store.put(path, body if method == "PUT" else apply_merge_patch(stored, body))

    @override
    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self._raise_error_for("WATCH", path)
        refuse_initial_events(query)
        yield self._yield_events(path, int(query["resourceVersion"]))

    async def _yield_events(self, path: str, since: int) -> AsyncIterator[bytes]:
        position = 0
        while True:
            while position < len(self.store.log) and not self.watches_stalled:
                kind, object_path, obj = self.store.log[position]
                position += 1
                if (
                    _is_within(object_path, path)
                    and int(obj["metadata"]["resourceVersion"]) > since
                ):
                    yield msgspec.json.encode({"type": kind, "object": obj}) + b"\n"
            await self.store.next_change.wait()

    @override
    async def aclose(self) -> None:
        """Nothing to close."""


def refuse_initial_events(query: Mapping[str, str]) -> None:
    """Reject a watch that is to begin with a list, as servers without WatchList do."""
    if "sendInitialEvents" in query:
        message = "sendInitialEvents: Forbidden: forbidden unless WatchList is enabled"
        raise Invalid(422, "Invalid", message)


def _is_within(path: str, collection: str) -> bool:
    """Return whether an object's path lies in a collection, which may span all namespaces."""
    own_collection = path.rpartition("/")[0]
    return collection in (own_collection, re.sub("/namespaces/[^/]+", "", own_collection))
