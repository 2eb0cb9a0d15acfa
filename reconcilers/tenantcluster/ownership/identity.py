"""Whether the cluster that a TenantCluster's kubeconfig leads to is its own.

It is not if it is the management cluster. If several TenantClusters lead to the same one, one of
them goes first, and the others wait:

the one that the offer of addresses there was made for, or whose addresses it has
else the oldest, then by namespace and name
"""

from collections.abc import Sequence

from typing_extensions import override

from controller.cache import Cache, Change
from controller.client import Client
from controller.meta import Key
from reconcilers.api import names
from reconcilers.api.ipallocation import TENANT_INDEX, IPAllocation
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.clusteraccess.clusteridentity import ClusterIdentity, TenantGuard
from reconcilers.clusteraccess.tenantfailures import TenantUnavailable
from reconcilers.loadbalancers.choice import LoadBalancerKinds
from reconcilers.loadbalancers.ownernotes import owner_of
from reconcilers.loadbalancers.port import BalancerMemory
from reconcilers.tenantcluster.ownership.pools import SHARED, holders, shared_message

IS_MANAGEMENT = "TenantIsManagementCluster"
"""The reason where a kubeconfig leads to the management cluster."""


class TenantIdentities(TenantGuard):
    """Refuses clusters that are the management cluster's, or another TenantCluster's.

    Args:
        clusters: the TenantClusters, with the identities that were noted on them.
        allocations: who holds what, for a pool that does not say for whom it was made.
        kinds: the load balancers that tenants may have.
    """

    def __init__(
        self,
        management: ClusterIdentity,
        clusters: Cache[TenantCluster],
        allocations: Cache[IPAllocation],
        kinds: LoadBalancerKinds,
    ) -> None:
        self._management = management
        self._allocations = allocations
        self._clusters = clusters
        self._kinds = kinds
        self._noted: dict[str, set[Key]] = {}
        for cluster in clusters:
            self._note(Change(None, cluster))
        clusters.subscribe(self._note)

    @override
    async def read_management_identity(self) -> str:
        return await self._management.read()

    @override
    async def admit(self, tenant: TenantCluster, identity: str, client: Client) -> None:
        if not identity:
            return
        if identity == await self.read_management_identity():
            raise TenantUnavailable(
                IS_MANAGEMENT,
                "the kubeconfig leads to the management cluster itself, where nothing is written"
                " or deleted: give this TenantCluster the kubeconfig of its own cluster",
            )
        key = tenant.metadata.key
        known = map(self._clusters.get, self._noted.get(identity, set()) - {key})
        rivals = [cluster for cluster in known if cluster is not None]
        if not rivals:
            return
        first = await self._find_first([tenant, *rivals], client)
        if first != key:
            raise TenantUnavailable(SHARED, shared_message(first))

    async def _find_first(self, rivals: Sequence[TenantCluster], client: Client) -> Key:
        """Return the key of the cluster that goes first of several that lead to the same one."""
        holding_clusters: set[Key] = set()
        for provider in self._list_providers(rivals):
            kind = self._kinds.find_kind(provider)
            reading = await kind.of(client, BalancerMemory()).read_targets()
            for offer in reading.targets.values():
                owner = owner_of(offer)
                known = {owner} if owner is not None else holders(offer, self._allocations)
                holding_clusters |= known
        standing = [cluster for cluster in rivals if cluster.metadata.key in holding_clusters]
        return min(standing or rivals, key=_order).metadata.key

    def _list_providers(self, rivals: Sequence[TenantCluster]) -> list[str]:
        """Return the load balancers that may have ranges of these clusters."""
        noted = (
            allocation.load_balancer
            for rival in rivals
            for allocation in self._allocations.by_index(TENANT_INDEX, str(rival.metadata.key))
            if allocation.spec.type == names.TYPE_LOADBALANCER
        )
        return sorted({*noted, *(rival.load_balancer_provider for rival in rivals)})

    def _note(self, change: Change[TenantCluster]) -> None:
        """Index TenantClusters by the identity of the cluster that they lead to."""
        for cluster in (change.old, change.new):
            identity = _identity(cluster)
            if cluster is not None and identity:
                keys = self._noted.setdefault(identity, set())
                keys.discard(cluster.metadata.key)
                if cluster is change.new:
                    keys.add(cluster.metadata.key)
                if not keys:
                    del self._noted[identity]


def _identity(cluster: TenantCluster | None) -> str:
    if cluster is None:
        return ""
    return cluster.metadata.annotations.get(names.ANNOTATION_TENANT_IDENTITY, "")


def _order(cluster: TenantCluster) -> tuple[str, Key]:
    created = cluster.metadata.creationTimestamp
    return (created.isoformat() if created else "~", cluster.metadata.key)
