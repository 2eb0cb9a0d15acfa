"""Pools of a load balancer that the TenantCluster does not name.

Two load balancers that both have a pool take the addresses from each other's Services, without
end. Even an empty pool of Cilium is enough. So each tenant is searched for pools of its other load
balancers every OTHER_BALANCER_CHECK_SECONDS. Empty pools of ours are removed: a process that died
in the middle of a write may have left one. All other pools belong to people; a condition reports
them.
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

OTHER_BALANCER_CHECK_SECONDS = 600.0
"""Seconds between two checks of the other load balancers of one tenant."""
CONFLICT = "LoadBalancersConflict"
"""The reason where pools of another load balancer are in the tenant."""
_MOST_NAMED = 5


@dataclass(slots=True)
class OtherBalancersMemory:
    """What is remembered of the other load balancers of one tenant.

    Args:
        checked_at: when the tenant was last checked, in monotonic seconds; None for never.
        provider: the load balancer of the spec at that time.
        message: what was wrong at that time; empty if nothing was.
    """

    checked_at: float | None = None
    provider: str = ""
    message: str = ""

    @property
    def findings(self) -> tuple[Sequence[ConditionFinding], tuple[str, ...]]:
        """The condition to set, and the type of the condition to remove; both empty if unknown."""
        problem = None if self.checked_at is None else self.message
        return describe_problem(SINGLE_LOAD_BALANCER, CONFLICT, problem)


class OtherBalancers:
    """Searches tenants for pools of load balancers that their TenantClusters do not name.

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

    async def check_if_due(self, tenant: TenantCluster, memory: OtherBalancersMemory) -> None:
        """Search for pools of other load balancers if a check is due; note the result in `memory`.

        A check removes empty pools of ours. It is due every OTHER_BALANCER_CHECK_SECONDS, and when
        the spec names another load balancer than at the last check.

        Args:
            tenant: the cluster; its ranges are in the load balancer of its spec.
            memory: of that tenant.

        Raises:
            ControllerError: the management cluster did not answer.
        """
        now, chosen = self._clock.monotonic(), tenant.load_balancer_provider
        is_recent = (
            memory.checked_at is not None
            and now - memory.checked_at < OTHER_BALANCER_CHECK_SECONDS
        )
        if is_recent and memory.provider == chosen:
            return
        messages: list[str] = []
        for kind in self._kinds:
            if kind is self._kinds.find_chosen(tenant):
                continue
            try:
                messages += await self._remove_and_find_problems(tenant, kind)
            except BalancerBlocked:
                continue  # it is not installed there
            except (TenantUnavailable, Conflict):
                return  # the check is not complete; the next pass checks again
        memory.message = "; ".join(messages)
        memory.checked_at = now
        memory.provider = chosen

    async def _remove_and_find_problems(
        self, tenant: TenantCluster, kind: LoadBalancerKind
    ) -> list[str]:
        """Remove empty pools of ours that belong to `kind`; return sentences about the rest.

        Args:
            kind: a load balancer that the spec does not name.
        """
        chosen_title = self._kinds.find_chosen(tenant).title
        problems: list[str] = []
        async with self._tenants.open_client(tenant) as client:
            # The memory is empty, because a check needs nothing that the adapter remembers.
            balancer = kind.make_balancer(client, BalancerMemory())
            await balancer.remove(await self._tenants.read_management_identity(), self._is_kept)
            pools = (await balancer.read()).pool_names
            interference = await balancer.find_interference()
        if pools:
            problems.append(describe_pools(kind.title, pools, chosen_title))
        if interference:
            problems.append(interference)
        return problems


def describe_pools(title: str, pools: Sequence[str], chosen_title: str) -> str:
    """Return the sentence for a tenant with pools of a load balancer that its spec does not name.

    Args:
        title: the load balancer that the spec does not name.
        pools: the names of its pools.
        chosen_title: the load balancer that the spec names.
    """
    names = name_with_count(pools, named_at_most=_MOST_NAMED)
    return (
        f"the tenant has pools of {title}: {names}, which takes addresses from Services that"
        f" {chosen_title} serves, and the other way round: delete them, or name {title} in"
        " spec.addons.loadBalancer.provider"
    )
