"""What is seen of clusters in the management cluster."""

from collections.abc import Sequence

from controller.conditions import find
from controller.meta import Key
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.cli.demo.audit import Broken
from reconcilers.cli.demo.sights.common import condition_of, referred, served_one, told
from reconcilers.cli.demo.step import Sight
from reconcilers.cli.demo.world import NotYet, World, there
from reconcilers.conditions import READY


def served(cluster: Key, balancers: str, nodes: str) -> Sight:
    """See both ranges of a cluster, each from the pool it should come from."""

    def look(world: World) -> Sequence[str]:
        found = there(world.clusters, cluster)
        balancer = referred(world, found, found.status.lbAllocationRef, "lbAllocationRef")
        node = referred(world, found, found.status.ipAllocationRef, "ipAllocationRef")
        for allocation, pool in ((balancer, balancers), (node, nodes)):
            if allocation.spec.poolRef.name != pool:
                raise NotYet(
                    f"IPAllocation {allocation.metadata.name} asks {allocation.spec.poolRef.name}"
                )
        return [told(balancer), told(node)]

    return look


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


def says(cluster: Key, condition: str, status: str, reason: str) -> Sight:
    """See a condition of a cluster, and why it is so."""

    def look(world: World) -> Sequence[str]:
        found = there(world.clusters, cluster)
        said = condition_of(f"TenantCluster {cluster}", found.status.conditions, condition, status)
        if said.reason != reason:
            raise NotYet(f"TenantCluster {cluster}: {condition} is {status}, {said.reason}")
        return [f"TenantCluster {cluster}: {condition} is {status}, {reason}: {said.message}"]

    return look


def grown(cluster: Key, ranges: int, pool: str = "") -> Sight:
    """See so many growth allocations of a cluster, each with its range."""

    def look(world: World) -> Sequence[str]:
        found = [served_one(world, one.metadata.name) for one in _growth(world, cluster)]
        if len(found) != ranges:
            raise NotYet(f"TenantCluster {cluster} has {len(found)} growth allocations")
        if pool and any(one.spec.poolRef.name != pool for one in found):
            raise NotYet(f"TenantCluster {cluster} has grown from another pool than {pool}")
        return [told(one) for one in found] or [f"TenantCluster {cluster} has grown no more"]

    return look


def _growth(world: World, cluster: Key) -> list[IPAllocation]:
    return [
        one
        for one in world.allocations
        if one.spec.tenantClusterRef.key == cluster
        and one.metadata.labels.get(names.LABEL_ROLE) == names.ROLE_GROWTH
    ]


class Stopwatch:
    """Measures from a deed to a sight."""

    def __init__(self) -> None:
        self._begun = 0.0

    async def start(self, world: World) -> None:
        """Begin now."""
        self._begun = world.now()

    def sooner_than(self, seconds: float, usually: str) -> Sight:
        """See that less has passed than what something usually takes."""

        def look(world: World) -> Sequence[str]:
            took = world.now() - self._begun
            if took >= seconds:
                raise Broken(f"it took {took:.1f} s, no less than {usually}")
            return [f"that took {took:.1f} s; {usually} is {seconds:g} s"]

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
