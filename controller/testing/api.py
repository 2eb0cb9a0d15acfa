"""An API server in memory, behind the interface of a transport.

    path → kind, key, subresource → faults → rules → field owners → history → lists and watches

It does what reconcilers depend on: resourceVersions and uids as preconditions, finalizers,
generateName, the status subresource, generations, server-side apply and managedFields, selectors,
watch events, dry run. It has no validation, defaults or pruning, which need a kind's whole schema,
and no webhooks or roles. Nothing else acts on the objects: there is no garbage collector, and
there are no other controllers.

Stored objects are shared and never changed in place. The place of a kind is the path of its group
version, and its plural: `("/apis/example.com/v1", "widgets")`.
"""

import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from anyio.lowlevel import checkpoint
from typing_extensions import override

from controller.client import APPLY_PATCH, JSON_PATCH
from controller.clock import Clock
from controller.codec import decode_json, encode
from controller.conditions import format_rfc3339
from controller.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    ControllerError,
    Invalid,
    NoAnswer,
    NotFound,
)
from controller.managedfields import are_equal_except_times, get_default_manager
from controller.meta import Key
from controller.resource import Resource
from controller.testing.faults import Faults, Request
from controller.testing.fieldowners import FieldOwners
from controller.testing.history import History, IsSelected, WriteRecord
from controller.testing.patches import apply_json_patch, apply_merge_patch
from controller.testing.rules import (
    FakeKind,
    Json,
    check_body,
    check_uid,
    create_conflict,
    create_object,
    is_gone,
    replace_object,
    request_deletion,
    update_object,
)
from controller.testing.selectors import parse_field_selector, parse_label_selector
from controller.transport import NO_QUERY, Transport

_USER: Mapping[str, str] = {"fieldManager": "kubectl"}
"""The field manager of writes that a test makes as a user."""


@dataclass(frozen=True, slots=True)
class _Target:
    """The object or collection that a path leads to.

    Args:
        kind: the kind in the path.
        key: the namespace and name in the path; the name is empty for a collection.
        subresource: `status`, or empty for the object itself.
    """

    kind: FakeKind
    key: Key
    subresource: str


