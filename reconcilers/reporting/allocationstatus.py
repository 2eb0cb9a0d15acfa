"""The status of an IPAllocation while it waits for a range. Pure functions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from controller.conditions import find_condition
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.reporting.conditions import ConditionFinding, render_conditions, with_findings

POOL_NOT_READY = "PoolNotReady"
"""The reason of condition Ready while the pool hands out nothing."""


def shows(allocation: IPAllocation, phase: str | None, finding: ConditionFinding) -> bool:
    """Return whether the allocation's status has this phase and this condition already."""
    condition = find_condition(allocation.status.conditions, finding.type)
    return (
        condition is not None
        and allocation.status.phase == phase
        and (condition.status, condition.reason, condition.message)
        == ("True" if finding.status else "False", finding.reason, finding.message)
    )


def make_waiting_status(
    allocation: IPAllocation, phase: str, ready: ConditionFinding, now: datetime
) -> dict[str, Any]:
    """Return the status of an allocation that waits: Pending or Failed, and why."""
    return {
        "phase": phase,
        "observedGeneration": allocation.metadata.generation,
        "conditions": render_conditions_with(allocation, [ready], now),
    }


def render_conditions_with(
    allocation: IPAllocation, findings: Sequence[ConditionFinding], now: datetime
) -> list[dict[str, Any]]:
    """Return the conditions of an allocation with these findings set, as JSON values."""
    generation = allocation.metadata.generation
    return render_conditions(
        with_findings(allocation.status.conditions, findings, generation=generation, now=now)
    )
