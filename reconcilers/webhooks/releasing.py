"""Checks who may declare a tenant gone for good (annotation `release-anyway` of a TenantCluster).

The annotation releases addresses although the tenant may still use them. They may be handed out to
another tenant. So the right to edit TenantClusters is not enough: the user who adds the annotation
needs the verb `release` on that TenantCluster. The API server decides whether a user has it
(SubjectAccessReview). Keeping or removing the annotation needs no such right.
"""

from typing import Any

from controller.client import Client
from controller.errors import ControllerError
from controller.webhooks import AdmissionRequest
from controller.webhooks.review import UserInfo
from reconcilers.api import names
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.specrules.verdict import Verdict
from reconcilers.webhooks.annotations import build_has_annotation, decode_annotations

VERB = "release"
ROLE = "butler-ipam-release"
"""The shipped ClusterRole that grants the verb."""

ADDS_RELEASE_ANYWAY = (
    f"({build_has_annotation('object', names.ANNOTATION_RELEASE_ANYWAY)}"
    f" && !({build_has_annotation('oldObject', names.ANNOTATION_RELEASE_ANYWAY)}))"
)
"""The match condition of an update that adds the annotation, in CEL."""


def adds_release_anyway(request: AdmissionRequest[bytes]) -> bool:
    """Return whether a write adds the annotation `release-anyway`."""
    if request.subResource or request.operation not in {"CREATE", "UPDATE"}:
        return False  # a status or a deletion adds no annotation
    return _has_annotation(request.objectBytes) and not _has_annotation(request.oldObjectBytes)


def _has_annotation(body: bytes) -> bool:
    """Return whether an object, as JSON, has the annotation `release-anyway`."""
    return names.ANNOTATION_RELEASE_ANYWAY in decode_annotations(body)


async def review_release(client: Client, request: AdmissionRequest[bytes]) -> Verdict | None:
    """Return the refusal of a write that adds the annotation without the right to do so.

    None if the write adds no annotation, or the user has the right. If the right cannot be
    checked, the write is refused: released addresses cannot be taken back.

    Args:
        client: asks the API server for the user's rights.
        request: the write of a TenantCluster.
    """
    if not adds_release_anyway(request):
        return None
    user = request.userInfo
    needed = (
        f"annotation {names.ANNOTATION_RELEASE_ANYWAY} of TenantCluster {request.key} needs the"
        f" verb {VERB} on {TENANT_CLUSTER.full_name} in namespace {request.namespace}"
    )
    try:
        is_allowed = await client.is_allowed(_build_subject(user), _build_attributes(request))
    except ControllerError as error:
        why = f"{needed}; whether user {user.username} has it cannot be checked: {error}"
        return Verdict(refusal=f"{why}. Try again", forbidden=True)
    if is_allowed:
        return None
    how = f"let an administrator bind ClusterRole {ROLE} there"
    why = f"{needed}, which user {user.username} lacks: {how}"
    return Verdict(refusal=why, forbidden=True)


def _build_subject(user: UserInfo) -> dict[str, Any]:
    """Return the fields of a SubjectAccessReview that name a user."""
    return {
        "user": user.username,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {name: list(values) for name, values in user.extra.items()},
    }


def _build_attributes(request: AdmissionRequest[bytes]) -> dict[str, str]:
    """Return the right that is reviewed: the verb `release` on a TenantCluster."""
    return {
        "group": TENANT_CLUSTER.group,
        "version": TENANT_CLUSTER.version,
        "resource": TENANT_CLUSTER.plural,
        "verb": VERB,
        "namespace": request.namespace,
        "name": request.name,
    }
