"""What is remembered of each object, and the histories of all kinds together.

In the management cluster: which addresses an IPAllocation holds, and which a NetworkPool promises.
In a tenant: which addresses a Service shows, and which its load balancer may hand out.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from allocator import AddressRange
from controller.meta import Key, Object
from controller.resource import Resource
from reconcilers.addressing import addresstexts, statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.services import Service
from reconcilers.loadbalancers.cilium.pools import CILIUM_POOL, CiliumPool
from reconcilers.loadbalancers.metallb.kinds import IP_ADDRESS_POOL, IPAddressPool
from reconcilers.loadbalancers.metallb.projection import NO_ADDRESS
from tests.audit.history import History

Addresses = tuple[AddressRange, ...]
T = TypeVar("T", bound=Object)


class Holding(NamedTuple):
    """What an IPAllocation has: for whom, and which range, in whatever phase; None if it has none.

    One for nodes has a range that no Service of its tenant may show, so it says so.
    """

    tenant: Key
    span: AddressRange | None
    for_services: bool


class Promise(NamedTuple):
    """A range that a NetworkPool promises to the allocation with a uid."""

    uid: str
    span: AddressRange


class Promises(NamedTuple):
    """What a NetworkPool has promised, and the block that it owns."""

    block: AddressRange
    open: tuple[Promise, ...]


def holding(allocation: IPAllocation) -> Holding:
    """Return the ranges of an allocation."""
    spec = allocation.spec
    for_services = spec.type == names.TYPE_LOADBALANCER
    return Holding(
        spec.tenantClusterRef.key, statusranges.find_held_range(allocation), for_services
    )


def promises(pool: NetworkPool) -> Promises:
    """Return the promises of a pool."""
    promised = tuple(
        Promise(assignment.uid, span)
        for assignment in pool.status.assignments
        for span in statusranges.list_promised_ranges(assignment)
    )
    return Promises(AddressRange.parse_cidr(pool.spec.cidr), promised)


def list_shown_addresses(service: Service) -> Addresses:
    """Return the addresses that a Service shows."""
    spans = (
        addresstexts.parse_ends(ingress.ip, ingress.ip)
        for ingress in service.status.loadBalancer.ingress
    )
    return tuple(span for span in spans if span is not None)


def assignable(pool: IPAddressPool) -> Addresses:
    """Return the addresses that MetalLB may hand out of a pool; none of one without effect."""
    entries = pool.spec.addresses
    spans = (addresstexts.parse_cidr_or_span(entry) for entry in entries if entry != NO_ADDRESS)
    return tuple(span for span in spans if span is not None)


def list_blocks(pool: CiliumPool) -> Addresses:
    """Return the addresses of a pool of Cilium, which gives out nothing that it cannot read.

    One that is disabled still has its addresses: an operator that froze before may hand them out.
    """
    spans = (block.span for block in pool.blocks)
    return tuple(span for span in spans if span is not None)


@dataclass(frozen=True, slots=True)
class OfferKind(Generic[T]):
    """The kind by which a load balancer in a tenant is offered addresses.

    Args:
        resource: the kind.
        list_addresses: returns what an object offers.
    """

    resource: Resource[T]
    list_addresses: Callable[[T], Addresses]


METALLB_OFFERS = OfferKind(IP_ADDRESS_POOL, assignable)
CILIUM_OFFERS = OfferKind(CILIUM_POOL, list_blocks)


@dataclass(frozen=True, slots=True)
class TenantRecords:
    """What is remembered of a tenant."""

    services: History[Addresses] = field(default_factory=History)
    pools: History[Addresses] = field(default_factory=History)


@dataclass(frozen=True, slots=True)
class Records:
    """What is remembered of everything.

    Args:
        tenants: by TenantCluster.
    """

    tenants: Mapping[Key, TenantRecords]
    allocations: History[Holding] = field(default_factory=History)
    pools: History[Promises] = field(default_factory=History)

    @classmethod
    def of(cls, tenants: Iterable[Key]) -> "Records":
        """Return empty records of these tenants."""
        return cls({key: TenantRecords() for key in tenants})

    def histories(self) -> tuple[History[Holding] | History[Promises] | History[Addresses], ...]:
        """Return all histories."""
        tenants = [
            kept for tenant in self.tenants.values() for kept in (tenant.services, tenant.pools)
        ]
        return (self.allocations, self.pools, *tenants)

    def shown_by(self, tenant: Key, service: Key) -> set[str]:
        """Return every address that a Service of a tenant has ever shown."""
        stays = self.tenants[tenant].services.stays()
        return {span.start_text for stay in stays if stay.key == service for span in stay.value}

    def blind_seconds(self) -> float:
        """Return how much too early an address could have been given back without being found.

        That is from when an allocation was last seen to when, after it was gone, the Services of
        its tenant were listed; at the worst.
        """
        return max(
            (
                self.tenants[last.tenant].services.next_look(went.end) - went.begin
                for last, went in self.allocations.ends()
                if last.tenant in self.tenants and last.span is not None
            ),
            default=0.0,
        )
