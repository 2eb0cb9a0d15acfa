"""One look at an elastic tenant: what a pass has before it, and what it came to."""

from dataclasses import dataclass
from datetime import datetime

from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.conditions import Finding
from reconcilers.tenantcluster.elastic.inventory import Inventory


@dataclass(frozen=True, slots=True)
class Care:
    """What a look at an elastic tenant came to.

    Args:
        finding: the condition that says whether its Services have their addresses.
        due_in: seconds until something may be due without anything changing; None for never.
    """

    finding: Finding
    due_in: float | None


@dataclass(frozen=True, slots=True)
class Look:
    """What one pass has before it.

    Args:
        tenant: the cluster.
        provider: its ProviderConfig.
        found: what its Services show.
        waited: for how many seconds each Service that waits has, by uid.
        in_place: whether MetalLB has had the tenant's first range for as long as a Service waits.
        now: the time.
    """

    tenant: TenantCluster
    provider: ProviderConfig
    found: Inventory
    waited: dict[str, float]
    in_place: bool
    now: datetime
