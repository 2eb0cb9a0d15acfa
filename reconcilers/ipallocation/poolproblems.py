"""Why an IPAllocation waits if the pool that it names cannot serve any request. Pure functions."""

from controller.cache import Cache
from controller.meta import Key
from reconcilers.api.networkpool import NetworkPool
from reconcilers.reporting.allocationstatus import POOL_NOT_READY
from reconcilers.reporting.conditions import READY, ConditionFinding
from reconcilers.reporting.poolreferences import describe_unreadable_pool


def find_pool_problem(key: Key, pools: Cache[NetworkPool]) -> ConditionFinding | None:
    """Return condition Ready of an allocation whose pool is missing, deleted or unreadable.

    Args:
        key: of the pool that the allocation names.
        pools: all pools.

    Returns:
        None if the pool can be read and is not being deleted. Then the pass over the pool reports
        on its allocations.
    """
    if key in pools.unreadable:
        return ConditionFinding(
            READY, False, reason="PoolUnreadable", message=describe_unreadable_pool(key)
        )
    pool = pools.get(key)
    if pool is None:
        return ConditionFinding(
            READY, False, reason="PoolNotFound", message=f"NetworkPool {key} does not exist"
        )
    if pool.metadata.is_terminating:
        return ConditionFinding(
            READY, False, reason=POOL_NOT_READY, message=f"NetworkPool {key} is being deleted"
        )
    return None
