"""A way to two API servers on one etcd, on which one of them tells of one kind.

Two connections through one address may lead to different servers; this decides which leads where,
so that a test knows which caches are late.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from typing_extensions import override

from controller.resource import Resource
from controller.transport import NO_QUERY, Transport
from envtest.plane import RunningControlPlane as Plane
from tests.faults.proxied import transport_to

VERSION = "resourceVersion"


class Divided(Transport):
    """Sends what fills the cache of one kind to one server, everything else to another one.

    A list that names no resourceVersion has to be as new as etcd on any server. It does not fill
    a cache at the start, so it goes with everything else.

    Args:
        resource: the kind.
        late: the server that is watched for this kind.
        prompt: the other one.
    """

    def __init__(self, resource: Resource[Any], late: Transport, prompt: Transport) -> None:
        self.live_lists = 0
        """How often the kind was listed as it is in etcd, which no cache's watch needs."""
        self._path = f"/apis/{resource.api_version}/"
        self._plural = resource.plural
        self._late = late
        self._prompt = prompt

    @override
    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] = NO_QUERY, **more: Any
    ) -> bytes:
        way = self._prompt
        if method == "GET" and self._is_of_all(path):
            if VERSION in query:
                way = self._late
            else:
                self.live_lists += 1
        return await way.request(method, path, query=query, **more)

    @override
    def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        way = self._late if self._is_of_all(path) else self._prompt
        return way.stream(path, query=query, accept=accept)

    @override
    async def aclose(self) -> None:
        await self._late.aclose()
        await self._prompt.aclose()

    def _is_of_all(self, path: str) -> bool:
        return path.startswith(self._path) and path.endswith(f"/{self._plural}")


@asynccontextmanager
async def connect_to_both(
    resource: Resource[Any], late: Plane, prompt: Plane
) -> AsyncIterator[Divided]:
    """Connect to two servers as the administrator.

    Args:
        resource: the kind that is watched on `late`.
        late: one server.
        prompt: the other one.
    """
    async with transport_to(late) as first, transport_to(prompt) as second:
        yield Divided(resource, first, second)
