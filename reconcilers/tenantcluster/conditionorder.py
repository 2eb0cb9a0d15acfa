"""Which condition of a TenantCluster says most of what is wrong with it."""

from controller.conditions import Condition, find
from reconcilers.api.reasons import PASSING_REASONS
from reconcilers.api.tenantcluster import (
    DEMAND_MET,
    LOAD_BALANCER_READY,
    LOAD_BALANCER_SIZED,
    NETWORK_READY,
    TenantCluster,
)

_ORDER = (NETWORK_READY, LOAD_BALANCER_READY, DEMAND_MET, LOAD_BALANCER_SIZED)


def worst_condition(cluster: TenantCluster) -> Condition | None:
    """Return the condition that says most of what is wrong; NetworkReady if nothing is.

    None if the cluster has no condition yet.
    """
    conditions = [
        condition for kind in _ORDER if (condition := find(cluster.status.conditions, kind))
    ]
    false = [condition for condition in conditions if condition.status == "False"]
    lasting = [condition for condition in false if condition.reason not in PASSING_REASONS]
    return next(iter([*lasting, *false, *conditions]), None)
