"""The checks at the end of a step.

The name of a check is its word in the story. A check returns the lines that the demo prints: the
state of the objects. It raises NotSeenYet if the objects are not in the expected state.

The story calls a check without its view: `take_view_later` keeps the other arguments, and the step
passes the view later. The view has the objects of all API servers, kept current by watches.
"""

from collections.abc import Sequence

from controller.conditions import Condition, find_condition
from controller.meta import Key
from reconcilers.addressing import addresstexts, statusranges
from reconcilers.addressmap.objects import Objects
from reconcilers.api import names
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.cli.cluster.statuspage import build_status_page
from reconcilers.cli.demo.view import NotSeenYet, PlatformView, get_existing, take_view_later
from reconcilers.cli.local.balancer import is_established
from reconcilers.reporting.conditions import READY
from reconcilers.reporting.wording import count_addresses


def _require_condition(
    owner: str, conditions: Sequence[Condition], condition_type: str, status: str
) -> Condition:
    """Return the condition of a type if it has the expected status.

    Args:
        owner: the object, for the message.
        conditions: all conditions of the object.
        status: the expected status.

    Raises:
        NotSeenYet: the object has no condition of that type, or one with another status.
    """
    condition = find_condition(conditions, condition_type)
    if condition is None:
        raise NotSeenYet(f"{owner} has no condition {condition_type} yet")
    if condition.status != status:
        raise NotSeenYet(
            f"{owner}: {condition_type} is {condition.status},"
            f" {condition.reason}: {condition.message}"
        )
    return condition


@take_view_later
def pool_in_use(view: PlatformView, name: str, used: int) -> list[str]:
    """Check that a pool is Ready, with `used` addresses handed out."""
    status = view.get_pool(name).status
    _require_condition(
        f"NetworkPool {name}", status.conditions, condition_type=READY, status="True"
    )
    if status.allocatedIPs != used:
        raise NotSeenYet(f"NetworkPool {name} has {count_addresses(status.allocatedIPs)} in use")
    largest = f"the largest free block has {status.largestFreeBlock}"
    return [f"NetworkPool {name}: {used} of {status.totalIPs} addresses in use, {largest}"]


@take_view_later
def pool_has_condition(view: PlatformView, name: str, condition: str, status: str) -> list[str]:
    """Check a condition of a pool."""
    conditions = view.get_pool(name).status.conditions
    pool_condition = _require_condition(
        f"NetworkPool {name}", conditions, condition_type=condition, status=status
    )
    return [
        f"NetworkPool {name}: {condition} is {pool_condition.status}, {pool_condition.message}"
    ]


@take_view_later
def has_capacity(view: PlatformView, name: str) -> list[str]:
    """Check that a provider is Ready and its pools have free addresses.

    Returns:
        The message of its condition PoolAvailable, which has their number.
    """
    provider = get_existing(view.providers, Key(names.DEFAULT_NAMESPACE, name))
    provider_name, conditions = f"ProviderConfig {name}", provider.status.conditions
    available = _require_condition(
        provider_name, conditions, condition_type="PoolAvailable", status="True"
    )
    _require_condition(provider_name, conditions, condition_type=READY, status="True")
    return [f"{provider_name}: {available.message}"]


@take_view_later
def shows_status(view: PlatformView, namespace: str, exit_code: int, *words: str) -> list[str]:
    """Check the page and the exit code of `butler-ipam status -n NAMESPACE`.

    Args:
        words: texts that the page must contain.
    """
    objects = Objects(
        {pool.metadata.key: pool for pool in view.pools},
        {allocation.metadata.key: allocation for allocation in view.allocations},
        clusters={cluster.metadata.key: cluster for cluster in view.clusters},
        providers={provider.metadata.key: provider for provider in view.providers},
    )
    status_page = build_status_page(objects, namespace)
    # The wide form does not cut words, whatever the width of the terminal.
    page_text = status_page.as_text("wide")
    missing = [word for word in words if word not in page_text]
    if status_page.exit_code != exit_code or missing:
        findings = (
            "; ".join(f"{finding.kind}: {finding.sentence}" for finding in status_page.findings)
            or "nothing"
        )
        raise NotSeenYet(f"`butler-ipam status -n {namespace}` finds {findings}")
    head = f"$ butler-ipam status -n {namespace}"
    return [head, *(f"  {line}" for line in page_text.splitlines()), f"  exit code {exit_code}"]


