"""An API server in memory that answers at once: any kind, no schemas, and no HTTP.

What the reconcilers rely on is there: resourceVersions and preconditions, generations, the status
subresource, finalizers, merge patches, the part of server-side apply that we send, discovery, and
watches. Whatever is about bytes and schemas is tested on the embedded server.
"""

import copy
import itertools
import math
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import anyio
import msgspec
from typing_extensions import override

from controller.clock import Clock
from controller.codec import encode
from controller.conditions import rfc3339
from controller.errors import (
    AlreadyExists,
    Conflict,
    ControllerError,
    Forbidden,
    NoAnswer,
    NotFound,
)
from controller.testing.patches import merged
from controller.transport import NO_QUERY, Transport
from tests.controller.store import refuse_initial_events
from tests.reconcilers.served import CLUSTER_SCOPED, KINDS, OPTIONAL, OURS

Json = dict[str, Any]
BOOKMARK_SECONDS = 60.0
"""After how long without news a watch is sent a bookmark, as kube-apiserver does each minute."""

_clusters = itertools.count(1)


@dataclass(frozen=True)
class Request:
    """One request, as tests count and match them; `verb` tells list and watch from get."""

    verb: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def fits(self, **wanted: str) -> bool:
        """Return whether each named part is as wanted."""
        return all(getattr(self, part) == value for part, value in wanted.items())


@dataclass
class Fault:
    """What happens instead of an answer, to the next `times` requests that fit."""

    wanted: Mapping[str, str]
    error: ControllerError | None
    times: int


@dataclass(frozen=True)
class Happening:
    """One entry of the history."""

    type: str
    plural: str
    object: Json

    @property
    def revision(self) -> int:
        """Its place in the history."""
        return int(self.object["metadata"]["resourceVersion"])


