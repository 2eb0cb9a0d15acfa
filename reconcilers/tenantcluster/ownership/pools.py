"""Whether a TenantCluster may write an offer of addresses that is in its tenant.

An *offer* is a pool of a load balancer. An offer that we make names its owner: a TenantCluster and
a management cluster. An offer that names another owner is not written. An exception is an owner
that is gone. Whether another management cluster is gone cannot be found out from here, so its
offers are never taken over, unless a person removes the annotation that names it.

An offer without a named owner is taken over where that is unambiguous:

made by this controller   unless all its addresses are of other TenantClusters
made by another tool      if all its addresses are of this TenantCluster, as in the pool of
                          Butler's own controller
"""

from bisect import bisect_right
from collections.abc import Iterable

from allocator import AddressRange
from controller.cache import Cache
from controller.client import Client
from controller.errors import NotFound
from controller.meta import Key
from reconcilers.addressing import addresstexts, statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import TENANT_INDEX, IPAllocation
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.clusteraccess.clusteridentity import find_management_uid, is_of_other_management
from reconcilers.clusteraccess.tenantclients import TenantClients
from reconcilers.loadbalancers.ownernotes import find_owner
from reconcilers.loadbalancers.port import MADE_BY_OTHERS, BalancerBlocked, Offer
from reconcilers.promises.unreadable import HOLDERS_UNKNOWN, describe_unreadable
from reconcilers.tenantcluster.allocations.unreadable_members import (
    list_unreadable_members,
    make_unreadable_objects,
)

SHARED = "TenantShared"
"""The reason where another TenantCluster leads to the same cluster, and goes first."""
_MOST_ENTRIES = 4_096
"""How many entries of a pool are checked; one with more was not made by any controller."""


def make_shared_message(first: Key) -> str:
    """Return the sentence for a cluster that waits because `first` leads to the same tenant.

    Args:
        first: the TenantCluster that goes first.
    """
    return (
        f"TenantCluster {first} leads to the same cluster and goes first: nothing is written there"
        " for this one; delete one of the two, or give this one the kubeconfig of its own cluster"
    )


def make_elsewhere_message(offer: Offer) -> str:
    """Return the sentence for a cluster that waits because of another management cluster."""
    return (
        f"the management cluster {find_management_uid(offer)} writes {offer.kind}"
        f" {offer.name} in the tenant for its TenantCluster {find_owner(offer)} and goes"
        " first: nothing is written there from here; delete one of the two TenantClusters, or, if"
        " that management cluster is gone for good, take the annotation"
        f" {names.ANNOTATION_PROJECTION_MANAGEMENT} off the pool"
    )


