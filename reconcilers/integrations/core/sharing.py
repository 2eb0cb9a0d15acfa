"""The holders of NetworkPools' addresses that integrations add for passes over NetworkPools."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from controller.runner import Controller
from reconcilers.networkpool.claims import ClaimService
from reconcilers.networkpool.otherholders import ObservedRanges


class SharesNetworkPools(Protocol):
    """An integration whose objects hold addresses of NetworkPools."""

    def enqueue_networkpools(self, controller: Controller) -> None:
        """From now on, enqueue in `controller` the NetworkPools that changed objects concern."""


@dataclass(frozen=True, slots=True)
class IntegrationHolders:
    """Access to the holders of NetworkPools' addresses beside IPAllocations.

    Args:
        integrations: the integrations whose objects hold addresses of NetworkPools.
        claims: serves IPAddressClaims from NetworkPools; None if that integration is off.
        observed: reads the ranges that another allocator has handed out; None if no other
            allocator is observed.
    """

    integrations: Sequence[SharesNetworkPools] = ()
    claims: ClaimService | None = None
    observed: ObservedRanges | None = None

    def join_with(self, other: "IntegrationHolders") -> "IntegrationHolders":
        """Return the holders of both.

        At most one of the two has `claims`, and at most one has `observed`.
        """
        return IntegrationHolders(
            [*self.integrations, *other.integrations],
            self.claims if other.claims is None else other.claims,
            self.observed if other.observed is None else other.observed,
        )


NOTHING_SHARED = IntegrationHolders()
