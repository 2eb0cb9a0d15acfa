"""Growth and shrink carried out on the management cluster, one tenant at a time.

1. which Services wait, and for how long                             demand.py
2. marks of shrink are withdrawn where addresses are needed again
3. growth, as growth.py decides                                      through requester.py
4. disuse is remembered, and marked after a while                    shrink.py gives it back

Everything here is decided from the tenant's Services and the cache of allocations; each write has
its precondition, so a decision on old data ends in a conflict and is taken again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

import structlog

from controller.client import Client
from controller.clock import Clock
from controller.conditions import rfc3339
from controller.meta import Version
from controller.statelog import StateLog
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.providerconfig import ELASTIC, ProviderConfig, ProviderNetwork
from reconcilers.api.resources import IP_ALLOCATION, Service
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.caches import Caches
from reconcilers.conditions import Finding
from reconcilers.releaselog import release_fields
from reconcilers.settings import TenantSettings
from reconcilers.tenantcluster.allocations.membership import members
from reconcilers.tenantcluster.allocations.requester import Requester
from reconcilers.tenantcluster.allocations.requests import load_balancer_count
from reconcilers.tenantcluster.current_cluster import CurrentCluster
from reconcilers.tenantcluster.elastic import blocked_growth, fixedsize, growth, shrink
from reconcilers.tenantcluster.elastic.demand import (
    OTHER_FAMILY,
    Demand,
    Elsewhere,
    WaitingTimes,
    addresses_wanted,
    families,
    read_demand,
)
from reconcilers.tenantcluster.elastic.findings import (
    counted,
    no_growth_due,
    with_unexamined,
)
from reconcilers.tenantcluster.elastic.unserved_growth import UnservedGrowth
from reconcilers.tenantcluster.networkstatus import AddressUsers, RefusedGrowth, ServicesSeen
from reconcilers.tenantcluster.status import demand_met

_log = structlog.get_logger(__name__)

QUOTA_EXCEEDED = "QuotaExceeded"
"""The reason when growth would exceed the quota; the topic of that state in the log, too."""


@dataclass(frozen=True, slots=True)
class Scaled:
    """The result of a pass over a tenant's size.

    Args:
        finding: the condition that says whether its Services have their addresses.
        due_in: seconds until something may be due without anything changing; None for never.
        services: what its Services show.
        size: the condition that says whether a static tenant has the size that it asks for; None
            if it asks for none.
        refused: the growth that is refused; None if none is.
    """

    finding: Finding
    due_in: float | None
    services: ServicesSeen
    size: Finding | None = None
    refused: RefusedGrowth | None = None


@dataclass(frozen=True, slots=True)
class _Observed:
    """What one pass decides from.

    Args:
        current: the cluster as the pass has left it.
        provider: its ProviderConfig.
        demand: what its Services show.
        waited: for how many seconds each waiting Service has waited, by uid.
        in_place: whether MetalLB has had the tenant's first range as long as a Service has to
            wait.
        in_pool: for how many seconds the range of each allocation has stood in the tenant's pool,
            by uid.
        now: the time.
    """

    current: CurrentCluster
    provider: ProviderConfig
    demand: Demand
    waited: dict[str, float]
    in_place: bool
    in_pool: Mapping[str, float]
    now: datetime

    @property
    def tenant(self) -> TenantCluster:
        """The cluster."""
        return self.current.tenant

    @property
    def is_elastic(self) -> bool:
        """Whether the tenant follows its Services, and not a size that is asked for."""
        return _is_elastic(self.provider)

    def waited_at_least(self, seconds: float, services: Sequence[Service]) -> list[Service]:
        """Return those of `services` that have waited so long."""
        return [service for service in services if self.waited[service.metadata.uid] >= seconds]

    def due_in(self, seconds: float, services: Sequence[Service]) -> list[float]:
        """Return the seconds that those of `services` still have to wait that have not so long."""
        waited = (self.waited[service.metadata.uid] for service in services)
        return [seconds - so_far for so_far in waited if so_far < seconds]

    def elsewhere(self, seconds: float) -> tuple[list[Elsewhere], list[float]]:
        """Return what has waited `seconds` for what we lack, and the seconds left for the rest."""
        found = [(one, seconds - self._waited(one)) for one in self.demand.elsewhere]
        due = [one for one, left in found if left <= 0]
        return due, [left for _, left in found if left > 0]

    def _waited(self, one: Elsewhere) -> float:
        return self.waited[one.service.metadata.uid]


class Scaler:
    """Grows and shrinks elastic tenants.

    Args:
        client: the management cluster.
        caches: its objects.
        requester: creates allocations.
        logged: the states of tenants that were logged.
        clock: the time.
        settings: the thresholds.
    """

    def __init__(
        self,
        client: Client,
        caches: Caches,
        requester: Requester,
        *,
        logged: StateLog,
        clock: Clock,
        settings: TenantSettings,
    ) -> None:
        self._client = client
        self._logged = logged
        self._caches = caches
        self._requester = requester
        self._clock = clock
        self._settings = settings

    async def scale(
        self,
        current: CurrentCluster,
        provider: ProviderConfig,
        services: Sequence[Service],
        *,
        waiting: WaitingTimes,
        in_place: bool,
        in_pool: Mapping[str, float],
    ) -> Scaled:
        """Grow and shrink a tenant, as its mode says; return its conditions.

        An elastic tenant follows its Services, a static one the size that its spec asks for.

        Args:
            current: the cluster.
            provider: its ProviderConfig.
            services: all Services of the tenant.
            waiting: since when they wait, as far as this process has seen.
            in_place: whether MetalLB has had the tenant's first range as long as a Service has to
                wait.
            in_pool: for how many seconds the range of each allocation has stood in the tenant's
                pool, by uid.

        Raises:
            Conflict: something changed since it was read; begin again.
            ControllerError: the management cluster did not answer.
        """
        now = self._clock.now()
        demand = await self._demand(current.tenant, provider, services)
        elsewhere = (one.service for one in demand.elsewhere)
        waited = waiting.update([*demand.waiting, *elsewhere], now)
        seen = _Observed(current, provider, demand, waited, in_place, in_pool, now)
        return await (self._follow_services(seen) if seen.is_elastic else self._keep_size(seen))

    async def _follow_services(self, seen: _Observed) -> Scaled:
        """Grow and shrink an elastic tenant; return its condition."""
        tenant, provider = seen.tenant, seen.provider
        unserved = UnservedGrowth.from_tenant(tenant)
        in_use = len(seen.demand.used)
        waiting = [one for one in seen.demand.waiting if not unserved.covers(one, in_use)]
        after = self._threshold(seen)
        due = seen.waited_at_least(after, waiting)
        due_in = seen.due_in(after, waiting)
        finding = await self._grow_if_it_helps(seen, due)
        increment = provider.spec.networking.sizing.growthIncrement
        refused = _refused_growth(provider, finding, increment)
        self._log_quota(tenant, finding)
        elsewhere, later = seen.elsewhere(self._settings.growth_after)
        due_in += later
        # Then status.network counts a Service, also one that growth did not help.
        due_in += seen.due_in(self._settings.growth_after, seen.demand.waiting)
        if finding is None:
            finding = no_growth_due(len(seen.demand.waiting) - len(waiting), elsewhere)
        due_in += await self._shrink(seen)
        return Scaled(
            with_unexamined(finding, seen.demand.unexamined),
            min(due_in, default=None),
            self._services_seen(seen),
            refused=refused,
        )

    async def _keep_size(self, seen: _Observed) -> Scaled:
        """Bring a static tenant to the size that its spec asks for; return its conditions."""
        tenant, provider = seen.tenant, seen.provider
        after = self._settings.growth_after
        due = seen.waited_at_least(after, seen.demand.waiting)
        elsewhere, due_in = seen.elsewhere(after)
        due_in += seen.due_in(after, seen.demand.waiting)
        size = refused = None
        if tenant.networking.lbPoolSize is not None and tenant.is_ready:
            size = await self._follow_size(seen, tenant.networking.lbPoolSize)
            missing = load_balancer_count(tenant, provider.spec.networking) - self._held(tenant)
            refused = _refused_growth(provider, size, max(missing, 0))
        finding = self._static_demand(seen, due) if due else no_growth_due(0, elsewhere)
        return Scaled(
            with_unexamined(finding, seen.demand.unexamined),
            min(due_in, default=None),
            self._services_seen(seen),
            size,
            refused,
        )

    def _services_seen(self, seen: _Observed) -> ServicesSeen:
        """Return what status.network says of the tenant's Services."""
        waiting = seen.waited_at_least(self._settings.growth_after, seen.demand.waiting)
        return ServicesSeen(len(waiting) + seen.demand.unexamined, AddressUsers(seen.demand.users))

    def _static_demand(self, seen: _Observed, due: Sequence[Service]) -> Finding:
        """Return the condition of a static tenant whose Services have waited for long."""
        why = blocked_growth.unconfirmed(seen.tenant)
        if why:
            return blocked_growth.not_projected(len(due), why)
        standing = [one for one in self._members(seen.tenant) if not one.releasing]
        free = seen.demand.unassigned(chain.from_iterable(map(ranges.all_held, standing)))
        if not blocked_growth.not_served_by_free(seen.tenant, due, free):
            return blocked_growth.unused(len(due), sum(free.values()), fresh=False)
        return demand_met(
            False,
            "SizeReached",
            f"{counted(len(due))} without an address, and every address of the tenant is in use;"
            f" the tenant is static: raise {fixedsize.FIELD}, or delete Services",
        )

    async def _follow_size(self, seen: _Observed, asked: int) -> Finding:
        """Add or release ranges of a static tenant; return the condition.

        Args:
            seen: what the pass decides from.
            asked: spec.networking.lbPoolSize.
        """
        tenant = seen.tenant
        size = load_balancer_count(tenant, seen.provider.spec.networking)
        target = fixedsize.TargetSize(size, asked)
        change = fixedsize.decide(size, self._sized(seen))
        if change.add:
            return await self._add_range(seen, target, change)
        for allocation in change.release:
            await self._begin_release(seen, allocation, f"the tenant asks for {size}")
        if change.release or change.surplus:
            return fixedsize.shrinking(target, change)
        held = self._held(tenant)
        if any(map(self._requester.is_stuck, self._grown(tenant))):
            await self._requester.move_growth(seen.current, seen.provider, self._grown(tenant))
            refusal = self._requester.growth_refusal(tenant, seen.provider, size - held)
            return fixedsize.refused(target, held, refusal.text)
        if held < size:
            return fixedsize.growing(target, held)
        return fixedsize.sized(target)

    async def _add_range(
        self, seen: _Observed, target: fixedsize.TargetSize, change: fixedsize.SizeChange
    ) -> Finding:
        """Request one more range for a static tenant, unless one that is leaving can stay."""
        tenant, quota = seen.tenant, seen.provider.spec.networking.quota.maxLoadBalancerIPs
        members = self._members(tenant)
        if any(
            one.releasing and not one.metadata.terminating and ranges.held(one) for one in members
        ):
            await self._withdraw_marks(seen)
            return fixedsize.growing(target, change.held)
        # The first range is requested again, in its whole size, once a deleted one is gone.
        first_stays = any(
            not one.metadata.terminating and not growth.is_growth(one, tenant) for one in members
        )
        # The quota counts what is deleted until the tenant has released it, as in elastic mode.
        total = sum(map(self._size, members)) + change.add
        if not first_stays or (quota is not None and total > quota):
            return fixedsize.waiting_for_release(target, change.held)
        made = await self._requester.grow(tenant, seen.provider, 1, change.add)
        if made:
            return fixedsize.growing(target, change.held)
        refusal = self._requester.growth_refusal(tenant, seen.provider, change.add)
        return fixedsize.refused(target, change.held, refusal.text)

    def _sized(self, seen: _Observed) -> list[fixedsize.SizedAllocation]:
        """Return the load-balancer allocations of a tenant that are not being released."""
        return [
            fixedsize.SizedAllocation(
                allocation,
                self._size(allocation),
                growth.is_growth(allocation, seen.tenant),
                any(map(seen.demand.in_use, ranges.all_held(allocation))),
                ranges.held(allocation) is not None,
            )
            for allocation in self._members(seen.tenant)
            if not allocation.releasing
        ]

    def _held(self, tenant: TenantCluster) -> int:
        """Return how many addresses of each family a tenant holds that are not being released."""
        return sum(
            self._size(allocation)
            for allocation in self._members(tenant)
            if not allocation.releasing and ranges.held(allocation) is not None
        )

    async def _demand(
        self, tenant: TenantCluster, provider: ProviderConfig, services: Sequence[Service]
    ) -> Demand:
        """Return what a tenant's Services need, by the families that the tenant has or can get.

        The families that growth would add are worked out only if a Service needs a family that
        the tenant lacks, because that reads all pools.
        """
        ours, have = self._settings.load_balancer_class, families(self._members(tenant))
        demand = await read_demand(services, ours, have)
        if _is_elastic(provider) and any(
            unmet.reason == OTHER_FAMILY for unmet in demand.elsewhere
        ):
            after_growth = have | self._requester.families_of_growth(tenant, provider)
            # While its family is not known yet, what is missing is room.
            return await read_demand(services, ours, after_growth or ranges.WORDS)
        return demand

    def _members(self, tenant: TenantCluster) -> list[IPAllocation]:
        return [
            one
            for one in members(self._caches.allocations, tenant)
            if one.spec.type == names.TYPE_LOADBALANCER
        ]

    def _grown(self, tenant: TenantCluster) -> list[IPAllocation]:
        return [one for one in self._members(tenant) if growth.is_growth(one, tenant)]

    def _threshold(self, seen: _Observed) -> float:
        """Return for how many seconds a Service waits before it is a reason to grow.

        Less where the Services' statuses show that every address of the pool is in use: then
        waiting longer cannot help.
        """
        after, exhausted = self._settings.growth_after, self._settings.growth_when_exhausted
        if not exhausted or exhausted >= after:
            return after
        pool = [
            held
            for one in self._members(seen.tenant)
            if not one.releasing
            for held in ranges.all_held(one)
        ]
        return exhausted if seen.demand.exhausts(pool) else after

    async def _grow_if_it_helps(self, seen: _Observed, due: Sequence[Service]) -> Finding | None:
        """Grow for Services that more addresses would help; return a condition if any waits."""
        if not due:
            return await self._grow(seen, due)
        why = blocked_growth.unconfirmed(seen.tenant)
        if why:
            await self._withdraw_marks(seen)
            return blocked_growth.not_projected(len(due), why)
        standing = [one for one in self._members(seen.tenant) if not one.releasing]
        held = {one.metadata.uid: ranges.all_held(one) for one in standing}
        free = seen.demand.unassigned(chain.from_iterable(held.values()))
        beyond = blocked_growth.not_served_by_free(seen.tenant, due, free)
        if not beyond:
            settled = self._settings.growth_after
            fresh = any(
                seen.in_pool.get(uid, 0.0) < settled
                and any(seen.demand.unassigned(spans).values())
                for uid, spans in held.items()
            )
            return blocked_growth.unused(len(due), sum(free.values()), fresh)
        return await self._grow(seen, beyond)

    async def _grow(self, seen: _Observed, due: Sequence[Service]) -> Finding | None:
        """Add allocations for Services that have waited; return a condition if any has."""
        wanted = addresses_wanted(due)
        if wanted == 0:
            return None
        await self._withdraw_marks(seen)
        have = growth.supply(
            self._members(seen.tenant),
            seen.tenant,
            seen.demand,
            in_place=seen.in_place,
            size=self._size,
        )
        network = seen.provider.spec.networking
        increment, quota = network.sizing.growthIncrement, network.quota.maxLoadBalancerIPs
        plan = growth.decide(wanted, have, increment, quota, self._settings.growth_in_flight)
        made = await self._requester.grow(seen.tenant, seen.provider, plan.number, increment)
        await self._requester.move_growth(seen.current, seen.provider, self._grown(seen.tenant))
        # A request whose pool cannot serve it needs room, like one that was not created.
        stuck = any(map(self._requester.is_stuck, self._grown(seen.tenant)))
        if made < plan.number or stuck:
            refusal = self._requester.growth_refusal(seen.tenant, seen.provider, increment)
            message = f"{counted(wanted)} without an address; cannot grow: {refusal.text}"
            return demand_met(False, "PoolExhausted", message)
        if plan.over_quota:
            return self._over_quota(wanted, have.held + made * increment, network)
        return demand_met(False, "Growing", f"{counted(wanted)} without an address; growing")

    def _log_quota(self, tenant: TenantCluster, finding: Finding | None) -> None:
        """Log that the quota stops growth, if that is new."""
        key = tenant.metadata.key
        if finding is None or finding.reason != QUOTA_EXCEEDED:
            self._logged.end(key, QUOTA_EXCEEDED)
        elif self._logged.begin(key, QUOTA_EXCEEDED, finding.message):
            _log.info("elastic IPAM growth blocked by quota", tenant=str(key), why=finding.message)

    @staticmethod
    def _over_quota(wanted: int, held: int, network: ProviderNetwork) -> Finding:
        """Return the condition that says that the quota stops growth."""
        quota = network.quota.maxLoadBalancerIPs
        message = (
            f"{counted(wanted)} without an address; growing by {network.sizing.growthIncrement}:"
            f" quota would be exceeded, {held} of {quota} are held"
        )
        return demand_met(False, QUOTA_EXCEEDED, message)

    async def _withdraw_marks(self, seen: _Observed) -> None:
        """Keep marked ranges where addresses are needed; deleted allocations stay deleted."""
        for one in self._members(seen.tenant):
            if not one.metadata.terminating and one.releasing and ranges.held(one) is not None:
                fields = release_fields(one, "Services need addresses")
                _log.info("elastic IPAM: shrink withdrawn", **fields)
                marks = {names.ANNOTATION_RELEASING: None, names.ANNOTATION_IDLE_SINCE: None}
                await self._annotate(one, marks)

    async def _shrink(self, seen: _Observed) -> list[float]:
        """Remember disuse, and mark what is out of use for long enough.

        Returns:
            For each allocation that is out of use, seconds until it may be marked.
        """
        due_in: list[float] = []
        if blocked_growth.unconfirmed(seen.tenant):
            return due_in
        for one in self._members(seen.tenant):
            if one.releasing or not growth.is_growth(one, seen.tenant):
                continue
            settling = min(self._settings.growth_after, self._settings.shrink_after)
            disuse = shrink.disuse(
                one,
                seen.demand,
                seen.now,
                self._settings.shrink_after,
                settling,
                seen.in_pool.get(one.metadata.uid),
            )
            if disuse.over:
                await self._mark(seen, one)
                continue
            if disuse.remember != shrink.remembered(one):
                await self._annotate(one, {names.ANNOTATION_IDLE_SINCE: disuse.remember})
            if disuse.due_in is not None:
                due_in.append(disuse.due_in)
        return due_in

    async def _mark(self, seen: _Observed, allocation: IPAllocation) -> None:
        """Mark an allocation to be given back; first note the Services that it did not help."""
        waiting = seen.waited_at_least(self._settings.growth_after, seen.demand.waiting)
        if waiting and ranges.held(allocation) is not None:
            await self._note_unserved(seen, waiting)
        reason = f"no Service has used it since {shrink.remembered(allocation)}"
        await self._begin_release(seen, allocation, reason)

    async def _begin_release(self, seen: _Observed, allocation: IPAllocation, reason: str) -> None:
        """Mark an allocation whose range is to leave the tenant."""
        fields = release_fields(allocation, reason)
        _log.info("elastic IPAM: shrinking unused allocation", **fields)
        await self._annotate(allocation, {names.ANNOTATION_RELEASING: rfc3339(seen.now)})

    async def _note_unserved(self, seen: _Observed, waiting: Sequence[Service]) -> None:
        """Annotate the TenantCluster with the Services that growth did not help, if it changed."""
        known = UnservedGrowth.from_tenant(seen.tenant)
        updated = known.updated(waiting, len(seen.demand.used))
        if updated != known:
            await seen.current.annotate({names.ANNOTATION_GROWN_IN_VAIN: updated.text})

    @staticmethod
    async def forget_unserved(current: CurrentCluster) -> None:
        """Forget which Services growth did not help.

        Raises:
            Conflict: the cluster changed since it was read.
        """
        if names.ANNOTATION_GROWN_IN_VAIN in current.tenant.metadata.annotations:
            await current.annotate({names.ANNOTATION_GROWN_IN_VAIN: None})

    async def _annotate(
        self, allocation: IPAllocation, annotations: Mapping[str, str | None]
    ) -> None:
        await self._client.patch(
            IP_ALLOCATION,
            Version.from_object(allocation),
            {"metadata": {"annotations": annotations}},
        )

    def _size(self, allocation: IPAllocation) -> int:
        pool = self._caches.pools.get(allocation.pool_key)
        asked = ranges.requested(allocation, pool) if pool is not None else 1
        return growth.size_of(allocation, asked)


def _is_elastic(provider: ProviderConfig) -> bool:
    return provider.spec.networking.sizing.allocationMode == ELASTIC


_REFUSED = {"PoolExhausted", QUOTA_EXCEEDED}


def _refused_growth(
    provider: ProviderConfig, finding: Finding | None, addresses: int
) -> RefusedGrowth | None:
    """Return the growth that a condition says is refused; None if it says that of none.

    Args:
        provider: the ProviderConfig whose pools are asked.
        finding: the condition.
        addresses: how many addresses in a row are needed.
    """
    if finding is None or finding.reason not in _REFUSED or not addresses:
        return None
    no_room = finding.reason == "PoolExhausted"  # more room does not lift a quota
    pools = provider.spec.networking.pools_in_order() if no_room else ()
    return RefusedGrowth(finding, addresses, tuple(pools))
