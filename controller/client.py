"""Requests to an API server with typed responses.

Reads go to the server, not to a cache. Writes carry preconditions: there is no method that
patches, replaces or deletes an object at any version it may have. The exception is server-side
apply, for objects in other clusters whose fields we own; it can carry a version, too.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from controller.codec import Page, decode_json, decode_object, encode
from controller.errors import MalformedAnswer, NotFound
from controller.lists import PAGE_SIZE, list_all
from controller.meta import Key, Object, Version
from controller.resource import Resource

if TYPE_CHECKING:  # a client that is given its transport does not need to load aiohttp
    from controller.transport import Transport

T = TypeVar("T", bound=Object)

log = structlog.get_logger(__name__)

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML


class Client:
    """Requests to one API server.

    Args:
        transport: the server.
        on_object: called with every object in a response before the caller gets it; the manager
            puts it into the kind's cache.
        on_deleted: called with every object that the server says is deleted, as it was when the
            deletion was requested.
        field_manager: the field manager of our writes; empty for the transport's user agent.

    All methods raise ApiError (by subclass), NoAnswer and MalformedAnswer as errors.py says. A
    NotFound whose `reason` is empty came without a Status, for a path that is not served or from
    something in between. Check that the reason is `NotFound` before you act on an object's
    absence.
    """

    def __init__(
        self,
        transport: "Transport",
        *,
        on_object: Callable[[Resource[Any], Object], None] | None = None,
        on_deleted: Callable[[Resource[Any], Version], None] | None = None,
        field_manager: str = "",
    ) -> None:
        self._transport = transport
        self._on_object = on_object
        self._on_deleted = on_deleted
        self.field_manager = field_manager
        """The field manager of our writes; empty for the transport's user agent."""
        self._manager = {"fieldManager": field_manager} if field_manager else {}

    def with_field_manager(self, field_manager: str) -> "Client":
        """Return a client like this one whose writes have the field manager `field_manager`."""
        return Client(
            self._transport,
            on_object=self._on_object,
            on_deleted=self._on_deleted,
            field_manager=field_manager,
        )

    async def get(self, resource: Resource[T], key: Key) -> T:
        """Read the object of kind `resource` with that `key` from the server."""
        data = await self._transport.request("GET", resource.path(key))
        return self._decode(resource, data)

    async def list(
        self, resource: Resource[T], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> Page[T]:
        """Read all objects from the server with a quorum read, not from its watch cache.

        Args:
            resource: the kind.
            namespace: empty for all.
            labels: a label selector; empty for none.
            fields: a field selector; empty for none.
        """
        query = {"limit": str(PAGE_SIZE)}
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = fields
        return await list_all(self._transport, resource, namespace, query)

    async def create(
        self,
        resource: Resource[T],
        namespace: str,
        body: Mapping[str, Any],
        *,
        field_manager: str = "",
    ) -> T:
        """Create an object; apiVersion, kind and namespace are added where they are missing.

        Args:
            resource: the kind.
            namespace: empty for a cluster-scoped kind.
            body: the object; the metadata has its name or generateName.
            field_manager: for this write; empty for the client's own.

        Raises:
            AlreadyExists: an object of that name exists.
        """
        data = await self._transport.request(
            "POST",
            resource.collection(namespace),
            query={"fieldManager": field_manager} if field_manager else self._manager,
            body=encode(
                _with_defaults(resource, body, {"namespace": namespace} if namespace else {})
            ),
        )
        return self._decode(resource, data)

    async def patch(
        self,
        resource: Resource[T],
        at: Version,
        patch: Mapping[str, Any],
        *,
        subresource: str = "",
    ) -> T:
        """Merge `patch` into the object if it is still at version `at`.

        The uid is a precondition, too, except for a subresource, where the server does not check
        it. The resourceVersion alone detects an object that was created again.

        Args:
            resource: the kind.
            at: the version that the patch was made for.
            patch: a JSON merge patch (RFC 7396).
            subresource: for example `status`; empty for the object itself.

        Raises:
            Conflict: the object has changed since; read again and decide again.
        """
        pins = {"resourceVersion": _precondition(at)} | ({} if subresource else {"uid": at.uid})
        data = await self._transport.request(
            "PATCH",
            resource.path(at.key, subresource),
            query=self._manager,
            body=encode(_with_metadata(patch, pins)),
            content_type=MERGE_PATCH,
        )
        return self._decode(resource, data)

    async def patch_status(self, resource: Resource[T], obj: T, status: Mapping[str, Any]) -> T:
        """Merge `status` into the object's status if the object is still at the version of `obj`.

        Send the value of every field that the pass decides about, also where the decoded object
        already shows it: a field that the server does not have decodes to its type's default, so
        the object cannot say whether it was there.

        Args:
            resource: the kind of `obj`.
            obj: the object as it was read; its resourceVersion is the precondition.
            status: a JSON merge patch of the status; None removes a field, lists are replaced.

        Returns:
            The object as the server stored it.

        Raises:
            Conflict: the object has changed since it was read; read again and decide again.
        """
        body = {"status": status}
        return await self.patch(resource, Version.from_object(obj), body, subresource="status")

    async def replace(
        self, resource: Resource[T], at: Version, body: Mapping[str, Any], *, subresource: str = ""
    ) -> T:
        """Replace the object by `body` if it is still at version `at`.

        Args:
            resource: the kind.
            at: the version that the body was made for.
            body: the whole object.
            subresource: for example `status`; empty for the object itself.

        Raises:
            Conflict: the object has changed since; read again and decide again.
        """
        pins = {"name": at.name, "resourceVersion": _precondition(at), "uid": at.uid}
        if at.namespace:
            pins["namespace"] = at.namespace
        data = await self._transport.request(
            "PUT",
            resource.path(at.key, subresource),
            query=self._manager,
            body=encode(_with_metadata(_with_defaults(resource, body, {}), pins)),
        )
        return self._decode(resource, data)

    async def delete(
        self, resource: Resource[T], at: Version, *, propagation: str = ""
    ) -> T | None:
        """Delete the object if it is still at version `at`.

        Args:
            resource: the kind.
            at: uid and resourceVersion are preconditions.
            propagation: `Foreground`, `Background` or `Orphan`; empty for the kind's default.

        Returns:
            The object if it still exists, because of finalizers or its grace period; else None.

        Raises:
            Conflict: the object has changed since.
            NotFound: it was deleted before.
        """
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": at.uid, "resourceVersion": _precondition(at)},
        }
        if propagation:
            options["propagationPolicy"] = propagation
        path = resource.path(at.key)
        try:
            data = await self._transport.request("DELETE", path, body=encode(options))
        except NotFound as error:
            if error.reason == "NotFound":
                self._deleted(resource, at)
            raise
        if _still_exists(decode_json(data)):
            return self._decode(resource, data)
        self._deleted(resource, at)
        return None

    async def apply(  # noqa: PLR0913 - which object, what of it, and under which conditions
        self,
        resource: Resource[T],
        key: Key,
        body: Mapping[str, Any],
        *,
        manager: str,
        force: bool = False,
        version: str = "",
        uid: str = "",
    ) -> T:
        """Apply `body` server-side: we own the fields in it, and no longer those we left out.

        Args:
            resource: the kind.
            key: namespace and name; the object is created if it does not exist.
            body: the fields to apply.
            manager: the field manager.
            force: take over fields that others own, instead of raising Conflict.
            version: the resourceVersion that the object must still have; empty for any.
            uid: the uid that it must have, so that a deleted object is not created; empty for any.

        Raises:
            Conflict: another manager owns a field, or the object has another version.
        """
        wanted = {"namespace": key.namespace, "resourceVersion": version, "uid": uid}
        pins = {"name": key.name} | {name: value for name, value in wanted.items() if value}
        data = await self._transport.request(
            "PATCH",
            resource.path(key),
            query={"fieldManager": manager, "force": "true" if force else "false"},
            body=encode(_with_metadata(_with_defaults(resource, body, {}), pins)),
            content_type=APPLY_PATCH,
        )
        return self._decode(resource, data)

    async def served(self, resource: Resource[Any]) -> bool:
        """Return whether the server's discovery documents list the kind `resource`.

        Raises:
            ControllerError: discovery failed, so the answer is not known.
        """
        if resource.group:
            groups = await _discover(self._transport, "/apis", "APIGroupList", "groups")
            versions = [
                version.get("groupVersion")
                for group in groups
                if group.get("name") == resource.group
                for version in group.get("versions") or ()
            ]
            if resource.api_version not in versions:
                return False
        root = "/apis" if resource.group else "/api"
        path = f"{root}/{resource.api_version}"
        kinds = await _discover(self._transport, path, "APIResourceList", "resources")
        return any(kind.get("name") == resource.plural for kind in kinds)

    async def find_kind(self, api_version: str, kind: str) -> tuple[str, bool] | None:
        """Return a kind's plural and whether it is namespaced; None if it is not served.

        Args:
            api_version: for example `apps/v1`.
            kind: for example `Deployment`.

        Raises:
            ControllerError: discovery failed, so the answer is not known.
        """
        root = "/apis" if "/" in api_version else "/api"
        try:
            kinds = await _discover(
                self._transport, f"{root}/{api_version}", "APIResourceList", "resources"
            )
        except NotFound:
            return None
        for one in kinds:
            if one.get("kind") == kind and "/" not in str(one.get("name")):
                return str(one.get("name")), bool(one.get("namespaced"))
        return None

    def _deleted(self, resource: Resource[Any], version: Version) -> None:
        self._tell(self._on_deleted, resource, version)

    def _tell(
        self, listener: Callable[[Resource[Any], Any], None] | None, resource: Any, what: Any
    ) -> None:
        """Call a listener; if it raises, the request has succeeded all the same."""
        if listener is None:
            return
        try:
            listener(resource, what)
        except Exception:
            log.exception("what reads responses raised", resource=resource.full_name)

    def _decode(self, resource: Resource[T], data: bytes) -> T:
        obj = decode_object(resource, data)
        meta = obj.metadata
        if meta.terminating and not meta.finalizers and not _still_exists(decode_json(data)):
            # This write removed the last finalizer, so the object was deleted.
            self._deleted(resource, Version.from_object(obj))
        else:
            self._tell(self._on_object, resource, obj)
        return obj


