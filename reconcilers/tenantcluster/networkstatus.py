"""status.network of a TenantCluster: ranges, quota and use, waiting requests, the last refusal.

It is computed from the objects of the management cluster and from what the tenant's Services show.
Times are taken from the present status, so two passes over the same objects write the same.

A *state* is an allocation that the cluster should have, and how far it is served. *Growth* is a
further allocation, for Services that wait for an address.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

from msgspec.structs import replace

from allocator import AddressRange
from controller.conditions import format_rfc3339
from reconcilers.addressing import familychoice, statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import cap_at_int32
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.api.tenantnetwork import (
    MOST_RANGES,
    MOST_SERVICES,
    NetworkRefusal,
    TenantAddresses,
    TenantLoadBalancerAddresses,
    TenantNetwork,
    TenantRange,
    WaitingRequest,
)
from reconcilers.reporting.conditions import ConditionFinding
from reconcilers.tenantcluster.allocations import membership
from reconcilers.tenantcluster.allocations.refusals import RequestRefusal
from reconcilers.tenantcluster.allocations.requests import AllocationState

RECONCILING = "Reconciling"


class AddressUsers:
    """Finds the Services that have addresses of a range, by a binary search over all addresses.

    Args:
        users: addresses with the namespace/name of a Service that has them.
    """

    def __init__(self, users: Iterable[tuple[AddressRange, str]] = ()) -> None:
        self._sorted: dict[int, list[tuple[int, str]]] = {4: [], 6: []}
        for address, name in users:
            self._sorted[address.family].append((address.first, name))
        for pairs in self._sorted.values():
            pairs.sort()

    def find_names_in(self, span: AddressRange, limit: int) -> tuple[str, ...]:
        """Return up to `limit` Services that have addresses of `span`, by address, then name."""
        pairs = self._sorted[span.family]
        names: dict[str, None] = {}  # a set in the order of insertion: a Service may have several
        first_position = bisect_left(pairs, (span.first, ""))
        for address, name in islice(pairs, first_position, None):
            if address > span.last or len(names) == limit:
                break
            names[name] = None
        return tuple(names)


@dataclass(frozen=True, slots=True)
class ServicesSeen:
    """What the Services of a tenant show.

    Args:
        waiting: how many Services have long been without an address.
        users: the Services that have addresses.
    """

    waiting: int
    users: AddressUsers = field(default_factory=AddressUsers, compare=False)


@dataclass(frozen=True, slots=True)
class RefusedGrowth:
    """Load-balancer addresses that a running cluster asks for and does not get.

    Args:
        finding: the condition with the reason.
        addresses: how many in a row are needed.
        pools: the pools that may serve it.
    """

    finding: ConditionFinding
    addresses: int
    pools: tuple[str, ...]


def make_network_status(  # noqa: PLR0913 - the parts of a status
    tenant: TenantCluster,
    provider: ProviderConfig,
    members: Sequence[IPAllocation],
    states: Sequence[AllocationState],
    *,
    network_ready: ConditionFinding,
    services: ServicesSeen | None,
    growth: RefusedGrowth | None,
    is_unread: bool,
    is_naming_due: bool,
    now: datetime,
) -> TenantNetwork:
    """Return status.network of a cluster.

    Args:
        members: the cluster's allocations.
        states: the allocations that it should have.
        network_ready: the condition that follows from `states`.
        services: what the tenant's Services show; None if they were not read.
        growth: the growth that the cluster does not get; None if it asks for none.
        is_unread: whether reading the Services failed. Then the parts of the present status that
            come from Services stay. Otherwise a replica that cannot read the Services and a
            replica that can would overwrite each other's status.
        is_naming_due: whether the Services of each range are named again; if not, the present
            names stay, because a tenant's Services may change all the time.
        now: the time.
    """
    present = tenant.status.network or TenantNetwork()
    quota = provider.spec.networking.quota
    waiting = [
        _describe_waiting(state, provider, network_ready)
        for state in states
        if not state.is_served
    ]
    if growth is not None:
        waiting.append(_describe_waiting_growth(growth, provider))
    elif is_unread:
        waiting += [request for request in present.waiting if request.role == names.ROLE_GROWTH]
    find_users: RangeUsers
    if services is not None and is_naming_due:
        find_users = partial(_find_users_now, services.users)
    elif services is not None or is_unread:
        find_users = partial(_find_users_in_status, present)
    else:
        find_users = _find_no_users  # in cloud mode nothing is known of Services
    services_waiting = present.loadBalancer.servicesWaiting if is_unread else None
    if services is not None:
        services_waiting = cap_at_int32(services.waiting)
    return TenantNetwork(
        nodes=TenantAddresses(_count_addresses(members, names.TYPE_NODES), quota.maxNodeIPs),
        loadBalancer=TenantLoadBalancerAddresses(
            _count_addresses(members, names.TYPE_LOADBALANCER),
            quota.maxLoadBalancerIPs,
            services_waiting,
        ),
        ranges=_list_ranges(tenant, members, find_users),
        waiting=tuple(_add_waiting_time(request, present.waiting, now) for request in waiting),
        lastRefusal=_find_last_refusal(present, states, growth=growth, now=now),
    )


def make_status_without_requests(
    tenant: TenantCluster, members: Sequence[IPAllocation]
) -> TenantNetwork | None:
    """Return status.network of a cluster that requests no addresses any more.

    The cluster is being deleted, or there is no ProviderConfig that it may use.

    Args:
        members: the cluster's allocations.

    Returns:
        The status; None if the cluster has no status.network, because nothing was reported yet.
    """
    present = tenant.status.network
    if present is None:
        return None
    balancer_addresses = _count_addresses(members, names.TYPE_LOADBALANCER)
    return replace(
        present,
        nodes=replace(present.nodes, addresses=_count_addresses(members, names.TYPE_NODES)),
        loadBalancer=replace(
            present.loadBalancer, addresses=balancer_addresses, servicesWaiting=None
        ),
        ranges=_list_ranges(tenant, members, partial(_find_users_in_status, present)),
        waiting=(),
    )


def make_network_change(tenant: TenantCluster, network: TenantNetwork) -> dict[str, Any] | None:
    """Return the merge patch of status.network; None if the status shows `network` already."""
    rendered = _render_network(network)
    present = tenant.status.network
    if present is not None and _render_network(present) == rendered:
        return None
    return rendered


def find_added_ranges(before: TenantNetwork | None, after: TenantNetwork) -> list[TenantRange]:
    """Return the ranges in `after` that `before` lacks; all of them if `before` is None."""
    earlier = {(entry.allocation, entry.range) for entry in before.ranges} if before else set()
    return [entry for entry in after.ranges if (entry.allocation, entry.range) not in earlier]


def find_removed_ranges(before: TenantNetwork | None, after: TenantNetwork) -> list[TenantRange]:
    """Return the ranges in `before` that `after` lacks; empty if this cannot be known."""
    if before is None:
        return []  # no earlier ranges are known
    if len(after.ranges) >= MOST_RANGES:
        # The list is cut off there, so a range that it lacks may still be the cluster's.
        return []
    remaining = {(entry.allocation, entry.range) for entry in after.ranges}
    return [entry for entry in before.ranges if (entry.allocation, entry.range) not in remaining]


RangeUsers = Callable[[IPAllocation, AddressRange], tuple[str, ...]]
"""Returns the Services that have addresses of an allocation's range, as namespace/name."""


