"""What is wrong in a tenant: what its load balancer holds, has read, and has handed out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from allocator import AddressRange
from controller.client import Client
from reconcilers.addressing import familychoice, statusranges
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import SERVICE, Service
from reconcilers.api.tenantaddons import DEFAULT_LOAD_BALANCER
from reconcilers.clusteraccess.clusteridentity import is_of_another
from reconcilers.loadbalancers.ownernotes import owner_of
from reconcilers.loadbalancers.port import (
    OTHER_CLASS,
    BalancerMemory,
    LoadBalancerKind,
    Offer,
)
from reconcilers.reporting.wording import name_with_count
from reconcilers.tenantcluster.elastic.demand import (
    addresses,
    demand_of,
    families,
)
from reconcilers.tenantcluster.ownership.pools import (
    SHARED,
    elsewhere_message,
    may_be_taken_over,
    shared_message,
)
from reconcilers.tenantcluster.projections import make_projection

Severity = Literal["error", "warning"]

MOST_NAMED = 5
"""Services of one tenant that are named in one sentence."""


@dataclass(frozen=True, slots=True)
class Inside:
    """What was read in a tenant.

    Args:
        kind: its load balancer.
        offers: what a projection would write, also if others made it.
        stale: why addresses are handed out by an older configuration than the stored one, empty if
            the cause is not known; None if nothing shows that they are.
        services: all of the tenant's.
        management: the identity of the management cluster; empty if it is not known.
        provider: the load balancer, as a TenantCluster names it.
    """

    kind: LoadBalancerKind
    offers: Sequence[Offer] = ()
    stale: str | None = None
    services: Sequence[Service] = ()
    management: str = ""
    provider: str = DEFAULT_LOAD_BALANCER

    def members_of(self, members: Sequence[IPAllocation]) -> list[IPAllocation]:
        """Return the allocations of a tenant whose ranges this load balancer may have."""
        return [member for member in members if member.load_balancer == self.provider]


async def read_inside(
    client: Client, kind: LoadBalancerKind, management: str, provider: str
) -> Inside:
    """Read what `findings` evaluates.

    Args:
        client: of the tenant.
        kind: its load balancer.
        management: the identity of the management cluster; empty if it is not known.
        provider: the load balancer, as the TenantCluster names it.

    Raises:
        BalancerBlocked: the tenant does not serve the kinds of its balancer.
        ControllerError: the tenant did not answer.
    """
    balancer = kind.of(client, BalancerMemory())
    reading = await balancer.read()
    reading.require_served(kind.missing_reason)
    return Inside(
        kind=kind,
        offers=tuple(reading.targets.values()),
        stale=await balancer.find_stale(reading),
        services=(await client.list(SERVICE)).items,
        management=management,
        provider=provider,
    )


def findings(
    inside: Inside, members: Sequence[IPAllocation], spaces: Sequence[AddressRange]
) -> Iterator[tuple[str, Severity, str]]:
    """Yield kind, severity and sentence of everything that is wrong in a tenant.

    Args:
        inside: what was read there.
        members: the tenant's allocations.
        spaces: the addresses that NetworkPools hand out.
    """
    entries = list(make_projection(inside.members_of(members), 0).entries)
    holds = [entry for offer in inside.offers for entry in offer.entries]
    problem = _find_shared(inside, members)
    if problem:
        yield SHARED, "error", problem
    elif holds != entries:
        is_ours = all(
            owner_of(offer) is not None or may_be_taken_over(offer, members)
            for offer in inside.offers
        )
        cause = (
            "a running controller corrects it"
            if is_ours
            else "another tool created it, so it stays"
        )
        yield (
            "TenantDrift",
            "warning",
            (
                f"its {inside.kind.title} holds {', '.join(holds) or 'nothing'}, and should hold"
                f" {', '.join(entries) or 'nothing'}; {cause}"
            ),
        )
    for offer in inside.offers:
        if offer.edited:
            yield (
                "TenantDrift",
                "warning",
                f"others have set {', '.join(offer.edited)} in its pool; a controller corrects it",
            )
    for unmet in demand_of(
        inside.services, inside.kind.serves, families(members) or familychoice.FAMILY_NAMES
    ).unservable:
        if unmet.reason != OTHER_CLASS:
            subject = f"Service {unmet.service.metadata.key}"
            yield (
                "TenantServiceWaits",
                "warning",
                f"{subject} has no address: it asks for {unmet.asks}",
            )
    if inside.stale is not None:
        cause = f": {inside.stale}" if inside.stale else "; its controller may not be running"
        yield (
            "TenantConfigurationNotRead",
            "error",
            (
                f"its {inside.kind.title} hands out addresses by an older configuration than the"
                f" stored one{cause}"
            ),
        )
    if free := list(_used_but_free(inside.services, members, spaces)):
        addresses = name_with_count(free, named_at_most=MOST_NAMED)
        yield (
            "TenantUsesFreeAddress",
            "error",
            (
                f"Services there show addresses that no IPAllocation of it holds: {addresses};"
                " another tenant may be given them"
            ),
        )


def _find_shared(inside: Inside, members: Sequence[IPAllocation]) -> str:
    """Return the sentence for a tenant whose offers are another TenantCluster's; empty if not."""
    for offer in inside.offers:
        owner = owner_of(offer)
        if is_of_another(offer, inside.management):
            return elsewhere_message(offer)
        if owner is not None and any(
            owner != member.spec.tenantClusterRef.key for member in members
        ):
            return shared_message(owner)
    return ""


def _used_but_free(
    services: Sequence[Service], members: Sequence[IPAllocation], spaces: Sequence[AddressRange]
) -> Iterator[str]:
    """Yield the addresses that Services show although no allocation of the tenant holds them."""
    held_spans = [span for member in members for span in statusranges.list_held_ranges(member)]
    for service in services:
        for address in addresses(service):
            ours = any(space.overlaps(address) for space in spaces)
            if ours and not any(span.overlaps(address) for span in held_spans):
                yield f"{address.start_text} ({service.metadata.key})"