async def _discover(
    transport: "Transport", path: str, kind: str, field: str
) -> list[dict[str, Any]]:
    document = decode_json(await transport.request("GET", path))
    entries = document.get(field) if isinstance(document, dict) else None
    if not isinstance(entries, list) or document.get("kind") != kind:
        raise MalformedAnswer(f"GET {path}: the answer is no {kind}")
    return [entry for entry in entries if isinstance(entry, dict)]


def _precondition(at: Version) -> str:
    """Return the resourceVersion; raise if there is none: the server would check nothing."""
    if not at.resourceVersion or not at.uid:
        raise ValueError(f"{at.key} has no uid or resourceVersion to be a precondition")
    return at.resourceVersion


def _with_metadata(body: Mapping[str, Any], pins: Mapping[str, str]) -> dict[str, Any]:
    """Return a copy of `body` with `pins` in its metadata."""
    return {**body, "metadata": {**(body.get("metadata") or {}), **pins}}


def _with_defaults(
    resource: Resource[Any], body: Mapping[str, Any], metadata: Mapping[str, str]
) -> dict[str, Any]:
    """Return a copy of `body` with apiVersion, kind and `metadata` added if they are missing."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        **body,
        "metadata": {**metadata, **(body.get("metadata") or {})},
    }


def _still_exists(response: object) -> bool:
    """Whether the response to a deletion is an object that still exists.

    If the object was deleted the response is a Status or, for some built-in kinds, its last state.
    """
    if not isinstance(response, dict) or not isinstance(response.get("metadata"), dict):
        return False
    meta = response["metadata"]
    held = bool(meta.get("finalizers")) or bool(meta.get("deletionGracePeriodSeconds"))
    return response.get("kind") != "Status" and bool(meta.get("deletionTimestamp")) and held
