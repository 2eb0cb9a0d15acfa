"""The addresses of each tenant, and the number of its look in pictures.

A *holding* is all allocations of one tenant. A *look* is the colour and the pattern of a tenant.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from allocator import AddressRange
from controller.conditions import find_condition
from controller.meta import Key
from reconcilers.addressing import addresstexts, statusranges
from reconcilers.addressmap.looks import assign_looks
from reconcilers.addressmap.objects import Objects, sort_by_key
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.api.tenantcluster import NETWORK_READY, TenantCluster
from reconcilers.api.tenantnetwork import TenantNetwork
from reconcilers.integrations.core.scopedlists import NotRead
from reconcilers.tenantcluster.allocations.membership import find_role, is_foreign
from reconcilers.tenantcluster.conditionorder import find_worst_condition

NO_OBJECT = "no such TenantCluster"
NOT_READ = "TenantClusters were not read"


@dataclass(frozen=True, slots=True)
class Holding:
    """The allocations of one tenant.

    Args:
        key: namespace and name of the TenantCluster.
        tenant: the TenantCluster; None if it does not exist, or if the allocations are for an
            earlier cluster of that name.
        allocations: the tenant's allocations, by namespace and name.
        missing: why `tenant` is None, as a message for people.
        not_read: lists that may have allocations of the tenant and that the user may not read. If
            there are some, the figures of the tenant are not known.
        reported_network: the tenant's status.network, which stands in for allocations that the
            user may not read; None if the allocations are read.
    """

    key: Key
    tenant: TenantCluster | None
    allocations: tuple[IPAllocation, ...]
    missing: str = NO_OBJECT
    not_read: Sequence[NotRead] = ()
    reported_network: TenantNetwork | None = None

    def list_ranges(self, allocation_type: str) -> list[AddressRange]:
        """Return the ranges that the tenant holds for nodes or for load balancers.

        Args:
            allocation_type: `nodes` or `loadbalancer`.
        """
        if self.reported_network is not None:
            spans = (
                entry.range.partition("-")
                for entry in self.reported_network.ranges
                if entry.type == allocation_type
            )
            parsed = (addresstexts.parse_ends(first, last) for first, _, last in spans)
            return [span for span in parsed if span is not None]
        return [
            held_range
            for allocation in self.allocations
            if allocation.spec.type == allocation_type
            for held_range in statusranges.list_held_ranges(allocation)
        ]

    def count_by_family(self, allocation_type: str) -> list[int]:
        """Return how many addresses of a type the tenant holds: IPv4, then IPv6.

        A family without addresses is left out.
        """
        sizes = Counter[int]()
        for held_range in self.list_ranges(allocation_type):
            sizes[held_range.family] += held_range.size
        return [sizes[family] for family in sorted(sizes)]

    @property
    def phase(self) -> str | None:
        """The phase of the TenantCluster; None if there is no such object."""
        return self.tenant.status.phase if self.tenant else None

    @property
    def network_ready(self) -> tuple[str, str]:
        """Status and message of the condition NetworkReady; Unknown if there is none."""
        if self.tenant is None:
            return "Unknown", self.missing
        condition = find_condition(self.tenant.status.conditions, NETWORK_READY)
        return (condition.status, condition.message) if condition else ("Unknown", "-")

    @property
    def worst_condition(self) -> tuple[str, str]:
        """Status and message of the condition with the gravest fault; Unknown if there is none."""
        if self.tenant is None:
            return "Unknown", self.missing
        condition = find_worst_condition(self.tenant)
        return (condition.status, condition.message) if condition else ("Unknown", "-")

    @property
    def waiting_count(self) -> int:
        """How many requests of the tenant hold no range yet, with or without an IPAllocation."""
        network = self.tenant.status.network if self.tenant else None
        requests = network.waiting if network is not None else ()
        if self.reported_network is not None:
            return len(requests)  # the allocations are not known, so the status alone counts
        without_allocation = sum(not request.allocation for request in requests)
        return without_allocation + sum(map(statusranges.waits_for_range, self.allocations))

    @property
    def waiting_service_count(self) -> int | None:
        """How many Services have long been without an address; None if that is not known."""
        network = self.tenant.status.network if self.tenant else None
        return network.loadBalancer.servicesWaiting if network is not None else None

    @property
    def growth_count(self) -> int:
        """How many ranges of the tenant come from growth."""
        if self.reported_network is not None:
            return sum(entry.role == names.ROLE_GROWTH for entry in self.reported_network.ranges)
        return sum(
            self.find_allocation_role(allocation) == names.ROLE_GROWTH
            for allocation in self.allocations
        )

    def find_allocation_role(self, allocation: IPAllocation) -> str | None:
        """Return an allocation's role: initial or growth; None if the tenant is not known."""
        return find_role(allocation, self.tenant) if self.tenant else None


def list_holdings(objects: Objects) -> list[Holding]:
    """Return the holding of every tenant, ordered by namespace and name.

    The allocations of a missing cluster are a holding without a tenant. So are the allocations of
    an earlier cluster, whose name an existing cluster has now; that cluster's holding comes first.
    If the user may not read IPAllocations, the status.network of a TenantCluster stands in for
    them. A tenant without status.network has unknown figures then.
    """
    members: dict[tuple[Key, bool], list[IPAllocation]] = {
        (key, True): [] for key in objects.clusters
    }
    for allocation in sort_by_key(objects.allocations):
        key = allocation.spec.tenantClusterRef.key
        tenant = objects.clusters.get(key)
        is_existing = tenant is not None and not is_foreign(allocation, tenant)
        members.setdefault((key, is_existing), []).append(allocation)
    missing = NO_OBJECT if objects.owners_known else NOT_READ
    not_read = objects.find_unread_lists(IP_ALLOCATION)
    ordered = sorted(members, key=lambda member: (member[0], not member[1]))
    holdings = []
    for key, is_existing in ordered:
        tenant = objects.clusters[key] if is_existing else None
        reported_network = tenant.status.network if tenant is not None and not_read else None
        holdings.append(
            Holding(
                key,
                tenant,
                allocations=tuple(members[key, is_existing]),
                missing=missing,
                not_read=not_read if reported_network is None else (),
                reported_network=reported_network,
            )
        )
    return holdings


def assign_look_numbers(
    objects: Objects,
    earlier_numbers: Mapping[str, int] | None = None,
    more_tenants: Iterable[str] = (),
) -> dict[str, int]:
    """Return the number of each tenant's look, the same whichever pools a picture shows.

    Args:
        objects: all objects of a cluster.
        earlier_numbers: the result for an earlier picture; its tenants keep their looks. None for
            the first picture.
        more_tenants: names of further tenants in the picture.
    """
    views = objects.integrations
    own_names = (
        str(allocation.spec.tenantClusterRef.key) for allocation in objects.allocations.values()
    )
    platform_names = chain(
        *(holders.yield_tenants() for holders in views.holders.values()),
        *(pool.yield_tenants() for pool in views.pictures),
    )
    cluster_names = map(str, objects.clusters)
    return assign_looks(
        chain(cluster_names, own_names, platform_names, more_tenants), earlier_numbers
    )