class FakeApi(Transport):
    """An API server in memory, for `Manager` and `Client` in unit tests.

    A kind has to be declared with `serve`; other kinds answer 404, as without their CRD.
    Namespaces need not exist. Uids and generated names come from a counter, so they are the same
    in every run.

    A test acts as a user with `put_object`, `edit_object`, `delete_object` and `remove_object`,
    and fills the server from a backup with `restore_object`. These calls are not among `requests`,
    and `fail` does not affect them.

    Args:
        clock: for creationTimestamp and deletionTimestamp, and for the bookmarks of watches.
        track_owners: whether creations start the tracking of field owners. Without it objects have
            no managedFields until the first server-side apply, and writes cost less.
        initial_events: whether watches may ask for `sendInitialEvents`; servers before Kubernetes
            1.32 refuse it.
        first_revision: the resourceVersion of the empty server.
        user_agent: of all clients; its first part (`kubectl` of `kubectl/1.33`) is the field
            manager of writes that name no field manager.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        track_owners: bool = True,
        initial_events: bool = True,
        first_revision: int = 1,
        user_agent: str = "",
    ) -> None:
        self.requests: list[Request] = []
        """The requests so far."""
        self.on_request: Callable[[Request], None] | None = None
        """Called with every request before it has an effect; the request fails if it raises."""
        self.admit: Callable[[Request, Json | None, Json], Json] | None = None
        """Called with every request that stores an object, the stored object (None for a creation)
        and the new one; returns what is stored instead, as an admission webhook does. The request
        fails if it raises."""
        self.closed = 0
        """How often a client has closed its transport."""
        self._clock = clock
        self._track_owners = track_owners
        self._initial_events = initial_events
        self._kinds: dict[tuple[str, str], FakeKind] = {}
        self._withdrawn_places: set[tuple[str, str]] = set()
        self._owners: dict[str, FieldOwners] = {}
        self._history = History(clock, first_revision)
        self._faults = Faults()
        self._manager = {"fieldManager": get_default_manager(user_agent)}
        self._object_count = 0
        """How many objects came so far; uids and generated names are made from this number."""

    # What a test sets up and looks at.

    def serve(
        self,
        resource: Resource[Any],
        *,
        status: bool = True,
        generation: bool = True,
        fields: tuple[str, ...] = (),
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        """Serve a kind from now on.

        Args:
            resource: the kind.
            status: whether it has a status subresource; ConfigMaps and Secrets have none.
            generation: whether its objects have a generation; those of most built-in kinds without
                a spec have none.
            fields: paths that field selectors may name, besides metadata.name and
                metadata.namespace.
            schema: its OpenAPI v3 schema, in which server-side apply finds the lists that are sets
                or maps (`x-kubernetes-list-type`). Without a schema, a list has one owner.
        """
        kind = FakeKind(resource, status, generation=generation, fields=fields)
        self._kinds[_get_place(resource)] = kind
        self._withdrawn_places.discard(_get_place(resource))
        self._owners[resource.full_name] = FieldOwners(kind, schema)

    def withdraw(self, resource: Resource[Any]) -> None:
        """Serve a kind no longer, as after its CRD is deleted; its objects stay stored."""
        self._withdrawn_places.add(_get_place(resource))

    @property
    def revision(self) -> int:
        """The newest resourceVersion."""
        return self._history.revision

    @property
    def history(self) -> Sequence[WriteRecord]:
        """All writes so far."""
        return self._history.log

    @property
    def listeners(self) -> list[Callable[[WriteRecord], None]]:
        """Called with every write, right after it; a test appends to it."""
        return self._history.listeners

    def get_stored(self, resource: Resource[Any], key: Key) -> Json | None:
        """Return a copy of an object as decoded JSON; None if it does not exist."""
        obj = self.find_object(resource, key)
        return decode_json(encode(obj)) if obj is not None else None

    def find_object(self, resource: Resource[Any], key: Key) -> Json | None:
        """Return the stored object, which must not be changed; None if it does not exist."""
        kind = self._kinds.get(_get_place(resource))
        return self._history.get(kind, key) if kind else None

    def list_objects(self, resource: Resource[Any]) -> list[Json]:
        """Return all objects of a kind by namespace and name; they must not be changed."""
        return self._history.list_selected(self._kinds[_get_place(resource)], lambda _: True)

    def fail(self, error: ControllerError, *, times: int = 1, **conditions: str) -> None:
        """Let the next `times` requests that fit `conditions` fail with `error`.

        Watches fail only if the conditions name them: `method="WATCH"`.

        Args:
            error: the exception that the client raises.
            times: how many requests fail.
            **conditions: properties of Request with the values that they must have.
        """
        self._faults.add(error, times, conditions)

    def lose_answers(self, *, times: int = 1, **conditions: str) -> None:
        """Let the next `times` requests that fit `conditions` run, and lose their answers.

        The client raises NoAnswer. The conditions are those of `fail`.
        """
        self._faults.add(None, times, conditions)

    def recover(self) -> None:
        """Let no further request fail."""
        self._faults.clear()

    def count(self, **conditions: str) -> int:
        """Return the number of requests so far that fit `conditions`, as in `fail`."""
        return sum(request.matches(**conditions) for request in self.requests)

    # What a test does as a user: no requests, no preconditions.

    def put_object(self, resource: Resource[Any], body: Mapping[str, Any]) -> Json:
        """Store an object with its status and metadata; return the stored object.

        Unlike a create, it replaces an object of that name, and the uid and the other metadata of
        `body` are used where it has them.
        """
        kind = self._kinds[_get_place(resource)]
        document: Json = _drop_nulls(decode_json(encode(body)))
        metadata = {name: value for name, value in document["metadata"].items() if value}
        key, obj = self._add_server_metadata(kind, document, metadata)
        return self._history.put(kind, key, self._add_user_as_owner(kind, None, obj))

    def restore_object(self, resource: Resource[Any], body: Mapping[str, Any]) -> Json:
        """Store an object exactly as a backup of a server has it, at its own resourceVersion.

        No watch delivers it, so restore objects before anything watches their kind. The server's
        newest resourceVersion rises to that of the object if it is lower.

        Returns:
            The stored object.

        Raises:
            ValueError: its resourceVersion is no decimal number.
        """
        kind, document = self._kinds[_get_place(resource)], decode_json(encode(body))
        key, obj = self._add_server_metadata(kind, document, document["metadata"])
        return self._history.restore(kind, key, obj)

    def edit_object(self, resource: Resource[Any], key: Key, patch: Mapping[str, Any]) -> Json:
        """Merge a patch into an object, including status and metadata; return the new object.

        If the patch has managedFields, they are stored as they are. An object that is terminating
        is removed when the patch removes its last finalizer.
        """
        kind = self._kinds[_get_place(resource)]
        old = self._history.get(kind, key)
        assert old is not None, f"{resource.full_name} {key} does not exist"
        new = replace_object(kind, old, apply_merge_patch(old, patch))
        if "managedFields" not in patch.get("metadata", {}):
            new = self._add_user_as_owner(kind, old, new)
        return self._put_or_remove(kind, key, new)

    def delete_object(self, resource: Resource[Any], key: Key) -> None:
        """Delete an object as `kubectl delete` does: with finalizers it becomes terminating."""
        self._delete(_Target(self._kinds[_get_place(resource)], key, ""), {}, is_dry_run=False)

    def remove_object(self, resource: Resource[Any], key: Key) -> None:
        """Remove an object at once, even if it has finalizers."""
        kind = self._kinds[_get_place(resource)]
        old = self._history.get(kind, key)
        assert old is not None, f"{resource.full_name} {key} does not exist"
        self._history.remove(kind, key, old)

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
        """Carry out a request; `accept` and `timeout` have no effect."""
        await checkpoint()  # a real request never answers at once
        return self.answer(method, path, query=query, body=body, content_type=content_type)

    def answer(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = NO_QUERY,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """Carry out one request, except a watch, at once; return the body of the response.

        Args:
            method: the HTTP method.
            path: the path of an object, a collection or a discovery document.
            query: the parameters of the URL.
            body: the body of the request; None if it has none.
            content_type: the type of the body, which tells the kinds of patches apart.

        Raises:
            ControllerError: the request failed, or a test ordered its failure.
        """
        # A lost answer is raised at the end: the request has its effect all the same.
        if (document := self._create_discovery_document(path)) is not None:
            is_answer_lost = self._record_request(Request("DISCOVER", "", Key("", path)))
            answer = document
        else:
            target = self._parse_target(path)
            sent = decode_json(body) if body else {}
            is_list = method == "GET" and not target.key.name
            request = _create_request("LIST" if is_list else method, target, sent)
            is_answer_lost = self._record_request(request)
            self._check_served(target)
            if is_list:
                answer = self._list_collection(target, query)
            else:
                answer = self._carry_out(
                    request, target, sent=sent, content_type=content_type, query=query
                )
        if is_answer_lost:
            raise NoAnswer(f"{method} {path}: the answer was lost")
        return encode(answer)

    @override
    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch; `accept` has no effect.

        Raises:
            ControllerError: the watch is refused, or a test ordered its failure.
        """
        await checkpoint()
        target = self._parse_target(path)
        if "sendInitialEvents" in query and not self._initial_events:
            message = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch"
            raise Invalid(422, "Invalid", message)
        # A watch has no single answer, so `lose_answers` has no effect on it.
        self._record_request(_create_request("WATCH", target, body=None))
        self._check_served(target)
        yield self._history.watch(target.kind, _make_predicate(target, query), query)

    @override
    async def aclose(self) -> None:
        """Count the call; the server goes on."""
        self.closed += 1

    def _record_request(self, request: Request) -> bool:
        """Record a request, and raise the error that a test ordered for it.

        Returns:
            Whether a test ordered that its answer is lost.

        Raises:
            ControllerError: its failure was ordered.
        """
        self.requests.append(request)
        if self.on_request is not None:
            self.on_request(request)
        return self._faults.raise_ordered(request)

    def _check_served(self, target: _Target) -> None:
        """Refuse requests for a kind that was withdrawn.

        Raises:
            NotFound: the kind was withdrawn.
        """
        if _get_place(target.kind.resource) in self._withdrawn_places:
            raise NotFound(404, "", "404 page not found")

    @property
    def _served_kinds(self) -> Mapping[tuple[str, str], FakeKind]:
        """The kinds that are served now, by place."""
        return {
            place: kind
            for place, kind in self._kinds.items()
            if place not in self._withdrawn_places
        }

    def _parse_target(self, path: str) -> _Target:
        """Return the target of a path: /apis/GROUP/VERSION[/namespaces/NAME]/PLURAL[/NAME[/SUB]].

        Raises:
            NotFound: no kind is served there, or the kind has no such subresource.
        """
        parts = [unquote(part) for part in path.strip("/").split("/")]
        depth = 2 if parts[0] == "api" else 3  # the core group has no name: /api/v1
        root, rest = "/" + "/".join(parts[:depth]), parts[depth:]
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces" and (root, rest[2]) in self._kinds:
            namespace, rest = rest[1], rest[2:]
        kind = self._kinds.get((root, rest[0])) if rest else None
        # A cluster-scoped kind has no path with a namespace.
        if kind is None or (namespace and not kind.resource.namespaced):
            raise NotFound(404, "", f"404 page not found: {path}: declare the kind with serve()")
        name, subresource = [*rest[1:], "", ""][:2]  # a path may end before each of them
        if subresource == "status" and not kind.status:
            # kube-apiserver answers like this for a custom kind, as if the object were missing.
            raise NotFound(404, "NotFound", f'{kind.resource.full_name} "{name}" not found')
        if subresource and subresource != "status":
            # No reason, as for every path that is not served: `NotFound` means a missing object.
            raise NotFound(404, "", f"{kind.resource.full_name} has no {subresource}")
        return _Target(kind, Key(namespace, name), subresource)

    def _list_collection(self, target: _Target, query: Mapping[str, str]) -> Json:
        """Return the list of the objects that a collection's selectors select, always whole."""
        resource, history = target.kind.resource, self._history
        items = history.list_selected(target.kind, _make_predicate(target, query))
        meta = {"resourceVersion": str(history.revision)}
        head = {
            "apiVersion": resource.api_version,
            "kind": f"{resource.kind}List",
            "metadata": meta,
        }
        return {**head, "items": items}

    def _carry_out(
        self,
        request: Request,
        target: _Target,
        sent: Any,
        content_type: str,
        query: Mapping[str, str],
    ) -> Json:
        """Carry out a request for one object or a create; `answer` answers lists itself.

        Returns:
            The body of the response: an object, or the Status of a deletion.

        Raises:
            ApiError: the method is not possible here, or the request is refused.
        """
        is_dry_run = _read_dry_run(request.method, query, sent)
        match request.method:
            case "POST" if not target.key.name:
                return self._create(request, target, body=sent, query=query)
            case "GET":
                return self._get_existing(target)
            case "DELETE" if target.key.name and not target.subresource:
                return self._delete(target, sent, is_dry_run=is_dry_run)
            case "PUT" if target.key.name:
                check_body(target.kind, sent, target.key.namespace)
                check_uid(self._get_existing(target), sent)
                return self._update(request, target, body=sent, query=query)
            case "PATCH" if target.key.name and content_type == APPLY_PATCH:
                return self._apply(request, target, sent=sent, query=query)
            case "PATCH" if target.key.name:
                patch = apply_json_patch if content_type == JSON_PATCH else apply_merge_patch
                return self._update(
                    request, target, body=patch(self._get_existing(target), sent), query=query
                )
        raise ApiError(405, "MethodNotAllowed", f"{request.method} is not possible here")

    def _get_existing(self, target: _Target) -> Json:
        """Return the stored object.

        Raises:
            NotFound: it does not exist.
        """
        stored = self._history.get(target.kind, target.key)
        if stored is None:
            name = target.kind.resource.full_name
            raise NotFound(404, "NotFound", f'{name} "{target.key.name}" not found')
        return stored

    def _create(
        self, request: Request, target: _Target, body: Json, query: Mapping[str, str]
    ) -> Json:
        """Store the object of a create, unless it is a dry run; return it with its metadata."""
        kind, key = target.kind, target.key
        # The path of all namespaces is for lists and watches.
        if kind.resource.namespaced and not key.namespace:
            raise ApiError(405, "MethodNotAllowed", f"{kind.resource.kind} needs a namespace")
        check_body(kind, body, key.namespace)
        self._object_count += 1
        name = body["metadata"].get("name") or self._generate_name(body["metadata"])
        obj = self._build_object(kind, Key(key.namespace, name), body)
        if self._track_owners:
            obj = self._add_owners(kind, None, new=obj, query=query, subresource="")
        return self._store_new(request, kind, key=Key(key.namespace, name), obj=obj, query=query)

    def _build_object(self, kind: FakeKind, key: Key, body: Json) -> Json:
        """Return a new object with the metadata that only a server gives: uid, time, generation.

        Nothing is stored yet. The caller sets managedFields, because a create and an apply do that
        in different ways.
        """
        metadata = {
            "name": key.name,
            **({"namespace": key.namespace} if key.namespace else {}),
            "uid": self._create_uid(),
            "creationTimestamp": self._format_now(),
        }
        return create_object(kind, body, metadata)

    def _store_new(
        self, request: Request, kind: FakeKind, key: Key, obj: Json, query: Mapping[str, str]
    ) -> Json:
        """Store the object of a create, or of an apply without an object; return it.

        The webhooks of the test (`admit`) see it first. A dry run stores nothing.

        Raises:
            AlreadyExists: there is an object of that name.
        """
        if self._history.get(kind, key) is not None:
            message = f'{kind.resource.full_name} "{key.name}" already exists'
            raise AlreadyExists(409, "AlreadyExists", message)
        if self.admit is not None:
            obj = self.admit(request, None, obj)
        return obj if "dryRun" in query else self._history.put(kind, key, obj)

    def _add_server_metadata(
        self, kind: FakeKind, body: Json, metadata: Mapping[str, Any]
    ) -> tuple[Key, Json]:
        """Return the key of an object, and the object with the metadata that a server adds.

        Metadata that is given stays as it is.
        """
        resource = kind.resource
        key = Key(metadata.get("namespace", ""), metadata["name"])
        self._object_count += 1
        stamped: Json = {"uid": self._create_uid(), "creationTimestamp": self._format_now()}
        if kind.generation:
            stamped["generation"] = 1
        names = {"apiVersion": resource.api_version, "kind": resource.kind}
        return key, {**body, **names, "metadata": {**stamped, **metadata}}

    def _create_uid(self) -> str:
        """Return the uid of the object that was counted last."""
        return str(uuid.UUID(int=self._object_count))

    def _format_now(self) -> str:
        """Return the time in the format of timestamps in objects."""
        return format_rfc3339(self._clock.now())

    def _generate_name(self, metadata: Mapping[str, Any]) -> str:
        """Return a name that begins with generateName and ends with a number.

        Raises:
            Invalid: the metadata has no generateName.
        """
        if not metadata.get("generateName"):
            raise Invalid(422, "Invalid", "metadata.name: name or generateName is required")
        return f"{metadata['generateName']}{self._object_count:05}"

    def _get_owners(self, kind: FakeKind) -> FieldOwners:
        """Return the field owners of a kind that is declared."""
        return self._owners[kind.resource.full_name]

    def _add_owners(
        self,
        kind: FakeKind,
        old: Json | None,
        new: Json,
        query: Mapping[str, str],
        subresource: str,
    ) -> Json:
        """Return an object with managedFields that say what this create or update changed."""
        owners = self._get_owners(kind)
        return owners.track(
            old,
            new,
            query={**self._manager, **query},
            subresource=subresource,
            now=self._format_now(),
        )

    def _add_user_as_owner(self, kind: FakeKind, old: Json | None, new: Json) -> Json:
        """Return an object that a test stores as a user, with `kubectl` as owner of its changes.

        Without `track_owners` it is returned unchanged.
        """
        if not self._track_owners:
            return new
        new = self._add_owners(kind, old, new=new, query=_USER, subresource="")
        if kind.status and new.get("status") != (old or {}).get("status"):
            # A server stores the status in a second write, which owns only changes of the status.
            before = {name: value for name, value in new.items() if name != "status"}
            if old is not None and "status" in old:
                before["status"] = old["status"]
            new = self._add_owners(kind, before, new=new, query=_USER, subresource="status")
        return new

    def _apply(
        self, request: Request, target: _Target, sent: Any, query: Mapping[str, str]
    ) -> Json:
        """Carry out a server-side apply, which creates an object that does not exist; return it.

        Raises:
            NotFound: the object does not exist, and a subresource is applied.
            Conflict: the object does not exist, and the body has a uid.
        """
        kind, key = target.kind, target.key
        old = self._history.get(kind, key)
        if old is None and target.subresource:
            self._get_existing(target)  # raises NotFound: a subresource is never created
        owners = self._get_owners(kind)
        body = owners.apply(
            old, sent, query=query, subresource=target.subresource, now=self._format_now()
        )
        check_body(kind, body, key.namespace)
        if old is not None:
            # `update_object` keeps managedFields of `old` if only a subresource is written.
            new = update_object(kind, old, body=body, subresource=target.subresource)
            managed = body["metadata"].get("managedFields")
            meta = {
                name: value for name, value in new["metadata"].items() if name != "managedFields"
            }
            meta |= {"managedFields": managed} if managed else {}
            return self._store_changed(
                request, target, old=old, new={**new, "metadata": meta}, query=query
            )
        if uid := body["metadata"].get("uid"):
            message = f"uid mismatch: the object has uid {uid}, and no existing object was found"
            raise create_conflict(key.name, message)
        self._object_count += 1
        # An apply may name a resourceVersion, a create may not.
        meta = {
            name: value for name, value in body["metadata"].items() if name != "resourceVersion"
        }
        obj = self._build_object(kind, key, {**body, "metadata": meta})
        return self._store_new(request, kind, key=key, obj=obj, query=query)

    def _update(
        self, request: Request, target: _Target, body: Json, query: Mapping[str, str]
    ) -> Json:
        """Store a replacement or patched object, unless it is a dry run; return it.

        Raises:
            NotFound: it does not exist.
        """
        old = self._get_existing(target)
        new = update_object(target.kind, old, body=body, subresource=target.subresource)
        if new != old:
            new = self._add_owners(
                target.kind, old, new=new, query=query, subresource=target.subresource
            )
        return self._store_changed(request, target, old=old, new=new, query=query)

    def _delete(self, target: _Target, options: Mapping[str, Any], *, is_dry_run: bool) -> Json:
        """Delete an object, or mark it as terminating if it has finalizers.

        Returns:
            The terminating object; a Status if the object was deleted.

        Raises:
            NotFound: it does not exist.
            Conflict: a precondition does not hold.
        """
        old = self._get_existing(target)
        for name, expected in (options.get("preconditions") or {}).items():
            if expected != old["metadata"][name]:
                reason = f"the precondition {name} is {expected}, not {old['metadata'][name]}"
                raise create_conflict(target.key.name, reason)
        propagation = options.get("propagationPolicy", "")
        new = request_deletion(target.kind, old, propagation=propagation, now=self._format_now())
        if new["metadata"].get("finalizers"):
            return new if is_dry_run else self._put_or_remove(target.kind, target.key, new)
        if not is_dry_run:
            self._history.remove(target.kind, target.key, old)
        details = {"name": target.key.name, "uid": old["metadata"]["uid"]}
        return {"apiVersion": "v1", "kind": "Status", "status": "Success", "details": details}

    def _store_changed(
        self, request: Request, target: _Target, old: Json, new: Json, query: Mapping[str, str]
    ) -> Json:
        """Store the object that an update, patch or apply has changed; return it.

        The webhooks of the test (`admit`) see it first. A write that changes only times in
        managedFields is not stored, as in kube-apiserver. A dry run stores nothing.
        """
        if self.admit is not None:
            new = self.admit(request, old, new)
        if are_equal_except_times(old, new):
            return old
        return new if "dryRun" in query else self._put_or_remove(target.kind, target.key, new)

    def _put_or_remove(self, kind: FakeKind, key: Key, new: Json) -> Json:
        """Store a changed object; return it with its new resourceVersion.

        It is removed instead if it is terminating without finalizers. Nothing happens if it equals
        the stored object.
        """
        if new == self._history.get(kind, key):
            return new
        if is_gone(new):
            self._history.remove(kind, key, new)
            return new  # kube-apiserver also answers with the resourceVersion before the removal
        return self._history.put(kind, key, new)

    def _create_discovery_document(self, path: str) -> Json | None:
        """Return the discovery document at a path; None if the path leads to no such document."""
        if path == "/apis":
            groups = {kind.resource.group for kind in self._served_kinds.values()} - {""}
            return {
                "kind": "APIGroupList",
                "groups": [self._create_group(group) for group in sorted(groups)],
            }
        kinds = [kind for (root, _), kind in self._served_kinds.items() if root == path]
        if not kinds:
            return None
        resources = [
            {
                "name": resource.plural,
                "kind": resource.kind,
                "namespaced": resource.namespaced,
            }
            for resource in (kind.resource for kind in kinds)
        ]
        return {"kind": "APIResourceList", "resources": resources}

    def _create_group(self, name: str) -> Json:
        """Return a group with its served versions, as an entry of the APIGroupList."""
        api_versions = {kind.resource.api_version for kind in self._served_kinds.values()}
        versions = sorted(version for version in api_versions if version.startswith(f"{name}/"))
        return {"name": name, "versions": [{"groupVersion": version} for version in versions]}


