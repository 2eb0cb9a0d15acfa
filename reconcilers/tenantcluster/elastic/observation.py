"""Reads the facts from which a tenant's size is decided: from caches and the tenant's Services."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from controller.clock import Clock
from controller.conditions import find_condition
from reconcilers.addressing import familychoice, requestedranges
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.providerconfig import ELASTIC, ProviderConfig
from reconcilers.api.services import Service
from reconcilers.api.tenantcluster import LOAD_BALANCER_READY, TenantCluster
from reconcilers.clusteraccess.managementcaches import Caches
from reconcilers.clusteraccess.tenantfailures import UNAUTHORIZED, UNREACHABLE
from reconcilers.configuration.settings import TenantSettings
from reconcilers.loadbalancers.choice import LoadBalancerKinds
from reconcilers.reporting.conditions import ConditionFinding
from reconcilers.tenantcluster.allocations.membership import list_balancer_members
from reconcilers.tenantcluster.allocations.requester import Requester
from reconcilers.tenantcluster.allocations.requests import compute_load_balancer_count
from reconcilers.tenantcluster.elastic.decisions import (
    RangeFacts,
    SizeFacts,
    TargetSize,
    UnservedGrowth,
    is_growth,
    measure_size,
)
from reconcilers.tenantcluster.elastic.demand import (
    OTHER_FAMILY,
    Demand,
    WaitingTimes,
    find_families,
    read_demand,
)
from reconcilers.tenantcluster.projector import is_behind

_UNANSWERED = {UNREACHABLE, UNAUTHORIZED}
"""Reasons that say nothing about whether the tenant takes ranges."""


@dataclass(slots=True)
class ElasticMemory:
    """What is remembered of the size of one tenant. Times are monotonic seconds.

    Args:
        in_place_since: since when the load balancer has all ranges that it should have, as far as
            this process knows; None while it does not have them.
        in_pool_since: since when the range of each allocation has been in the tenant's pool, by
            the allocation's uid.
        is_refused: whether the tenant refused a projection, and the pass has not yet acted on its
            end.
        waiting: since when Services wait for an address.
    """

    in_place_since: float | None = None
    in_pool_since: dict[str, float] = field(default_factory=dict)
    is_refused: bool = False
    waiting: WaitingTimes = field(default_factory=WaitingTimes)


def note_projected(
    memory: ElasticMemory,
    balancer_finding: ConditionFinding,
    offered_uids: Collection[str],
    *,
    is_unread: bool,
    now: float,
) -> bool:
    """Remember whether the load balancer in the tenant has the ranges that it should have.

    Args:
        memory: what is remembered of the tenant's size.
        balancer_finding: the condition LoadBalancerReady after the projection.
        offered_uids: uids of the allocations whose ranges were to be projected.
        is_unread: whether the load balancer has not read its offers.
        now: monotonic seconds.

    Returns:
        Whether the tenant takes ranges again that it refused before. Then growth that did not help
        meanwhile may help now. The caller clears `is_refused` after it has acted on that; if its
        write fails, the next pass returns True again.
    """
    if not balancer_finding.status:
        memory.in_place_since = None
        if is_unread:
            # No range counts as in the pool until the balancer has read its offers.
            memory.in_pool_since = {}
        # A write of another replica, or a tenant that does not answer, is no refusal: the tenant
        # may have its ranges all the time. If it counted as one, the tenant would grow in vain
        # after each silence.
        if not is_behind(balancer_finding) and balancer_finding.reason not in _UNANSWERED:
            memory.is_refused = True
        return False
    if memory.in_place_since is None:
        memory.in_place_since = now
    since_before = memory.in_pool_since
    memory.in_pool_since = {uid: since_before.get(uid, now) for uid in offered_uids}
    return memory.is_refused


class SizeObserver:
    """Reads the facts from which a tenant's size is decided.

    Args:
        caches: the objects of the management cluster.
        kinds: the load balancers that tenants may have.
        requester: knows which requests are stuck, and which families growth would add.
        clock: the time.
        settings: the thresholds.
    """

    def __init__(
        self,
        caches: Caches,
        kinds: LoadBalancerKinds,
        requester: Requester,
        clock: Clock,
        settings: TenantSettings,
    ) -> None:
        self._caches = caches
        self._kinds = kinds
        self._requester = requester
        self._clock = clock
        self._settings = settings

    async def observe(
        self,
        tenant: TenantCluster,
        provider: ProviderConfig,
        services: Sequence[Service],
        memory: ElasticMemory,
    ) -> SizeFacts:
        """Return the facts for a decision on a tenant's size; note since when Services wait.

        Args:
            services: all Services of the tenant.
            memory: what is remembered of the tenant's size; the times of Services are updated.
        """
        kind = self._kinds.find_chosen(tenant)
        now, network = self._clock.now(), provider.spec.networking
        demand = await self._read_demand(tenant, provider, services)
        unservable_services = (unmet.service for unmet in demand.unservable)
        seconds_waited = memory.waiting.update([*demand.waiting, *unservable_services], now)
        asked_size = tenant.networking.lbPoolSize
        target = None
        # Until the tenant is Ready, its first range is requested in the asked size anyway.
        if not _is_elastic(provider) and asked_size is not None and tenant.is_ready:
            target = TargetSize(compute_load_balancer_count(tenant, network), asked_size)
        # The condition says whether the load balancer has confirmed the ranges. The memory of this
        # process may lack that: another replica may have written the ranges.
        condition = find_condition(tenant.status.conditions, LOAD_BALANCER_READY)
        is_absent = condition is not None and condition.reason in kind.absent_reasons
        if condition is None:
            why_unconfirmed = "no range was written into the tenant yet"
        elif condition.status == "True" or is_absent:
            why_unconfirmed = ""
        else:
            why_unconfirmed = condition.reason
        return SizeFacts(
            ranges=tuple(
                self._make_range_facts(tenant, allocation, memory)
                for allocation in list_balancer_members(self._caches.allocations, tenant)
            ),
            demand=demand,
            waited=seconds_waited,
            now=now,
            settings=self._settings,
            balancer=kind.title,
            is_elastic=_is_elastic(provider),
            increment=network.sizing.growthIncrement,
            quota=network.quota.maxLoadBalancerIPs,
            target=target,
            pools=tuple(network.list_pools_in_order()),
            unserved=UnservedGrowth.from_tenant(tenant),
            settling=self._compute_settling(memory),
            unconfirmed=why_unconfirmed,
            is_balancer_absent=is_absent,
        )

    def _make_range_facts(
        self, tenant: TenantCluster, allocation: IPAllocation, memory: ElasticMemory
    ) -> RangeFacts:
        """Return the facts about one load-balancer allocation of a tenant."""
        pool = self._caches.pools.get(allocation.pool_key)
        # Without a pool its default size is unknown; a request has at least one address.
        asked = requestedranges.count_requested(allocation, pool) if pool is not None else 1
        since = memory.in_pool_since.get(allocation.metadata.uid)
        return RangeFacts(
            allocation,
            measure_size(allocation, asked),
            is_growth=is_growth(allocation, tenant),
            is_stuck=self._requester.is_stuck(allocation),
            in_pool=self._clock.monotonic() - since if since is not None else None,
        )

    def _compute_settling(self, memory: ElasticMemory) -> float:
        """Return for how many seconds unused addresses may still help waiting Services.

        The load balancer needs some time to assign addresses that it was just given. It gets
        `growth_after` seconds, counted from when it had all ranges that it should have. A Service
        has to wait equally long before it is a reason to grow. 0 or less once the time has passed.
        """
        growth_after = self._settings.growth_after
        if memory.in_place_since is None:
            return growth_after  # it lacks some of its ranges, so the time has not begun
        return growth_after - (self._clock.monotonic() - memory.in_place_since)

    async def _read_demand(
        self, tenant: TenantCluster, provider: ProviderConfig, services: Sequence[Service]
    ) -> Demand:
        """Return the demand of a tenant's Services, by the families that it has or can get."""
        view_service = self._kinds.find_chosen(tenant).make_service_viewer(tenant)
        present_families = find_families(list_balancer_members(self._caches.allocations, tenant))
        demand = await read_demand(services, view_service, present_families)
        if not _is_elastic(provider):
            return demand  # a static tenant gets no further family
        if not any(unmet.reason == OTHER_FAMILY for unmet in demand.unservable):
            # The families that growth would add do not matter, and finding them reads all pools.
            return demand
        growth_families = self._requester.find_growth_families(tenant, provider)
        # If no family is known, no pool has room yet. Then Services of both families wait for
        # room, and none counts as unservable.
        families = present_families | growth_families or familychoice.FAMILY_NAMES
        return await read_demand(services, view_service, families)


def _is_elastic(provider: ProviderConfig) -> bool:
    """Return whether tenants of a provider grow and shrink with their Services."""
    return provider.spec.networking.sizing.allocationMode == ELASTIC
