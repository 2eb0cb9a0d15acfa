"""An API server in memory, behind the interface of a transport.

    path → kind, key, subresource → rules → history → lists and watches

It keeps what reconcilers depend on: resourceVersions and uids as preconditions, finalizers,
generateName, the status subresource, generations, selectors, watch events, dry run. Everything
that needs a kind's schema is left to a real server: validation, defaults, server-side apply,
webhooks, roles. Nothing acts on the objects: no garbage collector, no other controllers.
"""

import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from anyio.lowlevel import checkpoint
from typing_extensions import override

from controller.client import APPLY_PATCH, JSON_PATCH
from controller.clock import Clock
from controller.codec import decode_json, encode
from controller.conditions import rfc3339
from controller.errors import AlreadyExists, ApiError, BadRequest, Invalid, NotFound
from controller.meta import Key
from controller.resource import Resource
from controller.testing.history import History, Selected
from controller.testing.patches import merged, patched
from controller.testing.rules import (
    Json,
    Kind,
    check_body,
    check_uid,
    conflict,
    created,
    is_gone,
    marked_deleted,
    updated,
)
from controller.testing.selectors import field_selector, label_selector
from controller.transport import NO_QUERY, Transport


@dataclass(frozen=True, slots=True)
class Request:
    """A request that the fake API got.

    Args:
        method: for example `PATCH`; a watch is `WATCH`, a list is `LIST`.
        resource: the full name of the kind, for example `widgets.example.com`.
        key: namespace and name; the name is empty for a collection.
        subresource: for example `status`; empty for the object itself.
    """

    method: str
    resource: str
    key: Key
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class _Target:
    """What a path leads to."""

    kind: Kind
    key: Key
    subresource: str


