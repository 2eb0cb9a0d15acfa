"""The conditions that reconcilers write, and how a status becomes a patch."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controller.conditions import Condition, set_condition, to_json
from controller.plaintext import escape_text

READY = "Ready"
FOREIGN_MANAGER = "ForeignManager"
"""A condition of pools: another controller writes the statuses that we own, so the pool allocates
nothing."""
LONGEST_MESSAGE = 4_096
"""Characters; longer messages are cut. The API server rejects a status that has a message of more
than 32,768 characters, and an error message of a tenant may have any length."""


_STATUSES = {True: "True", False: "False", None: "Unknown"}


@dataclass(frozen=True, slots=True)
class ConditionFinding:
    """A condition as it should be now, without the time of its transition.

    Args:
        type: of the condition.
        status: whether it holds; None if that is not known.
        reason: one word.
        message: a sentence.
    """

    type: str
    status: bool | None
    reason: str
    message: str

    def __post_init__(self) -> None:
        """Escape control characters of the message, and cut it if it is too long."""
        object.__setattr__(self, "message", escape_text(self.message, LONGEST_MESSAGE))

    def to_condition(self, generation: int) -> Condition:
        """Return the condition without a transition time."""
        return Condition(
            type=self.type,
            status=_STATUSES[self.status],
            reason=self.reason,
            message=self.message,
            lastTransitionTime=None,
            observedGeneration=generation,
        )


def with_findings(
    existing: Sequence[Condition],
    findings: Sequence[ConditionFinding],
    generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    """Return `existing` with each finding set; a transition time moves only with its status."""
    conditions = tuple(existing)
    for finding in findings:
        conditions = set_condition(conditions, finding.to_condition(generation), now)
    return conditions


def render_conditions(conditions: Sequence[Condition]) -> list[dict[str, Any]]:
    """Return conditions as JSON values, for a status."""
    return [to_json(condition) for condition in conditions]


def make_conditions_patch(
    existing: Sequence[Condition],
    findings: Sequence[ConditionFinding],
    generation: int,
    now: datetime,
) -> dict[str, Any]:
    """Return a patch of a status that sets each finding; empty if the status has all of them."""
    conditions = with_findings(existing, findings, generation=generation, now=now)
    is_same = conditions == tuple(existing)
    return {} if is_same else {"conditions": render_conditions(conditions)}
