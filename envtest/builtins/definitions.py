"""The rules of CustomResourceDefinitions; `server.definitions` serves the kinds they define."""

from typing_extensions import override

from envtest.builtins.rules import BuiltinRules
from envtest.schema import (
    FieldError,
    find_crd_warnings,
    find_names_errors,
    set_crd_defaults,
    validate_crd,
)
from envtest.server import objectmeta
from envtest.server.definitions import CLEANUP_FINALIZER, set_condition
from envtest.server.objectmeta import Body

_NOT_CALLED = (
    "spec.conversion: conversion webhooks are not called by the embedded server; objects differ "
    "between versions in their apiVersion only"
)


class DefinitionRules(BuiltinRules):
    """CRDs. A terminating CRD stays until its custom resources are deleted."""

    marks_deletion = True

    @override
    def set_defaults(self, body: Body) -> None:
        set_crd_defaults(body)

    @override
    def list_warnings(self, body: Body, old: Body | None) -> list[str]:
        """Return the warnings about a CRD that its stored version did not cause already."""
        old_warnings = _list_crd_warnings(old) if old else ()
        return [warning for warning in _list_crd_warnings(body) if warning not in old_warnings]

    @override
    def prepare_create(self, body: Body) -> None:
        """Write the first status, which names the storage version as the only stored one."""
        super().prepare_create(body)
        stored_versions = [v["name"] for v in body["spec"].get("versions", ()) if v.get("storage")]
        # Validation, which follows, refuses several storage versions.
        body["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": stored_versions[:1],
        }

    @override
    def prepare_update(self, body: Body, old: Body) -> None:
        """Add a new storage version to `storedVersions`; earlier ones may have objects, too."""
        super().prepare_update(body, old)
        stored_versions = list(body.get("status", {}).get("storedVersions") or ())
        storage_versions = [
            v["name"] for v in body["spec"].get("versions", ()) if v.get("storage")
        ]
        # Validation, which follows, refuses several storage versions.
        body["status"] = {
            **body.get("status", {}),
            "storedVersions": [
                *stored_versions,
                *(version for version in storage_versions[:1] if version not in stored_versions),
            ],
        }

    @override
    def prepare_subresource(self, name: str, body: Body, old: Body) -> None:
        # Unlike for other kinds, a write to the status may change metadata as well.
        body["spec"] = old["spec"]

    @override
    def find_update_errors(self, body: Body, old: Body, subresource: str) -> list[FieldError]:
        """Return the errors of an update; a write to the status is checked for accepted names."""
        if not subresource:
            return super().find_update_errors(body, old, subresource)
        accepted = body.get("status", {}).get("acceptedNames") or {}
        problems = objectmeta.find_change_errors(body["metadata"], old["metadata"])
        return problems + find_names_errors(accepted, "status.acceptedNames")

    @override
    def begin_deletion(self, body: Body) -> None:
        """Add the finalizer that waits for custom resources, and condition Terminating."""
        meta = body["metadata"]
        if CLEANUP_FINALIZER not in meta.get("finalizers", ()):
            meta["finalizers"] = [*meta.get("finalizers", ()), CLEANUP_FINALIZER]
        message = (
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        )
        body["status"] = dict(body.get("status") or {})
        set_condition(
            body["status"],
            "Terminating",
            value="True",
            reason="InstanceDeletionPending",
            message=message,
        )

    @override
    def can_be_removed(self, body: Body) -> bool:
        """Return whether a CRD is being deleted and has no finalizers."""
        return "deletionTimestamp" in body["metadata"] and super().can_be_removed(body)

    @override
    def find_content_errors(self, body: Body, old: Body | None) -> list[FieldError]:
        return validate_crd(body, old)


def _list_crd_warnings(body: Body) -> list[str]:
    """Return the warnings about unknown formats, and about a conversion webhook."""
    warnings = find_crd_warnings(body)
    if (body["spec"].get("conversion") or {}).get("strategy") == "Webhook":
        warnings.append(_NOT_CALLED)
    return warnings
