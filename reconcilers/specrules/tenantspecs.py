"""What is wrong in the spec of a TenantCluster: a pool that is no range, families that contradict.

The CRD refuses the same.
"""

from collections.abc import Iterator

from allocator import AddressRange, read_range
from controller.errors import Cause
from reconcilers.api.ipallocation import (
    DISTINCT_FAMILIES,
    POLICY_OF_TWO_FAMILIES,
    PREFER_DUAL_STACK,
    REQUIRE_DUAL_STACK,
)
from reconcilers.api.tenantcluster import Networking, TenantCluster
from reconcilers.specrules.verdict import Path, Verdict, invalid

NETWORKING: Path = ("spec", "networking")
MANUAL_POOL: Path = (*NETWORKING, "loadBalancerPool")


def review_tenant(tenant: TenantCluster) -> Verdict:
    """Validate a spec by itself."""
    pool = parse_manual_pool(tenant)
    causes = [invalid(MANUAL_POOL, pool)] if isinstance(pool, str) else []
    return Verdict.from_causes([*causes, *_find_family_faults(tenant.networking)])


def _find_family_faults(networking: Networking) -> Iterator[Cause]:
    dual = networking.ipFamilyPolicy in {PREFER_DUAL_STACK, REQUIRE_DUAL_STACK}
    families = networking.ipFamilies
    if len(set(families)) < len(families):
        yield invalid((*NETWORKING, "ipFamilies"), DISTINCT_FAMILIES.message)
    elif len(families) > 1 and not dual:
        yield invalid((*NETWORKING, "ipFamilyPolicy"), POLICY_OF_TWO_FAMILIES.message)


def parse_manual_pool(tenant: TenantCluster) -> AddressRange | str | None:
    """Return the load-balancer pool that a user gave by hand; a sentence if it is no range.

    None if the spec has no such pool.
    """
    manual = tenant.networking.loadBalancerPool
    return None if manual is None else read_range(manual.start, manual.end)
