"""Conditions of an object's status.

`lastTransitionTime` says since when a condition has its status. It changes when `status` changes
and never otherwise (the rule of metav1.Condition); `reason` and `message` may change without it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from sys import intern
from typing import Any

TRUE = "True"


@dataclass(frozen=True, slots=True)
class Condition:
    """One observation about the object, for programs and for people.

    Args:
        type: for example `Ready`.
        status: `True`, `False` or `Unknown`.
        reason: one CamelCase word for programs.
        message: a sentence for people.
        lastTransitionTime: when `status` changed last.
        observedGeneration: the metadata.generation that the condition was computed from.
    """

    type: str
    status: str
    reason: str = ""
    message: str = ""
    lastTransitionTime: datetime | None = None
    observedGeneration: int | None = None

    def __post_init__(self) -> None:
        # Thousands of cached objects have the same few of these: one copy of each will do.
        for name in ("type", "status", "reason"):
            object.__setattr__(self, name, intern(getattr(self, name)))


def find_condition(conditions: Iterable[Condition], condition_type: str) -> Condition | None:
    """Return the condition of type `condition_type`; None if there is none."""
    return next((c for c in conditions if c.type == condition_type), None)


def is_true(conditions: Iterable[Condition], condition_type: str) -> bool:
    """Return whether there is a condition of type `condition_type` with status True."""
    condition = find_condition(conditions, condition_type)
    return condition is not None and condition.status == TRUE


def set_condition(
    existing: Sequence[Condition], new: Condition, now: datetime
) -> tuple[Condition, ...]:
    """Return `existing` with `new` instead of the condition of its type, or at the end.

    Args:
        existing: the conditions so far; their order is kept.
        new: the condition as it is now; its lastTransitionTime is ignored.
        now: becomes the lastTransitionTime if the status differs from the existing one.
    """
    old = find_condition(existing, new.type)
    since = old.lastTransitionTime if old is not None and old.status == new.status else None
    if since is None:  # the status has changed, or the old condition has no time
        since = now.replace(microsecond=0)  # whole seconds, as metav1.Time has them
    condition = replace(new, lastTransitionTime=since)
    if old is None:
        return (*existing, condition)
    return tuple(condition if c.type == new.type else c for c in existing)


def remove_condition(existing: Sequence[Condition], condition_type: str) -> tuple[Condition, ...]:
    """Return `existing` without the condition of type `condition_type`."""
    return tuple(c for c in existing if c.type != condition_type)


def to_json(condition: Condition) -> dict[str, Any]:
    """Return the condition as JSON for the API, without absent fields."""
    body: dict[str, Any] = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
    }
    if condition.lastTransitionTime is not None:
        body["lastTransitionTime"] = format_rfc3339(condition.lastTransitionTime)
    if condition.observedGeneration is not None:
        body["observedGeneration"] = condition.observedGeneration
    return body


@lru_cache(maxsize=1_024)
def format_rfc3339(moment: datetime) -> str:
    """Return `moment` in the format of metav1.Time: UTC, whole seconds, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_rfc3339_micro(moment: datetime) -> str:
    """Return `moment` in the format of metav1.MicroTime: UTC, six decimals, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
