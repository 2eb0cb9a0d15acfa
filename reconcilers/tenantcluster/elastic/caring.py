"""Growth and shrink carried out on the management cluster, one tenant at a time.

1. who waits, and for how long                  patience.py
2. marks of shrink are withdrawn where addresses are wanted again
3. growth, as growth.py decides                 through asking.py
4. disuse is remembered, and over: marked       returning.py gives it back

Everything here is decided from the tenant's Services and the cache of allocations; each write has
its precondition, so a look that is out of date ends in a conflict and is taken again.
"""

from collections.abc import Mapping, Sequence

import structlog

from controller.client import Client
from controller.clock import Clock
from controller.conditions import rfc3339
from controller.meta import Key, Version
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import IP_ALLOCATION, TENANT_CLUSTER, Service
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.conditions import Finding
from reconcilers.settings import TenantSettings
from reconcilers.tenantcluster.asking import Asking
from reconcilers.tenantcluster.elastic import growth, inventory, shrink
from reconcilers.tenantcluster.elastic.look import Care, Look
from reconcilers.tenantcluster.elastic.patience import Patience
from reconcilers.tenantcluster.elastic.vain import Vain
from reconcilers.tenantcluster.membership import members
from reconcilers.tenantcluster.status import demand
from reconcilers.tenantcluster.world import World

_log = structlog.get_logger(__name__)


