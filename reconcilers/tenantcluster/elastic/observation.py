"""What the size of a tenant is decided from, read from the caches and the tenant's Services."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from controller.clock import Clock
from controller.conditions import find
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
from reconcilers.tenantcluster.allocations.membership import balancer_members
from reconcilers.tenantcluster.allocations.requester import Requester
from reconcilers.tenantcluster.allocations.requests import load_balancer_count
from reconcilers.tenantcluster.elastic.decisions import (
    RangeFacts,
    SizeFacts,
    TargetSize,
    UnservedGrowth,
    is_growth,
    size_of,
)
from reconcilers.tenantcluster.elastic.demand import (
    OTHER_FAMILY,
    Demand,
    WaitingTimes,
    families,
    read_demand,
)
from reconcilers.tenantcluster.projector import is_behind

_UNANSWERED = {UNREACHABLE, UNAUTHORIZED}
"""Reasons that say nothing about whether the tenant takes ranges."""


@dataclass(slots=True)
class ElasticMemory:
    """What is remembered of the size of one tenant. Times are monotonic seconds.

    Args:
        in_place_since: since when the load balancer has what it should have, as far as this
            process knows; None while it does not.
        in_pool_since: since when the range of each allocation has stood in the tenant's pool, by
            the allocation's uid.
        is_refused: whether the tenant refused the last projection.
        waiting: since when Services wait for an address.
    """

    in_place_since: float | None = None
    in_pool_since: dict[str, float] = field(default_factory=dict)
    is_refused: bool = False
    waiting: WaitingTimes = field(default_factory=WaitingTimes)


def note_projected(
    memory: ElasticMemory,
    projected: ConditionFinding,
    offered: Collection[str],
    *,
    is_unread: bool,
    now: float,
) -> bool:
    """Remember whether the load balancer in the tenant has what it should have.

    A tenant that did not answer for a moment may have had its ranges all the time: each such
    moment would make it grow without effect once more. So that is no refusal.

    Args:
        memory: what is remembered of the tenant's size.
        projected: the condition LoadBalancerReady after the projection.
        offered: uids of the allocations whose ranges were to be projected.
        is_unread: whether the load balancer has not read its offers.
        now: monotonic seconds.

    Returns:
        Whether the tenant takes ranges again that it refused before. What did not help meanwhile
        may help now. The caller clears `is_refused` once it has acted on that: if its write fails,
        the next pass returns the same.
    """
    if not projected.status:
        memory.in_place_since = None
        if is_unread:
            memory.in_pool_since = {}
        if not is_behind(projected) and projected.reason not in _UNANSWERED:
            memory.is_refused = True
        return False
    if memory.in_place_since is None:
        memory.in_place_since = now
    before = memory.in_pool_since
    memory.in_pool_since = {uid: before.get(uid, now) for uid in offered}
    return memory.is_refused


class SizeObserver:
    """Reads what the size of a tenant is decided from.

    Args:
        caches: the objects of the management cluster.
        kinds: the load balancers that tenants may have.
        requester: knows which requests are stuck, and what growth would bring.
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
            memory: what is remembered of its size.
        """
        kind = self._kinds.of(tenant)
        now, network = self._clock.now(), provider.spec.networking
        demand = await self._read_demand(tenant, provider, services)
        others = (unmet.service for unmet in demand.unservable)
        waited = memory.waiting.update([*demand.waiting, *others], now)
        asked, target = tenant.networking.lbPoolSize, None
        if not _is_elastic(provider) and asked is not None and tenant.is_ready:
            target = TargetSize(load_balancer_count(tenant, network), asked)
        condition = find(tenant.status.conditions, LOAD_BALANCER_READY)
        is_absent = condition is not None and condition.reason in kind.absent_reasons
        if condition is None:
            unconfirmed = "nothing was written there yet"
        else:
            unconfirmed = "" if condition.status == "True" or is_absent else condition.reason
        return SizeFacts(
            ranges=tuple(
                self._range_facts(tenant, allocation, memory)
                for allocation in balancer_members(self._caches.allocations, tenant)
            ),
            demand=demand,
            waited=waited,
            now=now,
            settings=self._settings,
            balancer=kind.title,
            is_elastic=_is_elastic(provider),
            increment=network.sizing.growthIncrement,
            quota=network.quota.maxLoadBalancerIPs,
            target=target,
            pools=tuple(network.pools_in_order()),
            unserved=UnservedGrowth.from_tenant(tenant),
            settling=self._settling(memory),
            unconfirmed=unconfirmed,
            is_balancer_absent=is_absent,
        )

    def _range_facts(
        self, tenant: TenantCluster, allocation: IPAllocation, memory: ElasticMemory
    ) -> RangeFacts:
        pool = self._caches.pools.get(allocation.pool_key)
        asked = requestedranges.count_requested(allocation, pool) if pool is not None else 1
        since = memory.in_pool_since.get(allocation.metadata.uid)
        return RangeFacts(
            allocation,
            size_of(allocation, asked),
            is_growth=is_growth(allocation, tenant),
            is_stuck=self._requester.is_stuck(allocation),
            in_pool=self._clock.monotonic() - since if since is not None else None,
        )

    def _settling(self, memory: ElasticMemory) -> float:
        """Return for how many seconds unused addresses may still help waiting Services.

        They may until the load balancer has had them as long as a Service has to wait.
        """
        after, since = self._settings.growth_after, memory.in_place_since
        return after if since is None else after - (self._clock.monotonic() - since)

    async def _read_demand(
        self, tenant: TenantCluster, provider: ProviderConfig, services: Sequence[Service]
    ) -> Demand:
        """Return the demand of a tenant's Services, by the families that it has or can get.

        The families that growth would add are worked out only if a Service needs a family that
        the tenant lacks, because that reads all pools.
        """
        serves = self._kinds.of(tenant).serves_in(tenant)
        have = families(balancer_members(self._caches.allocations, tenant))
        demand = await read_demand(services, serves, have)
        if _is_elastic(provider) and any(
            unmet.reason == OTHER_FAMILY for unmet in demand.unservable
        ):
            after_growth = have | self._requester.families_of_growth(tenant, provider)
            # While its family is not known yet, what is missing is room.
            return await read_demand(services, serves, after_growth or familychoice.FAMILY_NAMES)
        return demand


def _is_elastic(provider: ProviderConfig) -> bool:
    return provider.spec.networking.sizing.allocationMode == ELASTIC