class PoolOwnership:
    """Decides whether a TenantCluster may write an offer that is in its tenant.

    Args:
        client: the management cluster, to read whether a named owner is gone.
        allocations: show whose addresses an offer has; indexed by TenantCluster.
        tenants: has the identity of the management cluster.
    """

    def __init__(
        self, client: Client, allocations: Cache[IPAllocation], tenants: TenantClients
    ) -> None:
        self._client = client
        self._tenants = tenants
        self._allocations = allocations

    async def require(self, tenant: TenantCluster, offer: Offer) -> None:
        """Raise unless `tenant` may write the offer.

        Raises:
            BalancerBlocked: the offer is another owner's; the message says what to do.
            ControllerError: the management cluster did not answer.
        """
        key = tenant.metadata.key
        owner = find_owner(offer)
        # First, because a TenantCluster of another management cluster may have the same name.
        if is_of_other_management(offer, await self._tenants.read_management_identity()):
            raise BalancerBlocked(SHARED, make_elsewhere_message(offer))
        if owner is None:
            self._require_unambiguous(key, offer)
        elif owner != key and not await self._is_gone(owner):
            raise BalancerBlocked(SHARED, make_shared_message(owner))

    async def _is_gone(self, owner: Key) -> bool:
        """Return whether a cluster is gone by a live read, and has no allocations left.

        Without allocations, no tenant uses its ranges any more.
        """
        if self._allocations.list_by_index(TENANT_INDEX, str(owner)):
            return False  # the tenant still uses their ranges
        if list_unreadable_members(self._allocations, owner):
            return False  # an allocation that cannot be read may hold a range of it
        try:
            await self._client.get(TENANT_CLUSTER, owner)
        except NotFound as missing:
            # A 404 with another reason says that the kind is not served.
            return missing.reason == "NotFound"
        return False

    def _require_unambiguous(self, key: Key, offer: Offer) -> None:
        """Raise BalancerBlocked unless a cluster may take over an offer that names no owner."""
        if offer.is_made_by_us:
            holding_clusters = find_holders(offer, self._allocations)
            if holding_clusters and key not in holding_clusters:
                raise BalancerBlocked(SHARED, make_shared_message(min(holding_clusters)))
            if key not in holding_clusters and self._allocations.unreadable:
                # An unreadable allocation of another cluster may hold the offer's addresses.
                raise BalancerBlocked(HOLDERS_UNKNOWN, self._describe_unknown_holders(offer))
            return  # this cluster holds addresses of it, or no cluster does
        if not may_be_taken_over(offer, self._allocations.list_by_index(TENANT_INDEX, str(key))):
            raise BalancerBlocked(
                MADE_BY_OTHERS,
                f"{offer.kind} {offer.name} in the tenant was not created by this controller,"
                " and holds addresses that are not this cluster's, so it is left as it is: move"
                f" them to an {offer.kind} of another name and delete it",
            )

    def _describe_unknown_holders(self, offer: Offer) -> str:
        """Return the sentence for a cluster that waits because of unreadable allocations."""
        unreadable = describe_unreadable(make_unreadable_objects(self._allocations.unreadable))
        return (
            f"whose addresses {offer.kind} {offer.name} in the tenant holds is not known:"
            f" {unreadable}"
        )


def may_be_taken_over(offer: Offer, members: Iterable[IPAllocation]) -> bool:
    """Return whether we made an offer without a named owner, or all its addresses are `members`'.

    An offer of another tool that is empty, or has an entry that cannot be parsed, stays theirs.
    """
    if offer.is_made_by_us:
        return True
    spans = _parse_spans(offer)
    held_spans = [span for member in members for span in _list_balancer_ranges(member)]
    is_parsed = bool(spans) and len(spans) == len(offer.entries)
    return is_parsed and all(
        any(held_span.contains(span) for held_span in held_spans) for span in spans
    )


def find_holders(offer: Offer, allocations: Iterable[IPAllocation]) -> set[Key]:
    """Return the TenantClusters that hold addresses of an offer without a named owner.

    All allocations are compared with the offer's entries, so the sorted entries are searched by
    bisection.
    """
    starts: list[tuple[int, int]] = []
    # The highest end of all entries up to the one at this position: entries may overlap.
    highest_ends: list[tuple[int, int]] = []
    for span in sorted(_parse_spans(offer), key=lambda span: (span.family, span.first)):
        end = (span.family, span.last)
        starts.append((span.family, span.first))
        highest_ends.append(max(end, highest_ends[-1]) if highest_ends else end)
    clusters = set()
    for allocation in allocations:
        for held_span in _list_balancer_ranges(allocation):
            # The entries that start at or before the end of the held range. It overlaps one of
            # them if the highest of their ends is at or after its start.
            number = bisect_right(starts, (held_span.family, held_span.last))
            if number and highest_ends[number - 1] >= (held_span.family, held_span.first):
                clusters.add(allocation.spec.tenantClusterRef.key)
    return clusters


def _parse_spans(offer: Offer) -> list[AddressRange]:
    """Return the ranges of an offer's entries; entries that cannot be parsed are left out."""
    parsed = (addresstexts.parse_cidr_or_span(entry) for entry in offer.entries[:_MOST_ENTRIES])
    return [span for span in parsed if span is not None]


def _list_balancer_ranges(allocation: IPAllocation) -> tuple[AddressRange, ...]:
    """Return the ranges of an allocation of load-balancer addresses; none of other types."""
    if allocation.spec.type != names.TYPE_LOADBALANCER:
        return ()
    return statusranges.list_held_ranges(allocation)
