"""The protocol of a connection to an API server, which clients and informers use.

`HttpTransport` (controller/httptransport.py) implements it over HTTP. It is another module because
a program that only reads manifests needs the types, and not aiohttp.
"""

import inspect
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Protocol

from controller.argumenttypes import describe_value

NO_QUERY: Mapping[str, str] = MappingProxyType({})


def check_transport(transport: object, caller: str) -> None:
    """Raise TypeError if `transport` is no Transport: a client, or `connect()` without await.

    Args:
        transport: as the caller passed it.
        caller: the class that needs it, for the message: `Manager`.
    """
    if inspect.isawaitable(transport):
        raise TypeError(f"{caller} needs a transport: write {caller}(await connect())")
    if not hasattr(transport, "request"):
        raise TypeError(
            f"{caller} needs a transport, as `await connect()` returns it, not"
            f" {describe_value(transport)}"
        )


class Transport(Protocol):
    """A connection to an API server, as clients and informers use it."""

    async def request(  # noqa: PLR0913 - the parts of an HTTP request
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
        """Send a request and return the body of the 2xx response.

        Args:
            method: for example `GET`.
            path: from the server's root, percent-encoded.
            query: parameters, not encoded.
            body: the request's body; None for none.
            content_type: the media type of `body`.
            accept: the media type of the response.
            timeout: seconds for the whole exchange; None for no limit.

        Raises:
            ApiError: the server answered with a failure; the subclass says which.
            NoAnswer: the connection failed, or the timeout passed.
            MalformedAnswer: the response is not from Kubernetes, or larger than allowed.
        """
        ...

    def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch; entering the context returns an iterator over the chunks of its body.

        Args:
            path: from the server's root, percent-encoded.
            query: parameters, not encoded.
            accept: the media type of the response.

        Raises:
            ApiError: on entering, the server answered with a failure.
            MalformedAnswer: on entering, the response is not from Kubernetes.
            NoAnswer: the connection failed on entering, or broke while the body was read.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections; requests under way and later ones raise NoAnswer."""
        ...
