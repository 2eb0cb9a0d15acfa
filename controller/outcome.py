"""What a reconciler returns: a closed set, so that no combination contradicts itself.

    Settled                 nothing to do until something changes
    Again(after)            reconcile again after so many seconds, even if nothing changes
    Blocked(reason, after)  cannot continue until a person or another controller acts

If a reconciler raises, the runner retries with back-off, unless it is a TerminalError
(see errors.py).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing to do until something changes."""


@dataclass(frozen=True, slots=True)
class Again:
    """Reconcile again after `after` seconds."""

    after: float


@dataclass(frozen=True, slots=True)
class Blocked:
    """The reconciler cannot continue until a person or another controller acts.

    Args:
        reason: one CamelCase word for logs, for example `PoolNotFound`.
        after: seconds until the next reconciliation; None waits for a change.
    """

    reason: str
    after: float | None = None


Outcome = Settled | Again | Blocked
SETTLED = Settled()
