"""Whether the addresses of a tenant's Services are announced to the network.

Some load balancers leave that to objects which people make. A tenant without any is told by a
condition: its Services have addresses, and nobody reaches them.
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
"""Between two looks at a tenant in which something announces addresses."""
NOT_ANNOUNCED = "NotAnnounced"
"""The reason where nothing announces the addresses of Services."""


@dataclass(slots=True)
class AnnouncementMemory:
    """What is remembered of the announcements in one tenant.

    Args:
        looked_at: when they were last looked at, in monotonic seconds; None for never.
        problem: why nothing announces addresses; empty if something does.
    """

    looked_at: float | None = None
    problem: str = ""

    @property
    def findings(self) -> tuple[Sequence[ConditionFinding], tuple[str, ...]]:
        """The condition, and the type of the obsolete one; neither before the first look."""
        known = None if self.looked_at is None else self.problem
        return describe_problem(LOAD_BALANCER_ANNOUNCED, NOT_ANNOUNCED, known)


class Announcements:
    """Looks for what announces the addresses of tenants.

    Args:
        kinds: the load balancers that tenants may have.
        clock: the time.
    """

    def __init__(self, kinds: LoadBalancerKinds, tenants: TenantClients, clock: Clock) -> None:
        self._kinds = kinds
        self._tenants = tenants
        self._clock = clock

    async def look(self, tenant: TenantCluster, memory: AnnouncementMemory) -> None:
        """Look at a tenant if that is due: with each pass while nothing announces addresses.

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
                balancer = self._kinds.of(tenant).of(client, BalancerMemory())
                memory.problem = await balancer.find_unannounced()
        except TenantUnavailable:
            return
        memory.looked_at = now
