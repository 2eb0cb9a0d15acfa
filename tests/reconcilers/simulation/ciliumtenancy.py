"""The simulation of tenants with Cilium's adapter, and a stand-in for LB-IPAM in the tenants."""

from typing import ClassVar

from anyio.abc import TaskGroup
from typing_extensions import override

from reconcilers.loadbalancers.cilium.adapter import CiliumKind
from tests.reconcilers.lbipam import POOLS, LbIpam
from tests.reconcilers.server import Json, Server
from tests.reconcilers.simulation.tenancy import TENANTS, WAITING, Tenancy
from tests.reconcilers.simulation.tenantscenes import TenantStage


class CiliumTenancy(Tenancy):
    """One seed of the tenants' simulation, played with Cilium's adapter."""

    served_kinds: ClassVar[tuple[str, ...]] = ("services", POOLS, "namespaces")

    @override
    def _make_balancer(self, tenant: Server) -> LbIpam:
        return LbIpam(tenant)

    @override
    def _make_kind(self) -> CiliumKind:
        return CiliumKind(self.clock, self.faults.settings.tenant.metallb_wait)

    @override
    def _disturb(self) -> None:
        if self.faults.edits and self.random.random() < 0.5:
            self._edit_pool()
        else:
            super()._disturb()

    def _edit_pool(self) -> None:
        """Edit a pool as a person does, but not to other addresses: these would be misplaced."""
        tenant = self.tenants[self.random.choice(TENANTS)]
        pools = tenant.all(POOLS)
        if not pools:
            return
        pool = self.random.choice(pools)
        blocks = pool["spec"].get("blocks") or []
        edits: list[Json] = [
            {"blocks": [*blocks, {"start": "nonsense", "stop": "nonsense"}]},
            {"blocks": []},
            {"disabled": not pool["spec"]["disabled"]},
            {"serviceSelector": {"matchLabels": {"app": "nobody"}}},
        ]
        change = {"spec": self.random.choice(edits)}
        tenant.edit(POOLS, pool["metadata"]["name"], change, namespace="")


class CiliumYard(TenantStage, CiliumTenancy):
    """The two replicas and the tenant of a scene, with Cilium's adapter."""


class WaitingYard(CiliumYard):
    """The same, with the operator's Lease; what cannot be proven is waited for."""

    served_kinds: ClassVar[tuple[str, ...]] = (*CiliumYard.served_kinds, "leases")

    def __init__(self, group: TaskGroup) -> None:
        super().__init__(group, WAITING)
