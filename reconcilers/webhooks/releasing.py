"""Who may say that a tenant is gone for good (annotation `release-anyway` of a TenantCluster).

The annotation gives back addresses that may still be in use, which harms those who get them next.
So the right to edit TenantClusters is not enough: the user who adds it needs the verb `release` on
that TenantCluster. The API server answers whether a user has it (SubjectAccessReview). To keep the
annotation, or to remove it, needs nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controller.client import Client
from controller.errors import ControllerError
from controller.webhooks import AdmissionRequest
from controller.webhooks.review import UserInfo
from reconcilers.api import names
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.specrules.verdict import Verdict

VERB = "release"
ROLE = "butler-ipam-release"
"""The shipped ClusterRole that grants the verb."""

ADDS_RELEASE_ANYWAY = (
    "(has(object.metadata.annotations)"
    f" && '{names.ANNOTATION_RELEASE_ANYWAY}' in object.metadata.annotations"
    " && !(has(oldObject.metadata.annotations)"
    f" && '{names.ANNOTATION_RELEASE_ANYWAY}' in oldObject.metadata.annotations))"
)
"""The match condition of an update that adds the annotation, in CEL."""


@dataclass(frozen=True, slots=True)
class _Meta:
    annotations: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Annotated:
    metadata: _Meta = field(default_factory=_Meta)


_read_annotations = msgspec.json.Decoder(_Annotated).decode


def adds_release_anyway(request: AdmissionRequest[bytes]) -> bool:
    """Return whether a write adds the annotation."""
    if request.subResource or request.operation not in {"CREATE", "UPDATE"}:
        return False
    return _has_annotation(request.objectBytes) and not _has_annotation(request.oldObjectBytes)


def _has_annotation(body: bytes) -> bool:
    if not body:
        return False
    try:
        annotations = _read_annotations(body).metadata.annotations
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return names.ANNOTATION_RELEASE_ANYWAY in (annotations or ())


async def review_release(client: Client, request: AdmissionRequest[bytes]) -> Verdict | None:
    """Return the refusal of a write that adds the annotation without the right; None if it may.

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
        is_allowed = await client.may(_subject(user), _attributes(request))
    except ControllerError as error:
        why = f"{needed}; whether user {user.username} has it cannot be checked: {error}"
        return Verdict(refusal=f"{why}. Try again", forbidden=True)
    if is_allowed:
        return None
    how = f"let an administrator bind ClusterRole {ROLE} there"
    why = f"{needed}, which user {user.username} lacks: {how}"
    return Verdict(refusal=why, forbidden=True)


def _subject(user: UserInfo) -> dict[str, Any]:
    """Return a user as a SubjectAccessReview names one."""
    return {
        "user": user.username,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {name: list(values) for name, values in user.extra.items()},
    }


def _attributes(request: AdmissionRequest[bytes]) -> dict[str, str]:
    """Return the right that releases the TenantCluster of a request."""
    return {
        "group": TENANT_CLUSTER.group,
        "version": TENANT_CLUSTER.version,
        "resource": TENANT_CLUSTER.plural,
        "verb": VERB,
        "namespace": request.namespace,
        "name": request.name,
    }
