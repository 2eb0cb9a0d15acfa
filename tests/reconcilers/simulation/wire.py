"""Requests in flight: a seed decides when each runs, and whether its answer arrives."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import anyio
import msgspec
from typing_extensions import override

from controller.errors import ControllerError, NoAnswer, api_error
from controller.meta import Key
from controller.transport import Transport
from tests.reconcilers.simulation.model import (
    ALLOCATIONS,
    API_VERSIONS,
    KINDS,
    NETWORK_ADDRESSES,
    Json,
    ModelServer,
    failure,
    name_of,
)

_NOTHING: Mapping[str, str] = {}


@dataclass
class Flight:
    """One request on its way."""

    method: str
    plural: str
    name: str
    subresource: str
    body: Json
    only: str = ""
    """The name that a list asks for; empty for all."""
    ran: bool = False
    answer: bytes | ControllerError | None = None
    landed: anyio.Event = field(default_factory=anyio.Event)

    @property
    def waited_for(self) -> bool:
        """Whether the sender still waits."""
        return not self.landed.is_set()

    def run(self, model: ModelServer) -> None:
        """Let the server see it, now."""
        is_refused = model.refuses(self.method, self.plural, self.name, self.body)
        code, body = failure(403, "Forbidden") if is_refused else self._execute(model)
        self.ran = True
        self.answer = msgspec.json.encode(body) if code < 300 else api_error(code, body)

    def land(self, *, lost: bool = False) -> None:
        """Give the sender the answer, or nothing."""
        if lost or self.answer is None:
            self.answer = NoAnswer(f"{self.method} {self.plural}/{self.name}: timed out")
        self.landed.set()

    def _execute(self, model: ModelServer) -> tuple[int, Json]:
        match self.method, self.name:
            case "GET", "":
                return 200, _list(model, self.plural, self.only)
            case "GET", name:
                found = model.get(self.plural, name)
                return (200, found) if found else api_not_found()
            case "PATCH", name:
                return model.patch(
                    self.plural, name, self.body, status=self.subresource == "status"
                )
            case "DELETE", name:
                pins = self.body["preconditions"]
                return model.delete(self.plural, name, pins["resourceVersion"], pins["uid"])
            case "POST", _:
                return model.create(self.plural, self.body)
            case method, _:
                raise AssertionError(f"the simulation has no {method}")


def api_not_found() -> tuple[int, Json]:
    """Return the Status of a missing object."""
    return 404, {"kind": "Status", "code": 404, "reason": "NotFound"}


def _list(model: ModelServer, plural: str, only: str) -> Json:
    return {
        "kind": f"{KINDS[plural]}List",
        "apiVersion": API_VERSIONS[plural],
        "metadata": {"resourceVersion": str(model.revision)},
        "items": [one for one in model.of(plural) if only in {"", one["metadata"]["name"]}],
    }


class Wire(Transport):
    """Carries one replica's requests into the common pool of flights."""

    def __init__(self, flights: list[Flight]) -> None:
        self._flights = flights

    @override
    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = _NOTHING,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float | None = 30.0,
    ) -> bytes:
        plural, name, subresource = _parsed(path)
        decoded: Any = msgspec.json.decode(body) if body else {}
        only = query.get("fieldSelector", "").removeprefix("metadata.name=")
        flight = Flight(method, plural, name, subresource, decoded, only)
        self._flights.append(flight)
        await flight.landed.wait()
        assert flight.answer is not None
        if isinstance(flight.answer, ControllerError):
            raise flight.answer
        return flight.answer

    @override
    def stream(
        self, path: str, *, query: Mapping[str, str] = _NOTHING, accept: str = "application/json"
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise AssertionError("caches are fed by the simulation itself")

    @override
    async def aclose(self) -> None:
        pass


def _parsed(path: str) -> tuple[str, str, str]:
    """Return the plural, what the model calls the object, and the subresource of a path."""
    parts = path.strip("/").split("/")[3:]
    namespace = parts[1] if parts[0] == "namespaces" else ""
    plural, name, subresource = (*(parts[2:] if namespace else parts), "", "")[:3]
    if plural == ALLOCATIONS and path.startswith("/apis/vitistack.io/"):
        plural = NETWORK_ADDRESSES
    return plural, name_of(Key(namespace, name)) if name else "", subresource
