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
        shown: what its status shows; None unless its allocations may not be read.
    """

    key: Key
    tenant: TenantCluster | None
    allocations: tuple[IPAllocation, ...]
    missing: str = NO_OBJECT
    not_read: Sequence[NotRead] = ()
    shown: TenantNetwork | None = None

    def ranges(self, kind: str) -> list[AddressRange]:
        """Return the ranges of a type that it holds."""
        if self.shown is not None:
            spans = (
                shown.range.partition("-") for shown in self.shown.ranges if shown.type == kind
            )
            parsed = (addresstexts.parse_ends(first, last) for first, _, last in spans)
            return [span for span in parsed if span is not None]
        of_kind = (one for one in self.allocations if one.spec.type == kind)
        return [held for one in of_kind for held in statusranges.list_held_ranges(one)]

    def sizes(self, kind: str) -> list[int]:
        """Return how many addresses of a type it holds: of each family of which it has some."""
        found = Counter[int]()
        for held in self.ranges(kind):
            found[held.family] += held.size
        return [found[family] for family in sorted(found)]

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
        wanted = network.waiting if network is not None else ()
        if self.shown is not None:
            return len(wanted)
        without_allocation = sum(not request.allocation for request in wanted)
        return without_allocation + sum(map(statusranges.waits_for_range, self.allocations))

    @property
    def services_waiting(self) -> int | None:
        """How many Services have long been without an address; None if that is not known."""
        network = self.tenant.status.network if self.tenant else None
        return network.loadBalancer.servicesWaiting if network is not None else None

    @property
    def grown(self) -> int:
        """How many of its ranges came by growth."""
        if self.shown is not None:
            return sum(shown.role == names.ROLE_GROWTH for shown in self.shown.ranges)
        return sum(self.role(one) == names.ROLE_GROWTH for one in self.allocations)

    def role(self, allocation: IPAllocation) -> str | None:
        """Return whether an allocation is its first or came by growth; None if that is unknown."""
        return role(allocation, self.tenant) if self.tenant else None


def holdings(objects: Objects) -> list[Holding]:
    """Return what every tenant holds, by namespace and name.

    What is held for a cluster that does not exist, or for an earlier one of its name, is listed
    after those that are, under the same name.
    """
    members: dict[tuple[Key, bool], list[IPAllocation]] = {
        (key, True): [] for key in objects.clusters
    }
    for one in sorted_by_key(objects.allocations):
        key = one.spec.tenantClusterRef.key
        tenant = objects.clusters.get(key)
        own = tenant is not None and not is_foreign(one, tenant)
        members.setdefault((key, own), []).append(one)
    missing = NO_OBJECT if objects.owners_known else NOT_READ
    not_read = objects.limits_of(IP_ALLOCATION)
    ordered = sorted(members, key=lambda one: (one[0], not one[1]))
    found = []
    for key, own in ordered:
        tenant = objects.clusters[key] if own else None
        shown = tenant.status.network if tenant is not None and not_read else None
        hidden = not_read if shown is None else ()
        found.append(Holding(key, tenant, tuple(members[key, own]), missing, hidden, shown))
    return found


def numbered(
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
    ours = (str(one.spec.tenantClusterRef.key) for one in objects.allocations.values())
    of_others = chain(
        *(holders.tenants() for holders in others.holders.values()),
        *(pool.tenants() for pool in others.pictures),
    )
    return looks(chain(map(str, objects.clusters), ours, of_others, also), known)
