"""Pools of a load balancer that the TenantCluster does not name.

Two load balancers that both have a pool take the addresses from each other's Services, without
end. Even an empty pool of Cilium is enough. So each tenant is searched for pools of the others now
and then. Empty ones of ours are removed: a process that died in the middle of a write may have
left one. The others belong to people, who are told by a condition.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from controller.clock import Clock
from controller.errors import Conflict
from reconcilers.api.tenantcluster import SINGLE_LOAD_BALANCER, TenantCluster
from reconcilers.clusteraccess.tenantclients import TenantClients
from reconcilers.clusteraccess.tenantfailures import TenantUnavailable
from reconcilers.loadbalancers.choice import LoadBalancerKinds
from reconcilers.loadbalancers.port import (
    BalancerBlocked,
    BalancerMemory,
    IsKept,
    LoadBalancerKind,
)
from reconcilers.reporting.conditions import ConditionFinding
from reconcilers.reporting.wording import name_with_count
from reconcilers.tenantcluster.status import describe_problem

LOOK_SECONDS = 600.0
"""Between two looks at the other load balancers of one tenant."""
CONFLICT = "LoadBalancersConflict"
"""The reason where pools of another load balancer are in the tenant."""
_MOST_NAMED = 5


@dataclass(slots=True)
class OtherBalancersMemory:
    """What is remembered of the other load balancers of one tenant.

    Args:
        looked_at: when they were last looked at, in monotonic seconds; None for never.
        provider: the load balancer of the spec at that time.
        message: what was wrong then; empty for nothing.
    """

    looked_at: float | None = None
    provider: str = ""
    message: str = ""

    @property
    def findings(self) -> tuple[Sequence[ConditionFinding], tuple[str, ...]]:
        """The condition, and the type of the obsolete one; neither before the first look."""
        known = None if self.looked_at is None else self.message
        return describe_problem(SINGLE_LOAD_BALANCER, CONFLICT, known)


class OtherBalancers:
    """Looks for pools of the load balancers that tenants do not have.

    Args:
        kinds: the load balancers that tenants may have.
        clock: the time.
        is_kept: whether objects of an allocation are needed for its release.
    """

    def __init__(
        self, kinds: LoadBalancerKinds, tenants: TenantClients, clock: Clock, is_kept: IsKept
    ) -> None:
        self._is_kept = is_kept
        self._kinds = kinds
        self._tenants = tenants
        self._clock = clock

    async def look(self, tenant: TenantCluster, memory: OtherBalancersMemory) -> None:
        """Look at the other load balancers of a tenant if that is due; remember what is there.

        A tenant that does not answer is looked at again with the next pass.

        Args:
            tenant: the cluster; its ranges are in the load balancer of its spec.
            memory: of that tenant.

        Raises:
            ControllerError: the management cluster did not answer.
        """
        now, chosen = self._clock.monotonic(), tenant.load_balancer_provider
        is_recent = memory.looked_at is not None and now - memory.looked_at < LOOK_SECONDS
        if is_recent and memory.provider == chosen:
            return
        messages: list[str] = []
        for kind in self._kinds:
            if kind is self._kinds.of(tenant):
                continue
            try:
                messages += await self._find_problems(tenant, kind)
            except BalancerBlocked:
                continue  # it is not installed there
            except (TenantUnavailable, Conflict):
                return
        memory.message = "; ".join(messages)
        memory.looked_at, memory.provider = now, chosen

    async def _find_problems(self, tenant: TenantCluster, kind: LoadBalancerKind) -> list[str]:
        """Remove what is left of ours of a load balancer; return what else of it disturbs."""
        title, problems = self._kinds.of(tenant).title, []
        async with self._tenants.client(tenant) as client:
            balancer = kind.of(client, BalancerMemory())
            await balancer.remove(await self._tenants.read_management_identity(), self._is_kept)
            pools = (await balancer.read()).pool_names
            claim = await balancer.find_claim()
        if pools:
            problems.append(describe_pools(kind.title, pools, title))
        return [*problems, claim] if claim else problems


def describe_pools(title: str, pools: Sequence[str], chosen: str) -> str:
    """Return the sentence for a tenant with pools of a load balancer that its spec does not name.

    Args:
        title: of that load balancer.
        pools: the names of its pools.
        chosen: the title of the load balancer that the spec names.
    """
    names = name_with_count(pools, named_at_most=_MOST_NAMED)
    return (
        f"the tenant has pools of {title}: {names}, which takes addresses from Services that"
        f" {chosen} serves, and the other way round: delete them, or name {title} in"
        " spec.addons.loadBalancer.provider"
    )
