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
from tests.faults.proxied import open_transport

RESOURCE_VERSION = "resourceVersion"


class SplitTransport(Transport):
    """Sends the LISTs and watches of one kind's cache to `lagging`, and the rest to `current`.

    A LIST without a resourceVersion is as new as etcd on any server, so it goes to `current`.

    Args:
        resource: the kind.
        lagging: the transport to the server that lags.
        current: the transport to the other server.
    """

    def __init__(self, resource: Resource[Any], lagging: Transport, current: Transport) -> None:
        self.live_list_count = 0
        """How often the kind was listed without a resourceVersion, which caches do not do."""
        self._path = f"/apis/{resource.api_version}/"
        self._plural = resource.plural
        self._lagging = lagging
        self._current = current

    @override
    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] = NO_QUERY, **options: Any
    ) -> bytes:
        transport = self._current
        if method == "GET" and self._is_collection(path):
            if RESOURCE_VERSION in query:
                transport = self._lagging
            else:
                self.live_list_count += 1
        return await transport.request(method, path, query=query, **options)

    @override
    def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        transport = self._lagging if self._is_collection(path) else self._current
        return transport.stream(path, query=query, accept=accept)

    @override
    async def aclose(self) -> None:
        await self._lagging.aclose()
        await self._current.aclose()

    def _is_collection(self, path: str) -> bool:
        return path.startswith(self._path) and path.endswith(f"/{self._plural}")


@asynccontextmanager
async def connect_to_both(
    resource: Resource[Any], lagging: Plane, current: Plane
) -> AsyncIterator[SplitTransport]:
    """Connect to two API servers as the administrator.

    Args:
        resource: the kind that is watched on `lagging`.
        lagging: the server that lags.
        current: the other server.
    """
    async with open_transport(lagging) as first, open_transport(current) as second:
        yield SplitTransport(resource, first, second)
