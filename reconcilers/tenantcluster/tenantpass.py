"""What the steps of one pass over a TenantCluster share, and what follows from it."""

from collections.abc import Sequence
from dataclasses import dataclass

from controller.meta import Key
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.api.providerconfig import IPAM, ProviderConfig
from reconcilers.api.services import Service
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.clusteraccess.tenantfailures import TenantUnavailable
from reconcilers.reporting.conditions import ConditionFinding
from reconcilers.tenantcluster.allocations.requests import AllocationState
from reconcilers.tenantcluster.current_cluster import CurrentCluster
from reconcilers.tenantcluster.elastic.decisions import SizeFacts, SizeReport
from reconcilers.tenantcluster.networkstatus import AddressUsers, ServicesSeen
from reconcilers.tenantcluster.record.records import TenantRecord


@dataclass(slots=True)
class TenantPass:
    """One pass over a TenantCluster that is not being deleted.

    Args:
        current: the cluster; each write replaces it.
        record: what is remembered of it.
        network_ready: whether it has the addresses that it asks for.
        states: the allocations that it should have.
        services: all Services of the tenant; None if they were not read.
        unavailable: why there is no way into the tenant, where a second try in this pass is no
            use; None if there is one, or if it was not tried.
        seen: what the size was decided from; None if that was not decided.
        size: what is reported of the size; None if that was not decided.
        offered: uids of the allocations whose ranges are projected; empty if the Services could
            not be read, so that the time without use starts again.
        projected: the condition LoadBalancerReady.
        installed: the condition of the installation; None to keep it.
        marked: how many allocations that shrink has marked are not released yet.
        is_changing: whether ranges are still in another load balancer than the spec names.
    """

    current: CurrentCluster
    record: TenantRecord
    provider: ProviderConfig
    network_ready: ConditionFinding
    states: Sequence[AllocationState] = ()
    services: Sequence[Service] | None = None
    unavailable: TenantUnavailable | None = None
    seen: SizeFacts | None = None
    size: SizeReport | None = None
    offered: frozenset[str] = frozenset()
    projected: ConditionFinding | None = None
    installed: ConditionFinding | None = None
    marked: int = 0
    is_changing: bool = False

    @property
    def tenant(self) -> TenantCluster:
        """The cluster as the pass has left it."""
        return self.current.tenant

    @property
    def key(self) -> Key:
        """Namespace and name of the cluster."""
        return self.record.key

    @property
    def is_ipam(self) -> bool:
        """Whether the cluster requests addresses; else it is in cloud mode."""
        return self.provider.spec.networking.mode == IPAM

    @property
    def load_balancer_ready(self) -> ConditionFinding:
        """The condition LoadBalancerReady of this pass."""
        assert self.projected is not None, "the projection comes first"
        return self.projected

    @property
    def services_seen(self) -> ServicesSeen | None:
        """What status.network says of the tenant's Services; None if they were not read."""
        if self.seen is None:
            return None
        waiting = len(self.seen.waiting_long) + self.seen.demand.unexamined
        return ServicesSeen(waiting, AddressUsers(self.seen.demand.users))


def ranges_to_project(members: Sequence[IPAllocation]) -> frozenset[str]:
    """Return the uids of the allocations whose ranges a projection writes now."""
    return frozenset(
        allocation.metadata.uid
        for allocation in members
        if allocation.status.phase == ALLOCATED and not allocation.is_withdrawn
    )
