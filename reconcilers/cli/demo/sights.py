"""What must be seen, and how it is told: with the values that the API servers show."""

from collections.abc import Sequence

from controller.conditions import Condition, find
from controller.meta import Key
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.cli.demo.step import Sight
from reconcilers.cli.demo.world import NotYet, World, there
from reconcilers.conditions import READY
from reconcilers.tenantcluster.metallb import ADVERTISEMENT_NAME, POOL_NAME

METALLB = "metallb-system"


def pool_in_use(name: str, used: int) -> Sight:
    """See a pool that serves, with `used` addresses handed out."""

    def look(world: World) -> Sequence[str]:
        pool = world.pool(name)
        _condition(f"NetworkPool {name}", pool.status.conditions, READY, "True")
        if pool.status.allocatedIPs != used:
            raise NotYet(f"NetworkPool {name} has {pool.status.allocatedIPs} addresses in use")
        return [_told_pool(pool)]

    return look


def _told_pool(pool: NetworkPool) -> str:
    status = pool.status
    return (
        f"NetworkPool {pool.metadata.name}: {status.allocatedIPs} of {status.totalIPs} addresses"
        f" in use, the largest free block has"
        f" {status.largestFreeBlock}"
    )


def pool_says(name: str, condition: str, status: str) -> Sight:
    """See a condition of a pool."""

    def look(world: World) -> Sequence[str]:
        found = _condition(
            f"NetworkPool {name}", world.pool(name).status.conditions, condition, status
        )
        return [f"NetworkPool {name}: {condition} is {found.status}, {found.message}"]

    return look


def capacity(name: str) -> Sight:
    """See what a provider reports to have left."""

    def look(world: World) -> Sequence[str]:
        found = there(world.providers, Key(names.DEFAULT_NAMESPACE, name))
        said = _condition(
            f"ProviderConfig {name}", found.status.conditions, "PoolAvailable", "True"
        )
        _condition(f"ProviderConfig {name}", found.status.conditions, READY, "True")
        return [f"ProviderConfig {name}: {said.message}"]

    return look


def served(cluster: Key, balancers: str, nodes: str) -> Sight:
    """See both ranges of a cluster, each from the pool it should come from."""

    def look(world: World) -> Sequence[str]:
        found = there(world.clusters, cluster)
        balancer = _referred(world, found, found.status.lbAllocationRef, "lbAllocationRef")
        node = _referred(world, found, found.status.ipAllocationRef, "ipAllocationRef")
        for allocation, pool in ((balancer, balancers), (node, nodes)):
            if allocation.spec.poolRef.name != pool:
                raise NotYet(
                    f"IPAllocation {allocation.metadata.name} asks {allocation.spec.poolRef.name}"
                )
        return [_told(balancer), _told(node)]

    return look


def _referred(world: World, cluster: TenantCluster, reference: object, field: str) -> IPAllocation:
    name = getattr(reference, "name", None)
    if name is None:
        raise NotYet(f"TenantCluster {cluster.metadata.key} has no {field}")
    return _allocated(world, name)


def _allocated(world: World, name: str) -> IPAllocation:
    found = world.allocation(name)
    if found.status.phase != ALLOCATED or ranges.held(found) is None:
        said = find(found.status.conditions, READY)
        why = f": {said.message}" if said else ""
        raise NotYet(f"IPAllocation {name} is {found.status.phase or 'new'}{why}")
    return found


def _told(allocation: IPAllocation) -> str:
    status = allocation.status
    held = f"{status.startAddress}-{status.endAddress}"
    return (
        f"IPAllocation {allocation.metadata.name}: {status.allocatedCount}"
        f" for {allocation.spec.type}, {held}, from {allocation.spec.poolRef.name}"
    )


def phase(cluster: Key, wanted: str, saying: str = "") -> Sight:
    """See the phase of a cluster, and `saying` in what it says of it."""

    def look(world: World) -> Sequence[str]:
        found = there(world.clusters, cluster)
        said = find(found.status.conditions, READY)
        message = said.message if said else "nothing said yet"
        told = f"TenantCluster {cluster} is {found.status.phase}: {message}"
        if found.status.phase != wanted or saying not in message:
            raise NotYet(told)
        return [told]

    return look


