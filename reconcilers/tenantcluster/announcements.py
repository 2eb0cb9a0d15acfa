"""Whether the addresses of a tenant's Services are announced to the network.

Some load balancers leave the announcement to objects which people create. A condition reports a
tenant without such objects: its Services have addresses, and nobody reaches them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from controller.clock import Clock
from reconcilers.api.tenantcluster import LOAD_BALANCER_ANNOUNCED, TenantCluster
from reconcilers.clusteraccess.tenantclients import TenantClients
from reconcilers.clusteraccess.tenantfailures import TenantUnavailable
from reconcilers.loadbalancers.choice import LoadBalancerKinds
from reconcilers.loadbalancers.port import BalancerMemory
from reconcilers.reporting.conditions import ConditionFinding
from reconcilers.tenantcluster.status import describe_problem

LOOK_SECONDS = 600.0
"""Seconds between two looks at a tenant in which something announces addresses."""
NOT_ANNOUNCED = "NotAnnounced"
"""The reason where nothing announces the addresses of Services."""


@dataclass(slots=True)
class AnnouncementMemory:
    """What is remembered of the announcements in one tenant.

    Args:
        looked_at: when the tenant was last looked at, in monotonic seconds; None for never.
        problem: why nothing announces addresses; empty if something does.
    """

    looked_at: float | None = None
    problem: str = ""

    @property
    def findings(self) -> tuple[Sequence[ConditionFinding], tuple[str, ...]]:
        """The condition to set, and the type of the condition to remove; both empty if unknown."""
        problem = None if self.looked_at is None else self.problem
        return describe_problem(LOAD_BALANCER_ANNOUNCED, NOT_ANNOUNCED, problem)


class Announcements:
    """Finds out whether something announces the addresses of a tenant.

    Args:
        kinds: the load balancers that tenants may have.
        clock: the time.
    """

    def __init__(self, kinds: LoadBalancerKinds, tenants: TenantClients, clock: Clock) -> None:
        self._kinds = kinds
        self._tenants = tenants
        self._clock = clock

    async def look_if_due(self, tenant: TenantCluster, memory: AnnouncementMemory) -> None:
        """Look at a tenant if a look is due, and note the result in `memory`.

        A look is due every LOOK_SECONDS; with each pass while nothing announces addresses, so that
        the condition ends soon after a person corrects it.

        Args:
            memory: of that tenant.

        Raises:
            ControllerError: the management cluster did not answer.
        """
        now = self._clock.monotonic()
        is_recent = memory.looked_at is not None and now - memory.looked_at < LOOK_SECONDS
        if is_recent and not memory.problem:
            return
        try:
            async with self._tenants.client(tenant) as client:
                # An empty memory, because a look remembers nothing of the adapter's.
                balancer = self._kinds.find_chosen(tenant).make_balancer(client, BalancerMemory())
                memory.problem = await balancer.find_unannounced()
        except TenantUnavailable:
            return  # LoadBalancerReady reports it; the next pass looks again
        memory.looked_at = now