@take_view_later
def has_event(
    view: PlatformView, kind: str, name: str, reason: str, expected_text: str = ""
) -> list[str]:
    """Check that there is an event about an object.

    Args:
        expected_text: a text that the note of the event must contain.
    """
    for event in view.events:
        about = (event.regarding.kind, event.regarding.name, event.reason)
        if about == (kind, name, reason) and expected_text in event.note:
            return [f"event, {event.type}: {event.reason}: {event.note}"]
    raise NotSeenYet(f"no event {reason} about {kind} {name} was seen")


def _require_allocated(view: PlatformView, name: str) -> IPAllocation:
    """Return an allocation that has a range.

    Raises:
        NotSeenYet: the allocation has no range, or its phase is not Allocated.
    """
    allocation = view.get_allocation(name)
    if allocation.status.phase != ALLOCATED or statusranges.find_held_range(allocation) is None:
        ready = find_condition(allocation.status.conditions, READY)
        why = f": {ready.message}" if ready else ""
        raise NotSeenYet(f"IPAllocation {name} is {allocation.status.phase or 'new'}{why}")
    return allocation


def _describe_range(allocation: IPAllocation) -> str:
    """Return a line with the range of an allocation."""
    status, spec = allocation.status, allocation.spec
    span = f"{status.startAddress}-{status.endAddress}"
    return (
        f"IPAllocation {allocation.metadata.name}: {status.allocatedCount}"
        f" for {spec.type}, {span}, from {spec.poolRef.name}"
    )


@take_view_later
def has_range(view: PlatformView, name: str, start: str = "", end: str = "") -> list[str]:
    """Check that an allocation has a range.

    Args:
        start: the first address of the range; empty to allow any range.
        end: the last address of the range.
    """
    allocation = _require_allocated(view, name)
    if start and (allocation.status.startAddress, allocation.status.endAddress) != (start, end):
        raise NotSeenYet(f"IPAllocation {name} has {allocation.status.startAddress}")
    return [_describe_range(allocation)]


@take_view_later
def lacks_range(view: PlatformView, name: str, expected_phase: str, reason: str) -> list[str]:
    """Check that an allocation waits or failed, for the reason in its condition."""
    allocation = view.get_allocation(name)
    ready = _require_condition(
        f"IPAllocation {name}", allocation.status.conditions, condition_type=READY, status="False"
    )
    if (allocation.status.phase, ready.reason) != (expected_phase, reason):
        raise NotSeenYet(f"IPAllocation {name} is {allocation.status.phase}, {ready.reason}")
    return [f"IPAllocation {name} is {expected_phase}, {ready.reason}: {ready.message}"]


@take_view_later
def has_both_ranges(
    view: PlatformView, cluster: Key, balancer_pool: str, node_pool: str
) -> list[str]:
    """Check that a cluster has a load-balancer range and a node range, each of its pool."""
    status, lines = get_existing(view.clusters, cluster).status, []
    for field, pool in (("lbAllocationRef", balancer_pool), ("ipAllocationRef", node_pool)):
        reference = getattr(status, field)
        if reference is None:
            raise NotSeenYet(f"TenantCluster {cluster} has no {field}")
        allocation = _require_allocated(view, reference.name)
        if allocation.spec.poolRef.name != pool:
            raise NotSeenYet(f"IPAllocation {reference.name} asks {allocation.spec.poolRef.name}")
        lines.append(_describe_range(allocation))
    return lines