class FakeApi(Transport):
    """An API server in memory, for `Manager` and `Client` in unit tests.

    A kind has to be declared with `serve`; others answer 404, as without their CRD. Namespaces
    need not exist. Uids and generated names are counted, so they are the same in every run.

    Args:
        clock: for creationTimestamp and deletionTimestamp, and for the bookmarks of watches.
    """

    def __init__(self, clock: Clock) -> None:
        self.requests: list[Request] = []
        """The requests so far."""
        self.on_request: Callable[[Request], None] | None = None
        """Called with every request before it has an effect; the request fails if it raises."""
        self._clock = clock
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._history = History(clock)
        self._made = 0

    def serve(
        self,
        resource: Resource[Any],
        *,
        status: bool = True,
        generation: bool = True,
        fields: tuple[str, ...] = (),
    ) -> None:
        """Serve a kind from now on.

        Args:
            resource: the kind.
            status: whether it has a status subresource; ConfigMaps and Secrets have none.
            generation: whether its objects have a generation; those of most built-in kinds without
                a spec have none.
            fields: paths that field selectors may name, besides metadata.name and
                metadata.namespace.
        """
        key = (resource.collection().rpartition("/")[0], resource.plural)
        self._kinds[key] = Kind(resource, status, generation, fields)

    def stored(self, resource: Resource[Any], key: Key) -> Json | None:
        """Return an object as decoded JSON, None if there is none; it is no request."""
        root = resource.collection().rpartition("/")[0]
        kind = self._kinds.get((root, resource.plural))
        obj = self._history.get(kind, key) if kind else None
        return decode_json(encode(obj)) if obj is not None else None

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
        await checkpoint()  # a real request never answers at once
        if (document := self._discovery(path)) is not None:
            return encode(document)
        target = self._target(path)
        listing = method == "GET" and not target.key.name
        self._note("LIST" if listing else method, target)
        if listing:
            return encode(self._list(target, query))
        sent = decode_json(body) if body else {}
        return encode(self._answer(method, target, sent, content_type, query))

    @override
    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        await checkpoint()
        target = self._target(path)
        self._note("WATCH", target)
        yield self._history.watch(target.kind, _selected(target, query), query)

    @override
    async def aclose(self) -> None:
        """Do nothing, as no connection is open."""

    def _note(self, method: str, target: _Target) -> None:
        name = target.kind.resource.full_name
        request = Request(method, name, target.key, target.subresource)
        self.requests.append(request)
        if self.on_request is not None:
            self.on_request(request)

    def _target(self, path: str) -> _Target:
        """Return what a path leads to: /apis/GROUP/VERSION[/namespaces/NAME]/PLURAL[/NAME[/SUB]].

        Raises:
            NotFound: no kind is served there.
        """
        parts = [unquote(part) for part in path.strip("/").split("/")]
        depth = 2 if parts[0] == "api" else 3
        root, rest = "/" + "/".join(parts[:depth]), parts[depth:]
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces" and (root, rest[2]) in self._kinds:
            namespace, rest = rest[1], rest[2:]
        kind = self._kinds.get((root, rest[0])) if rest else None
        if kind is None or kind.resource.namespaced < bool(namespace):
            raise NotFound(404, "", f"{path}: the fake API does not serve it; declare it: serve()")
        name, subresource = [*rest[1:], "", ""][:2]
        if subresource and not (subresource == "status" and kind.status):
            # Without a reason, as for every path that is not served: no object is said to be gone.
            raise NotFound(404, "", f"{kind.resource.full_name} has no {subresource}")
        return _Target(kind, Key(namespace, name), subresource)

    def _list(self, target: _Target, query: Mapping[str, str]) -> Json:
        of, history = target.kind.resource, self._history
        items = history.all(target.kind, _selected(target, query))
        meta = {"resourceVersion": str(history.revision)}
        head = {"apiVersion": of.api_version, "kind": f"{of.kind}List", "metadata": meta}
        return {**head, "items": items}

    def _answer(
        self,
        method: str,
        target: _Target,
        sent: Any,
        content_type: str,
        query: Mapping[str, str],
    ) -> Json:
        """Carry out a request that was parsed; return the object or list to answer with."""
        dry = "dryRun" in query
        match method:
            case "POST" if not target.key.name:
                return self._create(target, sent, dry=dry)
            case "GET":
                return self._existing(target)
            case "DELETE" if target.key.name and not target.subresource:
                return self._delete(target, sent, dry="dryRun" in sent)
            case "PUT" if target.key.name:
                check_body(target.kind, sent, target.key.namespace)
                check_uid(self._existing(target), sent)
                return self._update(target, sent, dry=dry)
            case "PATCH" if target.key.name:
                body = self._patched(target, sent, content_type)
                return self._update(target, body, dry=dry)
        raise ApiError(405, "MethodNotAllowed", f"{method} is not possible here")

    def _existing(self, target: _Target) -> Json:
        found = self._history.get(target.kind, target.key)
        if found is None:
            name = target.kind.resource.full_name
            raise NotFound(404, "NotFound", f'{name} "{target.key.name}" not found')
        return found

    def _patched(self, target: _Target, patch: Any, content_type: str) -> Json:
        if content_type == APPLY_PATCH:
            raise ApiError(
                415,
                "UnsupportedMediaType",
                "the fake API has no server-side apply: test this on a real API server",
            )
        old = self._existing(target)
        apply = patched if content_type == JSON_PATCH else merged
        result: Json = apply(old, patch)
        return result

    def _create(self, target: _Target, body: Json, *, dry: bool) -> Json:
        """Store a new object, unless it is a dry run; return it with its metadata."""
        kind, key = target.kind, target.key
        if kind.resource.namespaced and not key.namespace:
            raise ApiError(405, "MethodNotAllowed", f"{kind.resource.kind} needs a namespace")
        check_body(kind, body, key.namespace)
        self._made += 1
        name = body["metadata"].get("name") or self._generated(body["metadata"])
        key = Key(key.namespace, name)
        if self._history.get(kind, key) is not None:
            message = f'{kind.resource.full_name} "{name}" already exists'
            raise AlreadyExists(409, "AlreadyExists", message)
        metadata = {
            "name": name,
            **({"namespace": key.namespace} if key.namespace else {}),
            "uid": str(uuid.UUID(int=self._made)),
            "creationTimestamp": rfc3339(self._clock.now()),
        }
        obj = created(kind, body, metadata)
        return obj if dry else self._history.put(kind, key, obj)

    def _generated(self, metadata: Mapping[str, Any]) -> str:
        if not metadata.get("generateName"):
            raise Invalid(422, "Invalid", "metadata.name: name or generateName is required")
        return f"{metadata['generateName']}{self._made:05}"

    def _update(self, target: _Target, body: Json, *, dry: bool) -> Json:
        old = self._existing(target)
        new = updated(target.kind, old, body, target.subresource)
        return self._store(target, old, new, dry=dry)

    def _delete(self, target: _Target, options: Mapping[str, Any], *, dry: bool) -> Json:
        """Delete an object, or mark it as terminating if it has finalizers."""
        old = self._existing(target)
        for name, wanted in (options.get("preconditions") or {}).items():
            if wanted != old["metadata"][name]:
                reason = f"the precondition {name} is {wanted}, not {old['metadata'][name]}"
                raise conflict(target.key.name, reason)
        now = rfc3339(self._clock.now())
        propagation = options.get("propagationPolicy", "")
        new = marked_deleted(target.kind, old, propagation, now)
        if new["metadata"].get("finalizers"):
            return self._store(target, old, new, dry=dry)
        if not dry:
            self._history.remove(target.kind, target.key, old)
        details = {"name": target.key.name, "uid": old["metadata"]["uid"]}
        return {"apiVersion": "v1", "kind": "Status", "status": "Success", "details": details}

    def _store(self, target: _Target, old: Json, new: Json, *, dry: bool) -> Json:
        """Store an object if it differs, or remove it with its last finalizer; return it."""
        if dry or new == old:
            return new
        if is_gone(new):
            self._history.remove(target.kind, target.key, new)
            return new  # with the resourceVersion from before, as the real answer has it
        return self._history.put(target.kind, target.key, new)

    def _discovery(self, path: str) -> Json | None:
        """Return the discovery document at a path, None if the path is another."""
        if path == "/apis":
            groups = {kind.resource.group for kind in self._kinds.values()} - {""}
            return {"kind": "APIGroupList", "groups": [self._group(one) for one in sorted(groups)]}
        found = [kind for (root, _), kind in self._kinds.items() if root == path]
        if not found:
            return None
        resources = [
            {"name": of.plural, "kind": of.kind, "namespaced": of.namespaced}
            for of in (kind.resource for kind in found)
        ]
        return {"kind": "APIResourceList", "resources": resources}

    def _group(self, name: str) -> Json:
        of = {kind.resource.api_version for kind in self._kinds.values()}
        versions = sorted(one for one in of if one.startswith(f"{name}/"))
        return {"name": name, "versions": [{"groupVersion": one} for one in versions]}


def _selected(target: _Target, query: Mapping[str, str]) -> Selected:
    """Return the predicate for the objects of a list or watch."""
    namespace = target.key.namespace
    if target.key.name:
        raise BadRequest(400, "BadRequest", "a watch of one object needs a field selector")
    by_label = label_selector(query.get("labelSelector", ""))
    known = ("metadata.name", "metadata.namespace", *target.kind.fields)
    by_field = field_selector(query.get("fieldSelector", ""), known)

    def selected(obj: Mapping[str, Any]) -> bool:
        within = not namespace or obj["metadata"].get("namespace") == namespace
        return within and by_label(obj) and by_field(obj)

    return selected
