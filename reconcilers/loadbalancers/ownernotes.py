"""The annotations that say for whom something in a tenant was made, and as of which position."""

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

_NAME = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
_NOTE = re.compile(f"(?P<namespace>{_NAME})/(?P<name>{_NAME})")
"""What is read of a tenant as `namespace/name`: it goes into the path of a request."""


def owner_note(of: TenantCluster | IPAllocation, management: str) -> dict[str, str]:
    """Return the annotations that say that something was made for a cluster, or for its range.

    Args:
        of: the cluster, or who has the range.
        management: the identity of the management cluster; empty if it is not known.
    """
    key, uid = of.metadata.key, of.metadata.uid
    if isinstance(of, IPAllocation):
        key = of.spec.tenantClusterRef.key
        uid = of.metadata.annotations.get(names.ANNOTATION_TENANT_UID, "")
    return {
        names.ANNOTATION_PROJECTION_OWNER: str(key),
        names.ANNOTATION_PROJECTION_OWNER_UID: uid,
        **build_management_annotation(management),
    }


def owner_of(obj: Object) -> Key | None:
    """Return the TenantCluster that something in a tenant was made for; None if it does not say.

    A cluster that was made again under its name goes on with what it had, so the uid does not
    matter here: it is for people.
    """
    noted = obj.metadata.annotations.get(names.ANNOTATION_PROJECTION_OWNER, "")
    match = _NOTE.fullmatch(noted)
    return Key(match["namespace"], match["name"]) if match is not None else None


def names_other_owner(obj: Object, owner: Mapping[str, str]) -> bool:
    """Return whether something in a tenant names another TenantCluster, or management cluster.

    What names none was made by others, or by an earlier release: that is no other owner.

    Args:
        owner: annotations that say for which TenantCluster it should be, of `owner_note`.
    """
    noted = owner_of(obj)
    if noted is not None and str(noted) != owner[names.ANNOTATION_PROJECTION_OWNER]:
        return True
    return is_of_other_management(obj, owner.get(names.ANNOTATION_PROJECTION_MANAGEMENT, ""))


def position_of(obj: Object, annotation: str) -> int:
    """Return the cache position that an annotation of something in a tenant has; 0 if none."""
    return parse_revision(obj.metadata.annotations.get(annotation, "")) or 0
