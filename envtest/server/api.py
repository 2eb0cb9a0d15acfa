"""The state that every verb works on: the store, the registry and admission."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from envtest.server import failures
from envtest.server.call import AuthorizedCall
from envtest.server.resource import Registry, StoredResource
from envtest.storage import Store, StoredObject, Table


class Admission(Protocol):
    """Changes or refuses a write before it is stored.

    `operation` is CREATE, UPDATE or DELETE; `old` is None for a CREATE, `new` for a DELETE.
    """

    async def mutate(
        self, call: AuthorizedCall, operation: str, new: dict[str, Any], old: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Return the object with the changes that admission makes to it."""
        ...

    async def validate(
        self,
        call: AuthorizedCall,
        operation: str,
        new: dict[str, Any] | None,
        old: dict[str, Any] | None,
    ) -> None:
        """Raise a StatusError to refuse the write."""
        ...


class NoAdmission:
    """Admission that lets every write pass."""

    async def mutate(
        self,
        call: AuthorizedCall,  # noqa: ARG002
        operation: str,  # noqa: ARG002
        new: dict[str, Any],
        old: dict[str, Any] | None,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Return the object unchanged."""
        return new

    async def validate(
        self,
        call: AuthorizedCall,
        operation: str,
        new: dict[str, Any] | None,
        old: dict[str, Any] | None,
    ) -> None:
        """Allow the write."""


def _allow_creation(call: AuthorizedCall, name: str) -> None:
    """Allow every creation; the default of a server without access control."""


@dataclass(slots=True)
class Api:
    """The state behind all requests."""

    store: Store
    registry: Registry
    admission: Admission = field(default_factory=NoAdmission)
    # Seconds that a read waits for a revision that does not exist yet.
    revision_timeout: float = 3.0
    # Called when an update or patch is about to create its object, with the request and the
    # object's name. It raises a StatusError if the user may update or patch, but not create.
    check_creation_allowed: Callable[[AuthorizedCall, str], None] = _allow_creation
    # Tables (`StoredResource.table_name`) of custom resources whose CRD is terminating: nothing is
    # created there, because the CRD waits until no objects remain.
    terminating_tables: set[str] = field(default_factory=set)

    def get_table(self, resource: StoredResource) -> Table:
        """Return the table that holds a resource's objects."""
        return self.store.get_table(resource.table_name)

    def get_stored(self, call: AuthorizedCall) -> StoredObject:
        """Return the stored object that a request names.

        Raises:
            StatusError: 404 if there is no such object.
        """
        stored = self.get_table(call.resource).get(call.key)
        if stored is None:
            raise call.resource.build_not_found_error(call.info.name)
        return stored

    def check_namespace(self, resource: StoredResource, namespace: str, name: str) -> None:
        """Refuse to create an object in a namespace that is missing or terminating.

        Raises:
            StatusError: 404 or 403.
        """
        namespaces = self.registry.find("", "v1", "namespaces")
        # A server that serves no namespaces accepts every namespace.
        if not resource.namespaced or namespaces is None:
            return
        stored = self.get_table(namespaces).get(namespace)
        if stored is None:
            raise namespaces.build_not_found_error(namespace)
        if namespaces.decode_object(stored)["metadata"].get("deletionTimestamp"):
            error = failures.build_forbidden(
                resource.plural,
                resource.group,
                name=name,
                why=f"unable to create new content in namespace {namespace} "
                "because it is being terminated",
            )
            # Controllers recognize this refusal by its cause (corev1.NamespaceTerminatingCause)
            # and then stop retrying.
            message = f"namespace {namespace} is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": message,
                "field": "metadata.namespace",
            }
            error.details = {**(error.details or {}), "causes": [cause]}
            raise error
