"""The condition DualStack: whether an allocation that asks for both families has both."""

from collections.abc import Sequence

from allocator import AddressRange
from reconcilers.addressing import familychoice
from reconcilers.api.ipallocation import PREFER_DUAL_STACK, REQUIRE_DUAL_STACK, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.reporting.conditions import ConditionFinding

DUAL_STACK = "DualStack"
"""The condition of an allocation that asks for both families: whether it has both."""


def report_dual_stack(
    allocation: IPAllocation, pool: NetworkPool, new_ranges: Sequence[AddressRange]
) -> list[ConditionFinding]:
    """Return the condition DualStack of an allocation that gets its ranges, as a list of one.

    Empty if the allocation asks for one family (SingleStack).

    Args:
        pool: the pool of the ranges.
        new_ranges: one range for each family that the allocation gets; at least one.
    """
    if allocation.spec.ipFamilyPolicy not in {PREFER_DUAL_STACK, REQUIRE_DUAL_STACK}:
        return []
    if len(new_ranges) > 1:
        return [
            ConditionFinding(
                DUAL_STACK, True, reason="DualStack", message="it has a range of each family"
            )
        ]
    if pool.spec.secondary is None:
        message = f"NetworkPool {pool.metadata.name} has one family"
        return [ConditionFinding(DUAL_STACK, False, reason="PoolSingleStack", message=message)]
    # The pool has both families, so the family that was not allocated had no free range.
    missing = next(
        word
        for family, word in familychoice.FAMILY_NAMES.items()
        if family != new_ranges[0].family
    )
    message = (
        f"NetworkPool {pool.metadata.name} had no {missing} range free when this was allocated"
    )
    return [ConditionFinding(DUAL_STACK, False, reason="PoolExhausted", message=message)]
