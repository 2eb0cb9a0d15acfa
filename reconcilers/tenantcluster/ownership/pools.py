"""For whom an offer of addresses in a tenant was made, and whether it may be written for another.

What we make there names its TenantCluster and its management cluster. What names another one, or
was made by another tool, is left as it is. Whether another management cluster is gone cannot be
found out from here, so what it made is never taken over, unless a person takes its name off.
A pool without a name is taken over where that is unambiguous:

made by an earlier release    unless it holds addresses of another TenantCluster alone
made by another tool          if it holds nothing but addresses of this TenantCluster, as that of
                              Butler's own controller does
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
from reconcilers.loadbalancers.ownernotes import owner_of
from reconcilers.loadbalancers.port import MADE_BY_OTHERS, BalancerBlocked, Offer
from reconcilers.promises.unreadable import HOLDERS_UNKNOWN, describe_unreadable
from reconcilers.tenantcluster.allocations.unreadable_members import (
    unreadable_members,
    unreadable_objects,
)

SHARED = "TenantShared"
"""The reason where another TenantCluster leads to the same cluster, and goes first."""
_MOST_ENTRIES = 4_096
"""How many entries of a pool are checked; one with more was not made by any controller."""


def shared_message(first: Key) -> str:
    """Return the sentence for a cluster that waits because `first` leads to the same tenant."""
    return (
        f"TenantCluster {first} leads to the same cluster and goes first: nothing is written there"
        " for this one; delete one of the two, or give this one the kubeconfig of its own cluster"
    )


def elsewhere_message(offer: Offer) -> str:
    """Return the sentence for a cluster that waits because of another management cluster."""
    return (
        f"the management cluster {find_management_uid(offer)} writes {offer.kind}"
        f" {offer.name} in the tenant for its TenantCluster {owner_of(offer)} and goes"
        " first: nothing is written there from here; delete one of the two TenantClusters, or, if"
        " that management cluster is gone for good, take the annotation"
        f" {names.ANNOTATION_PROJECTION_MANAGEMENT} off the pool"
    )


class PoolOwnership:
    """Decides whether a TenantCluster may write the pool that is in its tenant.

    Args:
        client: the management cluster, for whether a noted owner is gone.
        allocations: who holds what, indexed by TenantCluster.
        tenants: knows which cluster the management cluster is.
    """

    def __init__(
        self, client: Client, allocations: Cache[IPAllocation], tenants: TenantClients
    ) -> None:
        self._client = client
        self._tenants = tenants
        self._allocations = allocations

    async def require(self, tenant: TenantCluster, offer: Offer) -> None:
        """Raise unless `tenant` may write the pool.

        Raises:
            BalancerBlocked: another one's it is; the message says how to mend that.
            ControllerError: the management cluster did not answer.
        """
        key = tenant.metadata.key
        owner = owner_of(offer)
        if is_of_other_management(offer, await self._tenants.read_management_identity()):
            raise BalancerBlocked(SHARED, elsewhere_message(offer))
        if owner is None:
            self._require_unambiguous(key, offer)
        elif owner != key and not await self._is_gone(owner):
            raise BalancerBlocked(SHARED, shared_message(owner))

    async def _is_gone(self, owner: Key) -> bool:
        """Return whether nothing is left of a cluster; that it is gone is read live."""
        if self._allocations.by_index(TENANT_INDEX, str(owner)):
            return False
        if unreadable_members(self._allocations, owner):
            return False
        try:
            await self._client.get(TENANT_CLUSTER, owner)
        except NotFound as missing:
            return missing.reason == "NotFound"
        return False

    def _require_unambiguous(self, key: Key, offer: Offer) -> None:
        if offer.is_made_by_us:
            holding_clusters = holders(offer, self._allocations)
            if holding_clusters and key not in holding_clusters:
                raise BalancerBlocked(SHARED, shared_message(min(holding_clusters)))
            if key not in holding_clusters and self._allocations.unreadable:
                raise BalancerBlocked(HOLDERS_UNKNOWN, self._unknown_message(offer))
            return
        if not may_be_taken_over(offer, self._allocations.by_index(TENANT_INDEX, str(key))):
            raise BalancerBlocked(
                MADE_BY_OTHERS,
                f"{offer.kind} {offer.name} in the tenant was not created by this controller,"
                " and holds addresses that are not this cluster's, so it is left as it is: move"
                f" them to an {offer.kind} of another name and delete it",
            )

    def _unknown_message(self, offer: Offer) -> str:
        """Return the sentence for a cluster that waits because a holder may not be readable."""
        unreadable = describe_unreadable(unreadable_objects(self._allocations.unreadable))
        return (
            f"whose addresses {offer.kind} {offer.name} in the tenant holds is not known:"
            f" {unreadable}"
        )


def may_be_taken_over(offer: Offer, members: Iterable[IPAllocation]) -> bool:
    """Return whether a pool that names no owner is ours, or has no addresses but `members`'."""
    if offer.is_made_by_us:
        return True
    spans = _spans(offer)
    held_spans = [span for member in members for span in _list_balancer_ranges(member)]
    all_known = bool(spans) and len(spans) == len(offer.entries)
    return all_known and all(
        any(held_span.contains(span) for held_span in held_spans) for span in spans
    )


def holders(offer: Offer, allocations: Iterable[IPAllocation]) -> set[Key]:
    """Return the TenantClusters that hold addresses of a pool which does not name its owner.

    All allocations are looked at, so the entries of the pool are searched, not tried one by one.
    """
    starts: list[tuple[int, int]] = []
    ends: list[tuple[int, int]] = []
    for span in sorted(_spans(offer), key=lambda span: (span.family, span.first)):
        end = (span.family, span.last)
        starts.append((span.family, span.first))
        ends.append(max(end, ends[-1]) if ends else end)
    clusters = set()
    for allocation in allocations:
        for held_span in _list_balancer_ranges(allocation):
            number = bisect_right(starts, (held_span.family, held_span.last))
            if number and ends[number - 1] >= (held_span.family, held_span.first):
                clusters.add(allocation.spec.tenantClusterRef.key)
    return clusters


def _spans(offer: Offer) -> list[AddressRange]:
    parsed = (addresstexts.parse_cidr_or_span(entry) for entry in offer.entries[:_MOST_ENTRIES])
    return [span for span in parsed if span is not None]


def _list_balancer_ranges(allocation: IPAllocation) -> tuple[AddressRange, ...]:
    """Return the ranges of an allocation of load-balancer addresses; none of other types."""
    if allocation.spec.type != names.TYPE_LOADBALANCER:
        return ()
    return statusranges.list_held_ranges(allocation)
