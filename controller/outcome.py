"""What a reconciler may answer: a closed set, so that contradictory answers cannot be written.

    Settled                 nothing to do until something changes
    Again(after)            look again after this many seconds, even if nothing changes
    Blocked(reason, after)  cannot go on until somebody else acts; says why

An exception is the fourth answer: the runner retries with back-off,
unless it is a TerminalError (see errors.py).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing to do until something changes."""


@dataclass(frozen=True, slots=True)
class Again:
    """Look again after `after` seconds."""

    after: float


@dataclass(frozen=True, slots=True)
class Blocked:
    """Cannot go on until somebody else acts.

    Args:
        reason: CamelCase word for logs and metrics, for example `PoolNotFound`.
        after: seconds until the next look without a change; None waits for a change.
    """

    reason: str
    after: float | None = None


Outcome = Settled | Again | Blocked
SETTLED = Settled()