@take_view_later
def has_phase(
    view: PlatformView, cluster: Key, expected_phase: str, expected_text: str = ""
) -> list[str]:
    """Check the phase of a cluster, and the message of its condition Ready.

    Args:
        expected_text: a text that the message must contain.
    """
    tenant_cluster = get_existing(view.clusters, cluster)
    ready = find_condition(tenant_cluster.status.conditions, READY)
    message = ready.message if ready else "nothing said yet"
    line = f"TenantCluster {cluster} is {tenant_cluster.status.phase}: {message}"
    if tenant_cluster.status.phase != expected_phase or expected_text not in message:
        raise NotSeenYet(line)
    return [line]


@take_view_later
def has_condition(
    view: PlatformView, cluster: Key, condition: str, status: str, reason: str
) -> list[str]:
    """Check a condition of a cluster, and its reason."""
    conditions = get_existing(view.clusters, cluster).status.conditions
    cluster_condition = _require_condition(
        f"TenantCluster {cluster}", conditions, condition_type=condition, status=status
    )
    if cluster_condition.reason != reason:
        raise NotSeenYet(
            f"TenantCluster {cluster}: {condition} is {status}, {cluster_condition.reason}"
        )
    return [
        f"TenantCluster {cluster}: {condition} is {status}, {reason}: {cluster_condition.message}"
    ]


@take_view_later
def lacks_condition(view: PlatformView, cluster: Key, condition: str) -> list[str]:
    """Check that a cluster lacks a condition; such a condition exists only while it is False."""
    cluster_condition = find_condition(
        get_existing(view.clusters, cluster).status.conditions, condition
    )
    if cluster_condition is not None:
        raise NotSeenYet(
            f"TenantCluster {cluster}: {condition} is {cluster_condition.status},"
            f" {cluster_condition.reason}"
        )
    return [f"TenantCluster {cluster}: the condition {condition} is gone"]


@take_view_later
def has_grown(view: PlatformView, cluster: Key, count: int, pool: str = "") -> list[str]:
    """Check the number of growth allocations of a cluster, and that each has a range.

    Args:
        pool: the pool of all of them; empty for any pool.
    """
    growth = [
        _require_allocated(view, allocation.metadata.name)
        for allocation in view.allocations
        if allocation.spec.tenantClusterRef.key == cluster
        and allocation.metadata.labels.get(names.LABEL_ROLE) == names.ROLE_GROWTH
    ]
    if len(growth) != count:
        raise NotSeenYet(f"TenantCluster {cluster} has {len(growth)} growth allocations")
    if pool and any(allocation.spec.poolRef.name != pool for allocation in growth):
        raise NotSeenYet(f"TenantCluster {cluster} has grown from another pool than {pool}")
    return [_describe_range(allocation) for allocation in growth] or [
        f"TenantCluster {cluster} has not grown again"
    ]


@take_view_later
def are_gone(view: PlatformView, *clusters: Key) -> list[str]:
    """Check that clusters and all their allocations are gone."""
    for key in clusters:
        if key in view.clusters:
            has_phase(key, "gone")(view)  # no phase is "gone": raises NotSeenYet with the state
    remaining = [
        allocation
        for allocation in view.allocations
        if allocation.spec.tenantClusterRef.key in clusters
    ]
    if remaining:
        raise NotSeenYet(f"IPAllocation {remaining[0].metadata.name} is still there")
    return [f"{len(clusters)} TenantClusters and all their IPAllocations are gone"]


@take_view_later
def lacks_metallb(view: PlatformView, cluster: Key) -> list[str]:
    """Check that a tenant does not serve MetalLB's kinds."""
    kinds = view.tenants[cluster].kinds
    # The cache is empty, too, before its first list.
    if len(kinds) or not kinds.is_synced:
        served_kinds = ", ".join(definition.metadata.name for definition in kinds)
        raise NotSeenYet(f"the tenant {cluster} serves {served_kinds or 'none of them yet'}")
    return [f"in the tenant {cluster.name}: no kind of MetalLB's is served"]


