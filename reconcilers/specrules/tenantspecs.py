"""What is wrong in the spec of a TenantCluster: a load-balancer pool that is no range."""

from allocator import AddressRange, read_range
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.specrules.verdict import Path, Verdict, invalid

MANUAL_POOL: Path = ("spec", "networking", "loadBalancerPool")


def review_tenant(tenant: TenantCluster) -> Verdict:
    """Validate a spec by itself."""
    pool = parse_manual_pool(tenant)
    return Verdict.from_causes([invalid(MANUAL_POOL, pool)] if isinstance(pool, str) else [])


def parse_manual_pool(tenant: TenantCluster) -> AddressRange | str | None:
    """Return the load-balancer pool that a user gave by hand; a sentence if it is no range.

    None if the spec has no such pool.
    """
    manual = tenant.networking.loadBalancerPool
    return None if manual is None else read_range(manual.start, manual.end)
