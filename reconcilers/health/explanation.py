"""Explains the ranges of a tenant or an allocation: pools tried, blocks that fit, why it waits.

Everything is computed from the current objects. An earlier choice was made among the blocks that
were free at that time, so the sentences say "now" about blocks that are free now. A *block* here
is a run of free addresses. Best fit takes the smallest block that has room for a request.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from allocator import AddressRange, InvalidPool, Layout, Space
from controller.conditions import find_condition, format_rfc3339
from controller.meta import Key
from reconcilers.addressing import (
    familychoice,
    poolgeometry,
    poolneeds,
    requestedranges,
    statusranges,
)
from reconcilers.addressmap.objects import Objects
from reconcilers.addressmap.poolpictures import list_not_read
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ELASTIC, IPAM, ProviderConfig
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    PROVIDER_CONFIG,
    TENANT_CLUSTER,
)
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.integrations.core.objects import fill_cache
from reconcilers.networkpool.picture import ALL_SIZES
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS
from reconcilers.pictures.poolpicture import NO_HOLDERS
from reconcilers.promises.unreadable import UnreadableObject, describe_unreadable
from reconcilers.reporting.conditions import READY
from reconcilers.reporting.wording import count_addresses, count_noun, name_with_count
from reconcilers.tenantcluster.allocations.membership import is_foreign
from reconcilers.tenantcluster.allocations.requests import (
    compute_load_balancer_count,
    compute_node_count,
)
from reconcilers.tenantcluster.allocations.unreadable_members import select_unreadable_members
from reconcilers.tenantcluster.provider import (
    DefaultUnknown,
    ProviderUnknown,
    ProviderUnreadable,
    find_provider,
)
from reconcilers.tenantcluster.providerreference import describe_absent, find_provider_key
from reconcilers.tenantcluster.status import make_allocations_unreadable

_DEFAULT_PROVIDER = Key(names.DEFAULT_NAMESPACE, "default")
"""The ProviderConfig of a cluster that names none, unless ButlerConfig names another."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an object has its ranges, or waits.

    Args:
        kind: TenantCluster or IPAllocation.
        key: namespace and name of the object.
        lines: sentences, in the order in which the controllers decide.
    """

    kind: str
    key: Key
    lines: tuple[str, ...]


def explain_tenant(tenant: TenantCluster, objects: Objects) -> Explanation:
    """Return why a cluster has its ranges, and why it lacks others."""
    return Explanation(
        "TenantCluster", tenant.metadata.key, tuple(_explain_tenant_lines(tenant, objects))
    )


def explain_allocation(allocation: IPAllocation, objects: Objects) -> Explanation:
    """Return why an allocation has its pool and range, or why it waits."""
    lines = tuple(_explain_allocation_lines(allocation, objects))
    return Explanation("IPAllocation", allocation.metadata.key, lines)


def explain_unreadable(kind: str, key: Key, objects: Objects) -> Explanation:
    """Return why a cluster or an allocation cannot be decoded, and the consequence."""
    reason = objects.unreadable[kind, key]
    consequence = {
        TENANT_CLUSTER.kind: "no controller serves it, and its ranges are kept",
        IP_ALLOCATION.kind: "its range is kept, and its pool hands out nothing",
    }[kind]
    lines = (f"cannot be read: {reason}", f"{consequence} until it is corrected or deleted")
    return Explanation(kind, key, lines)


def _explain_tenant_lines(tenant: TenantCluster, objects: Objects) -> Iterator[str]:
    """Yield the sentences about a cluster.

    1. Its allocations that cannot be read.
    2. The demand by its ProviderConfig, and the supply of the pools.
    3. Each of its allocations; from its status if the user may not read all allocations.
    4. Conditions that are False, and the last rejected write.
    """
    unreadable = find_unreadable_members(tenant, objects)
    if unreadable:
        yield make_allocations_unreadable(describe_unreadable(unreadable)).message
    yield from _describe_provider(tenant, objects)
    members = [
        allocation
        for allocation in objects.allocations.values()
        if allocation.spec.tenantClusterRef.key == tenant.metadata.key
        and not is_foreign(allocation, tenant)
    ]
    for allocation in sorted(members, key=lambda member: member.metadata.key):
        yield f"IPAllocation {allocation.metadata.key}: {_describe_state(allocation)}"
    if objects.find_unread_lists(IP_ALLOCATION):
        # The user may not read all allocations, so the status of the cluster stands in for them.
        read_keys = {member.metadata.key for member in members}
        yield from _describe_reported_ranges(tenant, read_keys)
    for condition in tenant.status.conditions:
        if condition.status == "False":
            yield f"{condition.type} is False, {condition.reason}: {condition.message}"
    network = tenant.status.network
    if network is not None and network.lastRefusal is not None:
        refusal = network.lastRefusal
        when = f" at {format_rfc3339(refusal.time)}" if refusal.time else ""
        yield f"last refused{when}, {refusal.reason}: {refusal.message}"


def _describe_provider(tenant: TenantCluster, objects: Objects) -> Iterator[str]:
    """Yield the demand of a cluster by its ProviderConfig, or why it has none."""
    provider = _find_provider(tenant, objects)
    if isinstance(provider, DefaultUnknown):
        yield f"{provider}; which pools the cluster tries is not known"
    elif isinstance(provider, ProviderUnknown):
        yield f"{provider}: until then it cannot ask for addresses"
    elif provider is None:
        yield _describe_absent_provider(tenant, objects)
    elif provider.spec.networking.mode != IPAM:
        yield f"ProviderConfig {provider.metadata.key} is in cloud mode: it asks for no addresses"
    else:
        yield from _describe_demand(tenant, provider, objects)


def _describe_reported_ranges(tenant: TenantCluster, read_keys: Collection[Key]) -> Iterator[str]:
    """Yield the ranges in a cluster's status whose allocations the user may not read.

    Args:
        read_keys: the IPAllocations that could be read; they have sentences already.
    """
    network = tenant.status.network
    for span in network.ranges if network is not None else ():
        allocation = Key(span.namespace, span.allocation)
        if allocation in read_keys:
            continue
        leaving = ", being released" if span.releasing else ""
        services = f", used by {', '.join(span.services)}" if span.services else ""
        yield (
            f"IPAllocation {allocation}: {span.type} {span.range} of"
            f" {Key(span.namespace, span.pool)}{leaving}{services}"
        )


def _describe_absent_provider(tenant: TenantCluster, objects: Objects) -> str:
    """Return why a cluster has no ProviderConfig: not allowed to read, none named, or absent."""
    provider_key = find_provider_key(tenant, names.DEFAULT_NAMESPACE, objects.platform_default.key)
    key = provider_key or _DEFAULT_PROVIDER
    if objects.find_unread_lists(PROVIDER_CONFIG, key.namespace):
        provider = (
            f"ProviderConfig {provider_key}"
            if provider_key
            else "the platform's default ProviderConfig"
        )
        return f"you may not read {provider}: which pools the cluster tries is not known"
    if provider_key is None:
        return "no ProviderConfig of it could be found: it cannot ask for addresses"
    return f"{describe_absent(tenant, provider_key)}: it cannot ask for addresses"


def _find_provider(
    tenant: TenantCluster, objects: Objects
) -> ProviderConfig | ProviderUnknown | None:
    """Return a cluster's ProviderConfig, chosen as the controllers choose it; None if absent.

    If the ProviderConfig cannot be determined, return the exception that says why.
    """
    default = objects.platform_default
    if tenant.spec.providerConfigRef is None and default.unknown:
        return DefaultUnknown(default.unknown)
    configs = fill_cache(PROVIDER_CONFIG, objects.providers.values(), objects.unreadable)
    try:
        return find_provider(
            tenant,
            configs,
            default_namespace=names.DEFAULT_NAMESPACE,
            platform_default=default.key,
        )
    except ProviderUnreadable as unreadable:
        return unreadable


def find_unreadable_members(tenant: TenantCluster, objects: Objects) -> Sequence[UnreadableObject]:
    """Return the allocations that cannot be decoded and may belong to a cluster."""
    allocations = objects.find_unreadable(IP_ALLOCATION)
    return select_unreadable_members(allocations, tenant.metadata.key, tenant.metadata.uid)


def _describe_absent_pool(pool: Key, objects: Objects) -> str:
    """Return why a pool could not be read: unreadable, not allowed or absent."""
    if (NETWORK_POOL.kind, pool) in objects.unreadable:
        return "cannot be read; correct or delete it"
    if objects.may_exist(NETWORK_POOL, pool):
        return "may not be read by you"
    return "does not exist"


def _describe_demand(
    tenant: TenantCluster, provider: ProviderConfig, objects: Objects
) -> Iterator[str]:
    """Yield the addresses that a cluster asks for, and the supply of each of its pools, in order.

    A pool has room for a waiting cluster if all its waiting addresses fit together; `status` and
    the metrics count in the same way.
    """
    network = provider.spec.networking
    waiting = {} if tenant.metadata.is_terminating else poolneeds.sum_waiting_addresses(tenant)
    mode, count = network.sizing.allocationMode, compute_load_balancer_count(tenant, network)
    growth = f", then growth by {network.sizing.growthIncrement}" if mode == ELASTIC else ""
    yield (
        f"ProviderConfig {provider.metadata.key}, mode {mode}:"
        f" {count_addresses(count, 'load-balancer')} in"
        f" a row{growth}; its pools in the order in which they are tried:"
    )
    for place, name in enumerate(network.list_pools_in_order(), 1):
        key = Key(provider.metadata.namespace, name)
        pool = objects.pools.get(key)
        if pool is None:
            yield f"{place}. NetworkPool {key} {_describe_absent_pool(key, objects)}"
            continue
        nodes = compute_node_count(pool, network)
        needed = count_addresses(nodes, "node")
        if count:
            needed += f" and {count_addresses(count, 'load-balancer')}, {nodes + count} together"
        spaces = _build_spaces(pool, objects)
        free = _describe_supply(pool, spaces, objects)
        if key in waiting:
            needed += f", of which {waiting[key]} wait"
            free += _describe_missing_room(
                tenant, pool, spaces=spaces, count=waiting[key], objects=objects
            )
        yield f"{place}. NetworkPool {key}: {needed}; {free}"


def _describe_missing_room(
    tenant: TenantCluster,
    pool: NetworkPool,
    spaces: Sequence[Space],
    count: int,
    objects: Objects,
) -> str:
    """Return why a pool has no room for a waiting cluster; empty if it has, or it is not known.

    Args:
        pool: one of the pools that the cluster tries.
        spaces: the addresses of the pool by family; empty if its spec is invalid.
        count: how many addresses the cluster waits for, of each family that it needs.
    """
    if not spaces or _describe_unknown_holders(pool.metadata.key, objects):
        return ""  # it is not known what is free
    families = poolneeds.list_needed_families(tenant, pool)
    if not families:
        return "; lacks a family of the request"
    is_too_small = any(
        space.largest_free < count for space in spaces if space.layout.family in families
    )
    return f"; no room for {count}" if is_too_small else ""


def _describe_free_addresses(pool: NetworkPool, objects: Objects) -> str:
    """Return the free addresses of a pool as `_describe_supply` does, from its current holders."""
    return _describe_supply(pool, _build_spaces(pool, objects), objects)


def _describe_supply(pool: NetworkPool, spaces: Sequence[Space], objects: Objects) -> str:
    """Return the free addresses of a pool as text; if it hands out nothing, the reason, too.

    Args:
        spaces: the addresses of the pool by family; empty if its spec is invalid.
    """
    ready = find_condition(pool.status.conditions, READY)
    stopped = ""
    if ready is not None and ready.status == "False":
        stopped = f"; hands out nothing, {ready.reason}: {ready.message}"
    if not spaces:
        return f"its spec is invalid{stopped}"
    if unknown := _describe_unknown_holders(pool.metadata.key, objects):
        return f"an unknown number of addresses free: {unknown}{stopped}"
    sizes = ", ".join(_describe_free_space(space) for space in spaces)
    return f"{sizes}{stopped}"


def _describe_free_space(space: Space) -> str:
    """Return the free addresses of one family of a pool as text."""
    family = familychoice.FAMILY_NAMES[space.layout.family]
    free = count_addresses(space.free, family)
    return f"{free} free, largest block {space.largest_free}"


def _describe_unknown_holders(pool: Key, objects: Objects) -> str:
    """Return a text that names unread holders of a pool's addresses; empty if all were read."""
    not_read = list_not_read(objects, pool)
    if not not_read:
        return ""
    names = name_with_count(list(map(str, not_read)), "; ")
    return f"not all that may hold some is read ({names})"