class Server(Transport):
    """The objects, and everything that happened to them.

    Args:
        clock: gives the time for timestamps, and says when bookmarks are due.
        served: plurals of the kinds that are served.
    """

    def __init__(self, clock: Clock, served: tuple[str, ...] = ()) -> None:
        self._clock = clock
        self.served = served or tuple(k for k in KINDS if k not in OPTIONAL)
        self.revision = 100
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.identity = f"uid-of-cluster-{next(_clusters)}"
        if "namespaces" in self.served:
            meta = {"name": "kube-system", "uid": self.identity, "resourceVersion": "1"}
            self.objects["namespaces", "", "kube-system"] = {"metadata": meta}
        self.history: list[Happening] = []
        self.requests: list[Request] = []
        self.listeners: list[Callable[[Happening], None]] = []
        self.unknown: frozenset[str] = frozenset()
        """Fields of statuses that the definitions in force do not have: they are dropped.

        With a dot in the name, a field of the entries of a list.
        """
        self._faults: list[Fault] = []
        self._news: defaultdict[str, anyio.Event] = defaultdict(anyio.Event)
        self.closed = 0

    # What tests do, as users would.

    def add(self, plural: str, body: Any) -> Json:
        """Create an object, with the status that it has, or replace the one that is there."""
        whole = _without_nulls(msgspec.json.decode(encode(body)))
        meta = whole["metadata"]
        key = (plural, meta.get("namespace", ""), meta["name"])
        stamped = {"uid": f"uid-{plural}-{self.revision}", "generation": 1}
        stamped |= {"creationTimestamp": rfc3339(self._clock.now())}
        given = {name: value for name, value in meta.items() if value}
        api_version, kind = KINDS[plural]
        obj = {**whole, "apiVersion": api_version, "kind": kind, "metadata": stamped | given}
        return self._store(key, obj, "MODIFIED" if key in self.objects else "ADDED")

    def edit(
        self, plural: str, name: str, patch: Json, *, namespace: str = "butler-system"
    ) -> Json:
        """Merge a patch into an object, status and all."""
        return self._patched((plural, namespace, name), patch, whole=True)

    def delete(self, plural: str, name: str, *, namespace: str = "butler-system") -> None:
        """Delete an object, as `kubectl delete` does: finalizers hold it."""
        self._delete((plural, namespace, name), {})

    def vanish(self, plural: str, name: str, *, namespace: str = "butler-system") -> None:
        """Remove an object at once, finalizers or not."""
        self._remove((plural, namespace, name))

    def see(self, plural: str, name: str, *, namespace: str = "butler-system") -> Json:
        """Return an object."""
        return self.objects[plural, namespace, name]

    def has(self, plural: str, name: str, *, namespace: str = "butler-system") -> bool:
        """Return whether an object is there."""
        return (plural, namespace, name) in self.objects

    def all(self, plural: str) -> list[Json]:
        """Return all objects of a kind."""
        return [obj for key, obj in sorted(self.objects.items()) if key[0] == plural]

    def fail(self, error: ControllerError, *, times: int = 1, **wanted: str) -> None:
        """Refuse the next `times` requests that fit `wanted`."""
        self._faults.append(Fault(wanted, error, times))

    def recover(self) -> None:
        """Refuse and lose nothing any more."""
        self._faults.clear()

    def lose_answers(self, *, times: int = 1, **wanted: str) -> None:
        """Let the next `times` requests that fit `wanted` run, and lose their answers."""
        self._faults.append(Fault(wanted, None, times))

    def count(self, **wanted: str) -> int:
        """Return how many requests fitted `wanted`."""
        return sum(request.fits(**wanted) for request in self.requests)

    # The protocol.

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
        await anyio.lowlevel.checkpoint()
        request = self._parsed(method, path)
        self.requests.append(request)
        fault = self._fault(request)
        if fault is not None and fault.error is not None:
            raise fault.error
        decoded: Any = msgspec.json.decode(body) if body else {}
        answer = self._answer(request, decoded, "apply" in content_type)
        if fault is not None:
            raise NoAnswer(f"{method} {path}: the answer was lost")
        return msgspec.json.encode(answer)

    @override
    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        refuse_initial_events(query)
        request = replace(self._parsed("GET", path), verb="watch")
        self.requests.append(request)
        yield self._follow(request.plural, query)

    @override
    async def aclose(self) -> None:
        self.closed += 1

    async def _follow(self, plural: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        since, place = int(query["resourceVersion"]), 0
        interval = BOOKMARK_SECONDS if query.get("allowWatchBookmarks") == "true" else math.inf
        bookmark = self._clock.monotonic() + interval
        while True:
            while place < len(self.history):
                event = self.history[place]
                place += 1
                if event.plural == plural and event.revision > since:
                    reported = {"type": event.type, "object": event.object}
                    yield msgspec.json.encode(reported) + b"\n"
            with self._clock.move_on_after(bookmark - self._clock.monotonic()):
                await self._news[plural].wait()
            if self._clock.monotonic() >= bookmark:
                bookmark = self._clock.monotonic() + interval
                api_version, kind = KINDS[plural]
                meta = {"resourceVersion": str(self.revision)}
                obj = {"apiVersion": api_version, "kind": kind, "metadata": meta}
                yield msgspec.json.encode({"type": "BOOKMARK", "object": obj}) + b"\n"

    def _fault(self, request: Request) -> Fault | None:
        for fault in self._faults:
            if fault.times > 0 and request.fits(**fault.wanted):
                fault.times -= 1
                return fault
        return None

    def _parsed(self, method: str, path: str) -> Request:
        parts = [unquote(part) for part in path.strip("/").split("/")]
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if parts and parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        plural, name, subresource = (*parts, "", "", "")[:3]
        verb = "list" if method == "GET" and not name else method.lower()
        if not plural:
            return Request("discover", "", name=path)
        return Request(verb, plural, namespace, name, subresource)

    def _answer(self, request: Request, body: Json, apply: bool) -> Json:
        if request.verb == "discover":
            return self._discovery(request.name)
        if request.plural not in self.served:
            raise NotFound(404, "", "404 page not found")
        key = (request.plural, request.namespace, request.name)
        creates = request.verb == "post" or (apply and key not in self.objects)
        if apply and creates and body["metadata"].get("uid"):
            raise Conflict(409, "Conflict", f"{key[0]} {key[2]!r}: no existing object was found")
        actions: dict[str, Callable[[], Json]] = {
            "list": lambda: self._list(request),
            "get": lambda: self._existing(key),
            "patch": lambda: self._patch(key, body, request.subresource == "status"),
            "delete": lambda: self._delete(key, body["preconditions"]),
        }
        return self._create(request, body) if creates else actions[request.verb]()

    def _discovery(self, path: str) -> Json:
        versions = {KINDS[plural][0] for plural in self.served}
        if path == "/apis":
            groups = [
                {"name": v.split("/")[0], "versions": [{"groupVersion": v}]} for v in versions
            ]
            return {"kind": "APIGroupList", "groups": groups}
        asked = path.removeprefix("/apis/").removeprefix("/api/")
        kinds = [
            {"name": p, "kind": KINDS[p][1], "namespaced": p not in CLUSTER_SCOPED}
            for p in self.served
            if KINDS[p][0] == asked
        ]
        if not kinds:
            raise NotFound(404, "", "404 page not found")
        return {"kind": "APIResourceList", "resources": kinds}

    def _list(self, request: Request) -> Json:
        items = [
            obj
            for (plural, namespace, _), obj in sorted(self.objects.items())
            if plural == request.plural and request.namespace in {"", namespace}
        ]
        return {
            "kind": "List",
            "metadata": {"resourceVersion": str(self.revision)},
            "items": items,
        }

    def _existing(self, key: tuple[str, str, str]) -> Json:
        if key not in self.objects:
            raise NotFound(404, "NotFound", f"{key[0]} {key[2]!r} not found")
        return self.objects[key]

    def _create(self, request: Request, body: Json) -> Json:
        key = (request.plural, request.namespace, body["metadata"]["name"])
        if key in self.objects:
            raise AlreadyExists(409, "AlreadyExists", f"{key[0]} {key[2]!r} already exists")
        _admit(body)
        return self.add(request.plural, {k: v for k, v in body.items() if k != "status"})

    def _patch(self, key: tuple[str, str, str], body: Json, status: bool) -> Json:
        old = self._existing(key)
        wanted = dict(body.get("metadata") or {})
        version, uid = wanted.pop("resourceVersion", None), wanted.pop("uid", None)
        ours = KINDS[key[0]][0] == OURS
        assert version is not None or not ours, "a write of our kinds without a precondition"
        meta = old["metadata"]
        if version not in {None, meta["resourceVersion"]} or uid not in {None, meta["uid"]}:
            raise Conflict(409, "Conflict", f"{key[0]} {key[2]!r} has been modified")
        spec = {k: v for k, v in body.items() if k != "status"} | {"metadata": wanted}
        change = {"status": body.get("status", {})} if status else spec
        _admit(merged(old, change))
        return self._patched(key, change, whole=False)

    def _patched(self, key: tuple[str, str, str], change: Json, *, whole: bool) -> Json:
        old = self.objects[key]
        new: Json = copy.deepcopy(merged(old, change))
        for name in self.unknown if "status" in new else ():
            field, _, inner = name.partition(".")
            for entry in new["status"].get(field) or () if inner else ():
                entry.pop(inner, None)
            if not inner:
                new["status"].pop(field, None)
        if new == old and not whole:
            return old
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        meta = new["metadata"]
        if "deletionTimestamp" in meta and not meta.get("finalizers"):
            # The answer carries the old resourceVersion, the event a newer one.
            self._remove(key)
            return new
        return self._store(key, new, "MODIFIED")

    def _delete(self, key: tuple[str, str, str], pins: Mapping[str, str]) -> Json:
        old = self._existing(key)
        meta = old["metadata"]
        if any(meta[name] != value for name, value in pins.items()):
            raise Conflict(409, "Conflict", f"{key[0]} {key[2]!r} has been modified")
        if not meta.get("finalizers"):
            self._remove(key)
            return {"kind": "Status", "status": "Success"}
        if "deletionTimestamp" in meta:
            return old
        mark = {
            "deletionTimestamp": rfc3339(self._clock.now()),
            "generation": meta["generation"] + 1,
        }
        return self._store(key, merged(old, {"metadata": mark}), "MODIFIED")

    def _store(self, key: tuple[str, str, str], obj: Json, kind: str) -> Json:
        self.revision += 1
        obj["metadata"] = {**obj["metadata"], "resourceVersion": str(self.revision)}
        self.objects[key] = obj
        self._tell(Happening(kind, key[0], obj))
        return obj

    def _remove(self, key: tuple[str, str, str]) -> None:
        self.revision += 1
        last = merged(self.objects.pop(key), {"metadata": {"resourceVersion": str(self.revision)}})
        self._tell(Happening("DELETED", key[0], last))

    def _tell(self, happening: Happening) -> None:
        self.history.append(happening)
        for listener in self.listeners:
            listener(happening)
        self._news.pop(happening.plural, anyio.Event()).set()


def _admit(body: Json) -> None:
    """Refuse what MetalLB's webhook refuses."""
    if body.get("kind") == "IPAddressPool" and not body["spec"].get("addresses"):
        raise Forbidden(403, "Forbidden", "pool has no prefixes defined")


def _without_nulls(value: Any) -> Any:
    """Return a decoded object as it would be on the wire, where absent fields are left out."""
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value
