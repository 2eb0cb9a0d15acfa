"""Requests in flight: a seed decides when each runs, and whether its answer arrives."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from typing_extensions import override

from controller.codec import decode_json, encode
from controller.errors import Forbidden
from controller.meta import Key
from controller.testing import HeldRequest
from controller.transport import NO_QUERY, Transport
from tests.reconcilers.simulation.model import (
    ADDRESSES,
    ALLOCATIONS,
    METAL3_ADDRESSES,
    NETWORK_ADDRESSES,
    ModelServer,
    name_of,
)


class Flight(HeldRequest):
    """One request that a replica has sent, and that has not run yet.

    Args:
        model: the API server.
        method: of HTTP.
        path: of the URL.
        query: the parameters of the URL.
        body: the decoded body; empty for none.
        content_type: of the body.
    """

    def __init__(
        self,
        model: ModelServer,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        body: Any,
        content_type: str,
    ) -> None:
        super().__init__(method, path, body, self._ask_model)
        self.plural, self.name, self.subresource = _parse_path(path)
        self.model = model
        self._query = query
        self._content_type = content_type

    def _ask_model(self) -> bytes:
        """Return the model's answer to the request.

        Raises:
            Forbidden: the model refuses writes to this object.
        """
        if self.model.refuses(self.method, self.plural, self.name, self.body):
            raise Forbidden(403, "Forbidden", "a quota or a webhook refuses it")
        if self.method == "PATCH":
            version = self.body.get("metadata", {}).get("resourceVersion")
            assert version is not None, "a write without a precondition"
        return self.model.answer(
            self.method,
            self.path,
            query=self._query,
            body=encode(self.body) if self.body else None,
            content_type=self._content_type,
        )


class Wire(Transport):
    """Carries one replica's requests to the list of all requests on their way.

    Args:
        model: the API server.
        flights: the list to which each request is added.
    """

    def __init__(self, model: ModelServer, flights: list[Flight]) -> None:
        self._model = model
        self._flights = flights

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
        sent = decode_json(body) if body else {}
        flight = Flight(
            self._model, method, path, query=query, body=sent, content_type=content_type
        )
        self._flights.append(flight)
        return await flight.wait()

    @override
    def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise AssertionError("caches are fed by the simulation itself")

    @override
    async def aclose(self) -> None:
        pass


def _parse_path(path: str) -> tuple[str, str, str]:
    """Return the plural, the model's name of the object, and the subresource of a path."""
    parts = path.strip("/").split("/")[3:]
    namespace = parts[1] if parts[0] == "namespaces" else ""
    plural, name, subresource = (*(parts[2:] if namespace else parts), "", "")[:3]
    if plural == ALLOCATIONS and path.startswith("/apis/vitistack.io/"):
        plural = NETWORK_ADDRESSES
    if plural == ADDRESSES and path.startswith("/apis/ipam.metal3.io/"):
        plural = METAL3_ADDRESSES
    return plural, name_of(Key(namespace, name)) if name else "", subresource
