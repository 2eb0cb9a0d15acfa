"""Whether the cluster that a TenantCluster's kubeconfig leads to is its own.

The management cluster is nobody's tenant. TenantClusters are *rivals* if they lead to the same
cluster. One rival *goes first*: it alone is served there, and the others wait. An *offer* is a
pool of a load balancer there. The rival that goes first is the first of these:

1. a rival that an offer there was made for, or that holds addresses of an offer
2. the oldest rival, then the first by namespace and name
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
from reconcilers.loadbalancers.ownernotes import find_owner
from reconcilers.loadbalancers.port import BalancerMemory
from reconcilers.tenantcluster.ownership.pools import SHARED, find_holders, make_shared_message

IS_MANAGEMENT = "TenantIsManagementCluster"
"""The reason where a kubeconfig leads to the management cluster."""


class TenantIdentities(TenantGuard):
    """Refuses access to the management cluster, and to another TenantCluster's tenant.

    Args:
        management: reads the identity of the management cluster.
        clusters: the TenantClusters, with the identities that were noted on them.
        allocations: show whose addresses an offer has, if the offer does not name its owner.
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
        self._keys_by_identity: dict[str, set[Key]] = {}
        for cluster in clusters:
            self._index(Change(None, cluster))
        clusters.subscribe(self._index)

    @override
    async def read_management_identity(self) -> str:
        """Return the identity of the management cluster; empty if it is not known."""
        return await self._management.read()

    @override
    async def admit(self, tenant: TenantCluster, identity: str, client: Client) -> None:
        """Raise TenantUnavailable if the cluster of this identity is not the tenant's own."""
        if not identity:
            return  # it is unknown, so nothing can be compared; condition TenantIdentified says so
        if identity == await self.read_management_identity():
            raise TenantUnavailable(
                IS_MANAGEMENT,
                "the kubeconfig leads to the management cluster itself, where nothing is written"
                " or deleted: give this TenantCluster the kubeconfig of its own cluster",
            )
        key = tenant.metadata.key
        other_keys = self._keys_by_identity.get(identity, set()) - {key}
        rivals = [
            cluster for cluster in map(self._clusters.get, other_keys) if cluster is not None
        ]
        if not rivals:
            return  # no other TenantCluster leads there
        first = await self._find_first([tenant, *rivals], client)
        if first != key:
            raise TenantUnavailable(SHARED, make_shared_message(first))

    async def _find_first(self, rivals: Sequence[TenantCluster], client: Client) -> Key:
        """Return the key of the rival that goes first; the module docstring has the order."""
        holding_clusters: set[Key] = set()
        for provider in self._list_providers(rivals):
            kind = self._kinds.find_kind(provider)
            # An empty memory, because this reads the tenant and remembers nothing.
            reading = await kind.make_balancer(client, BalancerMemory()).read_targets()
            for offer in reading.targets.values():
                owner = find_owner(offer)
                if owner is not None:
                    holding_clusters.add(owner)
                else:
                    # It names no owner, so its addresses show whose it is.
                    holding_clusters |= find_holders(offer, self._allocations)
        holding_rivals = [
            cluster for cluster in rivals if cluster.metadata.key in holding_clusters
        ]
        return min(holding_rivals or rivals, key=_make_creation_sort_key).metadata.key

    def _list_providers(self, rivals: Sequence[TenantCluster]) -> list[str]:
        """Return the load balancers that may have ranges of these clusters, as specs name them."""
        noted_providers = (
            allocation.load_balancer
            for rival in rivals
            for allocation in self._allocations.list_by_index(
                TENANT_INDEX, str(rival.metadata.key)
            )
            if allocation.spec.type == names.TYPE_LOADBALANCER
        )
        return sorted({*noted_providers, *(rival.load_balancer_provider for rival in rivals)})

    def _index(self, change: Change[TenantCluster]) -> None:
        """Update the index of TenantClusters by the identity of the cluster that they lead to."""
        for cluster in (change.old, change.new):
            identity = _read_identity(cluster)
            if cluster is not None and identity:
                keys = self._keys_by_identity.setdefault(identity, set())
                keys.discard(cluster.metadata.key)
                if cluster is change.new:
                    keys.add(cluster.metadata.key)
                if not keys:
                    del self._keys_by_identity[identity]


def _read_identity(cluster: TenantCluster | None) -> str:
    """Return the identity that is noted on a TenantCluster; empty if none is."""
    if cluster is None:
        return ""
    return cluster.metadata.annotations.get(names.ANNOTATION_TENANT_IDENTITY, "")


def _make_creation_sort_key(cluster: TenantCluster) -> tuple[str, Key]:
    """Return the sort key: creation time, then key; a cluster without a time comes last."""
    created = cluster.metadata.creationTimestamp
    return (created.isoformat() if created else "~", cluster.metadata.key)
