"""Which condition of a TenantCluster tells most about what is wrong with it.

Without addresses a load balancer has nothing to hold, and without a load balancer no demand is
met. So the condition that comes first in this order is the cause of the later ones.
"""

from controller.conditions import Condition, find_condition
from reconcilers.api.reasons import PASSING_REASONS
from reconcilers.api.tenantcluster import (
    DEMAND_MET,
    LOAD_BALANCER_READY,
    LOAD_BALANCER_SIZED,
    NETWORK_READY,
    TenantCluster,
)

_CAUSES_FIRST = (NETWORK_READY, LOAD_BALANCER_READY, DEMAND_MET, LOAD_BALANCER_SIZED)


def find_worst_condition(cluster: TenantCluster) -> Condition | None:
    """Return the condition to show for a cluster; None if it has no condition yet.

    The first of these, each in the order of the module docstring:

    1. a condition that is False for a lasting reason
    2. a condition that is False for a reason that passes within moments
    3. any condition, so NetworkReady if nothing is wrong
    """
    conditions = [
        condition
        for condition_type in _CAUSES_FIRST
        if (condition := find_condition(cluster.status.conditions, condition_type))
    ]
    false_conditions = [condition for condition in conditions if condition.status == "False"]
    lasting = [
        condition for condition in false_conditions if condition.reason not in PASSING_REASONS
    ]
    return next(iter([*lasting, *false_conditions, *conditions]), None)
