"""The recorded content of each kind, and the histories of all kinds together.

In the management cluster these are the addresses that an IPAllocation holds and a NetworkPool
promises. In a tenant they are the addresses that a Service shows and a load balancer may hand out.
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
    """The range that an IPAllocation holds, in whatever phase; None if it holds none.

    The range of an allocation for nodes is not `for_services`: no Service may show it.
    """

    tenant: Key
    span: AddressRange | None
    for_services: bool


class Promise(NamedTuple):
    """A range that a NetworkPool promises to the allocation with a uid."""

    uid: str
    span: AddressRange


class Promises(NamedTuple):
    """The CIDR of a NetworkPool, and its open promises."""

    block: AddressRange
    open: tuple[Promise, ...]


def make_holding(allocation: IPAllocation) -> Holding:
    """Return the range of an allocation and its tenant."""
    spec = allocation.spec
    for_services = spec.type == names.TYPE_LOADBALANCER
    return Holding(
        spec.tenantClusterRef.key, statusranges.find_held_range(allocation), for_services
    )


def make_promises(pool: NetworkPool) -> Promises:
    """Return the block and the open promises of a pool."""
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


def list_assignable(pool: IPAddressPool) -> Addresses:
    """Return the addresses that MetalLB may hand out of a pool, without our placeholder."""
    entries = pool.spec.addresses
    spans = (addresstexts.parse_cidr_or_span(entry) for entry in entries if entry != NO_ADDRESS)
    return tuple(span for span in spans if span is not None)


def list_blocks(pool: CiliumPool) -> Addresses:
    """Return the addresses of a pool of Cilium, without blocks that cannot be parsed.

    Those of a disabled pool count, too: a frozen operator may have read an older version of it.
    """
    spans = (block.span for block in pool.blocks)
    return tuple(span for span in spans if span is not None)


@dataclass(frozen=True, slots=True)
class OfferKind(Generic[T]):
    """The kind of pools that a load balancer in a tenant reads.

    Args:
        resource: the kind.
        list_addresses: returns the addresses of a pool.
    """

    resource: Resource[T]
    list_addresses: Callable[[T], Addresses]


METALLB_OFFERS = OfferKind(IP_ADDRESS_POOL, list_assignable)
CILIUM_OFFERS = OfferKind(CILIUM_POOL, list_blocks)


@dataclass(frozen=True, slots=True)
class TenantRecords:
    """The histories of a tenant's Services, and of its load balancer's pools."""

    services: History[Addresses] = field(default_factory=History)
    pools: History[Addresses] = field(default_factory=History)


@dataclass(frozen=True, slots=True)
class Records:
    """The histories of the management cluster and of all tenants.

    Args:
        tenants: by key of the TenantCluster.
    """

    tenants: Mapping[Key, TenantRecords]
    allocations: History[Holding] = field(default_factory=History)
    pools: History[Promises] = field(default_factory=History)

    @classmethod
    def for_tenants(cls, tenants: Iterable[Key]) -> "Records":
        """Return empty records of these tenants."""
        return cls({key: TenantRecords() for key in tenants})

    def list_histories(
        self,
    ) -> tuple[History[Holding] | History[Promises] | History[Addresses], ...]:
        """Return all histories."""
        tenants = [
            history
            for tenant in self.tenants.values()
            for history in (tenant.services, tenant.pools)
        ]
        return (self.allocations, self.pools, *tenants)

    def list_shown_by(self, tenant: Key, service: Key) -> set[str]:
        """Return every address that a Service of a tenant has ever shown."""
        versions = self.tenants[tenant].services.list_versions()
        return {
            span.start_text
            for version in versions
            if version.key == service
            for span in version.value
        }

    def compute_blind_seconds(self) -> float:
        """Return for how long a Service could have shown a released address without a finding.

        For each deleted allocation that is the time from the last moment at which it existed to
        the first LIST of its tenant's Services after it was gone. The longest time is returned.
        """
        return max(
            (
                self.tenants[last.tenant].services.find_next_list(deletion.end) - deletion.begin
                for last, deletion in self.allocations.list_deletions()
                if last.tenant in self.tenants and last.span is not None
            ),
            default=0.0,
        )