def _describe_state(allocation: IPAllocation) -> str:
    """Return the type, pool and ranges of an allocation as text, or why it has no range."""
    held_ranges = statusranges.list_held_ranges(allocation)
    leaving = ", being released" if allocation.releasing else ""
    if held_ranges:
        where = " and ".join(span.text for span in held_ranges)
        return f"{allocation.spec.type} {where} of {allocation.pool_key}{leaving}"
    reason = _describe_reason(allocation)
    return f"{allocation.spec.type} of {allocation.pool_key} waits{leaving}: {reason}"


def _describe_reason(allocation: IPAllocation) -> str:
    """Return reason and message of an allocation's condition Ready."""
    ready = find_condition(allocation.status.conditions, READY)
    return f"{ready.reason}: {ready.message}" if ready else "it was not reconciled yet"


def _explain_allocation_lines(allocation: IPAllocation, objects: Objects) -> Iterator[str]:
    """Yield the sentences about an allocation.

    1. When and for which cluster it was requested. If its pool cannot be read, only that follows.
    2. How many addresses it needs, and the place of the pool among those that were tried.
    3. Without a range: why it waits, the supply of the pool, and older requests.
    4. With a range: the recorded choice, the block around it, and whether it is being released.
    """
    tenant = allocation.spec.tenantClusterRef.key
    yield f"requested at {format_rfc3339(allocation.requested_at)} for TenantCluster {tenant}"
    pool = objects.pools.get(allocation.pool_key)
    if pool is None:
        absent = _describe_absent_pool(allocation.pool_key, objects)
        yield f"NetworkPool {allocation.pool_key} {absent}: it waits"
        return
    needed = requestedranges.count_requested(allocation, pool)
    addresses = count_addresses(needed)
    yield f"needs {addresses} in a row of NetworkPool {allocation.pool_key}"
    yield from _describe_pool_choice(allocation, objects)
    held_ranges = statusranges.list_held_ranges(allocation)
    if not held_ranges:
        yield f"waits, {_describe_reason(allocation)}"
        yield f"the pool now has {_describe_free_addresses(pool, objects)}"
        yield from _describe_queue(allocation, objects)
        return
    ready = find_condition(allocation.status.conditions, READY)
    if ready is not None and ready.status == "True":
        yield f"recorded when it was chosen: {ready.message}"
    unknown = _describe_unknown_holders(pool.metadata.key, objects)
    if unknown:
        yield f"which block best fit would take now is not known: {unknown}"
    else:
        # The spaces leave this allocation out, so its range lies in a free block.
        for space in _build_spaces(pool, objects, ignored_allocation=allocation):
            for span in held_ranges:
                if span.family == space.layout.family:
                    yield from _describe_best_fit(span, space)
    if allocation.releasing:
        yield f"being released: {_describe_reason(allocation)}"