class Elastic:
    """Looks after the size of tenants.

    Args:
        client: the management cluster.
        world: its objects.
        asking: creates allocations.
        clock: the time.
        settings: the thresholds.
    """

    def __init__(
        self,
        client: Client,
        world: World,
        asking: Asking,
        clock: Clock,
        settings: TenantSettings,
    ) -> None:
        self._client = client
        self._world = world
        self._asking = asking
        self._clock = clock
        self._settings = settings
        self._patience: dict[Key, tuple[str, Patience]] = {}

    def forget(self, key: Key) -> None:
        """Forget a tenant that is gone."""
        self._patience.pop(key, None)

    async def care(
        self,
        tenant: TenantCluster,
        provider: ProviderConfig,
        services: Sequence[Service],
        *,
        in_place: bool,
    ) -> Care:
        """Grow and shrink; return how the tenant stands.

        Args:
            tenant: the cluster.
            provider: its ProviderConfig, in elastic mode.
            services: all Services of the tenant.
            in_place: whether MetalLB has had the tenant's first range for as long as a Service
                waits.

        Raises:
            Conflict: something changed since it was read; begin again.
            ControllerError: the management cluster did not answer.
        """
        look = self._look(tenant, provider, services, in_place)
        vain = Vain.of(tenant)
        in_use = len(look.found.used)
        waiting = [one for one in look.found.waiting if not vain.holds(one, in_use)]
        after = self._threshold(look)
        due = [one for one in waiting if look.waited[one.metadata.uid] >= after]
        soon = [after - look.waited[one.metadata.uid] for one in waiting if one not in due]
        finding = await self._grow(look, due)
        if finding is None:
            finding = _told(len(look.found.waiting) - len(waiting))
        soon += await self._shrink(look)
        return Care(finding, min(soon, default=None))

    def _look(
        self,
        tenant: TenantCluster,
        provider: ProviderConfig,
        services: Sequence[Service],
        in_place: bool,
    ) -> Look:
        key, now = tenant.metadata.key, self._clock.now()
        uid, patience = self._patience.get(key, ("", Patience()))
        if uid != tenant.metadata.uid:
            patience = Patience()
        self._patience[key] = (tenant.metadata.uid, patience)
        held = [ranges.held(a) for a in self._members(tenant)]
        families = {4} | {one.family for one in held if one is not None}
        found = inventory.take(services, self._settings.load_balancer_class, families)
        return Look(tenant, provider, found, patience.look(found.waiting, now), in_place, now)

    def _current(self, tenant: TenantCluster) -> TenantCluster:
        """Return the cluster as this pass has left it."""
        return self._world.clusters.get(tenant.metadata.key) or tenant

    def _members(self, tenant: TenantCluster) -> list[IPAllocation]:
        return [
            one
            for one in members(self._world.allocations, tenant)
            if one.spec.type == names.TYPE_LOADBALANCER
        ]

    def _grown(self, tenant: TenantCluster) -> list[IPAllocation]:
        return [one for one in self._members(tenant) if growth.is_growth(one, tenant)]

    def _threshold(self, look: Look) -> float:
        """Return for how many seconds a Service waits before it is a reason to grow.

        Where its own and the others' statuses show that no address of the pool is left, waiting
        longer tells nothing more.
        """
        after, exhausted = self._settings.growth_after, self._settings.growth_when_exhausted
        if not exhausted or exhausted >= after:
            return after
        pool = [
            held
            for one in self._members(look.tenant)
            if not one.releasing and (held := ranges.held(one)) is not None
        ]
        return exhausted if look.found.exhausts(pool) else after

    async def _grow(self, look: Look, due: Sequence[Service]) -> Finding | None:
        """Add allocations for Services that have waited; return what to say if not all is well."""
        wanted = inventory.addresses_wanted(due)
        if wanted == 0:
            return None
        await self._withdraw_marks(look)
        have = growth.supply(
            self._members(look.tenant),
            look.tenant,
            look.found,
            in_place=look.in_place,
            size=self._size,
        )
        network = look.provider.spec.networking
        increment, quota = network.sizing.growthIncrement, network.quota.maxLoadBalancerIPs
        plan = growth.decide(wanted, have, increment, quota, self._settings.growth_in_flight)
        made = await self._asking.grow(look.tenant, look.provider, plan.number)
        await self._asking.move_growth(
            self._current(look.tenant), look.provider, self._grown(look.tenant)
        )
        # One that stays with a pool that cannot serve it waits for room as one not made does.
        stuck = any(map(self._asking.is_stuck, self._grown(look.tenant)))
        if made < plan.number or stuck:
            return demand(
                False,
                "PoolExhausted",
                f"{_count(wanted)} without an address;"
                f" no pool has {increment} addresses in a row for it to grow",
            )
        if plan.over_quota:
            message = (
                f"{_count(wanted)} without an address; growing by {increment}: quota would be"
                f" exceeded, {have.held + made * increment} of {quota} are held"
            )
            _log.info(
                "elastic IPAM growth blocked by quota",
                tenant=str(look.tenant.metadata.key),
                why="quota would be exceeded",
                held=have.held + made * increment,
                quota=quota,
            )
            return demand(False, "QuotaExceeded", message)
        return demand(False, "Growing", f"{_count(wanted)} without an address; growing")

    async def _withdraw_marks(self, look: Look) -> None:
        """Keep what is on its way out where addresses are wanted; what is deleted stays so."""
        for one in self._members(look.tenant):
            if not one.metadata.terminating and one.releasing and ranges.held(one) is not None:
                _log.info("elastic IPAM: shrink withdrawn", allocation=one.metadata.name)
                marks = {names.ANNOTATION_RELEASING: None, names.ANNOTATION_IDLE_SINCE: None}
                await self._annotate(one, marks)

    async def _shrink(self, look: Look) -> list[float]:
        """Remember disuse, and mark what is out of use for long enough.

        Returns:
            For each allocation that is out of use, seconds until it may go.
        """
        due_in = []
        for one in self._members(look.tenant):
            if one.releasing or not growth.is_growth(one, look.tenant):
                continue
            disuse = shrink.look(
                one,
                look.found,
                look.now,
                self._settings.shrink_after,
                min(self._settings.growth_after, self._settings.shrink_after),
            )
            if disuse.over:
                await self._mark(look, one)
                continue
            if disuse.remember != shrink.remembered(one):
                await self._annotate(one, {names.ANNOTATION_IDLE_SINCE: disuse.remember})
            if disuse.due_in is not None:
                due_in.append(disuse.due_in)
        return due_in

    async def _mark(self, look: Look, allocation: IPAllocation) -> None:
        """Begin to give a range back: who waited in vain for all that time is told first."""
        waiting = [
            one
            for one in look.found.waiting
            if look.waited[one.metadata.uid] >= self._settings.growth_after
        ]
        if waiting and ranges.held(allocation) is not None:
            await self._tell_vain(look, waiting)
        _log.info(
            "elastic IPAM: shrinking unused allocation",
            allocation=allocation.metadata.name,
            idle_since=shrink.remembered(allocation),
        )
        await self._annotate(allocation, {names.ANNOTATION_RELEASING: rfc3339(look.now)})

    async def _tell_vain(self, look: Look, waiting: Sequence[Service]) -> None:
        current = self._current(look.tenant)
        known = Vain.of(current)
        told = known.joined(waiting, len(look.found.used))
        if told != known:
            annotations = {names.ANNOTATION_GROWN_IN_VAIN: told.text}
            await self._client.patch(
                TENANT_CLUSTER,
                Version.from_object(current),
                {"metadata": {"annotations": annotations}},
            )

    async def _annotate(
        self, allocation: IPAllocation, annotations: Mapping[str, str | None]
    ) -> None:
        await self._client.patch(
            IP_ALLOCATION,
            Version.from_object(allocation),
            {"metadata": {"annotations": annotations}},
        )

    def _size(self, allocation: IPAllocation) -> int:
        pool = self._world.pools.get(allocation.pool_key)
        default = pool.spec.default_count(allocation.spec.type) if pool is not None else 1
        return growth.size_of(allocation, default)


def _count(services: int) -> str:
    return "1 Service" if services == 1 else f"{services} Services"


def _told(in_vain: int) -> Finding:
    """Return the condition of a tenant for which nothing has to be done.

    Who has just begun to wait is not told: most Services do for a second, and each would cost two
    writes on the management cluster.
    """
    if in_vain:
        return demand(
            False,
            "GrownInVain",
            f"{_count(in_vain)} without an address; growing did not help,"
            " see the events of the Service in the tenant",
        )
    return demand(True, "Ready", "no Service has been without an address for long")
