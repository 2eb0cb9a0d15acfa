"""A server in memory that several connections share, each of which can be made to fail.

It knows what the work side of the framework needs: read, list, watch, create, replace and patch
with a resourceVersion as precondition. Whatever is about HTTP is tested on a real server.
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
        pins = {
            "resourceVersion": str(self.revision),
            "uid": old["metadata"]["uid"] if old else f"uid-{self.revision}",
        }
        stored = {**body, "metadata": {**body["metadata"], **pins}}
        self.objects[path] = stored
        self._log_event("MODIFIED" if old else "ADDED", path, stored)
        return stored

    def remove(self, path: str) -> None:
        """Delete the object at `path`."""
        deleted = self.objects.pop(path)
        self.revision += 1
        self._log_event(
            "DELETED", path, {**deleted, "metadata": deleted["metadata"] | self.version}
        )

    @property
    def version(self) -> dict[str, str]:
        """The newest resourceVersion."""
        return {"resourceVersion": str(self.revision)}

    def _log_event(self, kind: str, path: str, stored: dict[str, Any]) -> None:
        self.log.append((kind, path, stored))
        self.next_change.set()
        self.next_change = anyio.Event()


class StoreTransport(Transport):
    """One client's transport to the store.

    With `hangs` its requests wait for ever and do not reach the store; with `loses_answers` they
    reach the store but no response comes. `refused` maps a method (LIST and WATCH are methods
    here) to the error that it raises, `forbidden` does the same for a kind's plural.
    `before_answer` is awaited between the write and its response. While `watches_stalled` is set
    its watches deliver nothing.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.hangs = False
        self.loses_answers = False
        self.watches_stalled = False
        self.refused: dict[str, Exception] = {}
        self.forbidden: dict[str, Exception] = {}
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
        self._refuse("LIST" if listing else method, path)
        if listing:
            answer = self._list(path)
        else:
            answer = self._answer(method, path, msgspec.json.decode(body) if body else {})
        await self.before_answer()
        if self.loses_answers:
            await anyio.sleep_forever()
        return msgspec.json.encode(answer)

    def _refuse(self, method: str, path: str) -> None:
        error = self.refused.get(method) or self.forbidden.get(path.rpartition("/")[2])
        if error is not None:
            raise error

    def _list(self, path: str) -> dict[str, Any]:
        objects = self.store.objects.items()
        items = [obj for key, obj in objects if _is_within(key, path)]
        return {"kind": "List", "metadata": self.store.version, "items": items}

    def _answer(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        store = self.store
        path = path.removesuffix("/status")
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in store.objects:
                raise AlreadyExists(409, "AlreadyExists", path)
            return store.put(path, body)
        known = store.objects.get(path)
        if known is None:
            raise NotFound(404, "NotFound", path)
        if method == "GET":
            return known
        if body["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", path)
        return store.put(path, body if method == "PUT" else apply_merge_patch(known, body))

    @override
    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self._refuse("WATCH", path)
        refuse_initial_events(query)
        yield self._events(path, int(query["resourceVersion"]))

    async def _events(self, path: str, since: int) -> AsyncIterator[bytes]:
        position = 0
        while True:
            while position < len(self.store.log) and not self.watches_stalled:
                kind, at, obj = self.store.log[position]
                position += 1
                if _is_within(at, path) and int(obj["metadata"]["resourceVersion"]) > since:
                    yield msgspec.json.encode({"type": kind, "object": obj}) + b"\n"
            await self.store.next_change.wait()

    @override
    async def aclose(self) -> None:
        """Nothing to close."""


def refuse_initial_events(query: Mapping[str, str]) -> None:
    """Refuse a list as the beginning of a watch, as servers without that feature do."""
    if "sendInitialEvents" in query:
        message = "sendInitialEvents: Forbidden: forbidden unless WatchList is enabled"
        raise Invalid(422, "Invalid", message)


def _is_within(path: str, collection: str) -> bool:
    """Return whether an object's path lies in a collection, which may span all namespaces."""
    own = path.rpartition("/")[0]
    return collection in (own, re.sub("/namespaces/[^/]+", "", own))
