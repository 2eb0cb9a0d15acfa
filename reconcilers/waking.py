"""Which changes of one kind are worth a look at another: pure functions, for the wiring."""

from controller.cache import Change
from controller.conditions import find, is_true
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.conditions import FOREIGN_MANAGER, READY
from reconcilers.tenantcluster.status import DEMAND_MET, NETWORK_READY


def refers_to(
    cluster: TenantCluster, config: ProviderConfig, default_namespace: str, *, by_default: bool
) -> bool:
    """Return whether `cluster` names `config`; one that names none does so if `by_default`."""
    named = cluster.spec.providerConfigRef
    if named is None:
        return by_default
    return config.metadata.key == (named.namespace or default_namespace, named.name)


def waits_for_room(cluster: TenantCluster) -> bool:
    """Return whether a cluster could do with more room in a pool, Ready or not."""
    conditions = cluster.status.conditions
    demand = find(conditions, DEMAND_MET)
    return (
        not cluster.is_ready
        or not is_true(conditions, NETWORK_READY)
        or (demand is not None and demand.reason == "PoolExhausted")
    )


def serves_differently(change: Change[NetworkPool]) -> bool:
    """Return whether a pool appeared, went, or began or ceased to serve."""
    return _serves(change.old) != _serves(change.new)


def _serves(pool: NetworkPool | None) -> tuple[bool, ...]:
    if pool is None:
        return ()
    conditions = pool.status.conditions
    states = (is_true(conditions, kind) for kind in (READY, FOREIGN_MANAGER))
    return (pool.metadata.terminating, *states)


def has_more_room(change: Change[NetworkPool]) -> bool:
    """Return whether a pool appeared or could serve more, or larger, requests than before."""
    if change.new is None:
        return False
    if change.old is None:
        return True
    before, after = change.old, change.new
    return (
        after.status.largestFreeBlock > before.status.largestFreeBlock
        or after.metadata.generation != before.metadata.generation
    )
