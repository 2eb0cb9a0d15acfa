"""The labels by which people find allocations, and the one policy for repairing them.

Labels repeat the spec and decide nothing, so wrong ones are overwritten. Two labels are special.
`app.kubernetes.io/managed-by` is set only if it is missing: all tools share it, and a user who
deploys an allocation with another tool may name that tool. The role (initial or growth) decides
whether shrink may release the allocation, so only the reconciler of TenantClusters writes it.
"""

from controller.meta import Key
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation


def build_labels(tenant: Key, pool: str, allocation_type: str) -> dict[str, str]:
    """Return the labels of an allocation with this spec; long values end in a hash.

    Args:
        tenant: the TenantCluster that the allocation serves.
        pool: the name of its NetworkPool.
        allocation_type: its spec.type, nodes or loadbalancer.
    """
    return {
        names.LABEL_POOL: names.make_label_value(pool),
        names.LABEL_TEAM: names.make_label_value(tenant.namespace),
        names.LABEL_TENANT: names.make_label_value(tenant.name),
        names.LABEL_TYPE: allocation_type,
    }


def build_labels_of(allocation: IPAllocation) -> dict[str, str]:
    """Return the labels that follow from an allocation's spec."""
    spec = allocation.spec
    return build_labels(spec.tenantClusterRef.key, spec.poolRef.name, spec.type)


def find_label_repairs(allocation: IPAllocation, role: str = "") -> dict[str, str]:
    """Return the labels to set on an allocation; empty if no label is wrong or missing.

    Args:
        role: initial or growth, if the reconciler of TenantClusters calls. Other callers leave it
            out, and the label of the role stays as it is.
    """
    present = allocation.metadata.labels
    labels = build_labels_of(allocation) | ({names.LABEL_ROLE: role} if role else {})
    wrong = {name: value for name, value in labels.items() if present.get(name) != value}
    if names.LABEL_MANAGED_BY not in present:
        wrong[names.LABEL_MANAGED_BY] = names.MANAGED_BY
    return wrong
