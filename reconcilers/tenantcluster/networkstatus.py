"""status.network of a TenantCluster: ranges, quota and use, what waits, and the last refusal.

It is a function of the objects and of what the tenant's Services show. Times are kept from the
status before, so two passes over the same objects write the same.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

from allocator import AddressRange
from controller.conditions import rfc3339
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
    """Names the Services that have addresses of a range, without a look at each.

    Args:
        users: addresses with the namespace/name of a Service that has them.
    """

    def __init__(self, users: Iterable[tuple[AddressRange, str]] = ()) -> None:
        self._sorted: dict[int, list[tuple[int, str]]] = {4: [], 6: []}
        for address, name in users:
            self._sorted[address.family].append((address.first, name))
        for pairs in self._sorted.values():
            pairs.sort()

    def names_in(self, span: AddressRange, most: int) -> tuple[str, ...]:
        """Return up to `most` Services that have addresses of `span`, by address, then name."""
        pairs = self._sorted[span.family]
        names: dict[str, None] = {}
        for number, name in islice(pairs, bisect_left(pairs, (span.first, "")), None):
            if number > span.last or len(names) == most:
                break
            names[name] = None
        return tuple(names)


@dataclass(frozen=True, slots=True)
class ServicesSeen:
    """What the Services of a tenant show.

    Args:
        waiting: how many have long been without an address.
        users: the Services that have addresses.
    """

    waiting: int
    users: AddressUsers = field(default_factory=AddressUsers, compare=False)


@dataclass(frozen=True, slots=True)
class RefusedGrowth:
    """Load-balancer addresses that a running cluster asks for and does not get.

    Args:
        finding: the condition that says so.
        addresses: how many in a row are needed.
        pools: the pools that may serve it.
    """

    finding: ConditionFinding
    addresses: int
    pools: tuple[str, ...]


def network_status(  # noqa: PLR0913 - the parts of a status
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
        services: what its Services show; None if they were not read.
        growth: the growth that is refused; None if none is.
        is_unread: whether its Services could not be read: what they showed last, and the growth
            that was refused, stay. Else a replica that cannot read them, and one that can,
            would overwrite each other's status.
        is_naming_due: whether the Services of each range are named again; else the names of before
            stay, because a tenant's Services may change all the time.
        now: the time.
    """
    before = tenant.status.network or TenantNetwork()
    quota = provider.spec.networking.quota
    waiting = [
        _describe_waiting(state, provider, network_ready)
        for state in states
        if not state.is_served
    ]
    if growth is not None:
        waiting.append(_waiting_growth(growth, provider))
    elif is_unread:
        waiting += [request for request in before.waiting if request.role == names.ROLE_GROWTH]
    is_seen = services is not None
    users: RangeUsers = partial(_known_users, before) if is_seen or is_unread else _no_users
    if services is not None and is_naming_due:
        users = partial(_seen_users, services.users)
    services_waiting = before.loadBalancer.servicesWaiting if is_unread else None
    return TenantNetwork(
        nodes=TenantAddresses(_addresses(members, names.TYPE_NODES), quota.maxNodeIPs),
        loadBalancer=TenantLoadBalancerAddresses(
            _addresses(members, names.TYPE_LOADBALANCER),
            quota.maxLoadBalancerIPs,
            cap_at_int32(services.waiting) if services is not None else services_waiting,
        ),
        ranges=_ranges(tenant, members, users),
        waiting=tuple(_with_time(request, before.waiting, now) for request in waiting),
        lastRefusal=_last_refusal(before, states, growth=growth, now=now),
    )


def status_without_requests(
    tenant: TenantCluster, members: Sequence[IPAllocation]
) -> TenantNetwork | None:
    """Return status.network of a cluster that asks for nothing: deleted, or without a provider.

    Args:
        members: the cluster's allocations.

    Returns:
        The status; None if the cluster has none so far.
    """
    before = tenant.status.network
    if before is None:
        return None
    balancers = _addresses(members, names.TYPE_LOADBALANCER)
    return replace(
        before,
        nodes=replace(before.nodes, addresses=_addresses(members, names.TYPE_NODES)),
        loadBalancer=replace(before.loadBalancer, addresses=balancers, servicesWaiting=None),
        ranges=_ranges(tenant, members, partial(_known_users, before)),
        waiting=(),
    )


def status_change(tenant: TenantCluster, network: TenantNetwork) -> dict[str, Any] | None:
    """Return the merge patch of status.network; None if the status shows it already."""
    rendered = _render_network(network)
    current = tenant.status.network
    return None if current is not None and _render_network(current) == rendered else rendered


def added_ranges(before: TenantNetwork | None, after: TenantNetwork) -> list[TenantRange]:
    """Return the ranges that a cluster did not have before."""
    known = {(entry.allocation, entry.range) for entry in before.ranges} if before else set()
    return [entry for entry in after.ranges if (entry.allocation, entry.range) not in known]


def removed_ranges(before: TenantNetwork | None, after: TenantNetwork) -> list[TenantRange]:
    """Return the ranges that a cluster had before and no longer has."""
    if before is None or len(after.ranges) >= MOST_RANGES:
        return []
    present = {(entry.allocation, entry.range) for entry in after.ranges}
    return [entry for entry in before.ranges if (entry.allocation, entry.range) not in present]


