"""A write under admission: the attributes that webhooks match, and its AdmissionReview."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from envtest.access.reviews import describe_user
from envtest.server.call import AuthorizedCall
from envtest.server.resource import StoredResource

Body = dict[str, Any]

_NAMESPACES = ("", "namespaces")


@dataclass(frozen=True, slots=True)
class AdmissionAttributes:
    """The attributes of one write.

    Attributes:
        call: the request; it names the resource in the version of the client.
        operation: CREATE, UPDATE or DELETE.
        new: the new object; None for a DELETE.
        old: the stored object; None for a CREATE.
    """

    call: AuthorizedCall
    operation: str
    new: Body | None
    old: Body | None

    @property
    def is_namespace(self) -> bool:
        """Whether the object is a namespace."""
        return (self.call.resource.group, self.call.resource.plural) == _NAMESPACES

    @property
    def name(self) -> str:
        """The name of the object; empty until it is generated, and for deleted collections."""
        # As in kube-apiserver, the reviews of a deleted collection name no object.
        if self.call.info.name or self.operation == "DELETE":
            return self.call.info.name
        # The name that the client gave takes precedence, as a webhook may have changed it.
        return self.call.new_name or str(get_metadata(self.new).get("name") or "")

    @property
    def namespace(self) -> str:
        """The namespace of the object; a Namespace object counts as being in itself."""
        if self.is_namespace:
            return self.name
        return self.call.info.namespace if self.call.resource.namespaced else ""

    @property
    def subresource(self) -> str:
        """The subresource, such as `status`; empty for the main resource."""
        return self.call.info.subresource

    @property
    def dry_run(self) -> bool:
        """Whether the request is a dry run."""
        return bool(self.call.dry_runs)

    def replace_object(self, new: Body) -> "AdmissionAttributes":
        """Return the attributes with another new object, which a webhook has patched."""
        return replace(self, new=new)


def get_metadata(body: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the metadata of an object; empty if it has none."""
    meta = (body or {}).get("metadata")
    return meta if isinstance(meta, dict) else {}


def get_labels(body: Mapping[str, Any] | None) -> Mapping[str, str]:
    """Return the labels of an object; empty if it has none."""
    return get_metadata(body).get("labels") or {}


def describe_kind(resource: StoredResource, subresource: str) -> dict[str, str]:
    """Return the kind that requests on a resource, or its subresource, have as body."""
    entry = resource.subresources.get(subresource) or {}
    # Discovery names group and version only for a kind of another group, such as Scale.
    if entry.get("group") or entry.get("version"):
        return {name: entry.get(name, "") for name in ("group", "version", "kind")}
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def convert_version(
    body: Body | None, source: StoredResource, target: StoredResource
) -> Body | None:
    """Return an object of a resource in another version of that resource.

    The bodies of some subresources, such as Scale, have an apiVersion of their own and stay.

    Args:
        body: the object; None stays None.
        source: the resource in the version of the object.
        target: the resource in the version of the result.
    """
    if body is None or source is target or body.get("apiVersion") != source.api_version:
        return body
    if source.rules.is_custom:
        # Without conversion webhooks, versions of a custom resource differ only in apiVersion.
        return {**body, "apiVersion": target.api_version}
    stored_form = source.to_stored_form(body)
    fields = target.to_version(stored_form) if target.to_version else stored_form
    return {**fields, "apiVersion": target.api_version, "kind": target.kind}


_GROUP: Final = "admission.k8s.io"
_VERSIONS: Final = ("v1", "v1beta1")


def build_review(
    attributes: AdmissionAttributes, resource: StoredResource, versions: list[str]
) -> dict[str, Any]:
    """Return the review of a write.

    Args:
        attributes: the write.
        resource: the version of the resource that the webhook wants to see.
        versions: the versions of AdmissionReview that it accepts, the preferred one first. Of
            those that the server knows, the first one is used; v1 if there is none.
    """
    request_resource = attributes.call.resource
    version = next((candidate for candidate in versions if candidate in _VERSIONS), _VERSIONS[0])
    request = {
        "uid": str(uuid.uuid4()),
        **describe_request(attributes, resource),
        "object": convert_version(attributes.new, request_resource, resource),
        "oldObject": convert_version(attributes.old, request_resource, resource),
    }
    return {"kind": "AdmissionReview", "apiVersion": f"{_GROUP}/{version}", "request": request}


def describe_request(attributes: AdmissionAttributes, resource: StoredResource) -> dict[str, Any]:
    """Return the fields of a review that describe the request; empty ones are left out."""
    request_resource, subresource = attributes.call.resource, attributes.subresource
    fields: dict[str, Any] = {
        "kind": describe_kind(resource, subresource),
        "resource": _describe_resource(resource),
        "subResource": subresource,
        "requestKind": describe_kind(request_resource, subresource),
        "requestResource": _describe_resource(request_resource),
        "requestSubResource": subresource,
        "name": attributes.name,
        "namespace": attributes.namespace,
        "operation": attributes.operation,
        "userInfo": describe_user(attributes.call.user),
        "dryRun": attributes.dry_run,
        "options": _build_options(attributes),
    }
    return {name: value for name, value in fields.items() if value != ""}


def _describe_resource(resource: StoredResource) -> dict[str, str]:
    """Return a resource as a GroupVersionResource."""
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _build_options(attributes: AdmissionAttributes) -> dict[str, Any]:
    """Return the CreateOptions, UpdateOptions or DeleteOptions of the request.

    DeleteOptions come from the body of the request, and the others from its query.
    """
    call, options = attributes.call, dict(attributes.call.options)
    if attributes.operation != "DELETE":
        for name in ("fieldManager", "fieldValidation"):
            if call.query.get(name):
                options[name] = call.query[name]
    if call.dry_runs:
        options["dryRun"] = list(call.dry_runs)
    kind = f"{attributes.operation.capitalize()}Options"
    return {"kind": kind, "apiVersion": "meta.k8s.io/v1", **options}
