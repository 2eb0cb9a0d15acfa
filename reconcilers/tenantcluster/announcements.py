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

ANNOUNCEMENT_CHECK_SECONDS = 600.0
"""Seconds between two checks of a tenant in which something announces addresses."""
NOT_ANNOUNCED = "NotAnnounced"
"""The reason where nothing announces the addresses of Services."""


@dataclass(slots=True)
class AnnouncementMemory:
    """What is remembered of the announcements in one tenant.

    Args:
        checked_at: when the tenant was last checked, in monotonic seconds; None for never.
        problem: why nothing announces addresses; empty if something does.
    """

    checked_at: float | None = None
    problem: str = ""

    @property
    def findings(self) -> tuple[Sequence[ConditionFinding], tuple[str, ...]]:
        """The condition to set, and the type of the condition to remove; both empty if unknown."""
        problem = None if self.checked_at is None else self.problem
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

    async def check_if_due(self, tenant: TenantCluster, memory: AnnouncementMemory) -> None:
        """Check a tenant if a check is due, and note the result in `memory`.

        A check is due every ANNOUNCEMENT_CHECK_SECONDS. While nothing announces addresses, a check
        is due at each pass, so that the condition ends soon after a person corrects the problem.

        Args:
            memory: of that tenant.

        Raises:
            ControllerError: the management cluster did not answer.
        """
        now = self._clock.monotonic()
        is_recent = (
            memory.checked_at is not None and now - memory.checked_at < ANNOUNCEMENT_CHECK_SECONDS
        )
        if is_recent and not memory.problem:
            return
        try:
            async with self._tenants.open_client(tenant) as client:
                # The memory is empty, because a check needs nothing that the adapter remembers.
                balancer = self._kinds.find_chosen(tenant).make_balancer(client, BalancerMemory())
                memory.problem = await balancer.find_announcement_problem()
        except TenantUnavailable:
            return  # LoadBalancerReady reports it; the next pass checks again
        memory.checked_at = now