def _describe_pool_choice(allocation: IPAllocation, objects: Objects) -> Iterator[str]:
    """Yield a sentence: at which place the cluster's ProviderConfig names an allocation's pool.

    The sentence tells the supply of the pools before it. Nothing if the ProviderConfig is not
    known.
    """
    tenant = objects.clusters.get(allocation.spec.tenantClusterRef.key)
    provider = _find_provider(tenant, objects) if tenant is not None else None
    if provider is None or isinstance(provider, ProviderUnknown):
        return
    tried = list(provider.spec.networking.list_pools_in_order())
    name = allocation.spec.poolRef.name
    if name not in tried:
        yield f"ProviderConfig {provider.metadata.key} does not name this pool (any more)"
        return
    place = tried.index(name)
    if place == 0:
        yield f"the pool is the first of ProviderConfig {provider.metadata.key}"
        return
    namespace = provider.metadata.namespace
    earlier_pools = "; ".join(
        f"{earlier} has now {_describe_free_addresses(pool, objects)}"
        if (pool := objects.pools.get(Key(namespace, earlier)))
        else f"{earlier} {_describe_absent_pool(Key(namespace, earlier), objects)}"
        for earlier in tried[:place]
    )
    yield (
        f"the pool is number {place + 1} of ProviderConfig {provider.metadata.key}; those before"
        f" had no room when it was asked for: {earlier_pools}"
    )


