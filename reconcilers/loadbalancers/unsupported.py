"""A provider of load balancers that this release does not know.

The schema admits no such provider. A TenantCluster may have one all the same, after a downgrade or
with an older CustomResourceDefinition. Its tenant stays as it is: no range is written there, and
none is released, because only a backend can prove a release.
"""

from collections.abc import Iterable, Sequence

from typing_extensions import override

from controller.client import Client
from reconcilers.api.services import Service
from reconcilers.loadbalancers.port import (
    BalancerBlocked,
    BalancerMemory,
    BalancerReading,
    Confirm,
    Correction,
    Health,
    IsKept,
    LoadBalancer,
    LoadBalancerKind,
    NotYet,
    Obstacle,
    Offer,
    Permit,
    Projection,
    ServiceView,
    WatchedKind,
    WatchedOffers,
    Withdrawal,
    WithdrawalAnswer,
)
from reconcilers.reporting.wording import truncate

NOT_SUPPORTED = "LoadBalancerNotSupported"
"""The reason where a TenantCluster names a provider that this release does not know."""
_LONGEST_QUOTE = 80
"""How many characters of the provider a message has."""


class UnsupportedBalancer(LoadBalancer):
    """The load balancer of a tenant whose provider is not known: every write is blocked.

    Args:
        message: what is wrong, and what to do.
    """

    def __init__(self, message: str) -> None:
        self._message = message

    @override
    async def read(self) -> BalancerReading:
        """Return a reading without offers, which says that the provider is not supported."""
        return BalancerReading({}, self._message)

    @override
    async def read_targets(self) -> BalancerReading:
        """Return a reading without offers, which says that the provider is not supported."""
        return BalancerReading({}, self._message)

    @override
    async def project(self, projection: Projection, confirm: Confirm, permit: Permit) -> None:
        """Raise BalancerBlocked: nothing is written for an unknown provider."""
        raise BalancerBlocked(NOT_SUPPORTED, self._message)

    @override
    async def overwrite(
        self, projection: Projection, position: int, permit: Permit
    ) -> Offer | None:
        """Raise BalancerBlocked: nothing is written for an unknown provider."""
        raise BalancerBlocked(NOT_SUPPORTED, self._message)

    @override
    async def prove_withdrawal(
        self, reading: BalancerReading, withdrawal: Withdrawal
    ) -> WithdrawalAnswer:
        """Never prove a withdrawal: only the backend itself could."""
        return NotYet(self._message)

    @override
    async def read_health(self, projection: Projection) -> Health:
        """Return the default health: nothing is known of the backend, and `project` is blocked."""
        return Health()

    @override
    async def find_stale_configuration(self, reading: BalancerReading) -> str | None:
        """Return None: nothing is known of the configuration."""
        return None

    @override
    async def find_interference(self) -> str:
        """Return no interference: nothing is known of the backend."""
        return ""

    @override
    async def find_announcement_problem(self) -> str:
        """Return no problem: nothing is known of the backend."""
        return ""

    @override
    async def remove(self, management: str, is_kept: IsKept) -> None:
        """Leave the tenant as it is: this release has written nothing there for the provider."""
        return


class UnsupportedKind(LoadBalancerKind):
    """A backend that this release does not know.

    Args:
        provider: as the TenantCluster names it.
        supported: the providers that this release knows.
    """

    missing_reason = NOT_SUPPORTED
    absent_reasons: frozenset[str] = frozenset()
    not_reading_reason = NOT_SUPPORTED
    wait = 0.0
    watches: Sequence[WatchedKind] = ()

    def __init__(self, provider: str, supported: Iterable[str]) -> None:
        self._provider = truncate(provider, _LONGEST_QUOTE)
        self._message = (
            f"spec.addons.loadBalancer.provider {self._provider} is not supported by this release:"
            " nothing is written to the tenant, and no range is released; set it to"
            f" {' or '.join(sorted(supported))}"
        )

    @property
    @override
    def title(self) -> str:
        """The provider as the TenantCluster names it, shortened."""
        return self._provider

    @override
    def make_balancer(
        self, client: Client, memory: BalancerMemory, watched: WatchedOffers | None = None
    ) -> UnsupportedBalancer:
        """Return a balancer that blocks every write, for any tenant."""
        return UnsupportedBalancer(self._message)

    @override
    def view_service(self, service: Service) -> ServiceView:
        """Return a view that keeps every range, and lets no growth help the Service."""
        obstacle = Obstacle(NOT_SUPPORTED, f"the load balancer {self._provider}")
        return ServiceView(keeps_range=True, obstacle=obstacle)

    @override
    def compute_check_delay(self, memory: BalancerMemory) -> float | None:
        """Return None: no later check could find out more."""
        return None

    @override
    def take_corrections(self, memory: BalancerMemory) -> Sequence[Correction]:
        """Return nothing: no edit is ever undone."""
        return ()
