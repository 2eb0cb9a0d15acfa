"""AdmissionReview: the question about a write, as the real server puts it."""

import uuid
from typing import Any, Final

from envtest.access.reviews import describe
from envtest.admission.attributes import Attributes, in_version, kind_of
from envtest.server.resource import Resource

_GROUP: Final = "admission.k8s.io"
_VERSIONS: Final = ("v1", "v1beta1")


def admission_review(
    attributes: Attributes, resource: Resource, versions: list[str]
) -> dict[str, Any]:
    """Return the review of a write.

    Args:
        attributes: the write.
        resource: the version of the resource that the webhook wants to see.
        versions: of AdmissionReview that it knows, the best first.
    """
    given = attributes.call.resource
    version = next((one for one in versions if one in _VERSIONS), _VERSIONS[0])
    request = {
        "uid": str(uuid.uuid4()),
        **admission_request(attributes, resource),
        "object": in_version(attributes.new, given, resource),
        "oldObject": in_version(attributes.old, given, resource),
    }
    return {"kind": "AdmissionReview", "apiVersion": f"{_GROUP}/{version}", "request": request}


def admission_request(attributes: Attributes, resource: Resource) -> dict[str, Any]:
    """Return what is told about a request by itself; what it lacks is left out."""
    given, sub = attributes.call.resource, attributes.subresource
    told: dict[str, Any] = {
        "kind": kind_of(resource, sub),
        "resource": _plural(resource),
        "subResource": sub,
        "requestKind": kind_of(given, sub),
        "requestResource": _plural(given),
        "requestSubResource": sub,
        "name": attributes.name,
        "namespace": attributes.namespace,
        "operation": attributes.operation,
        "userInfo": describe(attributes.call.user),
        "dryRun": attributes.dry_run,
        "options": _options(attributes),
    }
    return {name: value for name, value in told.items() if value != ""}


def _plural(resource: Resource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _options(attributes: Attributes) -> dict[str, Any]:
    """Return CreateOptions, UpdateOptions or DeleteOptions as the client gave them."""
    call, given = attributes.call, dict(attributes.call.options)
    if attributes.operation != "DELETE":
        for name in ("fieldManager", "fieldValidation"):
            if call.query.get(name):
                given[name] = call.query[name]
    if call.dry_runs:
        given["dryRun"] = list(call.dry_runs)
    kind = f"{attributes.operation.capitalize()}Options"
    return {"kind": kind, "apiVersion": "meta.k8s.io/v1", **given}
