"""Findings that repeat what a condition of an object says."""

from datetime import datetime

from controller.conditions import Condition, rfc3339
from reconcilers.addressmap.audit import Finding, Severity, Subject


def finding_of_condition(
    kind: str,
    severity: Severity,
    subject: Subject,
    condition: Condition | None,
    prefix: str = "",
    since: datetime | None = None,
) -> Finding:
    """Return a finding that repeats what a condition says.

    Args:
        kind: the finding's kind.
        severity: error or warning.
        subject: the object.
        condition: the condition; None if the object has none yet.
        prefix: stands before the condition's message.
        since: since when it is so; None for the condition's transition.
    """
    message = condition.message if condition is not None else "it was not reconciled yet"
    since = since or (condition.lastTransitionTime if condition is not None else None)
    since_text = rfc3339(since) if since is not None else None
    return Finding(
        kind, severity, subject=subject, sentence=f"{prefix}{message}", since=since_text
    )
