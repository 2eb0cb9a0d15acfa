"""The labels by which people find allocations. They are repaired and never decide anything."""

from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation


def wanted(allocation: IPAllocation) -> dict[str, str]:
    """Return the labels that an allocation should carry, as its spec has it.

    Which cluster, which pool and what for; values over 63 characters end in a hash. The role is
    not among them: it decides over shrink, so that only the tenant's controller writes it.
    """
    spec = allocation.spec
    return {
        names.LABEL_POOL: names.label_value(spec.poolRef.name),
        names.LABEL_TEAM: names.label_value(spec.tenantClusterRef.namespace),
        names.LABEL_TENANT: names.label_value(spec.tenantClusterRef.name),
        names.LABEL_TYPE: spec.type,
    }


def missing(allocation: IPAllocation) -> dict[str, str]:
    """Return what is to be set on the allocation.

    `app.kubernetes.io/managed-by` is given only to one that has none: it is common property, and
    who deploys an allocation with another tool may say so.
    """
    present = allocation.metadata.labels
    repairs = {k: v for k, v in wanted(allocation).items() if present.get(k) != v}
    if names.LABEL_MANAGED_BY not in present:
        repairs[names.LABEL_MANAGED_BY] = names.MANAGED_BY
    return repairs