RangeUsers = Callable[[IPAllocation, AddressRange], tuple[str, ...]]
"""Returns the Services that have addresses of an allocation's range, as namespace/name."""


def _no_users(allocation: IPAllocation, span: AddressRange) -> tuple[str, ...]:
    del allocation, span
    return ()


def _seen_users(
    users: AddressUsers, allocation: IPAllocation, span: AddressRange
) -> tuple[str, ...]:
    """Return the Services that were just seen to have addresses of a load-balancer range."""
    is_balancer = allocation.spec.type == names.TYPE_LOADBALANCER
    return users.names_in(span, MOST_SERVICES) if is_balancer else ()


def _known_users(
    before: TenantNetwork, allocation: IPAllocation, span: AddressRange
) -> tuple[str, ...]:
    """Return the Services that the status names for a range so far."""
    identity = (*allocation.metadata.key, _range_text(span))
    for entry in before.ranges:
        if (entry.namespace, entry.allocation, entry.range) == identity:
            return entry.services
    return ()


def _range_text(span: AddressRange) -> str:
    return f"{span.start_text}-{span.end_text}"


def _ranges(
    tenant: TenantCluster, members: Iterable[IPAllocation], users: RangeUsers
) -> tuple[TenantRange, ...]:
    """Return the ranges that a cluster holds, as many as are listed."""
    return tuple(islice(_all_ranges(tenant, members, users), MOST_RANGES))


def _all_ranges(
    tenant: TenantCluster, members: Iterable[IPAllocation], users: RangeUsers
) -> Iterator[TenantRange]:
    for allocation in members:
        for span in statusranges.list_held_ranges(allocation):
            yield TenantRange(
                allocation=allocation.metadata.name,
                namespace=allocation.metadata.namespace,
                pool=allocation.spec.poolRef.name,
                type=allocation.spec.type,
                role=membership.role(allocation, tenant),
                family=familychoice.FAMILY_NAMES[span.family],
                range=_range_text(span),
                releasing=allocation.releasing,
                services=users(allocation, span),
            )


def _addresses(members: Iterable[IPAllocation], kind: str) -> int:
    """Return how many addresses of a type and of each family are held, at most an int32."""
    of_kind = (allocation for allocation in members if allocation.spec.type == kind)
    spans_by_allocation = map(statusranges.list_held_ranges, of_kind)
    return cap_at_int32(
        sum(max((span.size for span in spans), default=0) for spans in spans_by_allocation)
    )


def _describe_waiting(
    state: AllocationState, provider: ProviderConfig, network_ready: ConditionFinding
) -> WaitingRequest:
    """Return the request of an allocation that is not served."""
    refusal, allocation = state.refusal, state.allocation
    if allocation is not None:
        pools: tuple[str, ...] = (allocation.spec.poolRef.name,)
        count = allocation.spec.count or 0
        ready = next((c for c in allocation.status.conditions if c.type == "Ready"), None)
        reason = ready.reason if ready is not None else RECONCILING
    else:
        pools = tuple(provider.spec.networking.pools_in_order())
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


def _waiting_growth(growth: RefusedGrowth, provider: ProviderConfig) -> WaitingRequest:
    return WaitingRequest(
        type=names.TYPE_LOADBALANCER,
        role=names.ROLE_GROWTH,
        reason=growth.finding.reason,
        addresses=cap_at_int32(growth.addresses),
        namespace=provider.metadata.namespace,
        pools=growth.pools,
    )


def _with_time(
    request: WaitingRequest, before: Iterable[WaitingRequest], now: datetime
) -> WaitingRequest:
    """Return a request with the time since which it waits, from the status before if it did."""
    purpose = request.type, request.role
    since = next((r.since for r in before if (r.type, r.role) == purpose and r.since), None)
    return replace(request, since=since or now.replace(microsecond=0))


def _last_refusal(
    before: TenantNetwork,
    states: Iterable[AllocationState],
    growth: RefusedGrowth | None,
    now: datetime,
) -> NetworkRefusal | None:
    """Return the refusal of now; else the last one."""
    refusals: list[RequestRefusal] = [
        state.refusal for state in states if state.refusal is not None
    ]
    if refusals:
        reason, message = refusals[0].reason, refusals[0].message
    elif growth is not None:
        reason, message = growth.finding.reason, growth.finding.message
    else:
        return before.lastRefusal
    last = before.lastRefusal
    goes_on = bool(before.waiting) and last is not None and last.reason == reason
    time = last.time if goes_on and last is not None else now.replace(microsecond=0)
    return NetworkRefusal(reason, message, time)


def _render_network(network: TenantNetwork) -> dict[str, Any]:
    """Return status.network as JSON values; None where a merge patch has to remove a field."""
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
                **({"since": rfc3339(request.since)} if request.since else {}),
                **({"allocation": request.allocation} if request.allocation else {}),
            }
            for request in network.waiting
        ],
        "lastRefusal": {
            "reason": last.reason,
            "message": last.message,
            "time": rfc3339(last.time) if last.time else None,
        }
        if last is not None
        else None,
    }
