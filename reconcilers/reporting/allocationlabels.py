"""The labels by which people find allocations, and the one policy for repairing them.

Labels say what the spec says; they never decide anything, so wrong ones are put right. Two are
special. `app.kubernetes.io/managed-by` is set only where it is missing: it is common property, and
a user who deploys an allocation with another tool may say so. The role (initial or growth) decides
over shrink, so only the reconciler of TenantClusters writes it.
"""

from controller.meta import Key
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation


def build_labels(tenant: Key, pool: str, kind: str) -> dict[str, str]:
    """Return the labels that follow from a request's spec; long values end in a hash.

    Args:
        tenant: the TenantCluster that it serves.
        pool: the name of its NetworkPool.
        kind: nodes or loadbalancer.
    """
    return {
        names.LABEL_POOL: names.label_value(pool),
        names.LABEL_TEAM: names.label_value(tenant.namespace),
        names.LABEL_TENANT: names.label_value(tenant.name),
        names.LABEL_TYPE: kind,
    }


def build_labels_of(allocation: IPAllocation) -> dict[str, str]:
    """Return the labels that follow from an allocation's spec."""
    spec = allocation.spec
    return build_labels(spec.tenantClusterRef.key, spec.poolRef.name, spec.type)


def find_label_repairs(allocation: IPAllocation, role: str = "") -> dict[str, str]:
    """Return the labels to set on an allocation; empty if all are as they should be.

    Args:
        allocation: as it is.
        role: initial or growth, from the reconciler of TenantClusters; the others leave it out.
    """
    present = allocation.metadata.labels
    labels = build_labels_of(allocation) | ({names.LABEL_ROLE: role} if role else {})
    wrong = {name: value for name, value in labels.items() if present.get(name) != value}
    if names.LABEL_MANAGED_BY not in present:
        wrong[names.LABEL_MANAGED_BY] = names.MANAGED_BY
    return wrong
