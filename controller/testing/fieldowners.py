"""Who owns which field of the fake API's objects: managedFields, and server-side apply.

The rules are in `controller.managedfields`. This module calls them with a kind's schema and the
parameters of a request. A field manager is the name of a client that owns fields.
"""

import functools
from collections.abc import Mapping
from typing import Any

from controller.errors import ApiError, BadRequest, Invalid, create_api_error
from controller.managedfields import FieldModel, PatchError, apply, check_manager, track_update
from controller.testing.rules import FakeKind, Json

_NO_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
}
"""The schema of a kind that has none: fields are owned one by one, and lists as a whole."""


class FieldOwners:
    """The ownership of the fields of one kind's objects.

    Args:
        schema: its OpenAPI v3 schema, as in its CustomResourceDefinition; None if it has none.
    """

    def __init__(self, kind: FakeKind, schema: Mapping[str, Any] | None) -> None:
        self._api_version = kind.resource.api_version
        self._kind = kind.resource.kind
        self._status = kind.status
        self._schema = _NO_SCHEMA if schema is None else schema

    @functools.cached_property
    def _model(self) -> FieldModel:
        """How the fields of the kind are owned; most tests never need it."""
        return FieldModel.from_schema(self._schema, status_subresource=self._status)

    def apply(
        self, old: Json | None, sent: Any, query: Mapping[str, str], subresource: str, now: str
    ) -> Json:
        """Return the object after a server-side apply, with its managedFields.

        The manager then owns exactly the fields in `sent`. A field that it owned before, and that
        `sent` leaves out, is removed unless another manager owns it, too. For all other writes
        there is `track`.

        Args:
            old: the stored object; None if it does not exist.
            sent: the body of the request.
            query: the parameters of the request: fieldManager, and `force`.
            subresource: `status` or empty.
            now: the time, RFC 3339 in whole seconds.

        Raises:
            FieldManagerConflict: other managers own fields, and `force` is not set.
            Invalid: the request names no field manager, or a name that is not allowed.
            BadRequest: the body is no object, is not of this kind, or has managedFields.
        """
        manager = _read_applying_manager(query)
        if not isinstance(sent, dict):
            raise BadRequest(400, "BadRequest", "an apply patch is an object")
        try:
            return apply(
                old,
                sent,
                manager=manager,
                force=query.get("force") == "true",
                fields=self._model,
                subresource=subresource,
                now=now,
                kind=(self._api_version, self._kind),
            )
        except PatchError as error:
            raise _create_api_error(error) from error

    def track(
        self, old: Json | None, new: Json, query: Mapping[str, str], subresource: str, now: str
    ) -> Json:
        """Return an object with managedFields after a create or update.

        The manager of the request owns the fields that the write changes.

        Args:
            old: the stored object; None for a new object.
            new: the object to store; its metadata has the managedFields that the client sent.
            query: the parameters of the request, among them fieldManager.
            subresource: `status` or empty.
            now: the time, RFC 3339 in whole seconds.

        Raises:
            Invalid: the name of the field manager is not allowed.
        """
        manager = query.get("fieldManager", "")
        _check_manager(manager)
        tracked = {**new, "metadata": dict(new["metadata"])}
        track_update(
            old,
            tracked,
            manager=manager,
            fields=self._model,
            api_version=self._api_version,
            subresource=subresource,
            now=now,
        )
        return tracked


def _read_applying_manager(query: Mapping[str, str]) -> str:
    """Return the field manager of an apply, which has to name one.

    Raises:
        Invalid: it names none, or the name is not allowed.
    """
    manager = query.get("fieldManager", "")
    if not manager:
        message = "fieldManager: Required value: is required for apply patch"
        raise Invalid(422, "Invalid", f"PatchOptions.meta.k8s.io is invalid: {message}")
    _check_manager(manager)
    return manager


def _check_manager(name: str) -> None:
    """Refuse the name of a field manager that is too long or cannot be printed.

    Raises:
        Invalid: it is too long or cannot be printed.
    """
    if causes := check_manager(name):
        raise Invalid(422, "Invalid", f"{causes[0].field}: {causes[0].message}")


def _create_api_error(error: PatchError) -> ApiError:
    """Return the error that a client sees."""
    status = {"reason": error.reason, "message": error.message, "details": error.details}
    return create_api_error(error.status, status)
