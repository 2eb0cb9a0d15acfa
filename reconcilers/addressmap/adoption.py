"""Changes to expect when butler-ipam takes over the objects of another controller.

Only the effects on pools that another controller keeps are reported. Such a pool has figures in
its status, but no journal. A *journal* is the part of the status with the promised ranges, which
our controllers write first. After the takeover, conditions of the objects report the same.
"""

from collections.abc import Collection, Iterator, Mapping

from controller.meta import Key
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import IPAM, ProviderConfig
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.networkpool.statusjournal import has_journal

DEFAULT = Key(names.DEFAULT_NAMESPACE, "default")
"""The ProviderConfig of clusters that name none, unless ButlerConfig names another."""


def find_unnoted_orphans(
    pools: Mapping[Key, NetworkPool],
    allocations: Collection[IPAllocation],
    clusters: Mapping[Key, TenantCluster],
) -> Iterator[tuple[IPAllocation, str]]:
    """Yield allocations that note no uid and whose cluster is missing, each with a sentence.

    Only allocations that hold a range are yielded. Our controllers do not collect them as orphans,
    because an allocation may be created before its cluster.
    """
    for allocation in allocations:
        pool = pools.get(allocation.pool_key)
        owner = allocation.spec.tenantClusterRef.key
        if (
            pool is not None
            and _is_kept_by_another(pool)
            and owner not in clusters
            and names.ANNOTATION_TENANT_UID not in allocation.metadata.annotations
            and (held_range := statusranges.find_held_range(allocation)) is not None
        ):
            yield (
                allocation,
                (
                    f"holds {held_range.text} for TenantCluster {owner}, which is not there,"
                    " and notes no uid of it: a controller that takes over keeps it for a cluster"
                    " of that name; delete it (action delete) if there will be none"
                ),
            )


def find_newly_served(
    pools: Mapping[Key, NetworkPool],
    allocations: Collection[IPAllocation],
    clusters: Mapping[Key, TenantCluster],
    providers: Mapping[Key, ProviderConfig],
) -> Iterator[tuple[TenantCluster, str]]:
    """Yield clusters that get addresses after the takeover, each with a sentence.

    Such a cluster is not Ready, and has no allocation for nodes or none for load balancers. The
    other controller requested load-balancer addresses only, and only when it began to build a
    cluster. Our controllers request both.
    """
    types_of_clusters = {
        (allocation.spec.tenantClusterRef.key, allocation.spec.type) for allocation in allocations
    }
    for key, cluster in clusters.items():
        reference = cluster.spec.providerConfigRef
        provider = providers.get(
            Key(reference.namespace or names.DEFAULT_NAMESPACE, reference.name)
            if reference
            else DEFAULT
        )
        missing = [
            words
            for allocation_type, words in (
                (names.TYPE_NODES, "nodes"),
                (names.TYPE_LOADBALANCER, "load balancers"),
            )
            if (key, allocation_type) not in types_of_clusters
        ]
        if provider is None or cluster.is_ready or cluster.metadata.is_terminating or not missing:
            continue
        if any(_is_kept_by_another(pool) for pool in _list_provider_pools(provider, pools)):
            yield (
                cluster,
                (
                    f"is not Ready and has no addresses for {' and '.join(missing)}: it gets some"
                    " when these controllers take over; `butler-ipam plan -f` on saved objects"
                    " shows which"
                ),
            )


def _list_provider_pools(
    provider: ProviderConfig, pools: Mapping[Key, NetworkPool]
) -> list[NetworkPool]:
    """Return the pools that a ProviderConfig names; empty in cloud mode."""
    network = provider.spec.networking
    if network.mode != IPAM:
        return []
    keys = [Key(provider.metadata.namespace, reference.name) for reference in network.poolRefs]
    return [pools[key] for key in keys if key in pools]


def _is_kept_by_another(pool: NetworkPool) -> bool:
    """Return whether another controller wrote a pool's status: figures without a journal."""
    return bool(pool.status.totalIPs) and not has_journal(pool)
