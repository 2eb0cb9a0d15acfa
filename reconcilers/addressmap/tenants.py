"""What each tenant holds."""

from dataclasses import dataclass

from allocator import AddressRange
from controller.conditions import find
from reconcilers import ranges
from reconcilers.addressmap.objects import Objects
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.tenantcluster.membership import is_foreign, role
from reconcilers.tenantcluster.status import NETWORK_READY


@dataclass(frozen=True, slots=True)
class Holding:
    """The allocations of one tenant, oldest first."""

    tenant: TenantCluster
    allocations: tuple[IPAllocation, ...]

    def ranges(self, kind: str) -> list[AddressRange]:
        """Return the ranges of a type that it holds."""
        held = (ranges.held(one) for one in self.allocations if one.spec.type == kind)
        return [one for one in held if one is not None]

    @property
    def network(self) -> tuple[str, str]:
        """Whether its network is ready, and why."""
        condition = find(self.tenant.status.conditions, NETWORK_READY)
        return (condition.status, condition.message) if condition else ("Unknown", "-")

    @property
    def waiting(self) -> int:
        """How many of its requests hold nothing yet."""
        return sum(
            ranges.held(one) is None and not one.metadata.terminating for one in self.allocations
        )

    @property
    def grown(self) -> int:
        """How many of its ranges came by growth."""
        return sum(role(one, self.tenant) == names.ROLE_GROWTH for one in self.allocations)


def holdings(objects: Objects) -> list[Holding]:
    """Return what every tenant holds, by namespace and name."""
    return [
        Holding(tenant, tuple(one for one in allocations if not is_foreign(one, tenant)))
        for tenant, allocations in objects.by_tenant()
    ]
