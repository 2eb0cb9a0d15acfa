"""Annotations on objects in a tenant: for whom an object was made, and as of which position.

The *owner* is a TenantCluster, with the management cluster that it is in. A *position* is the
resourceVersion up to which the writer's cache had read.
"""

import re
from collections.abc import Mapping

from controller.meta import Key, Object, parse_revision
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.clusteraccess.clusteridentity import (
    build_management_annotation,
    is_of_other_management,
)

_NAME_PATTERN = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
_OWNER_PATTERN = re.compile(f"(?P<namespace>{_NAME_PATTERN})/(?P<name>{_NAME_PATTERN})")
"""A valid `namespace/name`. A tenant's administrator can write anything, and the text goes into
the path of a request to the management cluster."""


def make_owner_annotations(
    owned_by: TenantCluster | IPAllocation, management: str
) -> dict[str, str]:
    """Return the annotations that name the owner of an object in a tenant.

    Args:
        owned_by: the TenantCluster, or an allocation of it.
        management: the identity of the management cluster; empty if it is not known.
    """
    key, uid = owned_by.metadata.key, owned_by.metadata.uid
    if isinstance(owned_by, IPAllocation):
        key = owned_by.spec.tenantClusterRef.key
        uid = owned_by.metadata.annotations.get(names.ANNOTATION_TENANT_UID, "")
    return {
        names.ANNOTATION_PROJECTION_OWNER: str(key),
        names.ANNOTATION_PROJECTION_OWNER_UID: uid,
        **build_management_annotation(management),
    }


def find_owner(obj: Object) -> Key | None:
    """Return the TenantCluster that an object in a tenant was made for; None if it names none.

    The noted uid is for people, and is not compared: a cluster that is recreated under its name
    goes on with the objects of the earlier one.
    """
    noted = obj.metadata.annotations.get(names.ANNOTATION_PROJECTION_OWNER, "")
    match = _OWNER_PATTERN.fullmatch(noted)
    return Key(match["namespace"], match["name"]) if match is not None else None


def names_other_owner(obj: Object, owner: Mapping[str, str]) -> bool:
    """Return whether an object in a tenant names another owner than `owner`.

    False if the object names no owner: another tool made it, or a person removed the annotation.

    Args:
        owner: the annotations of the expected owner, as `make_owner_annotations` returns them.
    """
    noted_owner = find_owner(obj)
    if noted_owner is not None and str(noted_owner) != owner[names.ANNOTATION_PROJECTION_OWNER]:
        return True
    return is_of_other_management(obj, owner.get(names.ANNOTATION_PROJECTION_MANAGEMENT, ""))


def read_position(obj: Object, annotation: str) -> int:
    """Return the cache position in an annotation of an object; 0 if it is absent or invalid."""
    return parse_revision(obj.metadata.annotations.get(annotation, "")) or 0