def projected(cluster: Key) -> Sight:
    """See exactly the cluster's load-balancer range in the tenant's MetalLB."""

    def look(world: World) -> Sequence[str]:
        found = there(world.clusters, cluster)
        balancer = _referred(world, found, found.status.lbAllocationRef, "lbAllocationRef")
        tenant = world.tenant(cluster)
        pool = there(tenant.pools, Key(METALLB, POOL_NAME))
        entry = f"{balancer.status.startAddress}-{balancer.status.endAddress}"
        if pool.spec.addresses != (entry,):
            raise NotYet(f"IPAddressPool {POOL_NAME} in the tenant has {pool.spec.addresses}")
        there(tenant.advertisements, Key(METALLB, ADVERTISEMENT_NAME))
        return [f"in the tenant: IPAddressPool {POOL_NAME} holds {entry}, and is advertised"]

    return look


def withdrawn(cluster: Key) -> Sight:
    """See nothing of ours left in the tenant."""

    def look(world: World) -> Sequence[str]:
        tenant = world.tenant(cluster)
        if len(tenant.pools) or len(tenant.advertisements):
            raise NotYet(f"the tenant {cluster} still has {POOL_NAME}")
        return [f"in the tenant {cluster.name}: IPAddressPool and L2Advertisement are gone"]

    return look


def addressed(cluster: Key, name: str) -> Sight:
    """See a Service of a tenant with an address out of the tenant's range."""

    def look(world: World) -> Sequence[str]:
        service = there(world.tenant(cluster).services, Key("default", name))
        shown = [one.ip for one in service.status.loadBalancer.ingress if one.ip]
        if not shown:
            raise NotYet(f"Service {service.metadata.key} of {cluster} has no address")
        entries = [
            ranges.parsed_entry(entry)
            for pool in world.tenant(cluster).pools
            for entry in pool.spec.addresses
        ]
        address = ranges.parsed(shown[0], shown[0])
        if address is None or not any(entry and entry.contains(address) for entry in entries):
            raise NotYet(
                f"Service {service.metadata.key} has {shown[0]}, which is not its tenant's"
            )
        return [f"in the tenant: Service {name} has {shown[0]} (stand-in for MetalLB)"]

    return look


def unaddressed(cluster: Key, name: str) -> Sight:
    """See that a Service of a tenant has lost its address."""

    def look(world: World) -> Sequence[str]:
        service = there(world.tenant(cluster).services, Key("default", name))
        if service.status.loadBalancer.ingress:
            raise NotYet(f"Service {service.metadata.key} of {cluster} still has an address")
        return [f"in the tenant {cluster.name}: Service {name} has no address any more"]

    return look


def pinned(name: str, start: str, end: str) -> Sight:
    """See an allocation with exactly the range that it asked for."""

    def look(world: World) -> Sequence[str]:
        found = _allocated(world, name)
        if (found.status.startAddress, found.status.endAddress) != (start, end):
            raise NotYet(f"IPAllocation {name} has {found.status.startAddress}")
        return [_told(found)]

    return look


def allocated(name: str) -> Sight:
    """See an allocation with a range."""
    return lambda world: [_told(_allocated(world, name))]


def refused(name: str, wanted: str, reason: str) -> Sight:
    """See an allocation that waits or failed, for a reason that it tells."""

    def look(world: World) -> Sequence[str]:
        found = world.allocation(name)
        said = _condition(f"IPAllocation {name}", found.status.conditions, READY, "False")
        if (found.status.phase, said.reason) != (wanted, reason):
            raise NotYet(f"IPAllocation {name} is {found.status.phase}, {said.reason}")
        return [f"IPAllocation {name} is {wanted}, {said.reason}: {said.message}"]

    return look


def gone(clusters: Sequence[Key]) -> Sight:
    """See that clusters are gone, and every allocation that was theirs."""

    def look(world: World) -> Sequence[str]:
        for key in clusters:
            if key in world.clusters:
                phase(key, "gone")(world)
        left = [a for a in world.allocations if a.spec.tenantClusterRef.key in clusters]
        if left:
            raise NotYet(f"IPAllocation {left[0].metadata.name} is still there")
        return [f"{len(clusters)} TenantClusters and all their IPAllocations are gone"]

    return look


def nothing_left(world: World) -> Sequence[str]:
    """See an empty management cluster."""
    for cache in (world.allocations, world.pools, world.providers, world.clusters):
        if len(cache):
            raise NotYet(f"{len(cache)} {cache.resource.plural} are still there")
    return ["no NetworkPool, IPAllocation, ProviderConfig or TenantCluster is left"]


def _condition(whose: str, conditions: Sequence[Condition], wanted: str, status: str) -> Condition:
    found = find(conditions, wanted)
    if found is None:
        raise NotYet(f"{whose} says nothing of {wanted} yet")
    if found.status != status:
        raise NotYet(f"{whose}: {wanted} is {found.status}, {found.reason}: {found.message}")
    return found