def _get_place(resource: Resource[Any]) -> tuple[str, str]:
    """Return the place of a kind: the path of its group version, and its plural."""
    return resource.build_collection_path().rpartition("/")[0], resource.plural


def _create_request(method: str, target: _Target, body: Any) -> Request:
    """Return a request in the form that tests count and match."""
    return Request(
        method,
        target.kind.resource.full_name,
        key=target.key,
        subresource=target.subresource,
        body=body,
    )


def _drop_nulls(value: Any) -> Any:
    """Return decoded JSON without fields that are null, at any depth.

    Clients send no such fields, but an object that a test has encoded may have them.
    """
    if isinstance(value, dict):
        return {name: _drop_nulls(member) for name, member in value.items() if member is not None}
    return [_drop_nulls(member) for member in value] if isinstance(value, list) else value


def _make_predicate(target: _Target, query: Mapping[str, str]) -> IsSelected:
    """Return the predicate for the objects of a list or watch: its namespace and selectors.

    Raises:
        BadRequest: a selector cannot be parsed, or the path is that of one object.
    """
    namespace = target.key.namespace
    if target.key.name:
        raise BadRequest(400, "BadRequest", "a watch of one object needs a field selector")
    by_label = parse_label_selector(query.get("labelSelector", ""))
    selectable_paths = ("metadata.name", "metadata.namespace", *target.kind.fields)
    by_field = parse_field_selector(query.get("fieldSelector", ""), selectable_paths)

    def is_selected(obj: Mapping[str, Any]) -> bool:
        """Return whether an object is in the namespace and meets both selectors."""
        within = not namespace or obj["metadata"].get("namespace") == namespace
        return within and by_label(obj) and by_field(obj)

    return is_selected


def _read_dry_run(method: str, query: Mapping[str, str], sent: Any) -> bool:
    """Return whether a request asks for a dry run.

    A deletion with a body has its options there; kube-apiserver then ignores the query.

    Raises:
        Invalid: the value is not All, the only one that API servers accept.
    """
    if method == "DELETE" and sent:
        values = list(sent.get("dryRun") or ())
    else:
        values = [query["dryRun"]] if "dryRun" in query else []
    for value in values:
        if value != "All":
            message = f'dryRun: Unsupported value: "{value}": supported values: "All"'
            raise Invalid(422, "Invalid", message)
    return bool(values)
