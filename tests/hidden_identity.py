"""Transports to tenants that hide the namespace kube-system, whose uid identifies a cluster.

So one server can be both the management cluster and the tenant of a test, and no controller
notices that they are the same.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager

from typing_extensions import override

from controller.errors import Forbidden
from controller.transport import NO_QUERY, Transport
from reconcilers.clusteraccess.tenantkubeconfigs import OpenTransport, make_strict_opener
from reconcilers.configuration.settings import TenantSettings

IDENTITY_PATH = "/api/v1/namespaces/kube-system"


class HiddenIdentityTransport(Transport):
    """A transport that answers requests for the namespace kube-system with 403."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

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
        if path == IDENTITY_PATH:
            raise Forbidden(403, "Forbidden", "namespaces 'kube-system' is forbidden")
        return await self._inner.request(
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
        return self._inner.stream(path, query=query, accept=accept)

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()


def make_hidden_opener(settings: TenantSettings) -> OpenTransport:
    """Return a function that connects to the tenant of a kubeconfig and hides its identity."""
    open_transport = make_strict_opener(settings)
    return lambda kubeconfig: HiddenIdentityTransport(open_transport(kubeconfig))
