"""What is wrong in a tenant: what its load balancers hold, have read, and have handed out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from allocator import AddressRange
from controller.client import Client
from reconcilers.addressing import familychoice, statusranges
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.services import SERVICE, Service
from reconcilers.api.tenantaddons import DEFAULT_LOAD_BALANCER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.clusteraccess.clusteridentity import is_of_other_management
from reconcilers.loadbalancers.choice import LoadBalancerKinds
from reconcilers.loadbalancers.ownernotes import owner_of
from reconcilers.loadbalancers.port import (
    OTHER_CLASS,
    BalancerBlocked,
    BalancerMemory,
    LoadBalancerKind,
    Offer,
    Serves,
)
from reconcilers.reporting.wording import name_with_count
from reconcilers.tenantcluster.elastic.demand import (
    addresses,
    demand_of,
    families,
)
from reconcilers.tenantcluster.otherbalancers import CONFLICT, describe_pools
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
class OtherBalancerReading:
    """What was read of a load balancer that the TenantCluster does not name.

    Args:
        provider: its name in a TenantCluster.
        offers: what was projected there, and what others made in its place.
        pool_names: the pools that it takes addresses from, without empty ones of ours.
        claim: why it takes addresses from Services even without a pool; empty if it does not.
    """

    kind: LoadBalancerKind
    provider: str
    offers: Sequence[Offer] = ()
    pool_names: Sequence[str] = ()
    claim: str = ""


@dataclass(frozen=True, slots=True)
class TenantReading:
    """What was read in a tenant.

    Args:
        offers: what a projection would write, also if others made it.
        stale: why addresses are handed out by an older configuration than the stored one, empty if
            the cause is not known; None if nothing shows that they are.
        services: all of the tenant's.
        management: the identity of the management cluster; empty if it is not known.
        provider: the load balancer, as a TenantCluster names it.
        others: the other load balancers whose kinds the tenant serves.
        unannounced: why no machine announces addresses; empty if that is not known.
        serves: returns a Service as the load balancer sees it; None to see it as the kind does.
        selector: which Services pools may serve, as a pool has it; empty for all.
    """

    kind: LoadBalancerKind
    offers: Sequence[Offer] = ()
    stale: str | None = None
    services: Sequence[Service] = ()
    management: str = ""
    provider: str = DEFAULT_LOAD_BALANCER
    others: Sequence[OtherBalancerReading] = ()
    unannounced: str = ""
    serves: Serves | None = None
    selector: Mapping[str, Any] = field(default_factory=dict)


async def read_tenant(
    client: Client, kinds: LoadBalancerKinds, tenant: TenantCluster, management: str
) -> TenantReading:
    """Read from a tenant what its load balancers hold and hand out, for `findings`.

    Args:
        client: of the tenant.
        kinds: the load balancers that tenants may have.
        management: the identity of the management cluster; empty if it is not known.

    Raises:
        BalancerBlocked: the tenant does not serve the kinds of its balancer.
        ControllerError: the tenant did not answer.
    """
    kind = kinds.of(tenant)
    balancer = kind.of(client, BalancerMemory())  # read once, so nothing is remembered
    reading = await balancer.read()
    reading.require_served(kind.missing_reason)
    return TenantReading(
        kind=kind,
        offers=tuple(reading.targets.values()),
        stale=await balancer.find_stale(reading),
        services=(await client.list(SERVICE)).items,
        management=management,
        provider=tenant.load_balancer_provider,
        others=await _read_others(client, kinds, tenant),
        unannounced=await balancer.find_unannounced(),
        serves=kind.serves_in(tenant),
        selector=tenant.service_selector.body if tenant.service_selector is not None else {},
    )


async def _read_others(
    client: Client, kinds: LoadBalancerKinds, tenant: TenantCluster
) -> list[OtherBalancerReading]:
    """Read the load balancers that a TenantCluster does not name, where they are served."""
    others = []
    for provider, kind in kinds.items():
        if provider == tenant.load_balancer_provider:
            continue
        balancer = kind.of(client, BalancerMemory())
        try:
            reading = await balancer.read()
            claim = await balancer.find_claim()
        except BalancerBlocked:
            continue  # it is not installed there
        offers = reading.targets
        pool_names = [
            name for name in reading.pool_names if name not in offers or offers[name].entries
        ]
        others.append(
            OtherBalancerReading(
                kind, provider, offers=tuple(offers.values()), pool_names=pool_names, claim=claim
            )
        )
    return others


def findings(
    tenant_reading: TenantReading, members: Sequence[IPAllocation], spaces: Sequence[AddressRange]
) -> Iterator[tuple[str, Severity, str]]:
    """Yield kind, severity and sentence of everything that is wrong in a tenant.

    Args:
        tenant_reading: what was read there.
        members: the tenant's allocations.
        spaces: the addresses that NetworkPools hand out.
    """
    problem = _find_shared(tenant_reading, members)
    if problem:
        yield SHARED, "error", problem
    elif drift := _find_drift(tenant_reading, members):
        yield "TenantDrift", "warning", drift
    yield from _find_other_problems(tenant_reading, members)
    for offer in tenant_reading.offers:
        edited = [*offer.edited]
        if offer.is_made_by_us and offer.selector != tenant_reading.selector:
            edited.append("serviceSelector")
        if edited:
            yield (
                "TenantDrift",
                "warning",
                f"others have set {', '.join(edited)} in its pool; a controller corrects it",
            )
    for waiting in _describe_unservable(tenant_reading, members):
        yield "TenantServiceWaits", "warning", waiting
    if tenant_reading.stale is not None:
        cause = (
            f": {tenant_reading.stale}"
            if tenant_reading.stale
            else "; its controller may not be running"
        )
        yield (
            "TenantConfigurationNotRead",
            "error",
            (
                f"its {tenant_reading.kind.title} hands out addresses by an older configuration"
                f" than the stored one{cause}"
            ),
        )
    if free := list(_used_but_free(tenant_reading.services, members, spaces)):
        addresses = name_with_count(free, named_at_most=MOST_NAMED)
        yield (
            "TenantUsesFreeAddress",
            "error",
            (
                f"Services there show addresses that no IPAllocation of it holds: {addresses};"
                " another tenant may be given them"
            ),
        )


def _describe_unservable(
    tenant_reading: TenantReading, members: Sequence[IPAllocation]
) -> Iterator[str]:
    """Yield a sentence for each Service that no address of the tenant's pools can serve.

    Services of another load-balancer class are left out: they wait for another controller.
    """
    pool_families = families(members) or familychoice.FAMILY_NAMES
    view_of = tenant_reading.serves or tenant_reading.kind.serves
    for unmet in demand_of(tenant_reading.services, view_of, pool_families).unservable:
        if unmet.reason != OTHER_CLASS:
            key = unmet.service.metadata.key
            yield f"Service {key} has no address: it asks for {unmet.asks}"


def _find_drift(
    tenant_reading: TenantReading | OtherBalancerReading, members: Sequence[IPAllocation]
) -> str:
    """Return the sentence for a load balancer that holds other ranges than it should.

    Within an offer the order of ranges counts, because addresses are given in this order. Of
    several offers the order means nothing.
    """
    theirs = [member for member in members if member.load_balancer == tenant_reading.provider]
    entries = list(make_projection(theirs, 0).entries)
    holds = [entry for offer in tenant_reading.offers for entry in offer.entries]
    has_order = len(tenant_reading.offers) == 1
    if holds == entries or (not has_order and sorted(holds) == sorted(entries)):
        return ""
    is_ours = all(
        owner_of(offer) is not None or may_be_taken_over(offer, members)
        for offer in tenant_reading.offers
    )
    cause = (
        "a running controller corrects it" if is_ours else "another tool created it, so it stays"
    )
    return (
        f"its {tenant_reading.kind.title} holds {', '.join(holds) or 'nothing'}, and should hold"
        f" {', '.join(entries) or 'nothing'}; {cause}"
    )


def _find_other_problems(
    tenant_reading: TenantReading, members: Sequence[IPAllocation]
) -> Iterator[tuple[str, Severity, str]]:
    """Yield findings about other load balancers, and about the announcement of addresses."""
    for other in tenant_reading.others:
        yield from _find_other(other, tenant_reading.kind.title, members)
    if tenant_reading.unannounced:
        yield "TenantNotAnnounced", "warning", tenant_reading.unannounced


def _find_other(
    other: OtherBalancerReading, chosen: str, members: Sequence[IPAllocation]
) -> Iterator[tuple[str, Severity, str]]:
    """Yield findings about a load balancer that the TenantCluster does not name.

    Args:
        other: what was read of it.
        chosen: the title of the one that it names.
        members: the tenant's allocations.
    """
    if any(member.load_balancer == other.provider for member in members):
        # The tenant changes its load balancer, and this one has ranges until it has let go.
        if drift := _find_drift(other, members):
            yield "TenantDrift", "warning", drift
        return
    if other.pool_names:
        yield CONFLICT, "error", describe_pools(other.kind.title, other.pool_names, chosen)
    if other.claim:
        yield CONFLICT, "error", other.claim


def _find_shared(tenant_reading: TenantReading, members: Sequence[IPAllocation]) -> str:
    """Return the sentence for a tenant whose offers are another TenantCluster's; empty if not."""
    for offer in tenant_reading.offers:
        owner = owner_of(offer)
        if is_of_other_management(offer, tenant_reading.management):
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