def _find_no_users(allocation: IPAllocation, span: AddressRange) -> tuple[str, ...]:
    """Return no Service: a RangeUsers for a tenant whose Services are not read."""
    del allocation, span
    return ()


def _find_users_now(
    users: AddressUsers, allocation: IPAllocation, span: AddressRange
) -> tuple[str, ...]:
    """Return the Services that now show addresses of a load-balancer range."""
    is_balancer = allocation.spec.type == names.TYPE_LOADBALANCER
    # Services never have addresses of a range for nodes.
    return users.find_names_in(span, MOST_SERVICES) if is_balancer else ()


def _find_users_in_status(
    present: TenantNetwork, allocation: IPAllocation, span: AddressRange
) -> tuple[str, ...]:
    """Return the Services that the present status names for a range."""
    identity = (*allocation.metadata.key, _format_range(span))
    for entry in present.ranges:
        if (entry.namespace, entry.allocation, entry.range) == identity:
            return entry.services
    return ()


def _format_range(span: AddressRange) -> str:
    """Return a range as the status writes it: `start-end`."""
    return f"{span.start_text}-{span.end_text}"


def _list_ranges(
    tenant: TenantCluster, members: Iterable[IPAllocation], find_users: RangeUsers
) -> tuple[TenantRange, ...]:
    """Return the ranges that a cluster holds, at most as many as the status may list."""
    return tuple(islice(_yield_ranges(tenant, members, find_users), MOST_RANGES))


def _yield_ranges(
    tenant: TenantCluster, members: Iterable[IPAllocation], find_users: RangeUsers
) -> Iterator[TenantRange]:
    """Yield the entry in status.network of each range that a cluster holds."""
    for allocation in members:
        for span in statusranges.list_held_ranges(allocation):
            yield TenantRange(
                allocation=allocation.metadata.name,
                namespace=allocation.metadata.namespace,
                pool=allocation.spec.poolRef.name,
                type=allocation.spec.type,
                role=membership.find_role(allocation, tenant),
                family=familychoice.FAMILY_NAMES[span.family],
                range=_format_range(span),
                releasing=allocation.releasing,
                services=find_users(allocation, span),
            )


