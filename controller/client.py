"""Live requests, typed answers.

Reads go to the server; whoever wants what is known already asks a cache. Writes carry
preconditions: there is no method that patches, replaces or deletes an object at whatever version
it happens to have. (Server-side apply is the exception, made for objects in other
clusters whose fields we own; it too takes a version.)
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from controller.codec import Page, decode_json, decode_object, encode
from controller.errors import MalformedAnswer, NotFound
from controller.meta import Key, Object, Version
from controller.pages import PAGE_SIZE, list_whole
from controller.resource import Resource

if TYPE_CHECKING:  # the HTTP client it needs is no business of those who never send anything
    from controller.transport import Transport

T = TypeVar("T", bound=Object)

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML


class Client:
    """Requests to one API server.

    Args:
        transport: the server.
        on_answer: is given every object that was answered with, before the caller is; the
            manager puts it into the kind's cache.
        on_gone: is told of every object that the server says is gone, as it was when we asked for
            its deletion.
        field_manager: the name under which the server notes our writes; empty leaves it
            to the transport's user agent.

    All methods raise ApiError (by subclass), NoAnswer and MalformedAnswer as errors.py says.
    A NotFound whose `reason` is empty came without a Status, for a path that is not
    served or from something in between: where absence decides over anything that matters,
    check that the reason is `NotFound`.
    """

    def __init__(
        self,
        transport: "Transport",
        *,
        on_answer: Callable[[Resource[Any], Object], None] | None = None,
        on_gone: Callable[[Resource[Any], Version], None] | None = None,
        field_manager: str = "",
    ) -> None:
        self._transport = transport
        self._on_answer = on_answer
        self._on_gone = on_gone
        self.field_manager = field_manager
        """The name under which the server notes our writes; empty if the transport has it."""
        self._manager = {"fieldManager": field_manager} if field_manager else {}

    def named(self, field_manager: str) -> "Client":
        """Return a client that is like this one and writes under another name.

        Args:
            field_manager: the name under which the server notes the writes.
        """
        return Client(
            self._transport,
            on_answer=self._on_answer,
            on_gone=self._on_gone,
            field_manager=field_manager,
        )

    async def get(self, resource: Resource[T], key: Key) -> T:
        """Read one object as it is now.

        Args:
            resource: the kind.
            key: which object.
        """
        data = await self._transport.request("GET", resource.path(key))
        return self._answer(resource, data)

    async def list(
        self, resource: Resource[T], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> Page[T]:
        """Read all objects as they are now: a quorum read, never from a server's stale cache.

        Args:
            resource: the kind.
            namespace: empty for all.
            labels: a label selector.
            fields: a field selector.
        """
        query = {"limit": str(PAGE_SIZE)}
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = fields
        return await list_whole(self._transport, resource, namespace, query)

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
            namespace: where; empty for a cluster-scoped kind.
            body: the object; its name, or generateName, is in the metadata.
            field_manager: for this write; empty for the client's own.

        Raises:
            AlreadyExists: an object of that name is there.
        """
        data = await self._transport.request(
            "POST",
            resource.collection(namespace),
            query={"fieldManager": field_manager} if field_manager else self._manager,
            body=encode(_complete(resource, body, {"namespace": namespace} if namespace else {})),
        )
        return self._answer(resource, data)

    async def patch(
        self,
        resource: Resource[T],
        at: Version,
        patch: Mapping[str, Any],
        *,
        subresource: str = "",
    ) -> T:
        """Merge `patch` into the object if it is still at version `at`.

        The uid goes along as a precondition too, except to a subresource, where the
        server does not check it: the resourceVersion tells a re-created object as well.

        Args:
            resource: the kind.
            at: the version that the patch was made for.
            patch: a JSON merge patch (RFC 7396).
            subresource: for example `status`; empty for the object itself.

        Raises:
            Conflict: the object has moved on; read again and choose again.
        """
        pins = {"resourceVersion": _known(at)} | ({} if subresource else {"uid": at.uid})
        data = await self._transport.request(
            "PATCH",
            resource.path(at.key, subresource),
            query=self._manager,
            body=encode(_pinned(patch, pins)),
            content_type=MERGE_PATCH,
        )
        return self._answer(resource, data)

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
        return await self.patch(resource, Version.of(obj), body, subresource="status")

    async def replace(
        self, resource: Resource[T], at: Version, body: Mapping[str, Any], *, subresource: str = ""
    ) -> T:
        """Put `body` in the object's place if it is still at version `at`.

        Args:
            resource: the kind.
            at: the version that the body was made for.
            body: the whole object.
            subresource: for example `status`; empty for the object itself.

        Raises:
            Conflict: the object has moved on; read again and choose again.
        """
        pins = {"name": at.name, "resourceVersion": _known(at), "uid": at.uid}
        if at.namespace:
            pins["namespace"] = at.namespace
        data = await self._transport.request(
            "PUT",
            resource.path(at.key, subresource),
            query=self._manager,
            body=encode(_pinned(_complete(resource, body, {}), pins)),
        )
        return self._answer(resource, data)

    async def delete(
        self, resource: Resource[T], at: Version, *, propagation: str = ""
    ) -> T | None:
        """Delete the object if it is still at version `at`.

        Args:
            resource: the kind.
            at: uid and resourceVersion are preconditions.
            propagation: `Foreground`, `Background` or `Orphan`; empty for the kind's default.

        Returns:
            The object if it is still there, held by finalizers or its grace period; else None.

        Raises:
            Conflict: the object has moved on.
            NotFound: it is gone already.
        """
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": at.uid, "resourceVersion": _known(at)},
        }
        if propagation:
            options["propagationPolicy"] = propagation
        path = resource.path(at.key)
        try:
            data = await self._transport.request("DELETE", path, body=encode(options))
        except NotFound as error:
            if error.reason == "NotFound":
                self._forget(resource, at)
            raise
        if _remains(decode_json(data)):
            return self._answer(resource, data)
        self._forget(resource, at)
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
        """Apply `body` server-side: the fields in it are ours, and those we left out no longer.

        Args:
            resource: the kind.
            key: which object; it is created if it does not exist.
            body: the fields that we want.
            manager: the field manager.
            force: take fields that others own, instead of a Conflict.
            version: resourceVersion that the object must still have; empty for any.
            uid: uid that it must have, so that one that has gone is not created; empty for any.

        Raises:
            Conflict: another manager owns a field, or the version has passed.
        """
        wanted = {"namespace": key.namespace, "resourceVersion": version, "uid": uid}
        pins = {"name": key.name} | {name: value for name, value in wanted.items() if value}
        data = await self._transport.request(
            "PATCH",
            resource.path(key),
            query={"fieldManager": manager, "force": "true" if force else "false"},
            body=encode(_pinned(_complete(resource, body, {}), pins)),
            content_type=APPLY_PATCH,
        )
        return self._answer(resource, data)

    async def served(self, resource: Resource[Any]) -> bool:
        """Say whether the server serves the kind, from its discovery documents alone.

        Args:
            resource: the kind.

        Raises:
            ControllerError: it could not be learnt; that is no No.
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
            ControllerError: it could not be learnt; that is no No.
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

    def _forget(self, resource: Resource[Any], gone: Version) -> None:
        if self._on_gone is not None:
            self._on_gone(resource, gone)

    def _answer(self, resource: Resource[T], data: bytes) -> T:
        obj = decode_object(resource, data)
        meta = obj.metadata
        if meta.terminating and not meta.finalizers and not _remains(decode_json(data)):
            # The last finalizer went with this write, and the object with it.
            self._forget(resource, Version.of(obj))
        elif self._on_answer is not None:
            self._on_answer(resource, obj)
        return obj


async def _discover(
    transport: "Transport", path: str, kind: str, field: str
) -> list[dict[str, Any]]:
    document = decode_json(await transport.request("GET", path))
    entries = document.get(field) if isinstance(document, dict) else None
    if not isinstance(entries, list) or document.get("kind") != kind:
        raise MalformedAnswer(f"GET {path}: the answer is no {kind}")
    return [entry for entry in entries if isinstance(entry, dict)]


def _known(at: Version) -> str:
    """Return the resourceVersion; without one the server would check nothing."""
    if not at.resourceVersion or not at.uid:
        raise ValueError(f"{at.key} has no uid or resourceVersion to be a precondition")
    return at.resourceVersion


def _pinned(body: Mapping[str, Any], pins: Mapping[str, str]) -> dict[str, Any]:
    """Return `body` with `pins` in its metadata; the caller's own mapping stays as it is."""
    return {**body, "metadata": {**(body.get("metadata") or {}), **pins}}


def _complete(
    resource: Resource[Any], body: Mapping[str, Any], metadata: Mapping[str, str]
) -> dict[str, Any]:
    """Return `body` with apiVersion, kind and `metadata` where it has none of its own."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        **body,
        "metadata": {**metadata, **(body.get("metadata") or {})},
    }


def _remains(answer: object) -> bool:
    """Whether the answer to a deletion is an object that still exists.

    It is a Status, or for some built-in kinds the object's last state, once the object is gone.
    """
    if not isinstance(answer, dict) or not isinstance(answer.get("metadata"), dict):
        return False
    meta = answer["metadata"]
    held = bool(meta.get("finalizers")) or bool(meta.get("deletionGracePeriodSeconds"))
    return answer.get("kind") != "Status" and bool(meta.get("deletionTimestamp")) and held
