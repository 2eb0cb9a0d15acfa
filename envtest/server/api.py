"""What every verb works on: the store, the registry, and who may intervene in a write."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from envtest.server import failures
from envtest.server.call import AuthorizedCall
from envtest.server.resource import Registry, StoredResource
from envtest.storage import Store, Stored, Table


class Admission(Protocol):
    """What may change or refuse a write before it is stored.

    `operation` is CREATE, UPDATE or DELETE; `old` is None for a CREATE, `new` for a DELETE.
    """

    async def mutate(
        self, call: AuthorizedCall, operation: str, new: dict[str, Any], old: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Return the object as it shall be."""
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
        """Allow."""


def _let_all(call: AuthorizedCall, name: str) -> None:
    """Allow."""


@dataclass(slots=True)
class Api:
    """The state behind all requests."""

    store: Store
    registry: Registry
    admission: Admission = field(default_factory=NoAdmission)
    # Seconds that a read waits for a revision that is still to come.
    patience: float = 3.0
    # Who may refuse to let a change make the object: called with the request and the object's
    # name, raises a StatusError.
    creation_guard: Callable[[AuthorizedCall, str], None] = _let_all
    # Places of custom resources whose definition is terminating: nothing is created there.
    ending: set[str] = field(default_factory=set)

    def table(self, resource: StoredResource) -> Table:
        """Return the table that holds a resource's objects."""
        return self.store.table(resource.place)

    def current(self, call: AuthorizedCall) -> Stored:
        """Return the object that a request names.

        Raises:
            StatusError: 404.
        """
        stored = self.table(call.resource).get(call.key)
        if stored is None:
            raise call.resource.not_found(call.info.name)
        return stored

    def check_namespace(self, resource: StoredResource, namespace: str, name: str) -> None:
        """Refuse new objects where the namespace is missing or terminating.

        Raises:
            StatusError: 404 or 403.
        """
        home = self.registry.find("", "v1", "namespaces")
        if not resource.namespaced or home is None:
            return
        stored = self.table(home).get(namespace)
        if stored is None:
            raise home.not_found(namespace)
        if home.load(stored)["metadata"].get("deletionTimestamp"):
            error = failures.forbidden(
                resource.plural,
                resource.group,
                name=name,
                why=f"unable to create new content in namespace {namespace} "
                "because it is being terminated",
            )
            message = f"namespace {namespace} is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": message,
                "field": "metadata.namespace",
            }
            error.details = {**(error.details or {}), "causes": [cause]}
            raise error
