"""A write under admission: all that rules match on, and its AdmissionReview."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from envtest.access.reviews import describe
from envtest.server.call import AuthorizedCall
from envtest.server.resource import StoredResource

Body = dict[str, Any]

_NAMESPACES = ("", "namespaces")


@dataclass(frozen=True, slots=True)
class AdmissionAttributes:
    """One write; `new` is None for a DELETE, `old` for a CREATE.

    Attributes:
        call: the request; it names the resource as the client wrote it.
        operation: CREATE, UPDATE or DELETE.
        new: the object as it shall be.
        old: the object as it is.
    """

    call: AuthorizedCall
    operation: str
    new: Body | None
    old: Body | None

    @property
    def is_namespace(self) -> bool:
        """Return whether the object is a namespace."""
        return (self.call.resource.group, self.call.resource.plural) == _NAMESPACES

    @property
    def name(self) -> str:
        """Return the object's name; nothing while it is still to be generated."""
        if self.call.info.name or self.operation == "DELETE":
            return self.call.info.name
        # That of the client, if it gave one: a webhook may have put another in its place.
        return self.call.new_name or str(metadata(self.new).get("name") or "")

    @property
    def namespace(self) -> str:
        """Return the namespace that is written to; a namespace is taken to be in itself."""
        if self.is_namespace:
            return self.name
        return self.call.info.namespace if self.call.resource.namespaced else ""

    @property
    def subresource(self) -> str:
        """Return `status` or another subresource, or nothing."""
        return self.call.info.subresource

    @property
    def dry_run(self) -> bool:
        """Return whether nothing will be stored."""
        return bool(self.call.dry_runs)

    def replace_object(self, new: Body) -> "AdmissionAttributes":
        """Return the same write of another object."""
        return replace(self, new=new)


def metadata(body: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return an object's metadata; empty where there is none."""
    meta = (body or {}).get("metadata")
    return meta if isinstance(meta, dict) else {}


def labels(body: Mapping[str, Any] | None) -> Mapping[str, str]:
    """Return an object's labels; empty where there are none."""
    return metadata(body).get("labels") or {}


def kind_of(resource: StoredResource, subresource: str) -> dict[str, str]:
    """Return the kind of a resource's objects, or of those that a subresource takes."""
    entry = resource.subresources.get(subresource) or {}
    if entry.get("group") or entry.get("version"):
        return {name: entry.get(name, "") for name in ("group", "version", "kind")}
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def in_version(body: Body | None, source: StoredResource, target: StoredResource) -> Body | None:
    """Return an object of one resource as another version of that resource has it.

    What is of neither, such as a Scale, is the same in all versions.
    """
    if body is None or source is target or body.get("apiVersion") != source.api_version:
        return body
    if source.rules.custom:
        # Versions of a custom resource differ in their name only: nothing is pruned on the way.
        return {**body, "apiVersion": target.api_version}
    bare = source.to_stored_form(body)
    fields = target.to_version(bare) if target.to_version else bare
    return {**fields, "apiVersion": target.api_version, "kind": target.kind}


_GROUP: Final = "admission.k8s.io"
_VERSIONS: Final = ("v1", "v1beta1")


def admission_review(
    attributes: AdmissionAttributes, resource: StoredResource, versions: list[str]
) -> dict[str, Any]:
    """Return the review of a write.

    Args:
        attributes: the write.
        resource: the version of the resource that the webhook wants to see.
        versions: of AdmissionReview that it accepts, the preferred one first.
    """
    request_resource = attributes.call.resource
    version = next((candidate for candidate in versions if candidate in _VERSIONS), _VERSIONS[0])
    request = {
        "uid": str(uuid.uuid4()),
        **admission_request(attributes, resource),
        "object": in_version(attributes.new, request_resource, resource),
        "oldObject": in_version(attributes.old, request_resource, resource),
    }
    return {"kind": "AdmissionReview", "apiVersion": f"{_GROUP}/{version}", "request": request}


def admission_request(attributes: AdmissionAttributes, resource: StoredResource) -> dict[str, Any]:
    """Return the fields of a review that describe the request; empty ones are left out."""
    request_resource, sub = attributes.call.resource, attributes.subresource
    fields: dict[str, Any] = {
        "kind": kind_of(resource, sub),
        "resource": _plural(resource),
        "subResource": sub,
        "requestKind": kind_of(request_resource, sub),
        "requestResource": _plural(request_resource),
        "requestSubResource": sub,
        "name": attributes.name,
        "namespace": attributes.namespace,
        "operation": attributes.operation,
        "userInfo": describe(attributes.call.user),
        "dryRun": attributes.dry_run,
        "options": _options(attributes),
    }
    return {name: value for name, value in fields.items() if value != ""}


def _plural(resource: StoredResource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _options(attributes: AdmissionAttributes) -> dict[str, Any]:
    """Return CreateOptions, UpdateOptions or DeleteOptions as the client gave them."""
    call, options = attributes.call, dict(attributes.call.options)
    if attributes.operation != "DELETE":
        for name in ("fieldManager", "fieldValidation"):
            if call.query.get(name):
                options[name] = call.query[name]
    if call.dry_runs:
        options["dryRun"] = list(call.dry_runs)
    kind = f"{attributes.operation.capitalize()}Options"
    return {"kind": kind, "apiVersion": "meta.k8s.io/v1", **options}