@take_view_later
def has_metallb(view: PlatformView, cluster: Key) -> list[str]:
    """Check that a tenant serves MetalLB's kinds."""
    kinds = [
        definition.metadata.name
        for definition in view.tenants[cluster].kinds
        if is_established(definition)
    ]
    if len(kinds) < len(view.definitions):
        raise NotSeenYet(f"the tenant {cluster} serves {len(kinds)} kinds")
    return [f"in the tenant {cluster.name}: {', '.join(sorted(kinds))} are served"]


@take_view_later
def is_projected(view: PlatformView, cluster: Key) -> list[str]:
    """Check that the tenant's load balancer has exactly the cluster's load-balancer ranges."""
    expected_ranges = [
        f"{allocation.status.startAddress}-{allocation.status.endAddress}"
        for allocation in view.allocations
        if allocation.spec.tenantClusterRef.key == cluster
        and allocation.spec.type == names.TYPE_LOADBALANCER
    ]
    tenant = view.tenants[cluster]
    entries, kind = tenant.list_entries(), tenant.pools.resource.kind
    if not expected_ranges or sorted(entries) != sorted(expected_ranges):
        raise NotSeenYet(f"in the tenant, objects of {kind} have {entries}")
    if missing := [cache for cache in tenant.advertisements if not len(cache)]:
        raise NotSeenYet(f"there is no {missing[0].resource.kind} in the tenant")
    advertised = ", and is advertised" if tenant.advertisements else ""
    pools = ", ".join(
        pool.metadata.name for pool in tenant.pools if tenant.balancer.list_entries(pool)
    )
    return [f"in the tenant: {kind} {pools} holds {', '.join(entries)}{advertised}"]


@take_view_later
def is_withdrawn(view: PlatformView, cluster: Key) -> list[str]:
    """Check that nothing of ours is left in the tenant."""
    tenant = view.tenants[cluster]
    caches = [tenant.pools, *tenant.advertisements]
    if remaining_kinds := [cache.resource.kind for cache in caches if len(cache)]:
        raise NotSeenYet(f"the tenant {cluster} still has objects of {', '.join(remaining_kinds)}")
    kinds = " and ".join(cache.resource.kind for cache in caches)
    return [f"in the tenant {cluster.name}: {kinds} {'is' if len(caches) == 1 else 'are'} gone"]


def _find_address(view: PlatformView, cluster: Key, name: str) -> str:
    """Return the address that a Service shows; empty if it shows none."""
    service = get_existing(view.tenants[cluster].services, Key("default", name))
    return next((ingress.ip for ingress in service.status.loadBalancer.ingress if ingress.ip), "")


@take_view_later
def has_address(view: PlatformView, cluster: Key, name: str) -> list[str]:
    """Check that a Service has an address of its tenant's ranges."""
    shown_address = _find_address(view, cluster, name)
    if not shown_address:
        raise NotSeenYet(f"Service default/{name} of {cluster} has no address")
    address = addresstexts.parse_ends(shown_address, shown_address)
    entries = map(addresstexts.parse_cidr_or_span, view.tenants[cluster].list_entries())
    if address is None or not any(entry and entry.contains(address) for entry in entries):
        raise NotSeenYet(f"Service default/{name} has {shown_address}, which is not its tenant's")
    return [f"in the tenant: Service {name} has {shown_address} ({view.balancer.name})"]


@take_view_later
def lacks_address(view: PlatformView, cluster: Key, name: str) -> list[str]:
    """Check that a Service of a tenant has lost its address."""
    if _find_address(view, cluster, name):
        raise NotSeenYet(f"Service default/{name} of {cluster} still has an address")
    return [f"in the tenant {cluster.name}: Service {name} has no address any more"]
