"""Findings that repeat a condition of an object."""

from datetime import datetime

from controller.conditions import Condition, format_rfc3339
from reconcilers.addressmap.audit import Finding, Severity, Subject


def build_condition_finding(
    kind: str,
    severity: Severity,
    subject: Subject,
    condition: Condition | None,
    prefix: str = "",
    since: datetime | None = None,
) -> Finding:
    """Return a finding with the message of a condition.

    Args:
        kind: the finding's kind.
        severity: error or warning.
        subject: the object.
        condition: the condition; None if the object was not reconciled yet.
        prefix: the text before the condition's message.
        since: when the fault began; None for the time of the condition's last transition.
    """
    message = condition.message if condition is not None else "it was not reconciled yet"
    since = since or (condition.lastTransitionTime if condition is not None else None)
    since_text = format_rfc3339(since) if since is not None else None
    return Finding(
        kind, severity, subject=subject, sentence=f"{prefix}{message}", since=since_text
    )
