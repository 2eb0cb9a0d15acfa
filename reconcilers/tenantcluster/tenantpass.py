"""What the steps of one pass over a TenantCluster share, and what follows from it.

The *projection* writes the ranges of the tenant's allocations to its load balancer.
"""

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
        record: what this process remembers of the cluster.
        provider: the ProviderConfig that counts for the cluster.
        network_ready: the condition NetworkReady: whether the cluster has the addresses that it
            asks for.
        states: the allocations that the cluster should have, and how far each is served.
        services: all Services of the tenant; None if they were not read.
        unavailable: the failure of the tenant, if another request of this pass would fail as
            well; else None.
        size_facts: what the size was decided from; None if no size was decided.
        size_report: what is reported of the size; None if no size was decided.
        offered_uids: uids of the allocations whose ranges are projected. It is empty if the
            Services could not be read, so that the time without use starts again.
        balancer_finding: the condition LoadBalancerReady; None before the projection.
        installation_finding: the condition of the installation; None to keep the one in the
            status.
        marked_number: how many allocations that shrink has marked are not released yet.
        is_changing: whether ranges are still in another load balancer than the spec names.
    """

    current: CurrentCluster
    record: TenantRecord
    provider: ProviderConfig
    network_ready: ConditionFinding
    states: Sequence[AllocationState] = ()
    services: Sequence[Service] | None = None
    unavailable: TenantUnavailable | None = None
    size_facts: SizeFacts | None = None
    size_report: SizeReport | None = None
    offered_uids: frozenset[str] = frozenset()
    balancer_finding: ConditionFinding | None = None
    installation_finding: ConditionFinding | None = None
    marked_number: int = 0
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
        assert self.balancer_finding is not None, "the projection comes first"
        return self.balancer_finding

    @property
    def services_seen(self) -> ServicesSeen | None:
        """What status.network says of the tenant's Services; None if they were not read."""
        if self.size_facts is None:
            return None
        # Only Services without an address are left unexamined, so they count as waiting.
        waiting = len(self.size_facts.waiting_long) + self.size_facts.demand.unexamined
        return ServicesSeen(waiting, AddressUsers(self.size_facts.demand.users))


def find_projected_uids(members: Sequence[IPAllocation]) -> frozenset[str]:
    """Return the uids of the allocations whose ranges a projection writes now.

    A range that is being released, or that moves to another load balancer, is not written.
    """
    return frozenset(
        allocation.metadata.uid
        for allocation in members
        if allocation.status.phase == ALLOCATED and not allocation.is_withdrawn
    )
