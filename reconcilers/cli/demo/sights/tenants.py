"""What is seen in tenants."""

from collections.abc import Sequence

from controller.meta import Key
from reconcilers import ranges
from reconcilers.api.names import TYPE_LOADBALANCER
from reconcilers.cli.demo.sights.common import METALLB
from reconcilers.cli.demo.step import Sight
from reconcilers.cli.demo.world import NotYet, World, there
from reconcilers.tenantcluster.metallb import ADVERTISEMENT_NAME, POOL_NAME


def lacks_metallb(cluster: Key) -> Sight:
    """See that a tenant has never heard of MetalLB."""

    def look(world: World) -> Sequence[str]:
        tenant = world.tenant(cluster)
        kinds = [one.metadata.name for one in tenant.kinds]
        if kinds or not tenant.kinds.synced:
            raise NotYet(f"the tenant {cluster} serves {', '.join(kinds) or 'nobody yet'}")
        return [f"in the tenant {cluster.name}: no kind of MetalLB's is served"]

    return look


def has_metallb(cluster: Key) -> Sight:
    """See MetalLB's kinds served in a tenant."""

    def look(world: World) -> Sequence[str]:
        kinds = [one.metadata.name for one in world.tenant(cluster).kinds if one.established]
        if len(kinds) < len(world.metallb.definitions):
            raise NotYet(f"the tenant {cluster} serves {len(kinds)} kinds")
        return [f"in the tenant {cluster.name}: {', '.join(sorted(kinds))} are served"]

    return look


def projected(cluster: Key) -> Sight:
    """See exactly the cluster's load-balancer ranges in the tenant's MetalLB."""

    def look(world: World) -> Sequence[str]:
        wanted = [
            f"{one.status.startAddress}-{one.status.endAddress}"
            for one in world.allocations
            if one.spec.tenantClusterRef.key == cluster and one.spec.type == TYPE_LOADBALANCER
        ]
        tenant = world.tenant(cluster)
        pool = there(tenant.pools, Key(METALLB, POOL_NAME))
        if not wanted or sorted(pool.spec.addresses) != sorted(wanted):
            raise NotYet(f"IPAddressPool {POOL_NAME} in the tenant has {pool.spec.addresses}")
        there(tenant.advertisements, Key(METALLB, ADVERTISEMENT_NAME))
        held = ", ".join(pool.spec.addresses)
        return [f"in the tenant: IPAddressPool {POOL_NAME} holds {held}, and is advertised"]

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
        return [f"in the tenant: Service {name} has {shown[0]} ({world.metallb.name})"]

    return look


def unaddressed(cluster: Key, name: str) -> Sight:
    """See that a Service of a tenant has lost its address."""

    def look(world: World) -> Sequence[str]:
        service = there(world.tenant(cluster).services, Key("default", name))
        if service.status.loadBalancer.ingress:
            raise NotYet(f"Service {service.metadata.key} of {cluster} still has an address")
        return [f"in the tenant {cluster.name}: Service {name} has no address any more"]

    return look
