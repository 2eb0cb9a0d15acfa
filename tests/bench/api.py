"""A client of an API server for drivers: concurrent requests, lists in pages, and watches."""

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

import anyio
import msgspec
from aiohttp import ClientSession, ClientTimeout

WIDTH = 32
"""How many requests run at the same time."""
_PAGE = 500
"""How many objects a page of a list has."""
_MERGE_PATCH = "application/merge-patch+json"
Request = tuple[str, str, dict[str, Any] | None]
"""Method, path and body."""


class _Event(msgspec.Struct):
    """An event of a watch; the object is decoded later, as an error event has none."""

    type: str
    object: msgspec.Raw


class _Version(msgspec.Struct):
    """The metadata of an object, without all fields but the resourceVersion."""

    resourceVersion: str


class _Versioned(msgspec.Struct):
    """An object, without all fields but the resourceVersion."""

    metadata: _Version


class _ListMetadata(msgspec.Struct, rename={"next": "continue"}):
    """The revision of a list, and the token of its next page; empty for the last page."""

    resourceVersion: str
    next: str = ""


class _List(msgspec.Struct):
    """A page of a list."""

    metadata: _ListMetadata
    items: list[msgspec.Raw] = []


class Refused(Exception):
    """The API server refused a request of the driver; the message has request and answer."""


class Api:
    """An API server.

    Args:
        session: its client; its base is the server's URL.
    """

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def ask_all(self, *requests: Iterable[Request]) -> None:
        """Send series of requests of the same length, by 32 workers at the same time.

        A worker takes the next request of each series, and sends these one after another.
        """
        remaining = zip(*requests, strict=True)

        async def work() -> None:
            for together in remaining:
                for method, path, body in together:
                    await self.ask(method, path, body)

        async with anyio.create_task_group() as group:
            for _ in range(WIDTH):
                group.start_soon(work)

    async def items(self, path: str) -> list[msgspec.Raw]:
        """Return all objects of a collection, read in pages."""
        items: list[msgspec.Raw] = []
        token = ""
        while True:
            answer = await self.ask("GET", f"{path}?limit={_PAGE}&continue={token}")
            page = msgspec.json.decode(answer, type=_List)
            items += page.items
            token = page.metadata.next
            if not token:
                return items

    async def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        """Send a request, a PATCH as a merge patch; return the body of its answer.

        Raises:
            Refused: the answer is an error.
        """
        headers = {"Content-Type": _MERGE_PATCH} if method == "PATCH" else None
        async with self._session.request(method, path, json=body, headers=headers) as answer:
            content = await answer.read()
        if answer.status >= 400:
            raise Refused(f"{method} {path} gave {answer.status}: {content.decode()}")
        return content

    async def watch(
        self,
        path: str,
        take: Callable[[str, bytes, float], None],
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Read events of an empty collection until cancelled.

        The API server ends a watch when the definition of the kind changes, and refuses another
        for a moment. No event is lost, because the next watch begins where the last one ended.

        Args:
            path: the path of the collection.
            take: receives the type of each event, the object, and the time by perf_counter.
            task_status: reports that the watch has begun.

        Raises:
            Refused: the API server has no events after the last one any more.
        """
        listed = msgspec.json.decode(await self.ask("GET", f"{path}?limit=1"), type=_List)
        assert not listed.items, "the driver saw every object from its beginning"
        revision = listed.metadata.resourceVersion
        task_status.started()
        while True:
            query = {"watch": "1", "resourceVersion": revision}
            async with self._session.get(path, params=query, timeout=ClientTimeout()) as answer:
                if answer.status == 429:
                    await anyio.sleep(float(answer.headers.get("Retry-After", "1")))
                    continue
                if answer.status != 200:
                    raise Refused(f"watching {path} gave {answer.status}: {await answer.text()}")
                async for line in answer.content:
                    event = msgspec.json.decode(line, type=_Event)
                    raw = bytes(event.object)
                    if event.type not in {"ADDED", "MODIFIED", "DELETED"}:
                        raise Refused(f"watching {path} gave {event.type}: {raw!r}")
                    take(event.type, raw, perf_counter())
                    revision = msgspec.json.decode(raw, type=_Versioned).metadata.resourceVersion
