"""The way into a tenant whose kubeconfig's user may not get the namespace kube-system.

So one server may be both management cluster and tenant of a test, which saves a server, and no
controller notices.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager

from typing_extensions import override

from controller.errors import Forbidden
from controller.transport import NO_QUERY, Transport
from reconcilers.clusteraccess.tenantkubeconfigs import OpenTransport, make_strict_opener
from reconcilers.configuration.settings import TenantSettings

HIDDEN = "/api/v1/namespaces/kube-system"


class Hiding(Transport):
    """Refuses to say which cluster it leads to."""

    def __init__(self, way: Transport) -> None:
        self._way = way

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
        if path == HIDDEN:
            raise Forbidden(403, "Forbidden", "namespaces 'kube-system' is forbidden")
        return await self._way.request(
            method,
            path,
            query=query,
            body=body,
            content_type=content_type,
            accept=accept,
            timeout=timeout,
        )

    @override
    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] = NO_QUERY,
        accept: str = "application/json",
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._way.stream(path, query=query, accept=accept)

    @override
    async def aclose(self) -> None:
        await self._way.aclose()


def hiding(settings: TenantSettings) -> OpenTransport:
    """Return a function that opens a tenant's kubeconfig, and hides which cluster that is."""
    usual = make_strict_opener(settings)
    return lambda kubeconfig: Hiding(usual(kubeconfig))