def _count_addresses(members: Iterable[IPAllocation], allocation_type: str) -> int:
    """Return how many addresses of a type are held, at most an int32.

    The IPv4 range and the IPv6 range of one allocation count once, by the larger one, because
    spec.count and quotas are numbers of addresses of each family.
    """
    of_type = (allocation for allocation in members if allocation.spec.type == allocation_type)
    spans_by_allocation = map(statusranges.list_held_ranges, of_type)
    return cap_at_int32(
        sum(max((span.size for span in spans), default=0) for spans in spans_by_allocation)
    )


def _describe_waiting(
    state: AllocationState, provider: ProviderConfig, network_ready: ConditionFinding
) -> WaitingRequest:
    """Return the entry of an allocation that is not served.

    Its reason is that of the allocation's Ready condition. If there is no allocation yet, it is
    the reason why none was created.
    """
    refusal, allocation = state.refusal, state.allocation
    if allocation is not None:
        pools: tuple[str, ...] = (allocation.spec.poolRef.name,)
        # 0 if it has no number: it asks for the pool's default, a prefix or a fixed range.
        count = allocation.spec.count or 0
        ready = next((c for c in allocation.status.conditions if c.type == "Ready"), None)
        reason = ready.reason if ready is not None else RECONCILING
    else:
        pools = tuple(provider.spec.networking.list_pools_in_order())
        count = state.count
        reason = refusal.reason if refusal is not None else network_ready.reason
    return WaitingRequest(
        type=state.kind,
        role=names.ROLE_INITIAL,
        reason=reason,
        addresses=cap_at_int32(count),
        namespace=provider.metadata.namespace,
        pools=pools,
        allocation=allocation.metadata.name if allocation is not None else None,
    )


def _describe_waiting_growth(growth: RefusedGrowth, provider: ProviderConfig) -> WaitingRequest:
    """Return the entry of growth that the cluster does not get."""
    return WaitingRequest(
        type=names.TYPE_LOADBALANCER,
        role=names.ROLE_GROWTH,
        reason=growth.finding.reason,
        addresses=cap_at_int32(growth.addresses),
        namespace=provider.metadata.namespace,
        pools=growth.pools,
    )


def _add_waiting_time(
    request: WaitingRequest, waiting_before: Iterable[WaitingRequest], now: datetime
) -> WaitingRequest:
    """Return a copy of a waiting request with the time since when it waits.

    If the status already lists a request of that type and role, its time is kept; otherwise the
    time is `now`.
    """
    purpose = request.type, request.role
    since = next(
        (r.since for r in waiting_before if (r.type, r.role) == purpose and r.since), None
    )
    # The API writes times in whole seconds.
    return replace(request, since=since or now.replace(microsecond=0))


def _find_last_refusal(
    present: TenantNetwork,
    states: Iterable[AllocationState],
    growth: RefusedGrowth | None,
    now: datetime,
) -> NetworkRefusal | None:
    """Return the refusal of this pass; if nothing is refused, the last one in the status.

    An initial allocation comes before growth. While a refusal goes on, it keeps its time.
    """
    refusals: list[RequestRefusal] = [
        state.refusal for state in states if state.refusal is not None
    ]
    if refusals:
        reason, message = refusals[0].reason, refusals[0].message
    elif growth is not None:
        reason, message = growth.finding.reason, growth.finding.message
    else:
        return present.lastRefusal
    last = present.lastRefusal
    # If nothing was waiting, the earlier refusal had ended, and this one is new.
    if last is not None and present.waiting and last.reason == reason:
        return NetworkRefusal(reason, message, last.time)
    return NetworkRefusal(reason, message, now.replace(microsecond=0))


def _render_network(network: TenantNetwork) -> dict[str, Any]:
    """Return status.network as JSON values, for a merge patch.

    None removes a field from the status. Optional fields of list items are left out instead,
    because a merge patch replaces a list as a whole.
    """
    last = network.lastRefusal
    return {
        "nodes": {"addresses": network.nodes.addresses, "quota": network.nodes.quota},
        "loadBalancer": {
            "addresses": network.loadBalancer.addresses,
            "quota": network.loadBalancer.quota,
            "servicesWaiting": network.loadBalancer.servicesWaiting,
        },
        "ranges": [
            {
                "allocation": entry.allocation,
                "namespace": entry.namespace,
                "pool": entry.pool,
                "type": entry.type,
                "role": entry.role,
                "family": entry.family,
                "range": entry.range,
                "releasing": entry.releasing,
                **({"services": list(entry.services)} if entry.services else {}),
            }
            for entry in network.ranges
        ],
        "waiting": [
            {
                "type": request.type,
                "role": request.role,
                "reason": request.reason,
                "addresses": request.addresses,
                "namespace": request.namespace,
                "pools": list(request.pools),
                **({"since": format_rfc3339(request.since)} if request.since else {}),
                **({"allocation": request.allocation} if request.allocation else {}),
            }
            for request in network.waiting
        ],
        "lastRefusal": {
            "reason": last.reason,
            "message": last.message,
            "time": format_rfc3339(last.time) if last.time else None,
        }
        if last is not None
        else None,
    }
