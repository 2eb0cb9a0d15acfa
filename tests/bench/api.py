"""What drivers do with an API server: requests, many at once, lists in parts, and watches."""

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

import anyio
import msgspec
from aiohttp import ClientSession, ClientTimeout

WIDTH = 32
_PAGE = 500
_MERGE_PATCH = "application/merge-patch+json"
Request = tuple[str, str, dict[str, Any] | None]
"""Method, path and body."""


class _Event(msgspec.Struct):
    """An event of a watch; the object is decoded when it is known to be one."""

    type: str
    object: msgspec.Raw


class _Version(msgspec.Struct):
    """The metadata of which only the version matters."""

    resourceVersion: str


class _Versioned(msgspec.Struct):
    """An object of which only the version matters."""

    metadata: _Version


class _ListMetadata(msgspec.Struct, rename={"next": "continue"}):
    """Where a list was read, and where it goes on."""

    resourceVersion: str
    next: str = ""


class _List(msgspec.Struct):
    """A page of a list."""

    metadata: _ListMetadata
    items: list[msgspec.Raw] = []


class Refused(Exception):
    """The API server refused a request of the driver; says which and why."""


class Api:
    """An API server.

    Args:
        session: its client; its base is the server's URL.
    """

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def ask_all(self, *requests: Iterable[Request]) -> None:
        """Send requests, many at once; of several series, the first of all, then the second...

        Each worker sends what stands at one place of the series in their order.
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
        """Return all objects of a collection as the API server has them now."""
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
        """Read events of a collection from now on.

        The API server ends a watch when the definition of the kind changes, and says for a
        moment that it is not ready to serve another; none of the events is lost, for the next
        watch begins where the last one ended.

        Raises:
            Refused: the API server does not have them any more.
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
