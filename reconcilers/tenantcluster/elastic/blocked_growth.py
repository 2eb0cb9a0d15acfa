"""When a tenant does not grow though Services wait: more addresses would not be handed out either.

- The tenant does not have what it should: its pool was refused, or MetalLB has not read it.
- Addresses lie there that MetalLB could hand out, and it does not.

Where MetalLB is missing altogether, or is being installed, neither is asked: what is held and what
is waited for is known, and the ranges are there when MetalLB comes.
"""

from collections.abc import Mapping, Sequence

from controller.conditions import find
from reconcilers.api.resources import Service
from reconcilers.api.tenantcluster import LOAD_BALANCER_READY, TenantCluster
from reconcilers.conditions import Finding
from reconcilers.loadbalancers.metallb.installation.installer import BEING_INSTALLED
from reconcilers.loadbalancers.metallb.projection import NOT_INSTALLED
from reconcilers.tenantcluster.elastic.demand import could_be_served
from reconcilers.tenantcluster.elastic.findings import counted
from reconcilers.tenantcluster.status import demand_met


def is_missing(tenant: TenantCluster) -> bool:
    """Return whether MetalLB was not there when the tenant was last looked at."""
    found = find(tenant.status.conditions, LOAD_BALANCER_READY)
    return found is not None and found.reason in {NOT_INSTALLED, BEING_INSTALLED}


def unconfirmed(tenant: TenantCluster) -> str:
    """Return why the tenant is not known to have what it should; empty if it is."""
    found = find(tenant.status.conditions, LOAD_BALANCER_READY)
    if found is None:
        return "nothing was written there yet"
    return "" if found.status == "True" or is_missing(tenant) else found.reason


def not_projected(services: int, why: str) -> Finding:
    """Return the condition of a tenant that does not have what it should."""
    return demand_met(
        False,
        "NotProjected",
        f"{counted(services)} without an address; no growth while MetalLB in the tenant does not"
        f" have what it should: {why}",
    )


def not_served_by_free(
    tenant: TenantCluster, due: Sequence[Service], free: Mapping[int, int]
) -> list[Service]:
    """Return those of the waiting Services that the free addresses could not serve."""
    if is_missing(tenant):
        return list(due)
    return [one for one in due if not could_be_served(one, free)]


def unused(services: int, free: int, fresh: bool) -> Finding:
    """Return the condition of a tenant in which free addresses could serve who waits.

    Args:
        services: how many wait.
        free: how many addresses are free.
        fresh: whether MetalLB was given some of them a moment ago.
    """
    if fresh:
        return demand_met(False, "Growing", f"{counted(services)} without an address; growing")
    return demand_met(
        False,
        "AddressesUnused",
        f"{counted(services)} without an address, and {free} of the tenant's are free; MetalLB"
        " does not assign them, see the events of the Service in the tenant",
    )
