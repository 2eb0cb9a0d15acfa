"""A transport to two API servers on one etcd, one of which lags behind.

Behind a load balancer, a client's connections may lead to different servers. Here the kind
decides, so a test knows which caches lag.
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


class SplitTransport(Transport):
    """Sends LISTs and watches that fill the cache of one kind to `late`, all else to `prompt`.

    A LIST without a resourceVersion is as new as etcd on any server. It is sent to `prompt`, too.

    Args:
        resource: the kind.
        late: leads to the server that lags.
        prompt: leads to the other server.
    """

    def __init__(self, resource: Resource[Any], late: Transport, prompt: Transport) -> None:
        self.live_list_count = 0
        """How often the kind was listed without a resourceVersion, which caches do not do."""
        self._path = f"/apis/{resource.api_version}/"
        self._plural = resource.plural
        self._late = late
        self._prompt = prompt

    @override
    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] = NO_QUERY, **more: Any
    ) -> bytes:
        way = self._prompt
        if method == "GET" and self._is_collection(path):
            if VERSION in query:
                way = self._late
            else:
                self.live_list_count += 1
        return await way.request(method, path, query=query, **more)

    @override
    def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        way = self._late if self._is_collection(path) else self._prompt
        return way.stream(path, query=query, accept=accept)

    @override
    async def aclose(self) -> None:
        await self._late.aclose()
        await self._prompt.aclose()

    def _is_collection(self, path: str) -> bool:
        return path.startswith(self._path) and path.endswith(f"/{self._plural}")


@asynccontextmanager
async def connect_to_both(
    resource: Resource[Any], late: Plane, prompt: Plane
) -> AsyncIterator[SplitTransport]:
    """Connect to two API servers as the administrator.

    Args:
        resource: the kind that is watched on `late`.
        late: the server that lags.
        prompt: the other server.
    """
    async with transport_to(late) as first, transport_to(prompt) as second:
        yield SplitTransport(resource, first, second)
