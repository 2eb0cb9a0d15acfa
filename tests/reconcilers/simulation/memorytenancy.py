"""The simulation of tenants with the balancer of tests instead of MetalLB, through the port."""

from typing import ClassVar

from typing_extensions import override

from tests.reconcilers.memorybalancer.adapter import MemoryKind, Rules
from tests.reconcilers.memorybalancer.offers import OfferBalancer
from tests.reconcilers.server import Server
from tests.reconcilers.simulation.tenancy import Tenancy
from tests.reconcilers.simulation.tenantscenes import TenantStage


class MemoryTenancy(Tenancy):
    """One seed of the tenants' simulation, played with the balancer of tests."""

    served_kinds: ClassVar[tuple[str, ...]] = ("services", "addressoffers", "namespaces")
    rules: ClassVar[Rules] = Rules()
    """The rules of the port that the adapter keeps."""

    @override
    def _make_balancer(self, tenant: Server) -> OfferBalancer:
        return OfferBalancer(tenant)

    @override
    def _make_kind(self) -> MemoryKind:
        return MemoryKind(self.clock, self.rules, self.faults.settings.tenant.metallb_wait)


class MemoryYard(TenantStage, MemoryTenancy):
    """The two replicas and the tenant of a scene, with the balancer of tests."""