def _describe_best_fit(span: AddressRange, space: Space) -> Iterator[str]:
    """Yield the free block that a range lies in, and how many free blocks have room for it.

    If the range lies in no free block, yield the possible reasons.

    Args:
        span: the range that an allocation holds.
        space: the addresses of the pool, as if the allocation held nothing.
    """
    blocks = [block for block in _list_free_blocks(space) if block.size >= span.size]
    own_block = next((block for block in blocks if block.first <= span.first <= block.last), None)
    if own_block is None:
        yield f"{span.text} overlaps what others hold, or lies outside of what the pool hands out"
        return
    smallest = min(block.size for block in blocks)
    have = count_noun(len(blocks), "free block has", "free blocks have")
    fitting = f"{have} room for {span.size}, the smallest {smallest}"
    yield (
        f"{span.text}: without it the free block there has {count_addresses(own_block.size)};"
        f" now {fitting}."
        " Best fit takes the smallest block with room, and of several the lowest"
    )


def _list_free_blocks(space: Space) -> list[AddressRange]:
    """Return the free blocks of a space, ascending."""
    family = space.layout.family
    _layout, _held, _overlaps, free_spans = space.copy_state()
    return [AddressRange(first, last, family) for first, last in free_spans]


def _describe_queue(allocation: IPAllocation, objects: Objects) -> Iterator[str]:
    """Yield a sentence with the number of older requests for the same pool, if there are any."""
    earlier_requests = [
        request
        for request in objects.allocations.values()
        if request.pool_key == allocation.pool_key
        and statusranges.waits_for_range(request)
        and (request.requested_at, request.metadata.name)
        < (allocation.requested_at, allocation.metadata.name)
    ]
    if earlier_requests:
        requests = count_noun(len(earlier_requests), "older request waits", "older requests wait")
        yield (
            f"{requests} for the pool; a smaller one is served before a"
            " larger one that has no room"
        )


def _build_spaces(
    pool: NetworkPool, objects: Objects, ignored_allocation: IPAllocation | None = None
) -> Sequence[Space]:
    """Return the addresses of a pool by family, with its held and promised ranges.

    Empty if the spec of the pool is invalid.

    Args:
        ignored_allocation: an allocation that is treated as if it held nothing; None for no such
            allocation.
    """
    try:
        layouts: Sequence[Layout] = poolgeometry.parse_layouts(pool.spec, ALL_SIZES)
    except InvalidPool:
        return ()
    taken_ranges = [
        span
        for allocation in objects.allocations.values()
        if allocation.pool_key == pool.metadata.key and allocation is not ignored_allocation
        for span in statusranges.list_held_ranges(allocation)
    ]
    holders = objects.integrations.holders.get(pool.metadata.key, NO_HOLDERS)
    taken_ranges += [entry.range for entry in holders.held_addresses]
    for promise in STATUS_JOURNALS.read(pool).promises:
        if ignored_allocation is None or promise.uid != ignored_allocation.metadata.uid:
            taken_ranges += (part.range for part in promise.ranges)
    return [Space(layout, taken_ranges) for layout in layouts]
