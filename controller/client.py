"""Requests to an API server with typed responses.

Reads go to the server, not to a cache. Writes carry preconditions: there is no method that
patches, replaces or deletes an object at any version it may have. The exception is server-side
apply, for objects in other clusters whose fields we own; it can carry a version, too.

`pins` are the fields of the metadata that a request fixes: uid and resourceVersion, which are
preconditions, and the name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from controller import discovery
from controller.appliedvalues import AppliedValues
from controller.arguments import (
    KEY,
    NAMESPACE,
    OBJECT,
    VERSION,
    check_argument,
    check_body,
    check_key_has_namespace,
)
from controller.argumenttypes import check_type
from controller.callbacks import call_plain
from controller.codec import (
    Page,
    create_pin_operations,
    decode_json,
    decode_object,
    encode,
    require_revision,
    still_exists,
    with_defaults,
    with_metadata,
)
from controller.errors import ControllerError, NotFound
from controller.lists import PAGE_SIZE, list_all
from controller.loggers import get_logger
from controller.meta import Key, Object, Untyped, Version
from controller.owners import check_owners
from controller.resource import Resource
from controller.reviews import ask_review, is_access_allowed
from controller.transport import Transport, check_transport
from controller.watch import ReadLimit

T = TypeVar("T", bound=Object)

log = get_logger(__name__)

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML


@contextmanager
def _name_request_in_errors(
    verb: str, resource: Resource[Any], where: Key | str = "", subresource: str = ""
) -> Iterator[None]:
    """Write into each ControllerError inside the context which request failed.

    Args:
        verb: as in roles: `get`, `list`, `create`, `patch`, `update`, `delete`.
        resource: the kind.
        where: the key of the object, or the namespace; empty for all.
        subresource: for example `status`; empty for the object itself.
    """
    try:
        yield
    except ControllerError as error:
        target = f"{resource.full_name}/{subresource}" if subresource else resource.full_name
        error.request = " ".join(part for part in (verb, target, str(where)) if part)
        error.add_note(f"request: {error.request}")
        if subresource and isinstance(error, NotFound):
            # The server answers alike if the object and if the subresource is missing.
            error.hint = (
                f"the object is gone, or {resource.full_name} has no subresource {subresource}:"
                f" its CustomResourceDefinition needs `subresources: {{{subresource}: {{}}}}` in"
                f" version {resource.version}"
            )
            error.add_note(f"hint: {error.hint}")
        raise


class Client:
    """Requests to one API server.

    Args:
        transport: the server.
        on_object: called with every object in a response before the caller gets it; the manager
            puts it into the kind's cache.
        on_deleted: called with every object that the server says is deleted, as it was when the
            deletion was requested.
        field_manager: the field manager of our writes; empty for the transport's user agent.
        dry_run: whether the server only checks our writes and stores nothing.
        max_list_bytes: of one list; a larger one is malformed. None for no limit.
        absence_counter: counts the answers of discovery that lack a kind, for `is_served` where
            CustomResourceDefinitions may not be listed; None to believe the first answer.

    All methods raise ApiError (by subclass), NoAnswer and MalformedAnswer as errors.py says. A
    NotFound whose `reason` is empty came without a Status, for a path that is not served or from
    something in between. Before you act on an object's absence check that the reason is
    `NotFound`, as `find` does.
    """

    def __init__(  # noqa: PLR0913 - what its owner shares with it, and limits
        self,
        transport: Transport,
        *,
        on_object: Callable[[Resource[Any], Object], None] | None = None,
        on_deleted: Callable[[Resource[Any], Version], None] | None = None,
        field_manager: str = "",
        dry_run: bool = False,
        max_list_bytes: int | None = None,
        absence_counter: discovery.AbsenceCounter | None = None,
    ) -> None:
        check_transport(transport, "Client")
        self._transport = transport
        self._max_list_bytes = max_list_bytes
        self._absence_counter = absence_counter
        self._on_object = on_object
        self._on_deleted = on_deleted
        self.field_manager = field_manager
        """The field manager of our writes; empty for the transport's user agent."""
        self.is_dry_run = dry_run
        """Whether the server only checks our writes and stores nothing."""
        self.applied_values = AppliedValues()
        """What `ensure` has learned of the server's defaults; shared by `with_field_manager`."""
        self._dry_run = {"dryRun": "All"} if dry_run else {}
        self._query = ({"fieldManager": field_manager} if field_manager else {}) | self._dry_run

    def with_field_manager(self, field_manager: str) -> "Client":
        """Return a client like this one whose writes have the field manager `field_manager`."""
        client = Client(
            self._transport,
            on_object=self._on_object,
            on_deleted=self._on_deleted,
            field_manager=field_manager,
            dry_run=self.is_dry_run,
            max_list_bytes=self._max_list_bytes,
            absence_counter=self._absence_counter,
        )
        client.applied_values = self.applied_values
        return client

    def with_dry_run(self) -> "Client":
        """Return a client like this one whose writes are checked by the server and not stored.

        The responses show what would be stored; they do not enter the manager's caches.
        """
        return Client(
            self._transport,
            field_manager=self.field_manager,
            dry_run=True,
            max_list_bytes=self._max_list_bytes,
            absence_counter=self._absence_counter,
        )

    async def get(self, resource: Resource[T], key: Key, *, subresource: str = "") -> T:
        """Read an object, or one of its subresources, from the server.

        Args:
            resource: the kind. For a subresource with objects of another type, such as `scale`,
                the kind with that type.
            key: namespace and name.
            subresource: for example `scale`; empty for the object itself.

        Raises:
            ValueError: the kind is namespaced, and the key has no namespace.
        """
        check_argument(resource, key, verb="get", expected=KEY)
        check_key_has_namespace(resource, key, "get")
        with _name_request_in_errors("get", resource, where=key, subresource=subresource):
            data = await self._transport.request(
                "GET", resource.build_path(key, subresource), accept=resource.accept
            )
            return self._decode_and_notify(resource, data, subresource)

    async def find(self, resource: Resource[T], key: Key) -> T | None:
        """Read an object from the server; return None if it does not exist.

        Args:
            resource: the kind.
            key: namespace and name.

        Raises:
            NotFound: the kind is missing, or a proxy answered; so the object may exist.
        """
        try:
            return await self.get(resource, key)
        except NotFound as error:
            if error.reason != "NotFound":
                raise  # the kind is missing, or a proxy answered: the object may exist
            return None

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
        check_argument(resource, namespace, verb="list", expected=NAMESPACE)
        query = {"limit": str(PAGE_SIZE)}
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = fields
        with _name_request_in_errors("list", resource, namespace):
            limit = ReadLimit(self._max_list_bytes)
            return await list_all(
                self._transport, resource, namespace=namespace, query=query, limit=limit
            )

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
            ValueError: the kind is cluster-scoped, and `with_owner` made a namespaced object the
                owner; or the kind is namespaced, and no namespace is named.
        """
        check_argument(resource, namespace, verb="create", expected=NAMESPACE)
        check_body(resource, body, "create")
        check_key_has_namespace(resource, _build_created_key(namespace, body), "create")
        check_owners(resource, body)
        with _name_request_in_errors("create", resource, _build_created_key(namespace, body)):
            data = await self._transport.request(
                "POST",
                resource.build_collection_path(namespace),
                query=self._query | ({"fieldManager": field_manager} if field_manager else {}),
                body=encode(
                    with_defaults(resource, body, {"namespace": namespace} if namespace else {})
                ),
            )
            return self._decode_and_notify(resource, data)

    async def patch(
        self,
        resource: Resource[T],
        at: Version,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        subresource: str = "",
    ) -> T:
        """Patch the object if it is still at version `at`.

        The uid is a precondition, too, except for a subresource, where the server does not check
        it. The resourceVersion alone detects an object that was created again.

        Args:
            resource: the kind.
            at: the version that the patch was made for.
            patch: a JSON merge patch (RFC 7396), or the operations of a JSON patch (RFC 6902).
            subresource: for example `status`; empty for the object itself.

        Raises:
            Conflict: the object has changed since; read again and decide again.
            Invalid: the server refuses the content, or a `test` of a JSON patch failed.
        """
        check_argument(resource, at, verb="patch", expected=VERSION)
        check_type(
            patch,
            (Mapping, list, tuple),
            argument=f"patch {resource.full_name}: the patch",
            expected="a dictionary, or a list of operations",
        )
        pins = {"resourceVersion": require_revision(at)} | ({} if subresource else {"uid": at.uid})
        if isinstance(patch, Mapping):
            body, content_type = encode(with_metadata(patch, pins)), MERGE_PATCH
        else:
            body, content_type = encode([*create_pin_operations(pins), *patch]), JSON_PATCH
        with _name_request_in_errors("patch", resource, where=at.key, subresource=subresource):
            data = await self._transport.request(
                "PATCH",
                resource.build_path(at.key, subresource),
                query=self._query,
                body=body,
                content_type=content_type,
            )
            return self._decode_and_notify(resource, data, subresource)

    async def patch_status(self, resource: Resource[T], obj: T, status: Mapping[str, Any]) -> T:
        """Merge `status` into the object's status if the object is still at the version of `obj`.

        Send the value of every field that the reconciler decides about, also if the decoded object
        has that value already. A field that the server does not have decodes to its type's
        default. So the object does not tell whether the server has the field.

        Args:
            resource: the kind of `obj`.
            obj: the object as it was read; its resourceVersion is the precondition.
            status: a JSON merge patch of the status; None removes a field, lists are replaced.

        Returns:
            The object as the server stored it.

        Raises:
            Conflict: the object has changed since it was read; read again and decide again.
        """
        check_argument(resource, obj, verb="patch_status", expected=OBJECT)
        check_type(
            status,
            Mapping,
            argument=f"patch_status {resource.full_name}: status",
            expected="a dictionary of fields",
        )
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
        check_argument(resource, at, verb="replace", expected=VERSION)
        check_body(resource, body, "replace")
        pins = {"name": at.name, "resourceVersion": require_revision(at), "uid": at.uid}
        if at.namespace:
            pins["namespace"] = at.namespace
        with _name_request_in_errors("update", resource, where=at.key, subresource=subresource):
            data = await self._transport.request(
                "PUT",
                resource.build_path(at.key, subresource),
                query=self._query,
                body=encode(with_metadata(with_defaults(resource, body, {}), pins)),
            )
            return self._decode_and_notify(resource, data, subresource)

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
        check_argument(resource, at, verb="delete", expected=VERSION)
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": at.uid, "resourceVersion": require_revision(at)},
        }
        if propagation:
            options["propagationPolicy"] = propagation
        if self.is_dry_run:
            options["dryRun"] = ["All"]  # the server reads no query when there is a body
        path = resource.build_path(at.key)
        with _name_request_in_errors("delete", resource, at.key):
            try:
                data = await self._transport.request("DELETE", path, body=encode(options))
            except NotFound as error:
                if error.reason == "NotFound":  # the object is missing, and not only its kind
                    self._note_deleted(resource, at)
                raise
            if still_exists(decode_json(data)):
                return self._decode_and_notify(resource, data)
            self._note_deleted(resource, at)
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
        """Apply `body` server-side; return the object as the server stored it.

        The field manager then owns the fields in `body`. It gives up the fields that it applied
        earlier and that `body` leaves out.

        Args:
            resource: the kind.
            key: namespace and name; the object is created if it does not exist.
            body: the fields to apply.
            manager: the field manager.
            force: take over fields that others own, instead of raising FieldManagerConflict.
            version: the resourceVersion that the object must still have; empty for any.
            uid: the uid that it must have, so that a deleted object is not created; empty for any.

        Raises:
            FieldManagerConflict: another manager owns a field.
            Conflict: the object has another version.
            ValueError: as for `create`.
        """
        obj, _ = await self._send_apply(
            resource, key, body=body, manager=manager, force=force, version=version, uid=uid
        )
        return obj

    async def apply_whole(
        self,
        resource: Resource[T],
        key: Key,
        body: Mapping[str, Any],
        *,
        manager: str,
        force: bool = False,
    ) -> tuple[T, Untyped]:
        """Apply as `apply` does; return the object, and the same object with all its fields.

        Args:
            resource: the kind.
            key: namespace and name; the object is created if it does not exist.
            body: the fields to apply.
            manager: the field manager.
            force: take over fields that others own, instead of raising FieldManagerConflict.

        Raises:
            FieldManagerConflict: another manager owns a field.
            ValueError: as for `create`.
        """
        obj, data = await self._send_apply(resource, key, body=body, manager=manager, force=force)
        return obj, decode_object(resource.untyped, data)

    async def _send_apply(  # noqa: PLR0913, PLR0917 - what a caller of `apply` decides
        self,
        resource: Resource[T],
        key: Key,
        body: Mapping[str, Any],
        manager: str,
        force: bool,
        version: str = "",
        uid: str = "",
    ) -> tuple[T, bytes]:
        """Send an apply with the arguments of `apply`; return the object and the answer's JSON."""
        check_argument(resource, key, verb="apply", expected=KEY)
        check_body(resource, body, "apply")
        check_key_has_namespace(resource, key, "apply")
        check_owners(resource, body)
        preconditions = {"namespace": key.namespace, "resourceVersion": version, "uid": uid}
        pins = {"name": key.name} | {name: value for name, value in preconditions.items() if value}
        with _name_request_in_errors("apply", resource, key):
            data = await self._transport.request(
                "PATCH",
                resource.build_path(key),
                query={"fieldManager": manager, "force": "true" if force else "false"}
                | self._dry_run,
                body=encode(with_metadata(with_defaults(resource, body, {}), pins)),
                content_type=APPLY_PATCH,
            )
            return self._decode_and_notify(resource, data), data

    async def is_allowed(self, subject: Mapping[str, Any], attributes: Mapping[str, str]) -> bool:
        """Return whether a user may do a request, by a SubjectAccessReview.

        Args:
            subject: user, uid, groups and extra, with the names of that review's spec.
            attributes: verb, group, resource, namespace, name and so on, with the names of its
                `resourceAttributes`.

        Raises:
            ControllerError: the server did not answer, so it is not known.
        """
        spec = {**subject, "resourceAttributes": dict(attributes)}
        version, kind = "authorization.k8s.io/v1", "SubjectAccessReview"
        return is_access_allowed(await ask_review(self._transport, version, kind=kind, spec=spec))

    async def is_served(self, resource: Resource[Any]) -> bool:
        """Return whether the server serves the kind `resource`.

        A kind that discovery does not list counts as absent if no established
        CustomResourceDefinition serves it. If definitions may not be listed, a client with an
        AbsenceCounter counts several answers of discovery first; other clients believe the first.

        Raises:
            DiscoveryIncomplete: discovery does not list the kind, but a definition serves it, or
                too few answers were counted. The server may have just started.
            ControllerError: discovery failed, so the answer is not known.
        """
        return await discovery.is_served(self._transport, resource, self._absence_counter)

    async def list_served(self, resources: Iterable[Resource[Any]]) -> frozenset[Resource[Any]]:
        """Return the kinds among `resources` that the server's discovery documents list.

        Args:
            resources: the kinds to look up.

        Raises:
            ControllerError: discovery failed, so the answer is not known.
        """
        return await discovery.list_served(self._transport, resources)

    async def find_kind(self, api_version: str, kind: str) -> tuple[str, bool] | None:
        """Return a kind's plural and whether it is namespaced; None if it is not served.

        Args:
            api_version: for example `apps/v1`.
            kind: for example `Deployment`.

        Raises:
            ControllerError: discovery failed, so the answer is not known.
        """
        return await discovery.find_kind(self._transport, api_version, kind)

    def _note_deleted(self, resource: Resource[Any], version: Version) -> None:
        """Call `on_deleted` with an object that the server says is deleted."""
        self._notify(self._on_deleted, resource, version)

    def _notify(
        self, listener: Callable[[Resource[Any], Any], None] | None, resource: Any, argument: Any
    ) -> None:
        """Call a listener with `argument`. If the listener raises, the error is only logged.

        The request has succeeded, so its caller gets the response in any case.
        """
        if listener is None:
            return
        try:
            call_plain(listener, resource, argument)
        except Exception:
            log.exception("response listener raised", resource=resource.full_name)

    def _decode_and_notify(self, resource: Resource[T], data: bytes, subresource: str = "") -> T:
        """Return the object in a response; call `on_object` or `on_deleted` with it before.

        Neither is called for the object of a subresource other than `status`.
        """
        obj = decode_object(resource, data)
        if subresource not in {"", "status"}:
            return obj  # the object of a subresource, such as a Scale; no cache holds it
        meta = obj.metadata
        if meta.is_terminating and not meta.finalizers and not still_exists(decode_json(data)):
            # The object was being deleted, and this write removed its last finalizer: it is gone.
            self._note_deleted(resource, Version.from_object(obj))
        else:
            self._notify(self._on_object, resource, obj)
        return obj


def _build_created_key(namespace: str, body: Mapping[str, Any]) -> Key:
    """Return the key of an object to create, for messages; its name may be a generateName."""
    meta = body.get("metadata") or {}
    return Key(namespace, str(meta.get("name") or meta.get("generateName") or ""))
