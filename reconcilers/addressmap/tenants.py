"""What each tenant holds, and the look that it has in pictures."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from allocator import AddressRange
from controller.conditions import find
from controller.meta import Key
from reconcilers.addressing import addresstexts, statusranges
from reconcilers.addressmap.looks import looks
from reconcilers.addressmap.objects import Objects, sorted_by_key
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.api.tenantcluster import NETWORK_READY, TenantCluster
from reconcilers.api.tenantnetwork import TenantNetwork
from reconcilers.integrations.core.scopedlists import NotRead
from reconcilers.tenantcluster.allocations.membership import is_foreign, role
from reconcilers.tenantcluster.conditionorder import worst_condition

NO_OBJECT = "no such TenantCluster"
NOT_READ = "TenantClusters were not read"


@dataclass(frozen=True, slots=True)
class Holding:
    """The allocations of one tenant.

    Args:
        key: the TenantCluster that allocations name.
        tenant: that object; None if there is none, or an earlier one of its name is meant.
        allocations: by namespace and name.
        missing: why there is no object.
        not_read: what it may hold and may not be read: its figures are not known then.
        reported_network: its status.network; None unless its allocations may not be read.
    """

    key: Key
    tenant: TenantCluster | None
    allocations: tuple[IPAllocation, ...]
    missing: str = NO_OBJECT
    not_read: Sequence[NotRead] = ()
    reported_network: TenantNetwork | None = None

    def ranges(self, kind: str) -> list[AddressRange]:
        """Return the ranges of a type that it holds."""
        if self.reported_network is not None:
            spans = (
                entry.range.partition("-")
                for entry in self.reported_network.ranges
                if entry.type == kind
            )
            parsed = (addresstexts.parse_ends(first, last) for first, _, last in spans)
            return [span for span in parsed if span is not None]
        of_kind = (allocation for allocation in self.allocations if allocation.spec.type == kind)
        return [
            held_range
            for allocation in of_kind
            for held_range in statusranges.list_held_ranges(allocation)
        ]

    def sizes(self, kind: str) -> list[int]:
        """Return how many addresses of a type it holds: of each family of which it has some."""
        sizes = Counter[int]()
        for held_range in self.ranges(kind):
            sizes[held_range.family] += held_range.size
        return [sizes[family] for family in sorted(sizes)]

    @property
    def phase(self) -> str | None:
        """The phase of its object."""
        return self.tenant.status.phase if self.tenant else None

    @property
    def network(self) -> tuple[str, str]:
        """Whether its network is ready, and why."""
        if self.tenant is None:
            return "Unknown", self.missing
        condition = find(self.tenant.status.conditions, NETWORK_READY)
        return (condition.status, condition.message) if condition else ("Unknown", "-")

    @property
    def worst(self) -> tuple[str, str]:
        """The status and message of the condition that says most of what is wrong."""
        if self.tenant is None:
            return "Unknown", self.missing
        condition = worst_condition(self.tenant)
        return (condition.status, condition.message) if condition else ("Unknown", "-")

    @property
    def waiting(self) -> int:
        """How many requests of it hold nothing yet, with or without an IPAllocation."""
        network = self.tenant.status.network if self.tenant else None
        requests = network.waiting if network is not None else ()
        if self.reported_network is not None:
            return len(requests)
        without_allocation = sum(not request.allocation for request in requests)
        return without_allocation + sum(map(statusranges.waits_for_range, self.allocations))

    @property
    def services_waiting(self) -> int | None:
        """How many Services have long been without an address; None if that is not known."""
        network = self.tenant.status.network if self.tenant else None
        return network.loadBalancer.servicesWaiting if network is not None else None

    @property
    def grown(self) -> int:
        """How many of its ranges came by growth."""
        if self.reported_network is not None:
            return sum(entry.role == names.ROLE_GROWTH for entry in self.reported_network.ranges)
        return sum(self.role(allocation) == names.ROLE_GROWTH for allocation in self.allocations)

    def role(self, allocation: IPAllocation) -> str | None:
        """Return whether an allocation is its first or came by growth; None if that is unknown."""
        return role(allocation, self.tenant) if self.tenant else None


def holdings(objects: Objects) -> list[Holding]:
    """Return the holding of every tenant, ordered by namespace and name.

    Ranges of a cluster that does not exist, or of an earlier one of its name, are listed after the
    existing cluster, under the same name. If IPAllocations cannot be read, the status.network of a
    TenantCluster stands in for them; without that its figures are not known.
    """
    members: dict[tuple[Key, bool], list[IPAllocation]] = {
        (key, True): [] for key in objects.clusters
    }
    for allocation in sorted_by_key(objects.allocations):
        key = allocation.spec.tenantClusterRef.key
        tenant = objects.clusters.get(key)
        own = tenant is not None and not is_foreign(allocation, tenant)
        members.setdefault((key, own), []).append(allocation)
    missing = NO_OBJECT if objects.owners_known else NOT_READ
    not_read = objects.limits_of(IP_ALLOCATION)
    ordered = sorted(members, key=lambda member: (member[0], not member[1]))
    holdings_found = []
    for key, own in ordered:
        tenant = objects.clusters[key] if own else None
        reported_network = tenant.status.network if tenant is not None and not_read else None
        hidden = not_read if reported_network is None else ()
        holdings_found.append(
            Holding(
                key,
                tenant,
                allocations=tuple(members[key, own]),
                missing=missing,
                not_read=hidden,
                reported_network=reported_network,
            )
        )
    return holdings_found


def number_looks(
    objects: Objects,
    known: Mapping[str, int] | None = None,
    also: Iterable[str] = (),
) -> dict[str, int]:
    """Return the number of each tenant's look, the same whichever pools a picture shows.

    Args:
        objects: all of a cluster's.
        known: what this returned for an earlier picture; who is in it keeps its look.
        also: names of tenants that are in the picture, and maybe not in `objects`.
    """
    others = objects.integrations
    ours = (
        str(allocation.spec.tenantClusterRef.key) for allocation in objects.allocations.values()
    )
    of_others = chain(
        *(holders.tenants() for holders in others.holders.values()),
        *(pool.tenants() for pool in others.pictures),
    )
    return looks(chain(map(str, objects.clusters), ours, of_others, also), known)
