"""What is wrong in a tenant: what its load balancers hold, have read, and have handed out.

An *offer* is an object in a tenant that makes addresses available there, such as a pool.
"""

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
from reconcilers.loadbalancers.ownernotes import find_owner
from reconcilers.loadbalancers.port import (
    OTHER_CLASS,
    BalancerBlocked,
    BalancerMemory,
    LoadBalancerKind,
    Offer,
    ServiceViewer,
)
from reconcilers.reporting.wording import name_with_count
from reconcilers.tenantcluster.elastic.demand import (
    compute_demand,
    find_families,
    parse_addresses,
)
from reconcilers.tenantcluster.otherbalancers import CONFLICT, describe_pools
from reconcilers.tenantcluster.ownership.pools import (
    SHARED,
    make_elsewhere_message,
    make_shared_message,
    may_be_taken_over,
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
        offers: the offers that we projected there, and offers of others with the same names.
        pool_names: the pools that it hands out addresses from, except empty pools of ours.
        interference: why it takes addresses away from Services though it has no pool; empty if
            it does not.
    """

    kind: LoadBalancerKind
    provider: str
    offers: Sequence[Offer] = ()
    pool_names: Sequence[str] = ()
    interference: str = ""


@dataclass(frozen=True, slots=True)
class TenantReading:
    """What was read in a tenant.

    Args:
        kind: the load balancer that the TenantCluster names.
        offers: the objects that a projection would write, also if others made them.
        stale: why addresses are handed out by an older configuration than the stored one. It is
            empty if the cause is not known, and None if nothing shows that the configuration is
            older.
        services: all Services of the tenant.
        management: the identity of the management cluster; empty if it is not known.
        provider: the load balancer, as a TenantCluster names it.
        others: the other load balancers whose kinds the tenant serves.
        unannounced: why no machine announces addresses; empty if one does, or if that is not
            known.
        view_service: returns a Service as this tenant's load balancer sees it; None to use
            `kind.view_service`, where no tenant chooses among Services.
        selector: the selector of Services that pools should have; empty for all Services.
    """

    kind: LoadBalancerKind
    offers: Sequence[Offer] = ()
    stale: str | None = None
    services: Sequence[Service] = ()
    management: str = ""
    provider: str = DEFAULT_LOAD_BALANCER
    others: Sequence[OtherBalancerReading] = ()
    unannounced: str = ""
    view_service: ServiceViewer | None = None
    selector: Mapping[str, Any] = field(default_factory=dict)


async def read_tenant(
    client: Client, kinds: LoadBalancerKinds, tenant: TenantCluster, management: str
) -> TenantReading:
    """Read the offers of a tenant's load balancers, and the Services that show addresses.

    `find_problems` compares the reading with the tenant's allocations.

    Args:
        client: of the tenant.
        kinds: the load balancers that tenants may have.
        management: the identity of the management cluster; empty if it is not known.

    Raises:
        BalancerBlocked: the tenant does not serve the kinds of its balancer.
        ControllerError: the tenant did not answer.
    """
    kind = kinds.find_chosen(tenant)
    # A fresh memory, because a command reads each tenant once and remembers nothing.
    balancer = kind.make_balancer(client, BalancerMemory())
    reading = await balancer.read()
    # A tenant without the kinds of its balancer ends here: the reads below need the kinds.
    reading.require_backend_kinds(kind.missing_reason)
    return TenantReading(
        kind=kind,
        offers=tuple(reading.targets.values()),
        stale=await balancer.find_stale_configuration(reading),
        services=(await client.list(SERVICE)).items,
        management=management,
        provider=tenant.load_balancer_provider,
        others=await _read_others(client, kinds, tenant),
        unannounced=await balancer.find_announcement_problem(),
        view_service=kind.make_service_viewer(tenant),
        selector=tenant.service_selector.body if tenant.service_selector is not None else {},
    )


async def _read_others(
    client: Client, kinds: LoadBalancerKinds, tenant: TenantCluster
) -> list[OtherBalancerReading]:
    """Read the load balancers that a TenantCluster does not name, where they are served."""
    others = []
    for provider, kind in kinds.items():
        if provider == tenant.load_balancer_provider:
            continue  # `read_tenant` itself reads the load balancer that the cluster names
        # A fresh memory, because a command reads each tenant once and remembers nothing.
        balancer = kind.make_balancer(client, BalancerMemory())
        try:
            reading = await balancer.read()
            interference = await balancer.find_interference()
        except BalancerBlocked:
            continue  # it is not installed there
        offers = reading.targets
        # Empty pools of ours are no problem: a controller removes them.
        pool_names = [
            name for name in reading.pool_names if name not in offers or offers[name].entries
        ]
        others.append(
            OtherBalancerReading(
                kind,
                provider,
                offers=tuple(offers.values()),
                pool_names=pool_names,
                interference=interference,
            )
        )
    return others


def find_problems(
    tenant_reading: TenantReading, members: Sequence[IPAllocation], spaces: Sequence[AddressRange]
) -> Iterator[tuple[str, Severity, str]]:
    """Yield reason, severity and sentence of each problem in a tenant.

    1. Its offers are another TenantCluster's; if not, they have other ranges than they should.
    2. Other load balancers are in the way, or nobody announces addresses.
    3. Others have edited fields of a pool.
    4. Services ask for addresses that no range of the tenant can serve.
    5. Addresses are handed out by an older configuration than the stored one.
    6. Services show addresses that the tenant does not hold.

    Args:
        tenant_reading: what was read there.
        members: the tenant's allocations.
        spaces: the addresses that NetworkPools hand out.
    """
    problem = _find_shared(tenant_reading, members)
    if problem:
        yield SHARED, "error", problem
    elif drift := _find_drift(tenant_reading, members):
        # Not for a shared tenant: its pool holds the ranges of the other TenantCluster.
        yield "TenantDrift", "warning", drift
    yield from _find_other_problems(tenant_reading, members)
    for offer in tenant_reading.offers:
        edited_fields = [*offer.edited_fields]
        # A pool that others made keeps the selector that they chose.
        if offer.is_made_by_us and offer.selector != tenant_reading.selector:
            edited_fields.append("serviceSelector")
        if edited_fields:
            yield (
                "TenantDrift",
                "warning",
                (
                    f"others have set {', '.join(edited_fields)} in its pool;"
                    " a controller corrects it"
                ),
            )
    for sentence in _describe_unservable(tenant_reading, members):
        yield "TenantServiceWaits", "warning", sentence
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
    if free := list(_find_used_but_free(tenant_reading.services, members, spaces)):
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
    # A tenant without ranges may still get ranges of either family.
    pool_families = find_families(members) or familychoice.FAMILY_NAMES
    view_service = tenant_reading.view_service or tenant_reading.kind.view_service
    for unmet in compute_demand(tenant_reading.services, view_service, pool_families).unservable:
        if unmet.reason != OTHER_CLASS:
            key = unmet.service.metadata.key
            yield f"Service {key} has no address: it asks for {unmet.asks}"


def _find_drift(
    tenant_reading: TenantReading | OtherBalancerReading, members: Sequence[IPAllocation]
) -> str:
    """Return the sentence for a load balancer that holds other ranges than it should; else empty.

    Within an offer the order of ranges counts, because addresses are given in this order. The
    order of several offers means nothing.
    """
    balancer_allocations = [
        member for member in members if member.load_balancer == tenant_reading.provider
    ]
    # The position does not matter: only the ranges of this projection are used.
    expected_entries = list(make_projection(balancer_allocations, position=0).entries)
    entries = [entry for offer in tenant_reading.offers for entry in offer.entries]
    has_order = len(tenant_reading.offers) == 1
    if entries == expected_entries:
        return ""
    if not has_order and sorted(entries) == sorted(expected_entries):
        return ""
    will_be_corrected = all(
        find_owner(offer) is not None or may_be_taken_over(offer, members)
        for offer in tenant_reading.offers
    )
    cause = (
        "a running controller corrects it"
        if will_be_corrected
        else "another tool created it, so it stays"
    )
    return (
        f"its {tenant_reading.kind.title} holds {', '.join(entries) or 'nothing'}, and should hold"
        f" {', '.join(expected_entries) or 'nothing'}; {cause}"
    )


def _find_other_problems(
    tenant_reading: TenantReading, members: Sequence[IPAllocation]
) -> Iterator[tuple[str, Severity, str]]:
    """Yield problems of other load balancers, and of the announcement of addresses.

    The form is that of `find_problems`: reason, severity and sentence.
    """
    for other_reading in tenant_reading.others:
        yield from _find_problems_of_other_balancer(
            other_reading, tenant_reading.kind.title, members
        )
    if tenant_reading.unannounced:
        yield "TenantNotAnnounced", "warning", tenant_reading.unannounced


def _find_problems_of_other_balancer(
    other_reading: OtherBalancerReading, chosen_title: str, members: Sequence[IPAllocation]
) -> Iterator[tuple[str, Severity, str]]:
    """Yield reason, severity and sentence for a load balancer that the spec does not name.

    Args:
        other_reading: what was read of it.
        chosen_title: the title of the load balancer that the TenantCluster names.
        members: the tenant's allocations.
    """
    if any(member.load_balancer == other_reading.provider for member in members):
        # The tenant changes its load balancer. This one keeps its ranges until it has proven
        # their release, so its pools are no conflict.
        if drift := _find_drift(other_reading, members):
            yield "TenantDrift", "warning", drift
        return
    if other_reading.pool_names:
        pools = describe_pools(other_reading.kind.title, other_reading.pool_names, chosen_title)
        yield CONFLICT, "error", pools
    if other_reading.interference:
        yield CONFLICT, "error", other_reading.interference


def _find_shared(tenant_reading: TenantReading, members: Sequence[IPAllocation]) -> str:
    """Return the sentence for a tenant whose offers are another TenantCluster's; empty if not.

    Args:
        tenant_reading: what was read of the tenant.
        members: the tenant's allocations, which all name its TenantCluster. Without any, only an
            offer of another management cluster is found.
    """
    for offer in tenant_reading.offers:
        owner = find_owner(offer)
        # First the other management cluster: there, a TenantCluster may have the same name.
        if is_of_other_management(offer, tenant_reading.management):
            return make_elsewhere_message(offer)
        if owner is not None and any(
            owner != member.spec.tenantClusterRef.key for member in members
        ):
            return make_shared_message(owner)
    return ""


def _find_used_but_free(
    services: Sequence[Service], members: Sequence[IPAllocation], spaces: Sequence[AddressRange]
) -> Iterator[str]:
    """Yield each address that a Service shows although no allocation of the tenant holds it.

    The form is `address (namespace/name of the Service)`. An address outside of all NetworkPools
    is left out, because nobody else can be given it.
    """
    held_spans = [span for member in members for span in statusranges.list_held_ranges(member)]
    for service in services:
        for address in parse_addresses(service):
            is_of_pool = any(space.overlaps(address) for space in spaces)
            if is_of_pool and not any(span.overlaps(address) for span in held_spans):
                yield f"{address.start_text} ({service.metadata.key})"
